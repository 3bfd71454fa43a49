//! The server event loop over real sockets: framing, limits, timers and closing, with an echo
//! handler.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_net::MailboxSender;
use weir_net::http1::{HttpRequest, Response};
use weir_net::listener::listen_shared;
use weir_net::server::{
    CloseReason, ConnId, ConnectionLimits, Detached, EventLoop, EventLoopOptions, Listener,
    RequestOutcome, ServerHandler, ServerIo, TrySend,
};
use weir_net::websocket::{
    Deflater, FrameEvent, FrameRole, Opcode, WebSocketFrameReader, push_client_frame,
};

const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Echoes texts and responds to HTTP requests with the path. Some texts are commands: "bye" closes,
/// "flood" fills the send queue, "fill" sends until the connection lags, "heavy" charges the input
/// budget.
#[derive(Default)]
struct Echo {
    closed: Vec<CloseReason>,
    /// Number of "heavy" messages so far.
    heavy: usize,
    /// Number of frames so far that are not messages.
    frames: u32,
    last: Option<ConnId>,
    /// Number of connections whose ids are invalid now.
    removed: u32,
    /// Server that adopts detached connections.
    other: Option<MailboxSender<TestEvent>>,
}

#[derive(Debug)]
enum TestEvent {
    Report(std::sync::mpsc::Sender<Vec<CloseReason>>),
    /// Reports the number of write calls so far.
    Writes(std::sync::mpsc::Sender<u64>),
    /// Reports the number of removed connections so far.
    Removed(std::sync::mpsc::Sender<u32>),
    /// Blocks the loop until the sender sends.
    Block(std::sync::mpsc::Receiver<()>),
    /// A connection detached from another server.
    Adopt(Detached),
    /// Sends a text on the connection of the last message.
    SendToLast(&'static str),
    Stop,
}

impl ServerHandler for Echo {
    type Posted = TestEvent;

    fn on_request(
        &mut self,
        _io: &mut ServerIo,
        _conn: ConnId,
        request: &HttpRequest<'_>,
    ) -> RequestOutcome {
        if request.is_websocket_upgrade() {
            return RequestOutcome::Upgrade {
                protocol: Some("echo"),
                deflate: true,
            };
        }
        let body = format!(
            "{} {}",
            request.path,
            String::from_utf8_lossy(&request.body)
        );
        RequestOutcome::Respond(Response::text(200, body))
    }

    fn on_message(&mut self, io: &mut ServerIo, conn: ConnId, text: &str) {
        io.set_tag(conn, 7);
        self.last = Some(conn);
        match text {
            "window" => {
                let window = io.deflate_window(conn);
                io.send_text(conn, format!("{window:?}").as_bytes());
            }
            "move" => io.detach(conn),
            "fill" => {
                while io.try_send(conn, frame(&[b'x'; 60_000])) == TrySend::Queued {}
                io.send_text(conn, b"full");
            }
            "bye" => io.close(conn, None, false),
            "busy" => io.close_with(conn, 1013, Some(frame(b"later")), false),
            "heavy" | "count" => {
                if text == "heavy" {
                    self.heavy += 1;
                    io.charge_input(1 << 20);
                }
                io.send_text(conn, self.heavy.to_string().as_bytes());
            }
            "frames" => {
                io.send_text(conn, self.frames.to_string().as_bytes());
            }
            "later" => io.set_timer(io.now_ms() + 50, 1),
            "flood" => while io.send_text(conn, &[b'x'; 60_000]) {},
            text => {
                io.send_text(conn, text.as_bytes());
            }
        }
    }

    fn on_frames(&mut self, _io: &mut ServerIo, _conn: ConnId, count: u32) {
        self.frames += count;
    }

    fn on_closed(&mut self, _io: &mut ServerIo, _conn: ConnId, tag: u64, reason: CloseReason) {
        if tag == 7 {
            self.closed.push(reason);
        }
    }

    fn on_removed(&mut self, _conn: ConnId) {
        self.removed += 1;
    }

    fn on_timer(&mut self, _io: &mut ServerIo, _token: u64) {
        self.closed.push(CloseReason::Idle);
    }

    fn on_writable(&mut self, io: &mut ServerIo, conn: ConnId, tag: u64) {
        assert_eq!(tag, 7);
        assert_eq!(io.try_send(conn, frame(b"writable")), TrySend::Queued);
    }

    fn on_detached(&mut self, _io: &mut ServerIo, connection: Detached) {
        let other = self.other.as_ref().expect("another server");
        other
            .post(TestEvent::Adopt(connection), TEST_TIMEOUT)
            .expect("posted");
    }

    fn on_posted(&mut self, io: &mut ServerIo, event: TestEvent) {
        match event {
            TestEvent::Writes(sender) => sender.send(io.counters().writes).expect("a receiver"),
            TestEvent::Removed(sender) => sender.send(self.removed).expect("a receiver"),
            TestEvent::Adopt(detached) => {
                let conn = io.adopt(detached).expect("an open connection");
                io.set_tag(conn, 7);
                let window = io.deflate_window(conn).is_some();
                let text: &[u8] = if window {
                    b"moved with window"
                } else {
                    b"moved"
                };
                assert!(io.send_text(conn, text));
            }
            TestEvent::Block(receiver) => receiver.recv().expect("the test releases the loop"),
            TestEvent::SendToLast(text) => {
                let conn = self.last.expect("a message was received");
                assert!(io.send_text(conn, text.as_bytes()));
            }
            TestEvent::Report(sender) => sender.send(self.closed.clone()).expect("a receiver"),
            TestEvent::Stop => io.stop(),
        }
    }

    fn on_iteration_end(&mut self, _io: &mut ServerIo) {}
}

fn frame(text: &[u8]) -> bytes::Bytes {
    let mut frame = Vec::new();
    weir_net::websocket::push_server_text(&mut frame, text);
    frame.into()
}

struct Server {
    address: SocketAddr,
    mailbox: MailboxSender<TestEvent>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(limits: ConnectionLimits) -> Self {
        Self::start_with_other(limits, None)
    }

    fn start_with_other(limits: ConnectionLimits, other: Option<&Self>) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = listen_shared(any, 1).expect("a port").remove(0);
        let address = listener.local_addr().expect("an address");
        let echo = Echo {
            other: other.map(|other| other.mailbox.clone()),
            ..Echo::default()
        };
        let options = EventLoopOptions {
            listeners: vec![Listener {
                socket: listener,
                tls: None,
            }],
            limits,
            mailbox_capacity: 16,
            heartbeat: Default::default(),
        };
        let (event_loop, mailbox) = EventLoop::new(options, echo).expect("a loop");
        let thread = std::thread::spawn(move || event_loop.run().expect("clean shutdown"));
        Self {
            address,
            mailbox,
            thread: Some(thread),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("a timeout");
        stream
    }

    fn upgrade(&self) -> WebSocket {
        self.upgrade_offering("").0
    }

    /// Returns the WebSocket and the head of the server's response; `extensions` are header lines.
    fn upgrade_offering(&self, extensions: &str) -> (WebSocket, String) {
        let mut stream = self.connect();
        let request = format!(
            "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             {extensions}Sec-WebSocket-Protocol: echo\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("a request");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a response");
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).expect("text");
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        assert!(
            head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
            "{head}"
        );
        let socket = WebSocket {
            stream,
            reader: WebSocketFrameReader::new(FrameRole::Client, 1 << 20),
            input: Vec::new(),
        };
        (socket, head)
    }

    /// Waits until the handler has recorded `count` closed connections.
    fn closed(&self, count: usize) -> Vec<CloseReason> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let (sender, receiver) = std::sync::mpsc::channel();
            self.mailbox
                .post(TestEvent::Report(sender), TEST_TIMEOUT)
                .expect("posted");
            let closed = receiver.recv_timeout(TEST_TIMEOUT).expect("a report");
            if closed.len() >= count {
                return closed;
            }
            assert!(Instant::now() < deadline, "only {closed:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.mailbox.post(TestEvent::Stop, TEST_TIMEOUT);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || std::thread::panicking(),
                "the event loop panicked"
            );
        }
    }
}

struct WebSocket {
    stream: TcpStream,
    reader: WebSocketFrameReader,
    input: Vec<u8>,
}

impl WebSocket {
    fn send(&mut self, opcode: Opcode, payload: &[u8]) {
        let mut frame = Vec::new();
        push_client_frame(&mut frame, opcode, [1, 2, 3, 4], payload);
        self.stream.write_all(&frame).expect("sent");
    }

    /// Returns the next event as text; a close frame becomes `close CODE`.
    fn next(&mut self) -> Option<String> {
        loop {
            let (used, event) = self.reader.read(&self.input).expect("valid frames");
            let text = event.map(|event| match event {
                FrameEvent::Text(text) => String::from_utf8_lossy(text).into_owned(),
                FrameEvent::Deflated(_) => panic!("the handler compresses nothing"),
                FrameEvent::Pong(payload) => format!("pong {}", String::from_utf8_lossy(payload)),
                FrameEvent::Close { code } => format!("close {}", code.unwrap_or(0)),
                FrameEvent::Ping(_) => "ping".to_owned(),
            });
            self.input.drain(..used);
            if text.is_some() {
                return text;
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.input.extend_from_slice(&buffer[..count]),
                Err(error) => panic!("no frame: {error}"),
            }
        }
    }
}

fn read_to_end(mut stream: TcpStream) -> String {
    let mut response = String::new();
    stream
        .read_to_string(&mut response)
        .expect("end of the response");
    response
}

#[test]
fn split_texts_and_pings_are_echoed_in_order() {
    let server = Server::start(ConnectionLimits::default());
    let mut socket = server.upgrade();
    let mut frames = Vec::new();
    push_client_frame(&mut frames, Opcode::Text, [9, 8, 7, 6], b"one");
    push_client_frame(&mut frames, Opcode::Ping, [1, 1, 1, 1], b"two");
    push_client_frame(&mut frames, Opcode::Text, [0, 0, 0, 0], "drei ü".as_bytes());
    for byte in frames {
        socket.stream.write_all(&[byte]).expect("sent");
    }
    assert_eq!(socket.next().as_deref(), Some("one"));
    assert_eq!(socket.next().as_deref(), Some("pong two"));
    assert_eq!(socket.next().as_deref(), Some("drei ü"));
    socket.send(Opcode::Text, b"bye");
    assert_eq!(socket.next().as_deref(), Some("close 1000"));
    assert_eq!(socket.next(), None);
    assert!(server.closed(0).is_empty(), "closed by the handler");
}

#[test]
fn heavy_input_does_not_delay_other_peers() {
    const HEAVY: usize = 40;
    let server = Server::start(ConnectionLimits::default());
    let (mut attacker, mut other) = (server.upgrade(), server.upgrade());
    let (release, blocked) = std::sync::mpsc::channel();
    server
        .mailbox
        .post(TestEvent::Block(blocked), TEST_TIMEOUT)
        .expect("posted");
    let mut input = Vec::new();
    for _ in 0..HEAVY {
        push_client_frame(&mut input, Opcode::Text, [1; 4], b"heavy");
    }
    attacker.stream.write_all(&input).expect("sent");
    other.send(Opcode::Text, b"count");
    release.send(()).expect("the loop is blocked");
    let before: usize = other
        .next()
        .and_then(|text| text.parse().ok())
        .expect("a number");
    assert!(
        before <= 2,
        "{before} messages of another peer handled before"
    );
    for number in 1..=HEAVY {
        assert_eq!(
            attacker.next(),
            Some(number.to_string()),
            "responses in order"
        );
    }
}

#[test]
fn queued_input_is_handled_before_connection_ends() {
    let server = Server::start(ConnectionLimits::default());
    let mut leaving = server.upgrade();
    let mut input = Vec::new();
    for _ in 0..10 {
        push_client_frame(&mut input, Opcode::Text, [1; 4], b"heavy");
    }
    leaving.stream.write_all(&input).expect("sent");
    let end = std::net::Shutdown::Write;
    leaving.stream.shutdown(end).expect("an open connection");
    for number in 1..=10 {
        assert_eq!(leaving.next(), Some(number.to_string()));
    }
    assert_eq!(server.closed(1), [CloseReason::PeerClosed]);
}

#[test]
fn other_frames_are_counted() {
    let server = Server::start(ConnectionLimits::default());
    let mut socket = server.upgrade();
    let mut input = Vec::new();
    for _ in 0..3 {
        push_client_frame(&mut input, Opcode::Pong, [1; 4], b"");
    }
    push_client_frame(&mut input, Opcode::Ping, [1; 4], b"");
    // A text in five fragments, four of them empty.
    for head in [0x01, 0x00, 0x00, 0x00] {
        input.extend_from_slice(&[head, 0x80, 0, 0, 0, 0]);
    }
    push_client_frame(&mut input, Opcode::Continuation, [1; 4], b"frames");
    socket.stream.write_all(&input).expect("sent");
    assert_eq!(socket.next().as_deref(), Some("pong "));
    assert_eq!(socket.next().as_deref(), Some("4"));
    socket.send(Opcode::Text, b"frames");
    assert_eq!(socket.next().as_deref(), Some("8"));
}

#[test]
fn protocol_violations_get_close_code_and_are_reported() {
    let limits = ConnectionLimits {
        message_bytes: 100,
        ..ConnectionLimits::default()
    };
    let server = Server::start(limits);
    for (opcode, payload, code) in [
        (Opcode::Text, vec![b'x'; 101], 1009),
        (Opcode::Text, vec![0xff, 0xfe], 1007),
    ] {
        let mut socket = server.upgrade();
        socket.send(Opcode::Text, b"hello");
        assert_eq!(socket.next().as_deref(), Some("hello"));
        socket.send(opcode, &payload);
        assert_eq!(socket.next(), Some(format!("close {code}")));
        assert_eq!(socket.next(), None);
    }
    let mut socket = server.upgrade();
    socket.send(Opcode::Text, b"hello");
    assert_eq!(socket.next().as_deref(), Some("hello"));
    drop(socket);
    let closed = server.closed(3);
    assert_eq!(closed[..2], [CloseReason::Protocol; 2]);
    assert!(matches!(
        closed[2],
        CloseReason::PeerClosed | CloseReason::Lost
    ));
}

/// Encodes a compressed client message.
fn deflated(text: &[u8]) -> Vec<u8> {
    let mut deflater = Deflater::new(6);
    let payload = deflater.deflate(text).expect("compressible text");
    let mut frame = Vec::new();
    push_client_frame(&mut frame, Opcode::Text, [1, 2, 3, 4], payload);
    frame[0] |= 0x40;
    frame
}

#[test]
fn compressed_messages_need_negotiation() {
    let limits = ConnectionLimits {
        message_bytes: 2_000,
        ..ConnectionLimits::default()
    };
    let there = Server::start(limits);
    let server = Server::start_with_other(limits, Some(&there));
    let offer = "Sec-WebSocket-Extensions: permessage-deflate; unknown, \
                 permessage-deflate; client_max_window_bits; server_max_window_bits=9\r\n";
    let (mut socket, head) = server.upgrade_offering(offer);
    let response = "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; \
                  client_no_context_takeover; server_max_window_bits=9\r\n";
    assert!(head.contains(response), "{head}");
    let text = "over and ".repeat(200);
    for _ in 0..2 {
        socket
            .stream
            .write_all(&deflated(text.as_bytes()))
            .expect("sent");
        socket.send(Opcode::Text, b"plain");
        assert_eq!(socket.next().as_deref(), Some(text.as_str()));
        assert_eq!(socket.next().as_deref(), Some("plain"));
    }
    socket.send(Opcode::Text, b"window");
    let window = socket.next().expect("a response");
    assert!(
        window.starts_with("Some(DeflateWindow") && window.contains('9'),
        "{window}"
    );
    // The negotiated window moves with the connection.
    socket.send(Opcode::Text, b"move");
    assert_eq!(socket.next().as_deref(), Some("moved with window"));
    socket
        .stream
        .write_all(&deflated(text.as_bytes()))
        .expect("sent");
    assert_eq!(socket.next(), Some(text.clone()));
    // Inflates to more than the message limit.
    let bomb = vec![b'x'; 1 << 20];
    socket.stream.write_all(&deflated(&bomb)).expect("sent");
    assert_eq!(socket.next().as_deref(), Some("close 1009"));
    assert_eq!(there.closed(1), [CloseReason::Protocol]);

    let (mut socket, head) = server.upgrade_offering("Sec-WebSocket-Extensions: other\r\n");
    assert!(!head.contains("Extensions"), "{head}");
    socket.send(Opcode::Text, b"window");
    assert_eq!(socket.next().as_deref(), Some("None"));
    socket
        .stream
        .write_all(&deflated(text.as_bytes()))
        .expect("sent");
    assert_eq!(socket.next().as_deref(), Some("close 1002"));
}

#[test]
fn pipelined_requests_are_handled_in_order() {
    let server = Server::start(ConnectionLimits::default());
    let mut stream = server.connect();
    let first = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi";
    let second = "GET /b?q HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    stream
        .write_all(format!("{first}{second}").as_bytes())
        .expect("requests");
    let responses = read_to_end(stream);
    assert!(responses.contains("/a hiHTTP/1.1 200 OK"), "{responses}");
    assert!(responses.ends_with("/b "), "{responses}");
}

#[test]
fn invalid_requests_fail_and_incomplete_ones_time_out() {
    let limits = ConnectionLimits {
        request_timeout_ms: 200,
        connections: 2,
        ..ConnectionLimits::default()
    };
    let server = Server::start(limits);
    let mut bad = server.connect();
    bad.write_all(b"what?\r\n\r\n").expect("bytes");
    assert!(read_to_end(bad).starts_with("HTTP/1.1 400"));
    let mut slow = server.connect();
    slow.write_all(b"GET / HT").expect("bytes");
    assert_eq!(read_to_end(slow), "");
    let untagged = server.upgrade();
    let mut rest = untagged;
    assert_eq!(rest.next(), None, "untagged WebSocket times out");
    let one = server.connect();
    let two = server.connect();
    let mut buffer = [0];
    let mut third = server.connect();
    assert_eq!(
        third.read(&mut buffer).unwrap_or(0),
        0,
        "connection over the limit is closed"
    );
    drop((one, two));
}

#[test]
fn closing_connection_gets_queued_messages() {
    let limits = ConnectionLimits {
        send_queue_bytes: 1 << 20,
        ..ConnectionLimits::default()
    };
    let server = Server::start(limits);
    let mut socket = server.upgrade();
    socket.send(Opcode::Text, b"flood");
    socket.send(Opcode::Text, b"bye");
    let mut messages = 0;
    while let Some(event) = socket.next() {
        if event == "close 1000" {
            break;
        }
        assert_eq!(event.len(), 60_000);
        messages += 1;
    }
    // Kernel buffers hold further messages.
    assert!(
        messages >= (1 << 20) / 60_010,
        "{messages} complete messages"
    );
}

#[test]
fn every_end_of_a_connection_is_reported() {
    let server = Server::start(ConnectionLimits::default());
    let mut ended = server.upgrade();
    ended.send(Opcode::Text, b"bye");
    assert_eq!(ended.next().as_deref(), Some("close 1000"));
    let mut answered = server.connect();
    let request = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    answered.write_all(request).expect("sent");
    assert!(read_to_end(answered).starts_with("HTTP/1.1 200 "));
    drop((ended, server.upgrade()));
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let (sender, receiver) = std::sync::mpsc::channel();
        let posted = server
            .mailbox
            .post(TestEvent::Removed(sender), TEST_TIMEOUT);
        posted.expect("posted");
        let removed = receiver.recv_timeout(TEST_TIMEOUT).expect("a report");
        if removed == 3 {
            break;
        }
        assert!(Instant::now() < deadline, "only {removed}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn handler_chooses_the_close_code() {
    let server = Server::start(ConnectionLimits::default());
    let mut socket = server.upgrade();
    socket.send(Opcode::Text, b"busy");
    assert_eq!(socket.next().as_deref(), Some("later"));
    assert_eq!(socket.next().as_deref(), Some("close 1013"));
    assert_eq!(socket.next(), None);
}

#[test]
fn output_of_iteration_needs_one_write() {
    let server = Server::start(ConnectionLimits::default());
    let mut socket = server.upgrade();
    socket.send(Opcode::Text, b"hello");
    assert_eq!(socket.next().as_deref(), Some("hello"));
    let post = |event| server.mailbox.post(event, TEST_TIMEOUT).expect("posted");
    let writes = || {
        let (sender, receiver) = std::sync::mpsc::channel();
        post(TestEvent::Writes(sender));
        receiver.recv_timeout(TEST_TIMEOUT).expect("a number")
    };
    let before = writes();
    let (release, blocked) = std::sync::mpsc::channel();
    post(TestEvent::Block(blocked));
    for _ in 0..10 {
        post(TestEvent::SendToLast("update"));
    }
    release.send(()).expect("the loop is blocked");
    for _ in 0..10 {
        assert_eq!(socket.next().as_deref(), Some("update"));
    }
    assert_eq!(writes() - before, 1);
}

#[test]
fn lagging_peer_is_writable_after_reading_everything() {
    let server = Server::start(ConnectionLimits::default());
    let mut socket = server.upgrade();
    socket.send(Opcode::Text, b"fill");
    let mut rest = Vec::new();
    loop {
        let text = socket.next().expect("another message");
        if text.len() != 60_000 {
            rest.push(text);
        }
        if rest.len() == 2 {
            break;
        }
    }
    assert_eq!(rest, ["full", "writable"]);
}

#[test]
fn timer_calls_handler() {
    let server = Server::start(ConnectionLimits::default());
    let mut socket = server.upgrade();
    socket.send(Opcode::Text, b"later");
    assert_eq!(server.closed(1), [CloseReason::Idle]);
}

#[test]
fn detached_websocket_moves_with_its_input() {
    let there = Server::start(ConnectionLimits::default());
    let here = Server::start_with_other(ConnectionLimits::default(), Some(&there));
    let mut socket = here.upgrade();
    let mut frames = Vec::new();
    for (text, key) in [("one", 1), ("move", 2), ("two", 3)] {
        push_client_frame(&mut frames, Opcode::Text, [key; 4], text.as_bytes());
    }
    // The start of another message; its rest follows later.
    let mut last = Vec::new();
    push_client_frame(&mut last, Opcode::Text, [9; 4], b"three");
    frames.extend_from_slice(&last[..7]);
    socket.stream.write_all(&frames).expect("sent");
    for expected in ["one", "moved", "two"] {
        assert_eq!(socket.next().as_deref(), Some(expected));
    }
    socket.stream.write_all(&last[7..]).expect("sent");
    assert_eq!(socket.next().as_deref(), Some("three"));
    socket.send(Opcode::Text, b"bye");
    assert_eq!(socket.next().as_deref(), Some("close 1000"));
    assert!(here.closed(0).is_empty() && there.closed(0).is_empty());
}
