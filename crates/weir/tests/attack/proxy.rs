//! Attacks on the proxy.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::bars::{Attack, Case, Scene};
use crate::peer::{connect, runs, send, wait};
use crate::records::{api_versions, produce_bomb, produce_start};
use crate::regular::{RegularClients, create_topic, producer};
use crate::scale::Spread;
use crate::support::TestBroker;
use crate::target::{AttackTarget, Log};

const SINGLE: &[Spread] = &[Spread::Single];
const SPLIT: &[Spread] = &[Spread::Split];

pub(crate) const CASES: &[Case] = &[
    case(
        "api-versions-flood",
        api_versions_flood,
        Log::Discarded,
        SINGLE,
    ),
    case("record-bomb", record_bomb, Log::Discarded, SINGLE),
    case(
        "unfinished-requests",
        unfinished_requests,
        Log::Discarded,
        SPLIT,
    ),
    case("proxy-log-flood", garbage, Log::Stalled, SPLIT),
];

const fn case(
    name: &'static str,
    attack: fn(&Attack<'_>),
    log: Log,
    small: &'static [Spread],
) -> Case {
    Case {
        name,
        log,
        descriptors: 4_000,
        memory_bytes: 640 << 20,
        kept: Duration::ZERO,
        start: scene,
        attack,
        small,
    }
}

const TOPIC: &str = "attack-proxy";
const CONFIG: &str = "drain_timeout_ms = 1000\n[admin]\nlisten = \"127.0.0.1:0\"\n[[cluster]]\n\
    name = \"attacked\"\nupstream = [\"@BOOTSTRAP@\"]\nlisten = \"127.0.0.1:0\"\n\
    [[cluster.filter]]\ntype = \"lower-case\"\ntopics = [\"attack-*\"]\non = [\"produce\"]\n";

/// Starts a proxy with a filter, and a producer and consumers behind it.
fn scene(broker: &TestBroker, dir: &Path, case: &Case) -> Scene {
    let config = dir.join("proxy.toml");
    fs::write(&config, CONFIG.replace("@BOOTSTRAP@", &broker.bootstrap)).expect("a file");
    let config = config.to_str().expect("UTF-8");
    let target = AttackTarget::start(
        &["proxy", "run", "--config", config],
        dir,
        case.log,
        case.descriptors,
    );
    // Consumers do not wait for the topic.
    create_topic(&broker.bootstrap, TOPIC);
    let producer = producer(&target.listen, TOPIC, "100");
    let regular = RegularClients::start(&[
        "load",
        "consume",
        "--topic",
        TOPIC,
        "--consumers",
        "10",
        "--bootstrap",
        &target.listen,
    ]);
    Scene {
        target,
        regular,
        producer,
    }
}

/// Sends requests with a version to which the proxy responds itself, and does not read.
fn api_versions_flood(attack: &Attack<'_>) {
    let count = attack.scale.pick(2_000, 200);
    repeat(attack, &api_versions(99).repeat(count));
}

/// Sends a small batch that contains 6 million records, and waits for the response.
fn record_bomb(attack: &Attack<'_>) {
    let records = attack.scale.pick(6_000_000, 1_000_000) / attack.spread.connections();
    repeat(attack, &produce_bomb("attack-bomb", records));
}

/// Sends bytes on one connection after the other, until the attack ends.
fn repeat(attack: &Attack<'_>, bytes: &[u8]) {
    while runs(attack.stop) {
        let Ok(mut stream) = connect(attack.spread.source(attack.index), attack.listen) else {
            std::thread::sleep(RECONNECT_INTERVAL);
            continue;
        };
        while send(&mut stream, bytes, attack.stop) {
            attack.pause();
        }
    }
}

/// Sends most of a large request for a topic with filters, never its end.
fn unfinished_requests(attack: &Attack<'_>) {
    let each = attack.scale.pick(60 << 20, 20 << 20);
    let count = attack.share(attack.scale.pick(20, 10));
    let each = each.min(attack.share(attack.scale.pick(1_200 << 20, 200 << 20)));
    let mut open = Vec::new();
    for _ in 0..count {
        let Ok(mut stream) = connect(attack.spread.source(attack.index), attack.listen) else {
            continue;
        };
        let start = produce_start(TOPIC, each + 1_000);
        let body = vec![0; attack.scale.pick(1 << 20, 128 << 10)];
        let mut sent = 0;
        let mut is_open = send(&mut stream, &start, attack.stop);
        // A connection that is not read stays open, because it may be read later.
        while is_open && sent < each {
            is_open = send_for(&mut stream, &body, attack);
            attack.pause();
            sent += body.len();
        }
        open.push(stream);
    }
    wait(attack.stop);
}

/// Sends bytes for at most one second. Returns `true` if all were sent.
fn send_for(stream: &mut std::net::TcpStream, bytes: &[u8], attack: &Attack<'_>) -> bool {
    let mut left = bytes;
    let started = Instant::now();
    while !left.is_empty() && started.elapsed() < WRITE_TIMEOUT && runs(attack.stop) {
        match stream.write(left) {
            Ok(count) if count > 0 => left = &left[count..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            _ => return false,
        }
    }
    left.is_empty()
}

/// Connects, sends invalid requests, and connects again.
fn garbage(attack: &Attack<'_>) {
    while runs(attack.stop) {
        let connected = connect(attack.spread.source(attack.index), attack.listen);
        if let Ok(mut stream) = connected {
            send(&mut stream, b"GET / HTTP/1.1\r\n\r\n", attack.stop);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Longest time to write to a connection that is not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
const RECONNECT_INTERVAL: Duration = Duration::from_millis(20);
