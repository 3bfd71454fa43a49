//! A TCP relay between SDK and gateway whose connections the test can cut.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Listens until the test program ends.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
    /// The beginning of what clients have sent.
    heard: Arc<Mutex<Vec<u8>>>,
}

/// Bytes kept of what clients send.
const HEARD_MAX: usize = 256 * 1024;

impl Proxy {
    /// Relays connections on a free port to `target`.
    pub(crate) fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let sockets = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (known, ear) = (Arc::clone(&sockets), Arc::clone(&heard));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A gateway that is away is seen as a closed connection.
                if let Ok(gateway) = TcpStream::connect(target) {
                    let _ = relay(client, gateway, &known, &ear);
                }
            }
        });
        Ok(Self {
            address,
            sockets,
            heard,
        })
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The beginning of what clients have sent, in the lower case.
    pub(crate) fn heard(&self) -> String {
        String::from_utf8_lossy(&lock(&self.heard)).to_lowercase()
    }

    /// Closes every connection of now; later ones are relayed again. Tells how many there were.
    pub(crate) fn cut(&self) -> usize {
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
    ear: &Arc<Mutex<Vec<u8>>>,
) -> io::Result<()> {
    lock(known).extend([client.try_clone()?, gateway.try_clone()?]);
    let (up, down) = (client.try_clone()?, gateway.try_clone()?);
    let ear = Arc::clone(ear);
    let hear = move |bytes: &[u8]| {
        let mut heard = lock(&ear);
        let room = HEARD_MAX.saturating_sub(heard.len());
        heard.extend_from_slice(&bytes[..bytes.len().min(room)]);
    };
    thread::spawn(move || copy(up, gateway, hear));
    thread::spawn(move || copy(down, client, |_| {}));
    Ok(())
}

/// Ends with either side.
fn copy(mut from: TcpStream, mut to: TcpStream, hear: impl Fn(&[u8])) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        hear(&buffer[..length]);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
