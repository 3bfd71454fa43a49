//! Clock of a connected machine, and the errors of machines.

use std::io;
use std::net::ToSocketAddrs as _;
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;
use weir_load::clock::{nanos, wall_clock_unix_ns};

use crate::clock::udp::{ClockKey, ClockMeter};
use crate::clock::{ClockBound, ClockError, LEAD};

/// Machine that cannot take part.
#[derive(Debug, Error)]
pub enum MachineError {
    /// The program of this process cannot be read.
    #[error("cannot read the executable of this program: {0}")]
    Program(io::Error),
    /// `ssh` or a socket cannot be started.
    #[error("machine {0}: cannot start ssh: {1}")]
    Start(String, io::Error),
    /// The connection ended, or a response is missing.
    #[error("machine {0}: {1}")]
    Failed(String, String),
    /// The agent was lost, with the reason.
    #[error("agent {0} was lost: {1}")]
    Lost(String, String),
    /// The machine has no address for the exchange of clocks.
    #[error("machine {0}: address \"{1}\" is not known here: set address in the inventory")]
    Address(String, String),
    /// No exchange of clocks came back.
    #[error("machine {0}: no clock exchange with UDP {1}: allow UDP between the machines")]
    Clock(String, String, #[source] ClockError),
}

/// Measurement of a machine's clock until dropped.
#[derive(Debug)]
pub(crate) struct MachineClock {
    meter: ClockMeter,
}

impl MachineClock {
    /// Starts the exchanges with a UDP port of a machine, and waits for the first bound.
    ///
    /// # Errors
    /// [`MachineError`] if the address is not known, or no exchange comes back.
    pub(crate) fn start(
        name: &str,
        address: &str,
        port: u16,
        key: ClockKey,
    ) -> Result<Self, MachineError> {
        let found = (address, port).to_socket_addrs();
        let found = found.ok().and_then(|mut all| all.next());
        let unknown = || MachineError::Address(name.to_owned(), address.to_owned());
        let peer = found.ok_or_else(unknown)?;
        let meter = ClockMeter::start(peer, key, wall_clock_unix_ns)
            .map_err(|error| MachineError::Failed(name.to_owned(), error.to_string()))?;
        let clock = Self { meter };
        let deadline = Instant::now() + LEAD + CLOCK_TIMEOUT;
        loop {
            match clock.now() {
                Ok(_) => return Ok(clock),
                Err(error) if Instant::now() >= deadline => {
                    return Err(MachineError::Clock(
                        name.to_owned(),
                        peer.to_string(),
                        error,
                    ));
                }
                Err(_) => thread::sleep(POLL_INTERVAL),
            }
        }
    }

    /// Returns the difference of the machine's clock in the latest second.
    pub(crate) fn now(&self) -> Result<ClockBound, ClockError> {
        let now_ns = wall_clock_unix_ns();
        let ago = |duration| now_ns.saturating_sub(nanos(duration));
        self.between(ago(CLOCK_AGE), ago(CLOCK_AGE))
    }

    /// Returns the difference of the machine's clock between two times.
    pub(crate) fn between(
        &self,
        from_unix_ns: u64,
        until_unix_ns: u64,
    ) -> Result<ClockBound, ClockError> {
        self.meter.history().bound(from_unix_ns, until_unix_ns)
    }
}

const CLOCK_TIMEOUT: Duration = Duration::from_secs(4);
/// Age of the time for which the latest difference is stated: a sample follows it.
const CLOCK_AGE: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
