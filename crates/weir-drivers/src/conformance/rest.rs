//! Checks of a driver between commands: no work, and no threads or memory of earlier clients.

use std::thread;
use std::time::{Duration, Instant};

use procfs::process::Process;

use super::outcome::{CheckResult, ConformanceError, require};
use super::session::{CheckSession, burst};
use super::setup::ProcessUsage;
use crate::{AssignmentMode, Consume, Gc, GetStats, ProduceCommand, ProducerState};

/// Between two commands a driver is idle: in at least one half second it uses at most 20 ms of CPU
/// time.
pub(super) fn idle(session: &mut CheckSession<'_>) -> CheckResult {
    session.run_configured(&Gc {})?;
    let pid = session.started()?.pid();
    let deadline = Instant::now() + IDLE_TIMEOUT;
    loop {
        let (before, began) = (ticks(pid)?, Instant::now());
        while began.elapsed() < IDLE_WINDOW {
            session.check_stop()?;
            thread::park_timeout(PARK);
        }
        let used = ticks(pid)?.saturating_sub(before);
        if used <= IDLE_TICKS_MAX {
            return Ok(());
        }
        require!(
            Instant::now() < deadline,
            "at most 20 ms of CPU time in half a second between commands",
            "{} ms in each half second for {} s",
            used * 10,
            IDLE_TIMEOUT.as_secs()
        );
    }
}

/// Threads and memory after a number of clients.
#[derive(Debug, Clone, Copy)]
struct Usage {
    threads: u64,
    /// Managed heap, or the resident memory of a driver without one.
    memory_kb: u64,
}

/// A dozen producers and consumers leave no thread behind, and one of several dozens no memory:
/// what is lost is lost in every dozen, and other growth is not.
pub(super) fn leftovers(session: &mut CheckSession<'_>) -> CheckResult {
    let topic = session.topic("leftovers")?;
    // The first clients load code and fill caches.
    dozen(session, &topic)?;
    let mut before = usage(session, None)?;
    let mut grown_kb = u64::MAX;
    for _ in 0..DOZENS {
        dozen(session, &topic)?;
        let after = usage(session, Some(before.threads))?;
        require!(
            after.threads <= before.threads + THREADS_SLACK,
            format!("{} threads as before", before.threads),
            "{} threads after {CLIENTS} more producers and consumers",
            after.threads
        );
        grown_kb = grown_kb.min(after.memory_kb.saturating_sub(before.memory_kb));
        if grown_kb <= GROWTH_MAX_KB {
            return Ok(());
        }
        before = after;
    }
    require!(
        grown_kb <= GROWTH_MAX_KB,
        format!("at most {GROWTH_MAX_KB} KiB more after {CLIENTS} producers and consumers"),
        "{grown_kb} KiB or more after each of {DOZENS} rounds"
    );
    Ok(())
}

/// Creates twelve producers and consumers, each for a few records.
fn dozen(session: &mut CheckSession<'_>, topic: &str) -> CheckResult {
    let burst = burst(topic, 100, 10, 1);
    let state = match session.can("produce.cold")? {
        true => ProducerState::Cold,
        false => ProducerState::Metadata,
    };
    let via = match session.can("consume.group")? {
        true => AssignmentMode::Group,
        false => AssignmentMode::Assign,
    };
    for _ in 0..CLIENTS {
        session.check_stop()?;
        if session.can(state.capability())? {
            session.run_configured(&ProduceCommand {
                burst: burst.clone(),
                state,
                per_record: false,
            })?;
        }
        if session.can(via.capability())? {
            session.run_configured(&Consume {
                burst: burst.clone(),
                via,
                verify: false,
                commit: false,
            })?;
        }
    }
    Ok(())
}

/// Returns the usage after a garbage collection. Waits while there are more threads than
/// `expected`, or while their number changes.
fn usage(session: &mut CheckSession<'_>, expected: Option<u64>) -> CheckResult<Usage> {
    let pid = session.started()?.pid();
    let deadline = Instant::now() + THREADS_TIMEOUT;
    let mut last = u64::MAX;
    loop {
        session.check_stop()?;
        let threads = ProcessUsage::read(pid)?.threads;
        let is_settled = match expected {
            Some(expected) => threads <= expected + THREADS_SLACK,
            None => threads == last,
        };
        if is_settled || Instant::now() >= deadline {
            break;
        }
        last = threads;
        thread::park_timeout(IDLE_WINDOW);
    }
    session.run_configured(&Gc {})?;
    let stats = session.run_configured(&GetStats {})?;
    let seen = ProcessUsage::read(pid)?;
    Ok(Usage {
        threads: seen.threads,
        memory_kb: stats.heap_kb.unwrap_or(seen.rss_kb),
    })
}

/// Returns the CPU time of a process in ticks of 10 ms.
fn ticks(pid: u32) -> Result<u64, ConformanceError> {
    let failed = |error: procfs::ProcError| {
        let error = std::io::Error::other(error.to_string());
        ConformanceError::File(format!("process {pid}"), error)
    };
    let process = Process::new(i32::try_from(pid).unwrap_or(i32::MAX)).map_err(failed)?;
    let stat = process.stat().map_err(failed)?;
    Ok((stat.utime + stat.stime) * 100 / procfs::ticks_per_second())
}

const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_WINDOW: Duration = Duration::from_millis(500);
const IDLE_TICKS_MAX: u64 = 2;
const PARK: Duration = Duration::from_millis(100);
/// Number of producers, and of consumers, in a round.
const CLIENTS: u32 = 12;
const DOZENS: u32 = 4;
/// Threads of a runtime may come and go.
const THREADS_SLACK: u64 = 3;
const THREADS_TIMEOUT: Duration = Duration::from_secs(20);
/// Less than 100 KiB for each client. A client of librdkafka that is left has 500 KiB.
const GROWTH_MAX_KB: u64 = 2048;
