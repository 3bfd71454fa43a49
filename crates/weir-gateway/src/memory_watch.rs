//! Memory monitor: a thread samples memory use; above the limit, new sessions and subscriptions are
//! refused. It also logs the number of hits of each limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use weir_net::memory::{MemoryMeter, MemoryUse};

use crate::admission::{Admission, AdmissionLimit};

const SAMPLE_INTERVAL_MIN: Duration = Duration::from_millis(100);
const SAMPLE_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// Assumed maximum memory growth in bytes per second. A sample costs as much CPU time as tens of
/// deliveries, so samples are rare while memory use is far below the limit.
const GROWTH_BYTES_PER_S: f64 = (1_u64 << 30) as f64;
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Samples memory and logs limit hits until `stop` is disconnected.
pub(crate) fn watch(admission: &Arc<Admission>, meter: &MemoryMeter, stop: &Receiver<()>) {
    let mut logged = [0; AdmissionLimit::ALL.len()];
    let mut logged_at: Option<Instant> = None;
    loop {
        let memory = meter.sample();
        if let Some(memory) = memory {
            let MemoryUse { used, max } = memory;
            match admission.overload.observe(memory) {
                Some(true) => tracing::warn!(
                    used,
                    max,
                    "memory limit reached, refusing new sessions and subscriptions"
                ),
                Some(false) => tracing::info!(used, max, "memory fell below limit"),
                None => {}
            }
        }
        if logged_at.is_none_or(|at| at.elapsed() >= LOG_INTERVAL)
            && log_hits(admission, &mut logged)
        {
            logged_at = Some(Instant::now());
        }
        match stop.recv_timeout(interval(memory)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Returns the time until the next sample; memory cannot reach its limit before.
fn interval(memory: Option<MemoryUse>) -> Duration {
    let free = memory.map_or(u64::MAX, |memory| memory.max.saturating_sub(memory.used));
    let seconds = free as f64 / GROWTH_BYTES_PER_S;
    let (min, max) = (SAMPLE_INTERVAL_MIN, SAMPLE_INTERVAL_MAX);
    Duration::from_secs_f64(seconds.clamp(min.as_secs_f64(), max.as_secs_f64()))
}

/// Logs the limits hit since the last call, one line each; returns `true` if there are any.
fn log_hits(admission: &Admission, logged: &mut [u64; AdmissionLimit::ALL.len()]) -> bool {
    let mut any = false;
    for (limit, before) in AdmissionLimit::ALL.iter().zip(logged) {
        let count = admission.hits(*limit);
        let refused = count - std::mem::replace(before, count);
        if refused == 0 {
            continue;
        }
        any = true;
        let limit = limit.label();
        let origin = admission.take_origin();
        match origin.filter(|_| limit == AdmissionLimit::Origin.label()) {
            Some(origin) => tracing::warn!(limit, refused, origin, "limit hit"),
            None => tracing::warn!(limit, refused, "limit hit"),
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_frequent_near_the_limit() {
        let at = |used| interval(Some(MemoryUse { used, max: 4 << 30 }));
        assert_eq!(at(1 << 30), SAMPLE_INTERVAL_MAX);
        assert_eq!(at(7 << 29), Duration::from_millis(500));
        assert_eq!(at(5 << 30), SAMPLE_INTERVAL_MIN);
        assert_eq!(interval(None), SAMPLE_INTERVAL_MAX);
    }
}
