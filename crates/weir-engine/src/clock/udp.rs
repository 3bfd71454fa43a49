//! Clock exchanges over UDP: a thread that responds, and a thread that sends eight requests per
//! second.
//!
//! Packets have 64 bytes in both directions, so that both directions take equally long and a
//! response is never larger than its request.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{ClockHistory, Exchange};

/// Secret of a measurement; packets with another key are ignored.
pub type ClockKey = [u8; 16];

/// Thread that responds to clock exchanges; ends when dropped.
#[derive(Debug)]
pub struct ClockEcho {
    address: SocketAddr,
    _thread: StoppedThread,
}

/// Thread that measures the clock of a peer; ends when dropped.
#[derive(Debug)]
pub struct ClockMeter {
    history: Arc<Mutex<ClockHistory>>,
    _thread: StoppedThread,
}

impl ClockEcho {
    /// Responds at `listen` with the time that `now` returns, in Unix nanoseconds.
    ///
    /// # Errors
    /// The error of the socket, if it cannot be bound.
    pub fn start(
        listen: SocketAddr,
        key: ClockKey,
        now: impl Fn() -> u64 + Send + 'static,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind(listen)?;
        socket.set_read_timeout(Some(POLL_INTERVAL))?;
        let address = socket.local_addr()?;
        let thread = StoppedThread::start(move |stop| respond(&socket, &key, &now, stop));
        Ok(Self {
            address,
            _thread: thread,
        })
    }

    /// Returns the address of the socket.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl ClockMeter {
    /// Measures the clock of `peer` against the time that `now` returns until dropped.
    ///
    /// # Errors
    /// The error of the socket.
    pub fn start(
        peer: SocketAddr,
        key: ClockKey,
        now: impl Fn() -> u64 + Send + 'static,
    ) -> io::Result<Self> {
        let any = match peer {
            SocketAddr::V4(_) => "0.0.0.0:0",
            SocketAddr::V6(_) => "[::]:0",
        };
        let socket = UdpSocket::bind(any)?;
        let history = Arc::new(Mutex::new(ClockHistory::default()));
        let sink = Arc::clone(&history);
        let thread = StoppedThread::start(move |stop| {
            send_requests((&socket, peer), &key, &now, stop, &sink)
        });
        Ok(Self {
            history,
            _thread: thread,
        })
    }

    /// Returns the exchanges so far.
    pub fn history(&self) -> ClockHistory {
        lock(&self.history).clone()
    }
}

fn lock(history: &Mutex<ClockHistory>) -> MutexGuard<'_, ClockHistory> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

fn respond(socket: &UdpSocket, key: &ClockKey, now: &impl Fn() -> u64, stop: &AtomicBool) {
    // Longer packets are cut, and then not of this length.
    let mut bytes = [0; PACKET_BYTES + 1];
    while !stop.load(Ordering::Relaxed) {
        let Ok((PACKET_BYTES, peer)) = socket.recv_from(&mut bytes) else {
            continue;
        };
        let received_ns = now();
        let Some(mut packet) = Packet::parse(&bytes[..PACKET_BYTES], key) else {
            continue;
        };
        packet.received_ns = received_ns;
        packet.sent_ns = now();
        // A lost response is a lost exchange.
        let _ = socket.send_to(&packet.bytes(key), peer);
    }
}

/// Sends requests to `peer` and adds the exchanges. Responses may come from another address of its
/// machine; the key identifies them.
fn send_requests(
    (socket, peer): (&UdpSocket, SocketAddr),
    key: &ClockKey,
    now: &impl Fn() -> u64,
    stop: &AtomicBool,
    history: &Mutex<ClockHistory>,
) {
    let mut next = Instant::now();
    let mut bytes = [0; PACKET_BYTES + 1];
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let packet = Packet {
            number,
            requested_ns: now(),
            ..Packet::default()
        };
        // A packet that cannot be sent is a lost exchange.
        let _ = socket.send_to(&packet.bytes(key), peer);
        next += INTERVAL;
        while let Some(wait) = next.checked_duration_since(Instant::now()) {
            let timeout = wait.max(Duration::from_micros(10));
            if socket.set_read_timeout(Some(timeout)).is_err() {
                return;
            }
            let received = socket.recv_from(&mut bytes).map(|(count, _)| count);
            let received_ns = now();
            match received {
                Ok(PACKET_BYTES) => {}
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    thread::sleep(wait);
                    break;
                }
            }
            let packet = Packet::parse(&bytes[..PACKET_BYTES], key);
            // The peer returns our send time. It cannot gain by changing it: it defines its clock.
            if let Some(packet) = packet.filter(|packet| packet.number <= number) {
                lock(history).add(&Exchange {
                    sent_ns: packet.requested_ns,
                    peer_received_ns: packet.received_ns,
                    peer_sent_ns: packet.sent_ns,
                    received_ns,
                });
            }
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Packet {
    number: u64,
    requested_ns: u64,
    received_ns: u64,
    sent_ns: u64,
}

impl Packet {
    fn bytes(&self, key: &ClockKey) -> [u8; PACKET_BYTES] {
        let mut bytes = [0; PACKET_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..24].copy_from_slice(key);
        let numbers = [
            self.number,
            self.requested_ns,
            self.received_ns,
            self.sent_ns,
        ];
        for (place, number) in bytes[24..56].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// Returns the packet, if it has the key.
    fn parse(bytes: &[u8], key: &ClockKey) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?.strip_prefix(key)?;
        let mut numbers = rest.chunks_exact(8).map(|number| {
            let number = <[u8; 8]>::try_from(number);
            number.map_or(0, u64::from_be_bytes)
        });
        Some(Self {
            number: numbers.next()?,
            requested_ns: numbers.next()?,
            received_ns: numbers.next()?,
            sent_ns: numbers.next()?,
        })
    }
}

/// Thread that gets a flag which is set when this is dropped.
#[derive(Debug)]
struct StoppedThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl StoppedThread {
    fn start(run: impl FnOnce(&AtomicBool) + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = Some(thread::spawn(move || run(&flag)));
        Self { stop, thread }
    }
}

impl Drop for StoppedThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its panic was printed.
            let _ = thread.join();
        }
    }
}

const MAGIC: &[u8; 8] = b"weirclk1";
const PACKET_BYTES: usize = 64;
/// Eight exchanges per second.
const INTERVAL: Duration = Duration::from_millis(125);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use weir_load::clock::wall_clock_unix_ns;

    use super::*;

    const KEY: ClockKey = *b"0123456789abcdef";

    #[test]
    fn packets_need_the_key() {
        let packet = Packet {
            number: 1,
            requested_ns: 2,
            received_ns: 3,
            sent_ns: u64::MAX,
        };
        let bytes = packet.bytes(&KEY);
        assert_eq!(Packet::parse(&bytes, &KEY), Some(packet));
        assert_eq!(Packet::parse(&bytes, b"0123456789abcdeX"), None);
        assert_eq!(Packet::parse(&bytes[..55], &KEY), None);
    }

    #[test]
    fn one_clock_has_no_offset_to_itself() {
        let any = "127.0.0.1:0".parse().unwrap();
        let echo = ClockEcho::start(any, KEY, wall_clock_unix_ns).unwrap();
        let meter = ClockMeter::start(echo.address(), KEY, wall_clock_unix_ns).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let second_ns = 1_000_000_000;
        let from_ns = wall_clock_unix_ns() + 8 * second_ns;
        let bound = loop {
            match meter.history().bound(from_ns, from_ns + second_ns) {
                Ok(bound) => break bound,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            thread::sleep(POLL_INTERVAL);
        };
        assert!(
            bound.offset_ns.unsigned_abs() <= bound.error_ns,
            "{bound:?}"
        );
        assert!(bound.error_ns < second_ns, "{bound:?}");
    }
}
