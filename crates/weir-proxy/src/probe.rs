//! Whether a cluster answers, and which brokers it has: asked every few seconds from a thread of its own.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_net::tls::ClientTls;

use crate::config::HostPort;
use crate::directory::Directory;
use crate::place_cache::PlaceCache;
use crate::resolve::resolve;
use crate::versions::{API_VERSIONS, METADATA};
use crate::wire;

/// How often a cluster is asked.
const PERIOD: Duration = Duration::from_secs(5);
/// How soon again one that does not answer.
const PERIOD_IN_TROUBLE: Duration = Duration::from_millis(500);
/// How long a broker may take to connect or to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// The most an answer may have: Metadata without topics lists brokers.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// What is known of a cluster's state.
#[derive(Debug, Default)]
pub(crate) struct Health {
    answers: AtomicBool,
    error: Mutex<Option<String>>,
}

impl Health {
    /// Whether it answered last time.
    pub(crate) fn answers(&self) -> bool {
        self.answers.load(Ordering::Relaxed)
    }

    /// Why it did not.
    pub(crate) fn error(&self) -> Option<String> {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        error.clone()
    }

    fn set(&self, outcome: Result<(), String>) {
        self.answers.store(outcome.is_ok(), Ordering::Relaxed);
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = outcome.err();
    }
}

/// A cluster to be asked.
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) upstream: Vec<HostPort>,
    pub(crate) tls: Option<ClientTls>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) health: Arc<Health>,
    /// The brokers want to know who asks before they say more, so more is not asked.
    pub(crate) is_closed: bool,
}

/// Ends the thread when dropped.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    stopped: Mutex<bool>,
    told: Condvar,
}

impl Stop {
    pub(crate) fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.told.notify_all();
    }

    /// Waits, unless told to stop; whether it was.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .told
            .wait_timeout_while(stopped, time, |stopped| !*stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Probe {
    /// Asks until told to stop.
    pub(crate) fn run(mut self, stop: &Stop) {
        loop {
            let outcome = self.ask();
            let period = match outcome {
                Ok(()) => PERIOD,
                Err(_) => PERIOD_IN_TROUBLE,
            };
            self.health.set(outcome);
            self.directory.forget(Instant::now());
            if stop.wait(period) {
                return;
            }
        }
    }

    fn ask(&mut self) -> Result<(), String> {
        let mut hosts = self.upstream.clone();
        hosts.extend(self.directory.upstreams());
        let mut last = "no address to ask".to_owned();
        for host in hosts {
            match self.ask_one(&host) {
                Ok(()) => return Ok(()),
                Err(error) => last = format!("{host}: {error}"),
            }
        }
        Err(last)
    }

    fn ask_one(&mut self, host: &HostPort) -> io::Result<()> {
        let mut stream = connect(host, self.tls.as_ref())?;
        exchange(&mut stream, API_VERSIONS, 0, &[])?;
        if self.is_closed {
            return Ok(());
        }
        // No topics, brokers only.
        match exchange(&mut stream, METADATA, 1, &0_i32.to_be_bytes()) {
            Ok(answer) => {
                let mut places = PlaceCache::new(Arc::clone(&self.directory));
                wire::learn(&answer, METADATA, 1, &mut places).map_err(io::Error::other)
            }
            Err(_) => {
                // It answered what anybody may ask.
                self.is_closed = true;
                Ok(())
            }
        }
    }
}

trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}

fn connect(host: &HostPort, tls: Option<&ClientTls>) -> io::Result<Box<dyn ReadWrite>> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "its name is not known");
    for address in resolve(host) {
        let stream = match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => stream,
            Err(error) => {
                failed = error;
                continue;
            }
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let Some(tls) = tls else {
            return Ok(Box::new(stream));
        };
        let name = ClientTls::server_name(&host.to_string()).map_err(io::Error::other)?;
        let tls = tls.begin(name).map_err(io::Error::other)?;
        return Ok(Box::new(rustls::StreamOwned::new(tls, stream)));
    }
    Err(failed)
}

/// Sends one request and reads its answer, prefix included.
fn exchange(
    stream: &mut dyn ReadWrite,
    key: i16,
    version: i16,
    body: &[u8],
) -> io::Result<Vec<u8>> {
    let mut request = Vec::with_capacity(32 + body.len());
    let size = 8 + 2 + CLIENT_ID.len() + body.len();
    request.extend_from_slice(&(size as i32).to_be_bytes());
    request.extend_from_slice(&key.to_be_bytes());
    request.extend_from_slice(&version.to_be_bytes());
    request.extend_from_slice(&i32::from(key).to_be_bytes());
    request.extend_from_slice(&(CLIENT_ID.len() as i16).to_be_bytes());
    request.extend_from_slice(CLIENT_ID);
    request.extend_from_slice(body);
    stream.write_all(&request)?;
    stream.flush()?;
    let mut answer = vec![0; wire::SIZE_BYTES];
    stream.read_exact(&mut answer)?;
    let total = wire::frame_total(&answer, ANSWER_BYTES_MAX).map_err(io::Error::other)?;
    answer.resize(total.unwrap_or(wire::SIZE_BYTES), 0);
    stream.read_exact(&mut answer[wire::SIZE_BYTES..])?;
    Ok(answer)
}

const CLIENT_ID: &[u8] = b"weir-proxy";
