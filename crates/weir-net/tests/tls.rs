//! TLS in the server event loop, with rustls' own client as the other end.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use prometheus_client::registry::Registry;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore, StreamOwned,
};
use weir_net::MailboxSender;
use weir_net::admin::dashboard::{Dashboard, DashboardLayout, DashboardSource};
use weir_net::admin::{AdminConfig, AdminOptions, AdminPages, AdminServer, Page};
use weir_net::client;
use weir_net::http1::{HttpRequest, Response};
use weir_net::listener::listen_shared;
use weir_net::server::{
    CloseReason, ConnId, ConnectionLimits, Detached, EventLoop, EventLoopOptions, IoCounters,
    Listener, RequestOutcome, ServerHandler, ServerIo, TrySend,
};
use weir_net::tls::{ClientTls, TlsAcceptor, TlsIdentity};
use weir_net::watchdog::{Watchdog, WatchdogConfig, join_until};
use weir_net::websocket::{
    FrameEvent, FrameRole, Opcode, WebSocketFrameReader, push_client_frame, push_server_text,
};

const TEST_TIMEOUT: Duration = Duration::from_secs(10);
const SERVER: (&[u8], &[u8]) = (
    include_bytes!("tls/server.pem"),
    include_bytes!("tls/server.key"),
);
const SECOND: (&[u8], &[u8]) = (
    include_bytes!("tls/second.pem"),
    include_bytes!("tls/second.key"),
);

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Echoes texts. "flood" sends until the connection lags, "move" detaches to `other`.
#[derive(Default)]
struct Echo {
    other: Option<MailboxSender<TestEvent>>,
}

enum TestEvent {
    Counters(Sender<IoCounters>),
    Adopt(Detached),
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
                protocol: None,
                deflate: false,
            };
        }
        let body = request.body.to_vec();
        RequestOutcome::Respond(Response::text(200, body))
    }

    fn on_message(&mut self, io: &mut ServerIo, conn: ConnId, text: &str) {
        io.set_tag(conn, 1);
        match text {
            "flood" => while io.try_send(conn, frame(&[b'x'; 50_000])) == TrySend::Queued {},
            "move" => io.detach(conn),
            "bye" => io.close(conn, None, false),
            text => assert!(io.send(conn, frame(text.as_bytes()))),
        }
    }

    fn on_closed(&mut self, _io: &mut ServerIo, _conn: ConnId, _tag: u64, _reason: CloseReason) {}

    fn on_timer(&mut self, _io: &mut ServerIo, _token: u64) {}

    fn on_writable(&mut self, io: &mut ServerIo, conn: ConnId, _tag: u64) {
        assert!(io.send(conn, frame(b"writable")));
    }

    fn on_detached(&mut self, _io: &mut ServerIo, connection: Detached) {
        let other = self.other.as_ref().expect("another server");
        assert!(
            other
                .post(TestEvent::Adopt(connection), TEST_TIMEOUT)
                .is_ok()
        );
    }

    fn on_posted(&mut self, io: &mut ServerIo, event: TestEvent) {
        match event {
            TestEvent::Counters(sender) => sender.send(io.counters()).expect("a receiver"),
            TestEvent::Adopt(detached) => {
                let conn = io.adopt(detached).expect("an open connection");
                io.set_tag(conn, 1);
                assert!(io.send(conn, frame(b"moved")));
            }
            TestEvent::Stop => io.stop(),
        }
    }

    fn on_iteration_end(&mut self, _io: &mut ServerIo) {}
}

fn frame(text: &[u8]) -> bytes::Bytes {
    let mut frame = Vec::new();
    push_server_text(&mut frame, text);
    frame.into()
}

fn identity(pair: (&[u8], &[u8])) -> TlsIdentity {
    TlsIdentity::from_pem(pair.0, pair.1, None).expect("a matching pair")
}

/// A server with two addresses, with and without TLS.
struct Server {
    tls: SocketAddr,
    plain: SocketAddr,
    acceptor: Arc<TlsAcceptor>,
    mailbox: MailboxSender<TestEvent>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start() -> Self {
        Self::start_with(TEST_TIMEOUT, None)
    }

    fn start_with(handshake_timeout: Duration, other: Option<&Self>) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let [tls_socket, plain_socket] =
            [(); 2].map(|()| listen_shared(any, 1).expect("a port").remove(0));
        let address = |socket: &TcpListener| socket.local_addr().expect("an address");
        let (tls, plain) = (address(&tls_socket), address(&plain_socket));
        let acceptor = Arc::new(TlsAcceptor::new(identity(SERVER), handshake_timeout));
        let listeners = vec![
            Listener {
                socket: tls_socket,
                tls: Some(Arc::clone(&acceptor)),
            },
            Listener {
                socket: plain_socket,
                tls: None,
            },
        ];
        let options = EventLoopOptions {
            listeners,
            limits: ConnectionLimits::default(),
            mailbox_capacity: 16,
            heartbeat: Default::default(),
        };
        let echo = Echo {
            other: other.map(|other| other.mailbox.clone()),
        };
        let (event_loop, mailbox) = EventLoop::new(options, echo).expect("a loop");
        let thread = std::thread::spawn(move || event_loop.run().expect("clean shutdown"));
        Self {
            tls,
            plain,
            acceptor,
            mailbox,
            thread: Some(thread),
        }
    }

    fn socket(&self) -> TcpStream {
        let stream = TcpStream::connect(self.tls).expect("a connection");
        stream
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("a timeout");
        stream.set_nodelay(true).expect("an option");
        stream
    }

    fn connect(&self, config: &Arc<ClientConfig>) -> Tls {
        StreamOwned::new(session(config), self.socket())
    }

    /// Waits until the counters meet `condition`.
    fn await_counters(&self, condition: impl Fn(&IoCounters) -> bool) -> IoCounters {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let (sender, receiver) = channel();
            let posted = self.mailbox.post(TestEvent::Counters(sender), TEST_TIMEOUT);
            assert!(posted.is_ok(), "posted");
            let counters = receiver.recv_timeout(TEST_TIMEOUT).expect("counters");
            if condition(&counters) {
                return counters;
            }
            assert!(Instant::now() < deadline, "{counters:?}");
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

fn config(versions: &[&'static rustls::SupportedProtocolVersion]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(include_bytes!("tls/ca.pem"));
    roots
        .add(authority.expect("PEM"))
        .expect("a root certificate");
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let builder = ClientConfig::builder_with_provider(provider.into());
    let builder = builder.with_protocol_versions(versions).expect("versions");
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

fn any_version() -> Arc<ClientConfig> {
    config(rustls::ALL_VERSIONS)
}

fn session(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("localhost").expect("a name");
    ClientConnection::new(Arc::clone(config), name).expect("a session")
}

/// A WebSocket over a byte stream.
struct WebSocket<S> {
    stream: S,
    reader: WebSocketFrameReader,
    input: Vec<u8>,
}

impl<S: Read + Write> WebSocket<S> {
    fn open(mut stream: S) -> Self {
        let request = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Version: 13\r\n\
                                      Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("a request");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a response");
            head.push(byte[0]);
        }
        assert!(
            head.starts_with(b"HTTP/1.1 101"),
            "{}",
            String::from_utf8_lossy(&head)
        );
        Self {
            stream,
            reader: WebSocketFrameReader::new(FrameRole::Client, 1 << 20),
            input: Vec::new(),
        }
    }

    fn send(&mut self, text: &str) {
        let mut frame = Vec::new();
        push_client_frame(&mut frame, Opcode::Text, [1, 2, 3, 4], text.as_bytes());
        self.stream.write_all(&frame).expect("sent");
    }

    /// Returns the next text, `None` at the end.
    fn next(&mut self) -> Option<String> {
        loop {
            while !self.input.is_empty() {
                let (used, event) = self.reader.read(&self.input).expect("frames");
                let text = match event {
                    Some(FrameEvent::Text(text)) => {
                        Some(String::from_utf8_lossy(text).into_owned())
                    }
                    Some(FrameEvent::Close { .. }) => return None,
                    _ => None,
                };
                self.input.drain(..used);
                if text.is_some() {
                    return text;
                }
            }
            let mut buffer = vec![0; 64 * 1024];
            match self.stream.read(&mut buffer).expect("bytes") {
                0 => return None,
                count => self.input.extend_from_slice(&buffer[..count]),
            }
        }
    }

    fn expect(&mut self, text: &str) {
        assert_eq!(self.next().as_deref(), Some(text));
    }
}

#[test]
fn both_tls_versions_carry_websockets() {
    let server = Server::start();
    for version in rustls::ALL_VERSIONS {
        let mut socket = WebSocket::open(server.connect(&config(&[version])));
        for size in [1, 100, 20_000] {
            let text = "a".repeat(size);
            socket.send(&text);
            socket.expect(&text);
        }
        let negotiated = socket.stream.conn.protocol_version();
        assert_eq!(negotiated, Some(version.version));
        socket.send("bye");
        assert_eq!(socket.next(), None);
        // TLS close_notify follows the close frame; without it, reading to the end would fail.
        let mut rest = Vec::new();
        socket.stream.read_to_end(&mut rest).expect("close_notify");
    }
    let counters = server.await_counters(|counters| counters.tls_handshakes == 2);
    assert_eq!((counters.tls_failures, counters.accepted), (0, 2));
}

#[test]
fn plain_listener_works_next_to_tls() {
    let server = Server::start();
    let stream = TcpStream::connect(server.plain).expect("a connection");
    let mut plain = WebSocket::open(stream);
    let mut tls = WebSocket::open(server.connect(&any_version()));
    plain.send("one");
    tls.send("two");
    plain.expect("one");
    tls.expect("two");
    let counters = server.await_counters(|counters| counters.accepted == 2);
    assert_eq!(counters.tls_handshakes, 1);
}

#[test]
fn request_arriving_bytewise_is_handled() {
    let server = Server::start();
    let mut tls = session(&any_version());
    let mut socket = server.socket();
    let request =
        b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
    tls.writer().write_all(request).expect("plain text");
    let mut response = Vec::new();
    loop {
        let mut out = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut out).expect("memory");
        }
        for byte in out {
            socket.write_all(&[byte]).expect("a byte");
        }
        if tls.read_tls(&mut socket).expect("records") == 0 {
            break;
        }
        tls.process_new_packets().expect("valid records");
        match tls.reader().read_to_end(&mut response) {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    let response = String::from_utf8(response).expect("text");
    assert!(
        response.starts_with("HTTP/1.1 200") && response.ends_with("hello"),
        "{response}"
    );
}

#[test]
fn lagging_client_catches_up() {
    let server = Server::start();
    let mut socket = WebSocket::open(server.connect(&any_version()));
    socket.send("flood");
    server.await_counters(|counters| counters.blocked > 0);
    let mut floods = 0;
    loop {
        match socket.next().as_deref() {
            Some("writable") => break,
            Some(text) => assert!(text.bytes().all(|byte| byte == b'x') && text.len() == 50_000),
            None => panic!("ended after {floods}"),
        }
        floods += 1;
    }
    assert!(floods > 1, "{floods}");
    socket.send("after flood");
    socket.expect("after flood");
}

#[test]
fn updates_of_iteration_share_records() {
    let server = Server::start();
    let mut socket = WebSocket::open(server.connect(&any_version()));
    let before = server.await_counters(|_| true);
    let mut frames = Vec::new();
    for number in 0..500 {
        let text = number.to_string();
        push_client_frame(&mut frames, Opcode::Text, [1, 2, 3, 4], text.as_bytes());
    }
    socket.stream.write_all(&frames).expect("messages");
    for number in 0..500 {
        socket.expect(&number.to_string());
    }
    let after = server.await_counters(|_| true);
    let (writes, bytes) = (
        after.writes - before.writes,
        after.bytes_out - before.bytes_out,
    );
    assert!(writes < 20, "{writes} writes");
    assert!(bytes < 500 * 5 + 20 * 30, "{bytes} bytes");
}

#[test]
fn incomplete_handshakes_time_out() {
    let server = Server::start_with(Duration::from_millis(100), None);
    let mut silent = server.socket();
    let mut half = server.socket();
    half.write_all(&[22, 3, 1, 2, 0, 1])
        .expect("start of ClientHello");
    for socket in [&mut silent, &mut half] {
        let mut byte = [0];
        let ended = socket.read(&mut byte);
        assert!(
            matches!(ended, Ok(0)) || ended.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset)
        );
    }
    server.await_counters(|counters| counters.tls_failures == 2);
    // The handshake timeout does not apply to requests, which may arrive later.
    let mut socket = server.connect(&any_version());
    while socket.conn.is_handshaking() {
        socket
            .conn
            .complete_io(&mut socket.sock)
            .expect("a handshake");
    }
    let done = Instant::now();
    while done.elapsed() < Duration::from_millis(300) {
        server.await_counters(|_| true);
    }
    let mut socket = WebSocket::open(socket);
    socket.send("in time");
    socket.expect("in time");
}

#[test]
fn plain_text_on_tls_port_gets_alert() {
    let server = Server::start();
    let mut socket = server.socket();
    socket
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("a request");
    let mut response = Vec::new();
    socket.read_to_end(&mut response).unwrap_or_default();
    assert_eq!(response.first(), Some(&21), "not an alert: {response:?}");
    server.await_counters(|counters| counters.tls_failures == 1);
}

#[test]
fn damaged_records_close_only_their_connection() {
    let server = Server::start();
    let mut seed = 1_u32;
    for round in 0..50_u32 {
        let mut stream = server.connect(&any_version());
        while stream.conn.is_handshaking() {
            stream
                .conn
                .complete_io(&mut stream.sock)
                .expect("a handshake");
        }
        stream
            .conn
            .writer()
            .write_all(&[b'x'; 200])
            .expect("plain text");
        let mut records = Vec::new();
        stream.conn.write_tls(&mut records).expect("memory");
        for _ in 0..=round % 4 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = seed as usize % records.len();
            records[at] ^= 1 << (seed >> 29);
        }
        // The server may have closed already; the test only requires that it keeps running.
        let _ = stream.sock.write_all(&records);
        let _ = stream.sock.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.sock.read_to_end(&mut rest);
    }
    let mut socket = WebSocket::open(server.connect(&any_version()));
    socket.send("alive");
    socket.expect("alive");
}

#[test]
fn detached_tls_connection_keeps_its_session() {
    let there = Server::start();
    let here = Server::start_with(TEST_TIMEOUT, Some(&there));
    let mut socket = WebSocket::open(here.connect(&any_version()));
    let mut frames = Vec::new();
    for text in ["move", "after"] {
        push_client_frame(&mut frames, Opcode::Text, [1, 2, 3, 4], text.as_bytes());
    }
    socket.stream.write_all(&frames).expect("messages");
    socket.expect("moved");
    socket.expect("after");
    socket.send("there");
    socket.expect("there");
}

#[test]
fn replaced_certificate_applies_to_new_connections() {
    let server = Server::start();
    let config = any_version();
    let mut old = WebSocket::open(server.connect(&config));
    let presented = |socket: &WebSocket<Tls>| {
        let chain = socket
            .stream
            .conn
            .peer_certificates()
            .expect("a certificate");
        chain[0].clone().into_owned()
    };
    server.acceptor.replace(identity(SECOND));
    let new = WebSocket::open(server.connect(&any_version()));
    let of = |pair: (&[u8], &[u8])| CertificateDer::from_pem_slice(pair.0).expect("PEM");
    assert_eq!((presented(&old), presented(&new)), (of(SERVER), of(SECOND)));
    old.send("unchanged");
    old.expect("unchanged");
}

#[test]
fn sessions_are_resumed() {
    let server = Server::start();
    for version in rustls::ALL_VERSIONS {
        let config = config(&[version]);
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let mut socket = WebSocket::open(server.connect(&config));
            socket.send("hello");
            socket.expect("hello");
            kinds.push(socket.stream.conn.handshake_kind());
        }
        let expected = [Some(HandshakeKind::Full), Some(HandshakeKind::Resumed)];
        assert_eq!(kinds, expected, "{:?}", version.version);
        assert_ne!(version.version, ProtocolVersion::TLSv1_1);
    }
}

/// Client that sends one request and stores what it receives until the end.
#[derive(Default)]
struct Caller {
    received: Vec<u8>,
    closed: Option<client::DisconnectReason>,
}

impl client::ClientHandler for Caller {
    fn on_connected(&mut self, io: &mut client::ClientIo, conn: usize) {
        io.send(
            conn,
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nConnection: close\r\n\r\nword",
        );
    }

    fn on_data(&mut self, _io: &mut client::ClientIo, _conn: usize, bytes: &[u8], _at: Instant) {
        self.received.extend_from_slice(bytes);
    }

    fn on_closed(
        &mut self,
        _io: &mut client::ClientIo,
        _conn: usize,
        reason: client::DisconnectReason,
    ) {
        self.closed = Some(reason);
    }

    fn on_tick(&mut self, _io: &mut client::ClientIo, _now: Instant) -> ControlFlow<()> {
        match self.closed {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }
}

fn call(server: &Server, trust: ClientTls, authority: &str) -> Caller {
    let name = ClientTls::server_name(authority).expect("a name");
    let tls = Some(client::ServerTls { trust, name });
    let options = client::ClientOptions::new(vec![(server.tls, tls)], 1);
    let mut caller = Caller::default();
    client::run(options, &mut caller).expect("clean end");
    caller
}

#[test]
fn outgoing_connections_verify_server_certificate() {
    let server = Server::start();
    let authority: &[u8] = include_bytes!("tls/ca.pem");
    let trusted = || ClientTls::with_roots_pem(authority).expect("a root certificate");
    for trust in [
        trusted(),
        ClientTls::insecure().expect("a TLS configuration"),
    ] {
        let caller = call(&server, trust, "localhost:1");
        assert_eq!(caller.closed, Some(client::DisconnectReason::ByPeer));
        assert!(caller.received.ends_with(b"word"), "{:?}", caller.received);
    }
    let rejected = Some(client::DisconnectReason::Tls(
        "the server's certificate is not trusted",
    ));
    assert_eq!(call(&server, trusted(), "example.com").closed, rejected);
    let other = ClientTls::with_roots_pem(SECOND.0).expect("a certificate");
    assert_eq!(call(&server, other, "localhost").closed, rejected);
    server.await_counters(|counters| counters.tls_failures == 2);
}

/// Admin pages with one page that echoes its query.
struct AdminEcho;

impl AdminPages for AdminEcho {
    fn readiness(&self) -> (bool, String) {
        (true, String::new())
    }

    fn page(&mut self, path: &str, query: &str) -> Option<Page> {
        (path == "/echo").then(|| Page::Ready(Response::text(200, query)))
    }
}

impl DashboardSource for AdminEcho {
    fn read(&mut self, _values: &mut Vec<f64>) {}

    fn facts(&self) -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::new()
    }
}

/// Requests the page and returns the response until the end of the connection.
fn request_admin_page(stream: &mut (impl Read + Write)) -> String {
    let request = b"GET /echo?a=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).expect("sent");
    let mut response = Vec::new();
    // A server that expects TLS responds to plain text with an alert or a reset.
    let _ = stream.read_to_end(&mut response);
    String::from_utf8_lossy(&response).into_owned()
}

#[test]
fn admin_port_serves_pages_over_tls_only() {
    let watchdog = Watchdog::start(Vec::new(), WatchdogConfig::default()).expect("a thread");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let config = AdminConfig {
        listen: listener.local_addr().expect("an address"),
        token: None,
        hosts: Vec::new(),
        sessions_token: None,
        tls: Some(Arc::new(TlsAcceptor::new(identity(SERVER), TEST_TIMEOUT))),
        files: None,
    };
    let layout = DashboardLayout {
        script: "",
        columns: Vec::new(),
        thread_groups: Vec::new(),
        thread_group: |name| name,
    };
    let options = AdminOptions {
        listener,
        config,
        watchdog_status: watchdog.watchdog_status(),
        registry: Registry::default(),
        dashboard: Dashboard::new(layout, AdminEcho),
        certificates: Vec::new(),
        draining: Arc::default(),
    };
    let server = AdminServer::start(options, AdminEcho).expect("an admin port");
    let connect = || {
        let socket = TcpStream::connect(server.address()).expect("a connection");
        socket
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("a timeout");
        socket
    };
    let mut encrypted = StreamOwned::new(session(&any_version()), connect());
    let response = request_admin_page(&mut encrypted);
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.ends_with("\r\n\r\na=1"), "{response}");
    assert!(!request_admin_page(&mut connect()).contains("HTTP/1.1"));
    let deadline = Instant::now() + TEST_TIMEOUT;
    assert_eq!(join_until(vec![server.stop()], deadline), [""; 0]);
}
