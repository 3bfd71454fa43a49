//! A Kafka Streams application with exactly-once processing through the proxy.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::programs::*;
use super::support::*;

/// Values of each letter pair.
const PAIRS: [&str; 4] = ["ab", "cd", "ef", "gh"];

/// Runs of the application through one proxy.
struct Counting<'a> {
    proxy: &'a TestProxy,
    dir: &'a Path,
    input: String,
    output: String,
    id: String,
    protocol: &'static str,
    sent: usize,
}

impl<'a> Counting<'a> {
    fn new(proxy: &'a TestProxy, dir: &'a Path, protocol: &'static str, replicas: i32) -> Self {
        let to = proxy.bootstrap();
        Self {
            input: topic(&to, "letters", 2, replicas),
            output: topic(&to, "counts", 2, replicas),
            id: unique("counting"),
            sent: 0,
            proxy,
            dir,
            protocol,
        }
    }

    fn start(&self) -> Program {
        let mut command = from_source("Counts.java");
        let state = self.dir.join(&self.id);
        command.args([&self.proxy.bootstrap(), &self.input, &self.output, &self.id]);
        command.arg(state).arg(self.protocol);
        Program::start("streams", command, self.dir)
    }

    /// Writes `count` more values of each pair.
    fn send(&mut self, count: usize) {
        let all: Vec<_> = (0..count).flat_map(|_| PAIRS).collect();
        let values: Vec<_> = all.iter().map(|pair| format!("{pair}-value")).collect();
        produce(
            client_config(&self.proxy.bootstrap()).set("enable.idempotence", "true"),
            &self.input,
            &values,
        );
        self.sent += count;
    }

    /// Returns the counts of each pair in committed transactions, in their order.
    fn committed(&self) -> BTreeMap<String, Vec<usize>> {
        let mut counts = BTreeMap::<_, Vec<_>>::new();
        for text in stored_values(&self.proxy.bootstrap(), &self.output) {
            let (pair, count) = text.split_once(':').expect("a count");
            let count = count.parse().expect("a number");
            counts.entry(pair.to_owned()).or_default().push(count);
        }
        counts
    }

    /// Waits until at least `count` counts of the first pair are committed.
    fn await_some(&self, program: &mut Program, count: usize) {
        program.await_that("counts", || {
            let counts = self.committed();
            counts.get(PAIRS[0]).is_some_and(|all| all.len() >= count)
        });
    }

    /// Waits for all counts, and checks that each is committed once, in its order.
    fn check(&self, program: &mut Program) {
        self.await_some(program, self.sent);
        let wanted = PAIRS.map(|pair| (pair.to_owned(), (1..=self.sent).collect()));
        program.await_that("all counts", || {
            let all = self.committed();
            all.values().map(Vec::len).sum::<usize>() >= self.sent * PAIRS.len()
        });
        assert_eq!(self.committed(), BTreeMap::from(wanted));
    }
}

#[test]
fn streams_application_counts_exactly_once() {
    let proxy = proxy("");
    let dir = tempfile::tempdir().expect("a directory");
    let mut counting = Counting::new(&proxy, dir.path(), "classic", 1);
    counting.send(300);
    let mut program = counting.start();
    counting.await_some(&mut program, 100);
    // Killed, the application waits for the end of its session and transactions.
    match std::env::var_os("WEIR_ECOSYSTEM") {
        Some(_) => program.kill(),
        None => program.end_of_input(),
    }
    counting.send(100);
    let mut program = counting.start();
    counting.check(&mut program);
    assert_eq!(proxy.metric("weir_proxy_client_errors_total"), 0);
    assert_eq!(proxy.metric("weir_proxy_broker_errors_total"), 0);
}

#[test]
fn streams_application_counts_exactly_once_while_brokers_restart() {
    if !takes_minutes("Kafka Streams with three brokers") {
        return;
    }
    for protocol in ["classic", "streams"] {
        let mut lab = lab(3);
        let proxy = proxy_to(&lab.bootstrap(), "");
        await_that("the cluster to respond", || proxy.get().is_ready());
        let dir = tempfile::tempdir().expect("a directory");
        let mut counting = Counting::new(&proxy, dir.path(), protocol, 3);
        counting.send(500);
        let mut program = counting.start();
        counting.await_some(&mut program, 100);
        for broker in 1..=3 {
            lab.stop_broker(broker).expect("stops");
            counting.send(100);
            let never = AtomicBool::new(false);
            lab.start_broker(broker, &never).expect("starts");
            counting.send(100);
        }
        counting.check(&mut program);
        assert_eq!(proxy.metric("weir_proxy_client_errors_total"), 0);
        assert_eq!(proxy.metric("weir_proxy_broker_errors_total"), 0);
    }
}
