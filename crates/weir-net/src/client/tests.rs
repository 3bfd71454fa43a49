//! Tests of the event loop against small servers on threads.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use super::*;

/// Handler that sends a line on connect, stores received bytes, and ends after `expected`
/// connections.
#[derive(Default)]
struct Recorder {
    send: Vec<u8>,
    sends: usize,
    expected: usize,
    received: Vec<Vec<u8>>,
    closed: Vec<(usize, DisconnectReason)>,
    close_after: Option<usize>,
    closed_by_handler: usize,
    busy: LoopUtilization,
}

impl Recorder {
    fn new(connections: usize, send: &[u8]) -> Self {
        Self {
            send: send.to_vec(),
            sends: 1,
            expected: connections,
            received: vec![Vec::new(); connections],
            ..Self::default()
        }
    }
}

impl ClientHandler for Recorder {
    fn on_connected(&mut self, io: &mut ClientIo, conn: usize) {
        for _ in 0..self.sends {
            io.send(conn, &self.send);
        }
    }

    fn on_data(&mut self, io: &mut ClientIo, conn: usize, bytes: &[u8], _read_at: Instant) {
        self.received[conn].extend_from_slice(bytes);
        if self
            .close_after
            .is_some_and(|limit| self.received[conn].len() >= limit)
        {
            io.close(conn);
            self.closed_by_handler += 1;
        }
    }

    fn on_closed(&mut self, _io: &mut ClientIo, conn: usize, reason: DisconnectReason) {
        self.closed.push((conn, reason));
    }

    fn on_tick(&mut self, io: &mut ClientIo, _now: Instant) -> ControlFlow<()> {
        self.busy = io.utilization();
        if self.closed.len() + self.closed_by_handler >= self.expected {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// Serves `connections` connections, one thread each.
fn server(connections: usize, serve: fn(TcpStream)) -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let threads: Vec<_> = (0..connections)
            .map(|_| {
                let (stream, _) = listener.accept().unwrap();
                thread::spawn(move || serve(stream))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
    (address, thread)
}

fn run(mut options: ClientOptions, recorder: &mut Recorder) {
    options.tick = Duration::from_millis(1);
    super::run(options, recorder).unwrap();
}

#[test]
fn many_connections_echo() {
    let (address, thread) = server(40, |mut stream| {
        let mut line = [0; 5];
        stream.read_exact(&mut line).unwrap();
        stream.write_all(&line).unwrap();
    });
    let mut recorder = Recorder::new(40, b"hello");
    run(ClientOptions::new(vec![(address, None)], 40), &mut recorder);
    thread.join().unwrap();
    assert!(recorder.received.iter().all(|bytes| bytes == b"hello"));
    assert!(
        recorder
            .closed
            .iter()
            .all(|(_, reason)| *reason == DisconnectReason::ByPeer)
    );
    assert!(recorder.busy.busy_ns <= recorder.busy.total_ns);
}

#[test]
fn refused_connections_are_reported() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let mut recorder = Recorder::new(3, b"");
    run(ClientOptions::new(vec![(address, None)], 3), &mut recorder);
    let refused = DisconnectReason::ConnectFailed(io::ErrorKind::ConnectionRefused);
    assert!(
        recorder.closed.iter().all(|(_, reason)| *reason == refused),
        "{:?}",
        recorder.closed
    );
}

#[test]
fn reset_is_reported() {
    let (address, thread) = server(1, |stream| {
        let socket = socket2::Socket::from(stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    });
    let mut recorder = Recorder::new(1, b"");
    run(ClientOptions::new(vec![(address, None)], 1), &mut recorder);
    thread.join().unwrap();
    let reset = DisconnectReason::Failed(io::ErrorKind::ConnectionReset);
    let failed = DisconnectReason::ConnectFailed(io::ErrorKind::ConnectionReset);
    let (_, reason) = recorder.closed[0];
    assert!(reason == reset || reason == failed, "{reason:?}");
}

#[test]
fn large_writes_are_sent_in_order() {
    let (address, thread) = server(1, |mut stream| {
        let mut all = Vec::new();
        let mut buffer = [0; 1000];
        while all.len() < 8_000_000 {
            let bytes = stream.read(&mut buffer).unwrap();
            all.extend_from_slice(&buffer[..bytes]);
        }
        let in_order = all
            .chunks(1000)
            .all(|chunk| chunk.iter().copied().eq((0..1000).map(byte)));
        stream
            .write_all(if in_order { b"yes" } else { b"no!" })
            .unwrap();
    });
    let mut recorder = Recorder::new(1, &(0..1000).map(byte).collect::<Vec<_>>());
    recorder.sends = 8000;
    let mut options = ClientOptions::new(vec![(address, None)], 1);
    options.write_queue_bytes_max = 8_000_000;
    run(options, &mut recorder);
    thread.join().unwrap();
    assert_eq!(recorder.received[0], b"yes");
}

fn byte(position: usize) -> u8 {
    (position % 251) as u8
}

#[test]
fn full_write_queue_ends_connection() {
    // The kernel connects, but the server neither accepts nor reads.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut recorder = Recorder::new(1, &[0; 1 << 20]);
    recorder.sends = 64;
    let mut options = ClientOptions::new(vec![(listener.local_addr().unwrap(), None)], 1);
    options.write_queue_bytes_max = 1 << 20;
    run(options, &mut recorder);
    assert_eq!(recorder.closed, [(0, DisconnectReason::WriteQueueFull)]);
}

#[test]
fn handler_can_close_during_read() {
    let (address, thread) = server(1, |mut stream| {
        let _ = stream.write_all(&[1; 300_000]);
        let _ = stream.read(&mut [0; 1]);
    });
    let mut recorder = Recorder::new(1, b"");
    recorder.close_after = Some(1);
    run(ClientOptions::new(vec![(address, None)], 1), &mut recorder);
    thread.join().unwrap();
    assert_eq!(recorder.closed_by_handler, 1);
    assert!(recorder.closed.is_empty());
}
