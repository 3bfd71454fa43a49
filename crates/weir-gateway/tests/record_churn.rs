//! Clients with different claims on a topic under load. They create and end sessions, lose
//! connections and recover. No client receives a record of another tenant or misses one of its own.
//!
//! `WEIR_CHURN_SECONDS` (default 5) and `WEIR_CHURN_RATE` (default 2,000 records per second) set
//! the scale; `make test-churn` runs ten minutes at 10,000.

mod support;

use std::collections::HashMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use support::classes::Classes;
use support::http::{Http, create_by_poll_with, post};
use support::{metric, wait_metric};
use weir_tlcp::client::{ItemState, Line, parse_line};
use weir_tlcp::request::Diffs;

const RULES: &str = r#"
[[authorize]]
name = "tenant news"
items = ["news"]
where = "VALUE.tenant = {claims.tenant}"
[[authorize]]
name = "tenant rows"
items = ["rows"]
where = "KEY.tenant = {claims.tenant}"
[diffs]
order = ["json_patch", "tlcp_diff"]
json_patch_min_bytes = 10
tlcp_diff_min_bytes = 10
[last_values]
memory_bytes = 10000000
"#;
const PARAMETERS: &[(&str, &str)] = &[
    ("record.key.evaluator.type", "JSON"),
    ("record.value.evaluator.type", "JSON"),
    ("field.key", "#{KEY.id}"),
    ("field.command", "#{VALUE.c}"),
    ("field.tenant", "#{VALUE.tenant}"),
    ("field.number", "#{VALUE.n}"),
    ("field.text", "#{VALUE.text}"),
];
const TENANTS: [&str; 4] = ["acme", "zeta", "omega", "none"];
const DIFFS: &str = "weir_gateway_diffs_tlcp_diff_total";
/// Number of the subscription that receives every update.
const RAW: u32 = 1;
const SCHEMA: &str = "tenant%20number%20text";
const ROW_SCHEMA: &str = "tenant%20number%20text%20key%20command";

/// Totals of all clients.
#[derive(Default)]
struct Totals {
    updates: AtomicU64,
    sessions: AtomicU64,
    recoveries: AtomicU64,
}

/// A session of a client, over all its connections.
struct TestSession<'a> {
    address: SocketAddr,
    id: String,
    tenants: &'a [&'a str],
    totals: &'a Totals,
    /// Number of data notifications received.
    count: u64,
    /// Number of notifications that the recovery still repeats.
    repeated: u64,
    states: HashMap<u32, ItemState>,
    /// Last number of each tenant in mode RAW.
    numbers: HashMap<String, u64>,
    has_ended: bool,
}

impl<'a> TestSession<'a> {
    fn begin(address: SocketAddr, token: &str, tenants: &'a [&'a str], totals: &'a Totals) -> Self {
        let own = format!("&LS_password={token}");
        totals.sessions.fetch_add(1, Ordering::Relaxed);
        Self {
            address,
            id: create_by_poll_with(address, &own),
            tenants,
            totals,
            count: 0,
            repeated: 0,
            states: HashMap::new(),
            numbers: HashMap::new(),
            has_ended: false,
        }
    }

    fn control(&self, request: &str) {
        let body = format!("LS_session={}&LS_reqId=1&{request}", self.id);
        let (_, lines) = post(self.address, "control", &body);
        assert_eq!(lines, ["REQOK,1"], "{request}");
    }

    fn add(&self, id: u32, mode: &str, item: &str, schema: &str) {
        let snapshot = if mode == "RAW" {
            ""
        } else {
            "&LS_snapshot=true"
        };
        self.control(&format!(
            "LS_op=add&LS_subId={id}&LS_mode={mode}&LS_group={item}&LS_schema={schema}\
             &LS_data_adapter=QuickStart{snapshot}"
        ));
    }

    /// Binds the session, reads some lines, then closes the connection.
    fn stream(&mut self, lines: usize, recovers: bool) {
        let mut http = Http::connect(self.address);
        let from = match recovers {
            true => format!("&LS_recovery_from={}", self.count),
            false => String::new(),
        };
        let body = format!(
            "LS_session={}&LS_send_sync=false&LS_keepalive_millis=1000{from}",
            self.id
        );
        http.post("bind_session", &body);
        for _ in 0..lines {
            let Some(line) = http.next() else { return };
            self.take(&line);
            if self.has_ended {
                return;
            }
        }
        http.cut();
    }

    fn take(&mut self, text: &str) {
        let line = parse_line(text.as_bytes()).expect("a valid line");
        if line.is_data() {
            if self.repeated > 0 {
                self.repeated -= 1;
                return;
            }
            self.count += 1;
        }
        match line {
            Line::Prog { count } => {
                assert!(count <= self.count, "{text} after {}", self.count);
                self.repeated = self.count - count;
                self.totals.recoveries.fetch_add(1, Ordering::Relaxed);
            }
            Line::SubOk { sub_id, fields, .. } | Line::SubCmd { sub_id, fields, .. } => {
                self.states
                    .insert(sub_id, ItemState::accepting(fields as usize, Diffs::ANY));
            }
            Line::Update {
                sub_id, payload, ..
            } => {
                let state = self.states.get_mut(&sub_id).expect("a subscription");
                state
                    .apply(payload)
                    .expect("a payload for the values received");
                self.totals.updates.fetch_add(1, Ordering::Relaxed);
                self.check(sub_id, text);
            }
            Line::Overflow { sub_id: RAW, .. } => self.numbers.clear(),
            // The client lagged too far behind.
            Line::End { .. } | Line::ConErr { .. } => self.has_ended = true,
            _ => {}
        }
    }

    /// Checks that all values of an update are from one record of one of the client's tenants.
    fn check(&mut self, sub_id: u32, line: &str) {
        let state = &self.states[&sub_id];
        let values: Vec<_> = state.values().collect();
        let is_deletion = values.get(4) == Some(&Some("DELETE"));
        let (Some(tenant), Some(number), Some(text)) = (values[0], values[1], values[2]) else {
            assert!(is_deletion, "{line}: {values:?}");
            return;
        };
        assert!(
            self.tenants.contains(&tenant),
            "foreign record: {line}: {values:?}"
        );
        assert_eq!(text, self::text(tenant, number), "{line}");
        if sub_id == RAW {
            let number = number.parse().expect("a number");
            let before = self.numbers.insert(tenant.to_owned(), number);
            assert!(
                before.is_none_or(|before| number == before + 1),
                "{before:?}: {line}"
            );
        }
    }
}

/// Returns a text that names its record and is long enough for diffs.
fn text(tenant: &str, number: impl std::fmt::Display) -> String {
    format!("a text of {tenant} that changes only in its number {number}, which is here")
}

/// Creates sessions, interrupts and ends them until `end`.
fn churn(address: SocketAddr, token: &str, tenants: &[&str], end: Instant, totals: &Totals) {
    let mut random = StdRng::seed_from_u64(tenants.len() as u64);
    while Instant::now() < end {
        let mut session = TestSession::begin(address, token, tenants, totals);
        session.add(RAW, "RAW", "news", SCHEMA);
        session.add(2, "MERGE", "news", SCHEMA);
        session.add(3, "DISTINCT", "news", SCHEMA);
        session.add(4, "COMMAND", "rows", ROW_SCHEMA);
        session.stream(random.random_range(1..200), false);
        for round in 0..6 {
            if session.has_ended || Instant::now() >= end {
                break;
            }
            session.stream(random.random_range(1..300), true);
            if !session.has_ended {
                let (old, new) = (3 + 2 * round, 5 + 2 * round);
                session.control(&format!("LS_op=delete&LS_subId={old}"));
                let mode = ["MERGE", "DISTINCT"][random.random_range(0..2)];
                session.add(new, mode, "news", SCHEMA);
                // The next even number is that of rows.
                if round == 0 {
                    session.control("LS_op=delete&LS_subId=4");
                    session.add(6, "COMMAND", "rows", ROW_SCHEMA);
                }
            }
        }
        if !session.has_ended {
            session.control("LS_op=destroy");
        }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn no_client_gets_a_foreign_record_under_load() {
    let seconds = setting("WEIR_CHURN_SECONDS", 5);
    let rate = setting("WEIR_CHURN_RATE", 2_000);
    let classes = Classes::new();
    let gateway = classes.start(RULES, "news,rows", PARAMETERS);
    let address = gateway.listen_address();
    let totals = Totals::default();
    let begin = Instant::now();
    let end = begin + Duration::from_secs(seconds);
    thread::scope(|scope| {
        let totals = &totals;
        for (claims, tenants) in [
            (r#"{"sub":"anna","tenant":"acme"}"#, &["acme"][..]),
            (r#"{"sub":"bob","tenant":"zeta"}"#, &["zeta"]),
            (
                r#"{"sub":"carol","tenant":["zeta","acme"]}"#,
                &["acme", "zeta"],
            ),
        ] {
            let token = classes.token(claims);
            scope.spawn(move || churn(address, &token, tenants, end, totals));
        }
        let mut random = StdRng::seed_from_u64(1);
        let mut numbers = [0; TENANTS.len()];
        let mut records = 0;
        // At the end, clients still wait for lines, so records are sent some seconds longer.
        while Instant::now() < end + Duration::from_secs(3) {
            let due = begin.elapsed().as_millis() as u64 * rate / 1_000;
            while records < due {
                let index = random.random_range(0..TENANTS.len());
                let (tenant, number) = (TENANTS[index], numbers[index]);
                numbers[index] += 1;
                let command = ["ADD", "UPDATE", "DELETE"][random.random_range(0..3)];
                let id = random.random_range(0..20);
                let text = text(tenant, number);
                classes.env.send(
                    &format!(r#"{{"tenant":"{tenant}","id":"{tenant}-{id}"}}"#),
                    &format!(
                        r#"{{"tenant":"{tenant}","n":{number},"text":"{text}","c":"{command}"}}"#
                    ),
                );
                records += 1;
            }
            classes.env.flush();
        }
    });
    let [updates, sessions, recoveries] = [&totals.updates, &totals.sessions, &totals.recoveries]
        .map(|one| one.load(Ordering::Relaxed));
    // The harness captures only the macros. A closed terminal is not a failure.
    let text = format!("{updates} updates, {sessions} sessions, {recoveries} recoveries");
    let _ = writeln!(std::io::stderr(), "\n{text}");
    assert!(
        updates > 100 * seconds && sessions > seconds,
        "{updates} {sessions}"
    );
    assert!(recoveries > seconds, "{recoveries}");
    assert!(metric(&gateway, DIFFS) > 0, "{DIFFS}");
    wait_metric(&gateway, "weir_gateway_subscriptions", |count| count == 0);
    gateway.shut_down();
}
