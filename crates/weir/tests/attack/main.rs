//! Replays attacks next to regular clients and checks that only the attacker suffers.
//!
//! Each case starts the binary, measures regular clients alone, then while the attack runs, and
//! then waits for recovery. `make test` runs it at small scale, `make attack` at full scale
//! (`WEIR_ATTACK=full`), where each attack is also split over 100 connections from 20 addresses.
//! `WEIR_ATTACK_BINARY` names another binary to attack, for example an earlier version.

#![allow(clippy::print_stdout, reason = "prints one row of results per attempt")]

#[path = "../support/mod.rs"]
mod support;

mod bars;
mod gateway;
mod peer;
mod proxy;
mod records;
mod regular;
mod scale;
mod target;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bars::{Case, run};
use support::TestBroker;

/// Cases measure latency, so they take turns.
static TURN: Mutex<()> = Mutex::new(());
/// One broker for tests that run at the same time; it is stopped when the last of them ends.
static BROKER: Mutex<Weak<TestBroker>> = Mutex::new(Weak::new());

#[test]
fn regular_clients_of_the_gateway_survive_attacks() {
    attack(gateway::CASES);
}

#[test]
fn regular_clients_of_the_proxy_survive_attacks() {
    attack(proxy::CASES);
}

/// Runs all cases before failing, so that one run shows every result.
fn attack(cases: &[Case]) {
    let broker = broker();
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let only = std::env::var("WEIR_ATTACK_CASE").ok();
    let chosen = cases
        .iter()
        .filter(|case| only.as_ref().is_none_or(|only| case.name.contains(only)));
    let failures: Vec<String> = chosen.flat_map(|case| run(&broker, case)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn broker() -> Arc<TestBroker> {
    let mut shared = BROKER.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let broker = Arc::new(TestBroker::start());
        *shared = Arc::downgrade(&broker);
        broker
    })
}
