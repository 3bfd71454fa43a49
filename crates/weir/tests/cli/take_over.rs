//! End-to-end tests of `weir proxy run --take-over`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::broker;
use super::proxy::{RunningProxy, TEST_TIMEOUT, await_that, page, request};
use super::support::Signal;

/// Upgrades under load.
const UPGRADES: usize = 20;
/// Threads that connect without a pause.
const CLIENTS: usize = 3;

/// Addresses of a proxy.
struct Ports {
    listen: String,
    admin: String,
}

impl Ports {
    fn free() -> Self {
        let [listen, admin] = [(); 2].map(|()| {
            let port = weir_lab::ports::free_port().unwrap();
            format!("127.0.0.1:{port}")
        });
        Self { listen, admin }
    }

    /// Starts a proxy with its log in `own` and the Unix socket in `dir`.
    fn start(&self, (own, dir): (&Path, &Path), upstream: &str, loops: &str) -> RunningProxy {
        let socket = dir.join("weir.sock").display().to_string();
        let args = ["--upstream", upstream, "--listen", &self.listen];
        let more = ["--admin", &self.admin, "--event-loops", loops];
        RunningProxy::start(own, &[&args[..], &more, &["--take-over", &socket]].concat())
    }
}

/// Connects and asks for the API versions.
fn ask(address: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TEST_TIMEOUT))?;
    stream.write_all(&request(18, 0, 7, &[]))?;
    let mut head = [0; 8];
    stream.read_exact(&mut head)?;
    assert_eq!(head[4..], [0, 0, 0, 7]);
    // Without unread bytes, the end of this side is not a reset.
    let mut rest = vec![0; i32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize - 4];
    stream.read_exact(&mut rest)
}

/// Returns the address of the proxy's only broker.
fn broker_address(admin: &str) -> String {
    let page = page(admin, "/connections").expect("a page");
    let (_, body) = page.split_once("\r\n\r\n").expect("a body");
    let rows: serde_json::Value = serde_json::from_str(body).unwrap();
    let advertised = rows["clusters"][0]["brokers"][0]["advertised"].as_str();
    let advertised = advertised.unwrap_or_else(|| panic!("no broker: {body}"));
    advertised.to_owned()
}

/// Stops the clients, also if the test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn await_ready(proxy: &RunningProxy) {
    await_that("a proxy that is ready", || proxy.log().contains("ready\n"));
}

#[test]
fn upgrades_refuse_and_reset_no_connection() {
    let (ports, upstream) = (Ports::free(), broker());
    let dir = tempfile::tempdir().unwrap();
    let start = |number: usize| {
        let own = dir.path().join(number.to_string());
        std::fs::create_dir(&own).unwrap();
        ports.start((&own, dir.path()), &upstream, "2")
    };
    let mut running = start(0);
    await_ready(&running);
    let addresses = [ports.listen.clone(), broker_address(&ports.admin)];
    let (stop, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let failures = thread::scope(|scope| {
        let client = |number: usize| {
            let address = &*addresses[number % 2];
            let mut failures = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                if let Err(error) = ask(address) {
                    failures.push(format!("{address}: {error}"));
                    break;
                }
                asked.fetch_add(1, Ordering::Relaxed);
            }
            failures
        };
        let clients: Vec<_> = (0..CLIENTS)
            .map(|n| scope.spawn(move || client(n)))
            .collect();
        let stopping = StopOnDrop(&stop);
        for number in 1..=UPGRADES {
            let next = start(number);
            assert_eq!(running.ends(), 0, "{}", running.log());
            assert!(running.log().contains("a process has taken over"));
            running = next;
            let before = asked.load(Ordering::Relaxed);
            await_that("requests after the upgrade", || {
                asked.load(Ordering::Relaxed) > before + 50
            });
        }
        drop(stopping);
        let failures = clients
            .into_iter()
            .flat_map(|client| client.join().unwrap());
        failures.collect::<Vec<_>>()
    });
    assert_eq!(failures, Vec::<String>::new(), "of {asked:?} requests");
    running.signal(Signal::TERM);
    assert_eq!(running.ends(), 0);
    let socket = dir.path().join("weir.sock");
    assert!(!socket.exists(), "the socket of the last proxy is left");
}

#[test]
fn a_successor_that_fails_changes_nothing() {
    let (ports, upstream) = (Ports::free(), broker());
    let dir = tempfile::tempdir().unwrap();
    let [one, two, three] = ["1", "2", "3"].map(|name| {
        let own = dir.path().join(name);
        std::fs::create_dir(&own).unwrap();
        own
    });
    let mut running = ports.start((&one, dir.path()), &upstream, "2");
    await_ready(&running);
    let addresses = [ports.listen.clone(), broker_address(&ports.admin)];
    // Fewer event loops would leave connections in sockets that no loop looks at.
    let mut fewer = ports.start((&two, dir.path()), &upstream, "1");
    assert_eq!(fewer.ends(), 2);
    let log = fewer.log();
    assert!(
        log.contains("the running proxy has 2 event loops, this one has 1"),
        "{log}"
    );
    // Without a broker, it does not become ready.
    let mut stuck = ports.start((&three, dir.path()), "127.0.0.1:1", "2");
    await_that("its start", || stuck.log().contains("proxy started"));
    stuck.signal(Signal::KILL);
    stuck.await_end();
    for address in &addresses {
        ask(address).expect("the first proxy serves");
    }
    assert!(page(&ports.admin, "/health/ready").is_some_and(|page| page.contains("200 OK")));
    running.signal(Signal::TERM);
    assert_eq!(running.ends(), 0);
}
