//! An adapter that is killed, stopped, slow and restarted, or sends garbage, while sessions come
//! and go: nothing is left of them in the gateway.
//!
//! `WEIR_ADAPTER_FAULT_SECONDS` (default 8) sets the time; `make test-adapter-faults` runs an hour.

#![expect(clippy::print_stdout, reason = "what the run has shown")]

#[path = "adapter_faults/garbage.rs"]
mod garbage;
mod support;

use std::time::{Duration, Instant};

use support::adapter::{Adapter, AdapterEnv, BUSY, MERGE, node};
use support::{metric, wait_metric};

/// Sessions of one round.
const SESSIONS: usize = 20;
/// Rounds after which memory is compared, so that caches and allocators have their size.
const WARM_UP_ROUNDS: usize = 4;
/// Maximum growth of resident memory after the warm-up, in KiB, whatever the time.
const GROWTH_MAX_KIB: u64 = 24 * 1024;
/// Descriptors by which their number may differ: connections to brokers come and go.
const DESCRIPTORS: usize = 4;
/// Metrics that are 0 when all clients have left.
const GAUGES: [&str; 3] = [
    "weir_gateway_sessions",
    "weir_gateway_adapter_pending",
    "weir_gateway_adapter_close_notifications",
];

#[derive(Debug, Clone, Copy)]
enum AdapterFault {
    /// The process is killed while requests wait.
    Kill,
    /// The process stops responding until requests and then the connection time out.
    Stop,
    /// The process ends properly.
    Terminate,
    /// The adapter responds after the deadline of the request.
    Late,
}

const FAULTS: [AdapterFault; 4] = [
    AdapterFault::Kill,
    AdapterFault::Late,
    AdapterFault::Stop,
    AdapterFault::Terminate,
];

/// Resources of this process, which has the gateway.
struct Resources {
    descriptors: usize,
    resident_kib: u64,
}

impl Resources {
    fn read() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        Self {
            descriptors: std::fs::read_dir("/proc/self/fd").expect("Linux").count(),
            resident_kib: resident.expect("a number"),
        }
    }
}

/// Opens sessions with subscriptions and messages, lets the fault happen, and closes half of the
/// sessions before and half after it.
fn run_round(env: &AdapterEnv, fault: AdapterFault) {
    let mut adapter = Adapter::start(node(), env.address());
    env.wait_ready();
    let mut sessions: Vec<_> = (0..SESSIONS).map(|_| env.session("anna")).collect();
    for session in &mut sessions {
        assert_eq!(session.line_after_add(1, "own", MERGE), "REQOK,1");
        session.add(2, "a", MERGE);
    }
    let after = sessions.split_off(SESSIONS / 2);
    drop(sessions);
    match fault {
        AdapterFault::Kill => adapter.child.kill().expect("killed"),
        AdapterFault::Stop => adapter.signal("-STOP"),
        AdapterFault::Terminate => adapter.signal("-TERM"),
        AdapterFault::Late => assert_eq!(env.create("slow").err().as_deref(), Some(BUSY)),
    }
    for mut session in after {
        session.add(3, "b", MERGE);
        drop(session);
    }
    if matches!(fault, AdapterFault::Late) {
        adapter.signal("-TERM");
    }
    env.wait_adapter_left();
}

#[test]
fn faults_of_the_adapter_leave_nothing() {
    let env = AdapterEnv::start(|toml| {
        toml.replace(
            "timeout_ms = 3000",
            "timeout_ms = 400\nactivity_timeout_ms = 1000",
        )
        // Sessions whose clients have left end soon.
            + "[limits]\nrecovery_ms = 100\nunbound_timeout_ms = 100\n"
    });
    let seconds = std::env::var("WEIR_ADAPTER_FAULT_SECONDS");
    let seconds = seconds.map_or(8, |text| text.parse().expect("a number of seconds"));
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut rounds, mut before) = (0, None);
    while rounds <= WARM_UP_ROUNDS || Instant::now() < end {
        run_round(&env, FAULTS[rounds % FAULTS.len()]);
        garbage::send_all(&env);
        rounds += 1;
        wait_metric(&env.gateway, GAUGES[0], |count| count == 0);
        if rounds == WARM_UP_ROUNDS {
            before = Some(Resources::read());
        }
    }
    // The last adapter gets what is still to be sent.
    let last = Adapter::start(node(), env.address());
    env.wait_ready();
    for gauge in GAUGES {
        wait_metric(&env.gateway, gauge, |count| count == 0);
    }
    drop(last);
    env.wait_adapter_left();
    let (before, after) = (before.expect("enough rounds"), Resources::read());
    let dropped = "weir_gateway_adapter_close_notifications_dropped_total";
    println!(
        "{rounds} rounds; descriptors {} and {}; resident {} and {} KiB; {} ends not reported",
        before.descriptors,
        after.descriptors,
        before.resident_kib,
        after.resident_kib,
        metric(&env.gateway, dropped),
    );
    assert!(
        after.descriptors <= before.descriptors + DESCRIPTORS,
        "open descriptors grow"
    );
    assert!(
        after.resident_kib <= before.resident_kib + GROWTH_MAX_KIB,
        "resident memory grows"
    );
}
