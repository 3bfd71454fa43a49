//! A TCP relay between SDK and gateway whose connections the test can close.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::test_env::{LOOK, TEST_TIMEOUT};

/// A relay that listens until the test program ends.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
    /// First bytes sent by clients.
    recorded: Arc<Mutex<Vec<u8>>>,
}

/// Maximum number of recorded bytes.
const RECORDED_MAX: usize = 256 * 1024;

impl Proxy {
    /// Relays connections on a free port to `target`.
    pub(crate) fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let sockets = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let (known, recorder) = (Arc::clone(&sockets), Arc::clone(&recorded));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // If the gateway is not running, the client sees a closed connection.
                if let Ok(gateway) = TcpStream::connect(target) {
                    let _ = relay(client, gateway, &known, &recorder);
                }
            }
        });
        Ok(Self {
            address,
            sockets,
            recorded,
        })
    }

    /// Returns the address for clients.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the first bytes sent by clients, in lower case.
    pub(crate) fn recorded(&self) -> String {
        String::from_utf8_lossy(&lock(&self.recorded)).to_lowercase()
    }

    /// Waits until there is a connection and closes all. Later connections are relayed.
    pub(crate) fn cut(&self) -> Result<()> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while self.close_all() == 0 {
            ensure!(Instant::now() < deadline, "there was no connection to cut");
            thread::sleep(LOOK);
        }
        Ok(())
    }

    fn close_all(&self) -> usize {
        let sockets = std::mem::take(&mut *lock(&self.sockets));
        let open = sockets
            .iter()
            .filter(|s| s.shutdown(Shutdown::Both).is_ok());
        open.count()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn relay(
    client: TcpStream,
    gateway: TcpStream,
    known: &Mutex<Vec<TcpStream>>,
    recorder: &Arc<Mutex<Vec<u8>>>,
) -> io::Result<()> {
    lock(known).extend([client.try_clone()?, gateway.try_clone()?]);
    let (up, down) = (client.try_clone()?, gateway.try_clone()?);
    let recorder = Arc::clone(recorder);
    let record = move |bytes: &[u8]| {
        let mut recorded = lock(&recorder);
        let capacity = RECORDED_MAX.saturating_sub(recorded.len());
        recorded.extend_from_slice(&bytes[..bytes.len().min(capacity)]);
    };
    thread::spawn(move || copy(up, gateway, record));
    thread::spawn(move || copy(down, client, |_| {}));
    Ok(())
}

/// Copies bytes until one of the sockets is closed, then closes both.
fn copy(mut from: TcpStream, mut to: TcpStream, record: impl Fn(&[u8])) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        record(&buffer[..length]);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
