//! Both ends of TLS connected with each other.

use std::net::{TcpListener, TcpStream as StdStream};
use std::time::Duration;

use super::*;
use crate::tls::TlsIdentity;

/// One end with its queue and the bytes it has received.
struct TestEnd {
    stream: SocketStream,
    queue: SendQueue,
    received: Vec<u8>,
    has_ended: bool,
}

impl TestEnd {
    fn new(stream: SocketStream) -> Self {
        Self {
            stream,
            queue: SendQueue::default(),
            received: Vec::new(),
            has_ended: false,
        }
    }

    fn send(&mut self, bytes: &[u8], buffers: &mut TlsBuffers) {
        let slices: Vec<_> = bytes.chunks(1000).map(IoSlice::new).collect();
        let sent = self.stream.send(&slices, &mut self.queue, buffers);
        let sent = sent.expect("an open connection");
        assert_eq!(sent.done, self.queue.is_empty());
    }

    /// Writes and reads once, at most `portion` bytes.
    fn step(&mut self, portion: usize, buffers: &mut TlsBuffers) {
        let flushed = self.stream.flush(&mut self.queue, buffers, false);
        flushed.expect("an open connection");
        let mut out = vec![0; portion];
        let input = self.stream.read(&mut out, buffers).expect("valid input");
        self.received.extend_from_slice(&out[..input.plain]);
        self.has_ended |= input.ended;
    }
}

fn sockets() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = StdStream::connect(listener.local_addr().expect("an address"));
    let (far, _) = listener.accept().expect("a connection");
    let both = [near.expect("a connection"), far].map(|socket| {
        socket.set_nonblocking(true).expect("an option");
        TcpStream::from_std(socket)
    });
    both.into()
}

fn tls_pair() -> (TestEnd, TestEnd) {
    let identity = TlsIdentity::from_pem(
        include_bytes!("../../tests/tls/server.pem"),
        include_bytes!("../../tests/tls/server.key"),
        None,
    );
    let acceptor = TlsAcceptor::new(identity.expect("a pair"), Duration::MAX);
    let trust = ClientTls::insecure().expect("a configuration");
    let name = ClientTls::server_name("localhost").expect("a name");
    let (near, far) = sockets();
    let client = SocketStream::connecting(near, Some((&trust, name))).expect("a session");
    let server = SocketStream::accepted(far, Some(&acceptor)).expect("a session");
    (TestEnd::new(client), TestEnd::new(server))
}

#[test]
fn tls_carries_bytes_in_order_in_any_portion() {
    for portion in [1_000, 17_000, 64 * 1024, 256 * 1024] {
        let (mut client, mut server) = tls_pair();
        let mut buffers = TlsBuffers::default();
        let text: Vec<u8> = (0..2_000_000_u32).map(|i| (i % 251) as u8).collect();
        // Sent before the handshake, so the queues store it.
        client.send(&text, &mut buffers);
        server.send(&text, &mut buffers);
        assert_eq!(client.queue.bytes(), text.len());
        while client.received.len() < text.len() || server.received.len() < text.len() {
            client.step(portion, &mut buffers);
            server.step(portion, &mut buffers);
            assert!(!client.has_ended && !server.has_ended);
        }
        assert!(client.received == text && server.received == text);
        assert!(!client.stream.is_handshaking() && !server.stream.is_handshaking());
        // The end is announced by close_notify, and both directions end on their own.
        client.stream.finish(&mut buffers);
        while !server.has_ended {
            server.step(portion, &mut buffers);
        }
        server.send(b"still open", &mut buffers);
        server.stream.finish(&mut buffers);
        while !client.has_ended {
            client.step(portion, &mut buffers);
        }
        assert!(client.received.ends_with(b"still open"));
    }
}

#[test]
fn plain_socket_stores_only_unsent_bytes() {
    let (near, far) = sockets();
    let (mut near, mut far) = (
        TestEnd::new(SocketStream::Plain(near)),
        TestEnd::new(SocketStream::Plain(far)),
    );
    let mut buffers = TlsBuffers::default();
    let text: Vec<u8> = (0..16_000_000_u32).map(|i| (i % 251) as u8).collect();
    near.send(b"first", &mut buffers);
    assert!(near.queue.is_empty());
    near.send(b"", &mut buffers);
    near.send(&text, &mut buffers);
    assert!(!near.queue.is_empty() && near.queue.bytes() < text.len());
    while far.received.len() < 5 + text.len() {
        near.step(1, &mut buffers);
        far.step(256 * 1024, &mut buffers);
    }
    assert!(far.received[5..] == text);
}
