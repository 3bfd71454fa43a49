//! Attacks on the gateway.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use crate::bars::{Attack, Case, Scene};
use crate::peer::{
    COMPRESSED_TEXT, PING, TEXT, connect, frame, runs, send, session, subscription, wait,
    websocket, websocket_at,
};
use crate::regular::{RegularClients, producer};
use crate::scale::Spread;
use crate::support::TestBroker;
use crate::target::{AttackTarget, Log};

const SINGLE: &[Spread] = &[Spread::Single];
const SPLIT: &[Spread] = &[Spread::Split];
/// Default of `limits.recovery_ms`, the time in which a session can be recovered.
const SESSION_RECOVERY: Duration = Duration::from_secs(20);
/// File descriptors of a process whose limit is not the subject of the case.
const DESCRIPTORS: u32 = 4_000;

pub(crate) const CASES: &[Case] = &[
    case("duplicate-items", duplicate_items, Log::Discarded, SINGLE),
    case("unread-backlog", unread_backlog, Log::Discarded, SPLIT),
    case("random-items", random_items, Log::Discarded, SINGLE),
    case("log-flood", log_flood, Log::Stalled, SINGLE),
    case("final-blocks", final_blocks, Log::Discarded, SINGLE),
    case("json-items", json_items, Log::Discarded, SINGLE),
    case("pings", pings, Log::Discarded, SINGLE),
    case("byte-chunks", byte_chunks, Log::Discarded, SPLIT),
    case("admin-silence", admin_silence, Log::Discarded, SINGLE),
    Case {
        descriptors: 400,
        ..case("descriptors", descriptors, Log::Discarded, SINGLE)
    },
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
        descriptors: DESCRIPTORS,
        memory_bytes: 512 << 20,
        kept: SESSION_RECOVERY,
        start: scene,
        attack,
        small,
    }
}

const TOPIC: &str = "attack-gateway";
const CONFIG: &str =
    "drain_timeout_ms = 1000\ndrain_spread_ms = 100\n[compression]\nenabled = true\n";

/// Starts a gateway with default limits and 20 clients of one item each.
fn scene(broker: &TestBroker, dir: &Path, case: &Case) -> Scene {
    let producer = producer(&broker.bootstrap, TOPIC, "100");
    let xml = include_str!("../../../../plans/keyed-adapters.xml");
    let xml = xml
        .replace("@TOPIC@", TOPIC)
        .replace("@BOOTSTRAP@", &broker.bootstrap);
    let (adapters, config) = (dir.join("adapters.xml"), dir.join("gateway.toml"));
    fs::write(&adapters, xml).expect("a file");
    fs::write(&config, CONFIG).expect("a file");
    let file = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (adapters, config) = (file(&adapters), file(&config));
    let args = [
        "gateway",
        "run",
        "--adapters",
        &adapters,
        "--config",
        &config,
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ];
    let target = AttackTarget::start(&args, dir, case.log, case.descriptors);
    let url = format!("ws://{}", target.listen);
    let regular = RegularClients::start(&["load", "clients", "--clients", "20", "--url", &url]);
    Scene {
        target,
        regular,
        producer,
    }
}

/// One session subscribes to 20 lists that contain one item 1,000 times, and does not read.
fn duplicate_items(attack: &Attack<'_>) {
    let item = "ltest-[key=Apple]".to_owned();
    let items = vec![item; attack.share(1_000)];
    let requests: Vec<_> = (1..=20)
        .map(|number| subscription(number, &items))
        .collect();
    hold_session(attack, &requests);
}

/// Sessions subscribe to every key many times, and do not read.
fn unread_backlog(attack: &Attack<'_>) {
    let items: Vec<_> = KEYS
        .iter()
        .map(|key| format!("ltest-[key={key}]"))
        .collect();
    let count = attack.share(attack.scale.pick(20_000, 5_000));
    let requests: Vec<_> = (1..=count)
        .map(|number| subscription(number, &items))
        .collect();
    hold_session(attack, &requests);
}

/// Opens a session, sends the requests, and keeps it open without reading.
fn hold_session(attack: &Attack<'_>, requests: &[Vec<u8>]) {
    let Ok(mut stream) = session(attack.spread.source(attack.index), attack.listen) else {
        return;
    };
    if requests
        .iter()
        .all(|request| send(&mut stream, request, attack.stop))
    {
        wait(attack.stop);
    }
}

/// Subscribes to items that no other client uses, with 700 names per request.
fn random_items(attack: &Attack<'_>) {
    let mut left = attack.share(attack.scale.pick(76 << 20, 8 << 20));
    let mut number = 0;
    // A disconnected client connects again.
    while runs(attack.stop) && left > 0 {
        let Ok(mut stream) = session(attack.spread.source(attack.index), attack.listen) else {
            std::thread::sleep(RECONNECT_INTERVAL);
            continue;
        };
        while left > 0 {
            number += 1;
            let name = |item: usize| format!("ltest-[key={}x{number}x{item:040}]", attack.index);
            let request = subscription(number, &(0..700).map(name).collect::<Vec<_>>());
            if !send(&mut stream, &request, attack.stop) {
                break;
            }
            left = left.saturating_sub(request.len());
            attack.pause();
        }
        if left == 0 {
            wait(attack.stop);
        }
    }
}

/// Sends requests that are rejected one by one, with long names.
fn log_flood(attack: &Attack<'_>) {
    let name = "n".repeat(200);
    let bad = format!(
        "control\r\nLS_reqId=1&LS_op=add&LS_subId=1&LS_mode={name}&LS_group=%5B{name}&LS_schema=v\
         &LS_data_adapter={name}"
    );
    flood(
        attack,
        &[frame(TEXT, bad.as_bytes()), frame(TEXT, name.as_bytes())].concat(),
        false,
    );
}

/// Sends compressed messages of 16,600 final deflate blocks.
fn final_blocks(attack: &Attack<'_>) {
    // A final block with fixed codes that contains one letter.
    let payload = [0x4b, 0x04, 0x00].repeat(16_600);
    flood(attack, &frame(COMPRESSED_TEXT, &payload), false);
}

/// Subscribes items that no other client uses, unsubscribes them and repeats this, with JSON
/// messages of 100 names.
fn json_items(attack: &Attack<'_>) {
    let mut number = 0;
    while runs(attack.stop) {
        let source = attack.spread.source(attack.index);
        let Ok(mut stream) = websocket_at(source, attack.listen, "/ws", "") else {
            std::thread::sleep(RECONNECT_INTERVAL);
            continue;
        };
        let mut answers = stream.try_clone().expect("a second handle");
        let mut is_open = true;
        while is_open {
            number += 1;
            let name = |item: usize| format!("\"ltest-[key={}j{number}x{item}]\"", attack.index);
            let names = (0..100).map(name).collect::<Vec<_>>().join(",");
            for kind in ["subscribe", "unsubscribe"] {
                let text = format!("{{\"type\":\"{kind}\",\"items\":[{names}]}}");
                is_open &= send(&mut stream, &frame(TEXT, text.as_bytes()), attack.stop);
            }
            discard(&mut answers);
            attack.pause();
        }
    }
}

/// Sends pings and empty messages.
fn pings(attack: &Attack<'_>) {
    let both = [frame(PING, b""), frame(TEXT, b"")].concat();
    flood(attack, &both.repeat(500), true);
}

/// Sends `bytes` repeatedly on one session after the other, until the attack ends.
fn flood(attack: &Attack<'_>, bytes: &[u8], has_session: bool) {
    let source = attack.spread.source(attack.index);
    while runs(attack.stop) {
        let opened = match has_session {
            true => session(source, attack.listen),
            false => websocket(source, attack.listen),
        };
        let Ok(mut stream) = opened else {
            std::thread::sleep(RECONNECT_INTERVAL);
            continue;
        };
        let mut answers = stream.try_clone().expect("a second handle");
        let _ = answers.set_nonblocking(false);
        while send(&mut stream, bytes, attack.stop) {
            discard(&mut answers);
            attack.pause();
        }
    }
}

/// Reads all received bytes, so that the receive window never closes.
fn discard(stream: &mut std::net::TcpStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_micros(100)));
    let mut bytes = [0; 64 << 10];
    while matches!(stream.read(&mut bytes), Ok(1..)) {}
}

/// Sends HTTP bodies in chunks of one byte, each in a separate segment.
fn byte_chunks(attack: &Attack<'_>) {
    let head = format!(
        "POST /lightstreamer/create_session.txt HTTP/1.1\r\nHost: {}\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
        attack.listen
    );
    while runs(attack.stop) {
        let Ok(mut stream) = connect(attack.spread.source(attack.index), attack.listen) else {
            std::thread::sleep(RECONNECT_INTERVAL);
            continue;
        };
        let mut is_open = send(&mut stream, head.as_bytes(), attack.stop);
        for chunk in 0..49_000 {
            is_open = is_open && send(&mut stream, b"1\r\na\r\n", attack.stop);
            if is_open && chunk % 10 == 0 {
                attack.pause();
            }
        }
    }
}

/// Opens silent connections and unfinished requests on the admin port.
fn admin_silence(attack: &Attack<'_>) {
    let source = attack.spread.source(attack.index);
    let mut open: Vec<_> = (0..attack.share(1_000))
        .filter_map(|_| connect(source, attack.admin).ok())
        .collect();
    for stream in &mut open {
        // Connections may be closed immediately.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ");
    }
    wait(attack.stop);
}

/// Opens more connections than the target has file descriptors.
fn descriptors(attack: &Attack<'_>) {
    let source = attack.spread.source(attack.index);
    let open: Vec<_> = (0..attack.share(1_000))
        .filter_map(|_| connect(source, attack.listen).ok())
        .collect();
    wait(attack.stop);
    drop(open);
}

const RECONNECT_INTERVAL: Duration = Duration::from_millis(20);
/// Some keys of `weir load produce`.
const KEYS: [&str; 8] = [
    "Apple",
    "Banana",
    "Orange",
    "Grape",
    "Mango",
    "Pineapple",
    "Watermelon",
    "Strawberry",
];
