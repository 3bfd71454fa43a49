//! Follows items of a gateway with one TLCP session, which is opened again when it is lost.

mod client;
mod events;
mod options;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_net::client::{self as event_loop, ClientOptions};

use self::client::{TailClient, TailLimits};
pub use self::events::{TailEnd, TailEvent};
pub use self::options::TailOptions;
use crate::clients::resolve_server;
use crate::error::{LoadError, Result};

/// Pause before the session is opened again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Interval in which the end of the command is noticed.
const TICK: Duration = Duration::from_millis(50);

/// Follows the items until `sink` breaks, `stop` is set or the server ends the session for good.
/// Returns the reason.
///
/// # Errors
/// The server cannot be reached within the timeout, or it refuses the session or the subscription.
pub fn run(
    options: &TailOptions,
    stop: &AtomicBool,
    sink: &mut dyn FnMut(TailEvent<'_>) -> ControlFlow<()>,
) -> Result<TailEnd> {
    let deadline = Instant::now() + options.timeout;
    let (group, schema) = (options.items.join(" "), options.fields.join(" "));
    let config = client::config(options, &group, &schema);
    let mut was_live = false;
    loop {
        let (authority, server) = resolve_server(&options.url, &options.tls)?;
        let limits = TailLimits {
            stop,
            active_deadline: (!was_live).then_some(deadline),
        };
        let mut session = TailClient::new(options, &config, &authority, limits, sink);
        let mut loop_options = ClientOptions::new(vec![server], 1);
        loop_options.tick = TICK;
        event_loop::run(loop_options, &mut session)
            .map_err(|error| LoadError::System("event loop of the client failed", error))?;
        was_live |= session.is_live();
        let reason = match session.into_end() {
            None => return Ok(TailEnd::Stopped),
            Some(Ok(end)) => return Ok(end),
            Some(Err(reason)) => reason,
        };
        let is_late = !was_live && Instant::now() + RETRY_PAUSE > deadline;
        if !reason.is_transient || is_late {
            return Err(LoadError::Tail(options.url.clone(), reason.text));
        }
        let event = TailEvent::Disconnected {
            reason: &reason.text,
        };
        if sink(event).is_break() || is_stopped_within(stop, RETRY_PAUSE) {
            return Ok(TailEnd::Stopped);
        }
    }
}

/// Waits; returns `true` at once when `stop` is set.
fn is_stopped_within(stop: &AtomicBool, pause: Duration) -> bool {
    let end = Instant::now() + pause;
    while !stop.load(Ordering::Relaxed) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(left.min(TICK));
    }
    true
}
