//! Whether the brokers of a cluster answer, and which it has: asked every few seconds, on connections
//! of the probe's own, so that slow requests of clients are not mistaken for a silent broker.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_net::tls::ClientTls;

use crate::address_cache::AddressCache;
use crate::broker_registry::BrokerRegistry;
use crate::config::HostPort;
use crate::health::ClusterHealth;
use crate::resolve::resolve;
use crate::versions::{API_VERSIONS, METADATA};
use crate::wire;

/// How often a cluster is asked.
const PERIOD: Duration = Duration::from_secs(5);
/// How soon again while a broker does not answer.
const FAILED_PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// How long a broker may take to connect or to answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
/// Brokers asked at the same time.
const ASKED_AT_ONCE: usize = 16;
/// The most an answer may have: Metadata without topics lists brokers.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// A cluster to be asked.
#[derive(Debug)]
pub(crate) struct HealthProbe {
    pub(crate) name: String,
    pub(crate) upstream: Vec<HostPort>,
    pub(crate) tls: Option<ClientTls>,
    pub(crate) directory: Arc<BrokerRegistry>,
    pub(crate) health: Arc<ClusterHealth>,
    /// How long a broker may be silent before connections that wait for it are closed.
    pub(crate) response: Duration,
    /// The brokers want to know who asks before they say more, so more is not asked.
    pub(crate) is_closed: AtomicBool,
}

/// Ends the thread when dropped.
#[derive(Debug, Default)]
pub(crate) struct StopSignal {
    stopped: Mutex<bool>,
    told: Condvar,
}

impl StopSignal {
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

impl HealthProbe {
    /// Asks until told to stop.
    pub(crate) fn run(self, stop: &StopSignal) {
        loop {
            let all_answer = self.ask();
            for host in self.health.silent_for(self.response, Instant::now()) {
                self.directory.tell_silent(&host);
            }
            self.directory.forget(Instant::now());
            let period = match all_answer {
                true => PERIOD,
                false => FAILED_PROBE_INTERVAL,
            };
            if stop.wait(period) {
                return;
            }
        }
    }

    /// Asks every broker; `true` if all of them answered.
    fn ask(&self) -> bool {
        let mut hosts = self.upstream.clone();
        for host in self.directory.upstreams() {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        self.health.keep(&hosts);
        for some in hosts.chunks(ASKED_AT_ONCE) {
            // A broker that is silent must not keep the others waiting.
            std::thread::scope(|scope| {
                for host in &some[1..] {
                    let ask = move || self.ask_and_note(host);
                    let thread = std::thread::Builder::new().name("weir-probe".to_owned());
                    if thread.spawn_scoped(scope, ask).is_err() {
                        ask();
                    }
                }
                self.ask_and_note(&some[0]);
            });
        }
        self.health.end_round()
    }

    fn ask_and_note(&self, host: &HostPort) {
        let outcome = self.ask_one(host).map_err(|error| match error.kind() {
            // The system's words for it would not be understood.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("no answer within {} s", PROBE_TIMEOUT.as_secs())
            }
            _ => error.to_string(),
        });
        self.health.note(&self.name, host, outcome, Instant::now());
    }

    fn ask_one(&self, host: &HostPort) -> io::Result<()> {
        let mut stream = connect(host, self.tls.as_ref())?;
        exchange(&mut stream, API_VERSIONS, 0, &[])?;
        if self.is_closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        // No topics, brokers only.
        match exchange(&mut stream, METADATA, 1, &0_i32.to_be_bytes()) {
            Ok(answer) => {
                let mut places = AddressCache::new(Arc::clone(&self.directory));
                wire::learn(&answer, METADATA, 1, &mut places).map_err(io::Error::other)
            }
            Err(_) => {
                // It answered what anybody may ask.
                self.is_closed.store(true, Ordering::Relaxed);
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
        let stream = match TcpStream::connect_timeout(&address, PROBE_TIMEOUT) {
            Ok(stream) => stream,
            Err(error) => {
                failed = error;
                continue;
            }
        };
        stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
        stream.set_write_timeout(Some(PROBE_TIMEOUT))?;
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
