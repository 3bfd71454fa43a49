//! Tests the whole worker against small servers in threads, and one session without sockets.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use weir_net::websocket::{
    Deflater, FrameRole, Inflater, WebSocketFrameReader, accept_key, push_deflated_server_text,
    push_server_text,
};
use weir_stats::Histogram;
use weir_tlcp::WEBSOCKET_SUBPROTOCOL;

use super::session::{ClientPhase, SessionAction, SessionIo, SimulatedClient};
use super::target::RequestTexts;
use super::verify::ClientCheck;
use super::*;
use crate::delivery::Conflation;
use crate::worker::EventSender;
use crate::worker::protocol::{LatencyTag, LedgerEntry, Schedule, WorkerCommand, WorkerEvent};

/// Writer that sends each event line to a channel.
struct ClientLines(mpsc::Sender<Vec<u8>>);

impl io::Write for ClientLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The test may have ended.
        let _ = self.0.send(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a channel with queued commands: everything is in the measured window, and `last_seq + 1`
/// records of Apple by producer 0 were acknowledged.
fn link(last_seq: u64) -> (CoordinatorChannel, Receiver<Vec<u8>>) {
    let (commands, receiver) = mpsc::sync_channel(8);
    let everything = Schedule {
        start_unix_ns: 0,
        measure_from_unix_ns: 0,
        measure_until_unix_ns: u64::MAX,
        stop_unix_ns: u64::MAX,
    };
    let entry = LedgerEntry {
        key: "Apple".to_owned(),
        producer: 0,
        first_seq: 0,
        last_seq,
        missing: Vec::new(),
        last_due_unix_ns: 0,
    };
    commands.send(WorkerCommand::Start(everything)).unwrap();
    commands
        .send(WorkerCommand::Ledger {
            entries: vec![entry],
        })
        .unwrap();
    // Stays open, because a closed channel means stop.
    std::mem::forget(commands);
    let (lines, events) = mpsc::channel();
    let link = CoordinatorChannel {
        commands: receiver,
        events: EventSender::new(ClientLines(lines)),
    };
    (link, events)
}

fn events(lines: &Receiver<Vec<u8>>) -> Vec<WorkerEvent> {
    lines
        .try_iter()
        .map(|line| serde_json::from_slice(&line).unwrap())
        .collect()
}

/// Accepts `clients` connections and serves each in a thread.
fn server(clients: usize, serve: fn(TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for _ in 0..clients {
            let (stream, _) = listener.accept().unwrap();
            thread::spawn(move || serve(stream));
        }
    });
    format!("ws://{address}")
}

fn options(server: String, clients: usize) -> ClientsOptions {
    ClientsOptions {
        keys: vec!["Apple".to_owned()],
        ..ClientsOptions::scenario_2(server, clients)
    }
}

/// Server side of a connection, with the client's messages.
struct Peer {
    stream: TcpStream,
    reader: WebSocketFrameReader,
    received: Vec<u8>,
}

impl Peer {
    fn accept(mut stream: TcpStream) -> Self {
        let head = read_head(&mut stream);
        let key = head
            .lines()
            .find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "))
            .unwrap();
        let response = String::from_utf8(upgrade_response(key)).unwrap();
        let response = match head.contains("Sec-WebSocket-Protocol: ") {
            true => response,
            false => response.replace(SUBPROTOCOL_LINE, ""),
        };
        stream.write_all(response.as_bytes()).unwrap();
        let reader = WebSocketFrameReader::new(FrameRole::Server, 10_000);
        Self {
            stream,
            reader,
            received: Vec::new(),
        }
    }

    fn message(&mut self) -> String {
        loop {
            let (used, event) = self.reader.read(&self.received).unwrap();
            let text = event.map(|event| match event {
                weir_net::websocket::FrameEvent::Text(text) => {
                    String::from_utf8(text.to_vec()).unwrap()
                }
                other => panic!("unexpected {other:?}"),
            });
            self.received.drain(..used);
            if let Some(text) = text {
                return text;
            }
            let mut bytes = [0; 512];
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "client closed the connection");
            self.received.extend_from_slice(&bytes[..count]);
        }
    }

    fn send(&mut self, lines: &[&str]) {
        let mut frame = Vec::new();
        push_server_text(&mut frame, text(lines).as_bytes());
        self.stream.write_all(&frame).unwrap();
    }

    /// Runs the handshake up to the subscription.
    fn open(&mut self) {
        self.open_with(&["key", "value", "ts", "partition", "offset", "weir"]);
    }

    /// Like [`Self::open`], for a client that subscribes to these fields.
    fn open_with(&mut self, fields: &[&str]) {
        assert_eq!(self.message(), "wsok");
        let create = self.message();
        assert!(create.starts_with("create_session\r\n"), "{create}");
        assert!(create.contains("LS_adapter_set=KafkaConnector"), "{create}");
        self.send(&["WSOK", "CONOK,S1,50000,5000,*", "SERVNAME,test"]);
        let add = self.message();
        assert!(add.contains("LS_op=add"), "{add}");
        // RAW has no snapshot; in other modes the client does not request it.
        let raw = add.contains("LS_mode=RAW");
        assert_ne!(raw, add.contains("LS_snapshot=false"), "{add}");
        assert!(add.contains("LS_group=ltest-%5Bkey%3DApple%5D"), "{add}");
        let schema = format!("LS_schema={}&", fields.join("%20"));
        assert!(add.contains(&schema), "{add}");
        let accepted = format!("SUBOK,1,1,{}", fields.len());
        self.send(&[&accepted, "CONF,1,unlimited,filtered"]);
    }
}

/// Reads the head of a request.
fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

const SUBPROTOCOL_LINE: &str = "Sec-WebSocket-Protocol: TLCP-2.5.0.lightstreamer.com\r\n";

fn upgrade_response(key: &str) -> Vec<u8> {
    let accept = accept_key(key);
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {WEBSOCKET_SUBPROTOCOL}\r\n\r\n"
    )
    .into_bytes()
}

fn text(lines: &[&str]) -> String {
    lines.iter().flat_map(|line| [*line, "\r\n"]).collect()
}

const U0: &str = "U,1,1,Apple|value|1|0|0|1000.0.0.1500";

#[test]
fn sessions_receive_updates_and_settle() {
    let server = server(3, |stream| {
        let mut peer = Peer::accept(stream);
        peer.open();
        peer.send(&[U0, "U,1,1,|value|^3|1000.0.1.1500", "PROBE"]);
        // Loop and rebind on the same socket.
        peer.send(&["LOOP,0"]);
        assert!(peer.message().starts_with("bind_session\r\nLS_session=S1"));
        peer.send(&["CONOK,S1,50000,5000,*", "U,1,1,|value|^3|1000.0.3.1500"]);
        peer.send(&[
            "U,1,1,|value|^3|1000.0.3.1500",
            "U,1,1,|value|^3|1000.0.2.1500",
        ]);
        // The last record; the client closes when it has all records.
        peer.send(&["U,1,1,|value|^3|1000.0.4.1500"]);
        let _ = peer.stream.read(&mut [0]);
    });
    let (link, lines) = link(4);
    let summary = run(&options(server, 3), &link).unwrap();
    assert_eq!(
        (
            summary.clients,
            summary.counts.lost,
            summary.counts.duplicated
        ),
        (3, 0, 3)
    );
    assert_eq!(
        (
            summary.counts.reordered,
            summary.counts.deliveries_in_window
        ),
        (3, 18)
    );
    assert!(
        summary.settled && summary.errors.is_empty(),
        "{:?}",
        summary.errors
    );
    assert_eq!(summary.disconnects, 0);
    let events = events(&lines);
    assert!(matches!(&events[0], WorkerEvent::Hello { .. }));
    assert!(
        matches!(&events[1], WorkerEvent::Ready { connections: 3, .. }),
        "{:?}",
        events[1]
    );
    assert!(matches!(events.last(), Some(WorkerEvent::Final { .. })));
    let intervals = events
        .iter()
        .filter(|event| matches!(event, WorkerEvent::Interval(_)))
        .count();
    assert_eq!(intervals, 3, "response, service and stored-to-client");
}

#[test]
fn lost_sessions_and_records_are_counted() {
    let server = server(2, |stream| {
        let mut peer = Peer::accept(stream);
        peer.open();
        peer.send(&[U0, "U,1,1,Apple|too few", "OV,1,1,7", "END,48,the end"]);
    });
    let (link, _lines) = link(3);
    let summary = run(&options(server, 2), &link).unwrap();
    assert_eq!((summary.counts.lost, summary.disconnects), (6, 2));
    let texts: Vec<_> = summary.errors.keys().map(String::as_str).collect();
    assert_eq!(
        texts,
        [
            "server dropped 7 updates (OV)",
            "session ended with code 48: the end",
            "update whose number of fields differs from the schema",
        ]
    );
}

/// Returns the summary of two clients of a server whose messages are JSON.
fn json_summary(protocol: JsonProtocol, serve: fn(TcpStream)) -> DeliverySummary {
    let server = format!("{}/feed?of={{item}}", server(2, serve));
    let (link, _lines) = link(2);
    let json = JsonClients {
        protocol,
        members: ["name", "at.weir"].map(str::to_owned).into(),
        subscribe: Some(r#"{"want":"{item}"}"#.to_owned()),
        live_when: (protocol == JsonProtocol::WebSocket).then(|| "welcome".to_owned()),
        may_conflate: false,
    };
    let options = ClientsOptions {
        kind: ClientProtocol::Json(json),
        fields: ["key", "weir"].map(str::to_owned).into(),
        ..options(server, 2)
    };
    run(&options, &link).unwrap()
}

/// Returns the message of a record.
fn record(key: &str, seq: u64) -> String {
    format!(r#"{{"name":"{key}","at":{{"weir":"1000.0.{seq}.1500"}}}}"#)
}

#[test]
fn json_messages_are_checked_like_tlcp() {
    let socket = json_summary(JsonProtocol::WebSocket, |stream| {
        let mut peer = Peer::accept(stream);
        assert_eq!(peer.message(), r#"{"want":"ltest-[key=Apple]"}"#);
        let mut send = |text: &str| {
            let mut frame = Vec::new();
            push_server_text(&mut frame, text.as_bytes());
            peer.stream.write_all(&frame).unwrap();
        };
        send(&record("Apple", 0));
        send(r#"{"welcome":true}"#);
        for seq in [0, 1, 1, 2] {
            send(&record("Apple", seq));
        }
        let _ = peer.stream.read(&mut [0]);
    });
    let events = json_summary(JsonProtocol::ServerSentEvents, |mut stream| {
        let head = read_head(&mut stream);
        let request = "GET /feed?of=ltest-%5Bkey%3DApple%5D HTTP/1.1\r\n";
        assert!(head.starts_with(request), "{head}");
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        let records = [("Apple", 0), ("Pear", 9)];
        let events = records.map(|(key, seq)| format!("data: {}\n\n", record(key, seq)));
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(events.concat().as_bytes()).unwrap();
    });
    let counts = |summary: &DeliverySummary| {
        let counts = &summary.counts;
        (counts.deliveries_in_window, counts.lost, counts.duplicated)
    };
    assert_eq!(counts(&socket), (8, 0, 2), "{:?}", socket.errors);
    assert!(
        socket.settled && socket.errors.is_empty(),
        "{:?}",
        socket.errors
    );
    // Each client misses two records, because the server closes before it sends them.
    assert_eq!(counts(&events), (2, 4, 0), "{:?}", events.errors);
    let texts: Vec<_> = events.errors.keys().collect();
    let foreign = "update whose key field differs from the key of its item";
    assert_eq!(texts, ["session lost: closed by the server", foreign]);
}

/// Returns lost records, conflated records, and whether a state age was reported, if two records
/// are skipped.
fn with_a_gap(mode: Mode) -> (u64, u64, bool) {
    let server = server(1, |stream| {
        let mut peer = Peer::accept(stream);
        peer.open();
        let later = ["U,1,1,|other||||1000.0.3.1500", "U,1,1,|^4|1000.0.4.1500"];
        peer.send(&[U0, later[0], later[1], "END,48,the end"]);
    });
    let (link, lines) = link(4);
    let options = ClientsOptions {
        kind: ClientProtocol::Tlcp {
            adapter_set: "KafkaConnector".to_owned(),
            data_adapter: None,
            mode,
        },
        ..options(server, 1)
    };
    let summary = run(&options, &link).unwrap();
    let aged = |event: &WorkerEvent| match event {
        WorkerEvent::Interval(interval) => interval.tag == LatencyTag::StateAge,
        _ => false,
    };
    let reported = events(&lines).iter().any(aged);
    (summary.counts.lost, summary.counts.conflated, reported)
}

#[test]
fn gap_is_conflation_only_in_merge() {
    assert_eq!(with_a_gap(Mode::Merge), (0, 2, true));
    assert_eq!(with_a_gap(Mode::Distinct), (2, 0, false));
    assert_eq!(with_a_gap(Mode::Raw), (2, 0, false));
}

/// Returns the number of response times and the summary, for records without a due time.
fn run_without_due_times(record_timestamps: bool) -> (u64, DeliverySummary) {
    const FIELDS: [&str; 5] = ["key", "value", "ts", "partition", "offset"];
    let server = server(1, |stream| {
        let mut peer = Peer::accept(stream);
        peer.open_with(&FIELDS);
        // `ts` has milliseconds, and no field has a due time; `ts` is unchanged in the second
        // update.
        let updates = ["U,1,1,Apple|text|1500|0|7", "U,1,1,^4|8"];
        peer.send(&[updates[0], updates[1], "END,48,the end"]);
    });
    let (link, lines) = link(0);
    let options = ClientsOptions {
        fields: FIELDS.map(str::to_owned).into(),
        record_timestamps,
        ..options(server, 1)
    };
    let summary = run(&options, &link).unwrap();
    let timed = |event: &WorkerEvent| match event {
        WorkerEvent::Interval(it) if it.tag == LatencyTag::Response => {
            Histogram::from_base64(&it.histogram).unwrap().count()
        }
        _ => 0,
    };
    (events(&lines).iter().map(timed).sum(), summary)
}

#[test]
fn record_timestamps_time_records_without_due_time() {
    let (timed, summary) = run_without_due_times(true);
    assert_eq!((timed, summary.timed_by_timestamp), (2, 2), "{summary:?}");
    assert_eq!(
        (summary.latency_resolution_ns, summary.log_append_time),
        (1_000_000, None)
    );
    let (timed, summary) = run_without_due_times(false);
    assert_eq!((timed, summary.timed_by_timestamp), (0, 0));
    let error = summary
        .errors
        .keys()
        .find(|text| text.starts_with("update without stamp"));
    assert!(
        error.is_some_and(|text| text.contains("#{TIMESTAMP}")),
        "{summary:?}"
    );
}

#[test]
fn published_report_is_sent_at_the_end() {
    let server = server(1, |stream| {
        let mut peer = Peer::accept(stream);
        peer.open();
        peer.send(&[U0]);
        let _ = peer.stream.read(&mut [0]);
    });
    let (link, lines) = link(0);
    let options = ClientsOptions {
        published_report: Some(Duration::from_secs(60)),
        ..options(server, 1)
    };
    run(&options, &link).unwrap();
    let events = events(&lines);
    let report = events.iter().find_map(|event| match event {
        WorkerEvent::Report { text } => Some(text),
        _ => None,
    });
    // The record was due decades ago, beyond the range of that report.
    let reported = report.is_some_and(|text| text.contains(" 1 of 240000 ms and more"));
    assert!(reported, "{events:?}");
}

#[test]
fn last_record_settles_conflated_client() {
    let server = server(1, |stream| {
        let mut peer = Peer::accept(stream);
        peer.open();
        peer.send(&[U0, "U,1,1,|^4|1000.0.4.1500"]);
        // Blocks until the client closes the connection.
        let _ = peer.stream.read(&mut [0]);
    });
    let (link, _lines) = link(4);
    let mut options = options(server, 1);
    if let ClientProtocol::Tlcp { mode, .. } = &mut options.kind {
        *mode = Mode::Merge;
    }
    let summary = run(&options, &link).unwrap();
    assert_eq!(
        (
            summary.counts.lost,
            summary.counts.conflated,
            summary.disconnects
        ),
        (0, 3, 0)
    );
}

#[test]
fn rejection_of_all_sessions_is_unreachable() {
    let server = server(2, |stream| {
        let mut peer = Peer::accept(stream);
        peer.message();
        peer.message();
        peer.send(&["WSOK", "CONERR,2,no such adapter set"]);
        let _ = peer.stream.read(&mut [0]);
    });
    let (link, _lines) = link(0);
    let error = run(&options(server.clone(), 2), &link)
        .unwrap_err()
        .to_string();
    let address = server.strip_prefix("ws://").unwrap();
    assert_eq!(
        error,
        format!(
            "no client could subscribe at {address}: session ended with code 2: no such adapter set"
        )
    );
}

#[test]
fn unusable_servers_are_named() {
    for (server, reason) in [
        ("wss://127.0.0.1:1", "give --ca FILE"),
        ("ws://h:1/x", "a path or blanks are not allowed"),
        ("ws://h", "invalid socket address"),
    ] {
        let (link, _lines) = link(0);
        let error = run(&options(server.to_owned(), 1), &link)
            .unwrap_err()
            .to_string();
        assert!(error.contains(reason) && error.contains(server), "{error}");
    }
    let (link, _lines) = link(0);
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let error = run(&options(closed.to_string(), 2), &link).unwrap_err();
    assert!(matches!(error, LoadError::Unreachable(..)), "{error}");
    let (link, _lines) = self::link(0);
    let error = run(&options("127.0.0.1:1".to_owned(), 1 << 40), &link).unwrap_err();
    assert!(matches!(error, LoadError::Descriptors(..)), "{error}");
}

#[test]
fn floor_clients_send_their_key() {
    let server = server(2, |mut stream| {
        let mut line = [0; 6];
        stream.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"Apple\n");
        let mut answer = b"OK\n".to_vec();
        push_server_text(&mut answer, text(&[U0]).as_bytes());
        let cut = answer.len() / 2;
        stream.write_all(&answer[..2]).unwrap();
        stream.write_all(&answer[2..cut]).unwrap();
        stream.write_all(&answer[cut..]).unwrap();
        let _ = stream.read(&mut [0]);
    });
    let (link, lines) = link(0);
    let options = ClientsOptions {
        kind: ClientProtocol::Floor,
        ..options(server, 2)
    };
    let summary = run(&options, &link).unwrap();
    assert_eq!(
        (summary.counts.lost, summary.counts.deliveries_in_window),
        (0, 2)
    );
    assert!(summary.errors.is_empty(), "{:?}", summary.errors);
    assert!(matches!(
        &events(&lines)[0],
        WorkerEvent::Hello {
            role: crate::worker::protocol::WorkerRole::FloorClients,
            ..
        }
    ));
}

/// Feeds `stream` in pieces to a session without sockets. Returns its actions.
fn steps(stream: &[u8], cuts: &[usize]) -> Vec<String> {
    steps_with(false, stream, cuts)
}

/// Like [`steps`], for a session with or without compression.
fn steps_with(compression: bool, stream: &[u8], cuts: &[usize]) -> Vec<String> {
    let options = ClientsOptions {
        compression,
        ..options("ws://h:1".to_owned(), 1)
    };
    let target = RequestTexts::new(&options, &["h:1".to_owned()]);
    let configs = target.session_configs(DiffChoice::NONE);
    let mut session = SimulatedClient::new(0, false, ClientCheck::new(Conflation::Forbidden));
    let mut out = Vec::new();
    session.open(0, &target, None, &mut out);
    let mut seen = Vec::new();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.sort_unstable();
    let mut inflater = Inflater::new();
    let mut start = 0;
    for end in cuts.into_iter().chain([stream.len()]) {
        let mut io = SessionIo {
            target: &target,
            config: Some(&configs[0]),
            json: None,
            out: &mut out,
            sink: &mut |session, step, payload| {
                if matches!(step, SessionAction::End(_)) {
                    session.phase = ClientPhase::Ended;
                }
                seen.push(format!("{step:?} {}", String::from_utf8_lossy(payload)));
            },
        };
        session.on_data(&stream[start..end], &mut io, &mut inflater);
        start = end;
    }
    seen
}

#[test]
fn compression_is_negotiated_or_an_error() {
    let update = "U,1,1,Apple|value value value value|1|0|0|1000.0.0.1500";
    let plain = server_stream(&[
        vec!["WSOK", "CONOK,S1,50000,5000,*"],
        vec!["SUBOK,1,1,6", "CONF,1,unlimited,filtered"],
        vec![update],
    ]);
    let head = plain
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let agreed = b"\r\nSec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover";
    let mut stream = [&plain[..head], agreed, &plain[head..]].concat();
    let mut deflater = Deflater::new(1);
    let payload = deflater.deflate(text(&[update]).as_bytes()).unwrap();
    push_deflated_server_text(&mut stream, payload);
    let seen = steps_with(true, &stream, &[3, 300, stream.len() - 3]);
    let expected = format!("Update {}", &update["U,1,1,".len()..]);
    assert_eq!(
        seen[1..],
        [expected.as_str(), expected.as_str()],
        "{seen:?}"
    );
    let seen = steps_with(true, &plain, &[]);
    assert!(seen[0].contains("server does not compress"), "{seen:?}");
    let seen = steps(&stream, &[]);
    assert!(
        seen[0].contains("extension that was not offered"),
        "{seen:?}"
    );
}

fn server_stream(messages: &[Vec<&str>]) -> Vec<u8> {
    let options = options("ws://h:1".to_owned(), 1);
    let target = RequestTexts::new(&options, &["h:1".to_owned()]);
    let mut stream = upgrade_response(&target.websocket_key);
    for message in messages {
        push_server_text(&mut stream, text(message).as_bytes());
    }
    stream
}

proptest! {
    #[test]
    fn session_result_is_independent_of_read_sizes(
        cuts in prop::collection::vec(any::<usize>(), 0..12)
    ) {
        let stream = server_stream(&[
            vec!["WSOK", "CONOK,S1,50000,5000,*"],
            vec!["SUBOK,1,1,6", "CONF,1,unlimited,filtered", U0],
            vec!["U,1,1,^5|x", "U,2,1,x", "nonsense", "PROBE"],
            vec!["END,1,over", "U,1,1,never read"],
        ]);
        let whole = steps(&stream, &[]);
        prop_assert_eq!(whole.len(), 5, "{:?}", whole);
        prop_assert_eq!(steps(&stream, &cuts), whole);
    }

    #[test]
    fn arbitrary_bytes_after_upgrade_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300)
    ) {
        let mut stream = server_stream(&[vec!["WSOK", "CONOK,S1,50000,5000,*", "SUBOK,1,1,6"]]);
        push_server_text(&mut stream, &bytes);
        stream.extend_from_slice(&bytes);
        let _ = steps(&stream, &[7]);
        let _ = steps(&bytes, &[3]);
    }
}
