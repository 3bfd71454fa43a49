//! The connection over sockets: hostile adapters, TLS, both directions, reconnection.

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use support::{TEST_TIMEOUT, TestServer, items, user};
use weir_adapter::{AdapterFailure, AdapterPort as _, WhileDown};
use weir_identity::ari::{AdapterNotification, AdapterReply, NotificationResult};
use weir_net::tls::ClientTls;

/// An adapter that sends and receives lines.
struct Peer {
    socket: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Peer {
    fn connect(server: &TestServer) -> Self {
        Self::on(TcpStream::connect(server.address()).unwrap())
    }

    fn on(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let lines = BufReader::new(socket.try_clone().unwrap());
        Self { socket, lines }
    }

    fn send(&mut self, line: &str) {
        self.socket
            .write_all(format!("{line}\r\n").as_bytes())
            .unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Completes the handshake.
    fn become_ready(&mut self) {
        self.send("1|RAC|S|enableClosePacket|S|true");
        assert!(self.line().starts_with("w0|MPI|"));
        self.send("w0|MPI|S|ARI.version|S|1.9.1");
    }

    /// Waits until the gateway has closed the connection.
    fn wait_for_end(&mut self) {
        let mut rest = Vec::new();
        match self.lines.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
}

const LISTEN: &str = "listen = \"127.0.0.1:0\"\n";

#[test]
fn request_completes_over_a_socket() {
    let server = TestServer::start(LISTEN);
    let mut peer = Peer::connect(&server);
    peer.become_ready();
    server.wait_until_connected(true);
    assert!(server.handle.request(items("a"), 3, WhileDown::Wait));
    let line = peer.line();
    let id = line.split('|').next().unwrap();
    peer.send(&format!("{id}|GIS|S|x"));
    let (token, outcome) = server.outcomes.recv_timeout(TEST_TIMEOUT).unwrap();
    assert_eq!(
        (token, outcome),
        (3, Ok(AdapterReply::Names(vec!["x".to_owned()])))
    );
}

#[test]
fn second_adapter_is_rejected() {
    let server = TestServer::start(LISTEN);
    let mut first = Peer::connect(&server);
    first.become_ready();
    server.wait_until_connected(true);
    let mut second = Peer::connect(&server);
    second.wait_for_end();
    assert!(server.handle.metrics().is_connected());
    drop(first);
    server.wait_until_connected(false);
    Peer::connect(&server).become_ready();
    server.wait("second adapter", |handle| {
        handle.metrics().generation() == 2
    });
}

#[test]
fn silent_connection_without_credentials_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "s3cret").unwrap();
    let config = format!(
        "{LISTEN}users = [{{ name = \"gw\", password_file = \"{}\" }}]",
        secret.display()
    );
    let server = TestServer::start(&config);
    let begin = Instant::now();
    Peer::connect(&server).wait_for_end();
    assert!(begin.elapsed() >= Duration::from_secs(5));
    // It has to wait before it may try again.
    let mut early = Peer::connect(&server);
    early.wait_for_end();
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let mut peer = Peer::connect(&server);
        // The connection may be closed before the line is written.
        let _ = peer
            .socket
            .write_all(b"1|RAC|S|user|S|gw|S|password|S|s3cret\r\n");
        let mut line = String::new();
        if peer.lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            assert!(line.starts_with("w0|MPI|"), "{line}");
            return;
        }
        assert!(Instant::now() < deadline);
    }
}

#[test]
fn endless_line_is_closed() {
    let server = TestServer::start(LISTEN);
    let mut peer = Peer::connect(&server);
    peer.become_ready();
    server.wait_until_connected(true);
    let part = vec![b'x'; 64 * 1024];
    let mut sent = 0;
    while peer.socket.write_all(&part).is_ok() {
        sent += part.len();
        assert!(sent < 64 << 20, "an endless line is read");
    }
    server.wait_until_connected(false);
}

#[test]
fn flood_of_notifications_waits_for_answers() {
    let server = TestServer::start(LISTEN);
    let mut peer = Peer::connect(&server);
    peer.become_ready();
    server.wait_until_connected(true);
    let mut writer = peer.socket.try_clone().unwrap();
    let flood = std::thread::spawn(move || {
        let lines = "7|FST|S|unknown|V\r\n".repeat(1_000);
        for _ in 0..20 {
            writer.write_all(lines.as_bytes()).unwrap();
        }
    });
    for _ in 0..20_000 {
        let (ticket, notice) = server.notice();
        assert!(matches!(
            notice,
            AdapterNotification::ForceSessionEnd { .. }
        ));
        let unknown = NotificationResult::Failed("unknown session".to_owned());
        server.handle.respond(ticket, unknown);
    }
    flood.join().unwrap();
    for _ in 0..20_000 {
        assert_eq!(peer.line(), "7|FST|E|unknown%20session");
    }
}

#[test]
fn gateway_connects_to_a_waiting_adapter() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = TestServer::start(&format!("connect = \"{address}\""));
    assert!(server.server.listen_address().is_none());
    for generation in 1..=2 {
        let mut peer = Peer::on(listener.accept().unwrap().0);
        peer.become_ready();
        server.wait("adapter", |handle| {
            handle.metrics().generation() == generation
        });
        assert!(server.handle.metrics().is_connected());
        drop(peer);
        server.wait_until_connected(false);
    }
    let mut peer = Peer::on(listener.accept().unwrap().0);
    peer.become_ready();
    server.wait_until_connected(true);
    assert!(server.server.shut_down(Duration::from_secs(1)).is_empty());
    assert_eq!(peer.line(), "0|CLOSE|S|reason|S|shutting%20down");
    peer.wait_for_end();
}

#[test]
fn closed_port_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = TestServer::start(&format!("connect = \"{address}\""));
    assert_eq!(server.call(user("anna")), Err(AdapterFailure::Timeout));
    let listener = TcpListener::bind(address).unwrap();
    Peer::on(listener.accept().unwrap().0).become_ready();
    server.wait("adapter", |handle| handle.metrics().generation() == 1);
}

#[test]
fn adapter_uses_tls() {
    let certificates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weir-net/tests/tls");
    let read = |name: &str| std::fs::read(certificates.join(name)).unwrap();
    let (ca, chain, key) = (read("ca.pem"), read("second.pem"), read("second.key"));
    let config = format!(
        "{LISTEN}certificate = \"server.pem\"\nkey = \"server.key\"\nclient_ca = \"ca.pem\""
    );
    let server = TestServer::start(&config);
    assert!(server.server.certificates().is_some());
    let name = || ClientTls::server_name("localhost:1").unwrap();

    // Without a certificate the handshake fails.
    let tls = ClientTls::without_alpn(Some(&ca), None).unwrap();
    let mut anonymous = tls.begin(name()).unwrap();
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let mut received = [0; 100];
    let read = rustls::Stream::new(&mut anonymous, &mut socket).read(&mut received);
    assert!(!matches!(read, Ok(1..)), "the gateway sent a line");
    drop(socket);

    let tls = ClientTls::without_alpn(Some(&ca), Some((&chain, &key))).unwrap();
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let mut session = tls.begin(name()).unwrap();
        let mut socket = TcpStream::connect(server.address()).unwrap();
        socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let mut stream = rustls::Stream::new(&mut session, &mut socket);
        let hello = b"1|RAC|S|enableClosePacket|S|true\r\n";
        // The gateway may still be closing the first connection.
        if stream.write_all(hello).is_ok() {
            let mut lines = BufReader::new(stream);
            let mut line = String::new();
            if lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                assert!(line.starts_with("w0|MPI|"), "{line}");
                let reply = b"w0|MPI|S|ARI.version|S|1.9.1\r\n";
                lines.get_mut().write_all(reply).unwrap();
                server.wait_until_connected(true);
                return;
            }
        }
        assert!(Instant::now() < deadline);
    }
}
