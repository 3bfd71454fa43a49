//! Shows the progress of a run: a block updated each second on a terminal, otherwise single lines.

use std::fmt;
use std::time::{Duration, Instant};

use weir_bench::{Live, Observer};

use crate::cmd::progress_block::{LatencyHistory, ProgressSnapshot};
use crate::cmd::terminal::{self, TerminalArea};

pub(crate) struct BenchProgress {
    to_stderr: bool,
    screen: Option<TerminalArea>,
    color: bool,
    utf8: bool,
    phase: &'static str,
    started: Instant,
    cell: Option<CurrentCell>,
    warm_up: LatencyHistory,
}

struct CurrentCell {
    number: usize,
    cells: usize,
    id: String,
    /// Start of the first cell, without the preparation of the run.
    first_started: Instant,
    history: LatencyHistory,
}

impl BenchProgress {
    /// Creates the display. With `json`, standard output is reserved for the result.
    pub(crate) fn new(json: bool) -> Self {
        Self {
            to_stderr: json,
            screen: (!json && terminal::is_terminal()).then(TerminalArea::default),
            color: std::env::var_os("NO_COLOR").is_none(),
            utf8: is_utf8(),
            phase: "",
            started: Instant::now(),
            cell: None,
            warm_up: LatencyHistory::default(),
        }
    }

    pub(crate) fn announce(&mut self, time: Duration) {
        if time > ANNOUNCED_ABOVE {
            let minutes = (time.as_secs_f64() / 60.0).ceil();
            self.print(&format_args!(
                "  this run takes about {minutes:.0} minutes (estimated)"
            ));
        }
    }

    pub(crate) fn end(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.clear();
        }
    }

    fn print(&mut self, text: &dyn fmt::Display) {
        self.end();
        match self.to_stderr {
            true => eprintln!("{text}"),
            false => println!("{text}"),
        }
    }
}

impl Observer for BenchProgress {
    fn note(&mut self, text: &str) {
        self.print(&format_args!("  {text}"));
    }

    fn cell(&mut self, number: usize, cells: usize, id: &str) {
        self.phase = "";
        self.print(&format_args!("[{number}/{cells}] {id}"));
        let first_started = self
            .cell
            .take()
            .map_or_else(Instant::now, |previous| previous.first_started);
        self.cell = Some(CurrentCell {
            number,
            cells,
            id: id.to_owned(),
            first_started,
            history: LatencyHistory::default(),
        });
    }

    /// Updates the block on a terminal; otherwise prints one line at the start of a phase.
    fn live(&mut self, live: &Live) {
        let Some(screen) = &mut self.screen else {
            if self.phase != live.phase {
                self.phase = live.phase;
                self.print(&StatusText(live));
            }
            return;
        };
        let (heading, history, remaining) = match &mut self.cell {
            Some(cell) => (
                format!("{}  cell {} of {}", cell.id, cell.number, cell.cells),
                &mut cell.history,
                remaining(cell.number, cell.cells, cell.first_started.elapsed()),
            ),
            None => ("warming the broker up".to_owned(), &mut self.warm_up, None),
        };
        history.add(live);
        let snapshot = ProgressSnapshot {
            heading: &heading,
            live,
            history,
            running: self.started.elapsed(),
            remaining,
            utf8: self.utf8,
            color: self.color,
        };
        screen.show(&snapshot.lines(terminal::size()));
    }
}

/// Estimates the remaining time from the mean duration of the cells so far.
///
/// Returns `None` before the first cell has ended.
fn remaining(number: usize, cells: usize, since_first: Duration) -> Option<Duration> {
    let done = u32::try_from(number.checked_sub(1)?).ok()?;
    let pending = u32::try_from((cells + 1).saturating_sub(number)).ok()?;
    // The running cell counts in full, because `since_first` includes the time it has taken so far.
    (done > 0).then(|| (since_first / (done + 1)).saturating_mul(pending))
}

fn is_utf8() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    set.is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

struct StatusText<'a>(&'a Live);

impl fmt::Display for StatusText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let live = self.0;
        write!(f, "  {:<8}", live.phase)?;
        if live.elapsed_s > 0.0 {
            write!(f, " {:>3.0}/{:.0} s", live.elapsed_s, live.total_s)?;
        }
        write!(f, "  {}/{} clients", live.connected, live.clients)?;
        if let Some(achieved) = live.achieved_per_s {
            write!(f, "  {achieved:.0}/{:.0} records/s", live.offered_per_s)?;
        }
        if let Some(delivered) = live.delivered_per_s.filter(|_| live.elapsed_s > 0.0) {
            write!(f, "  {delivered:.0} deliveries/s")?;
        }
        if let (Some(p50), Some(p99)) = (live.p50_us, live.p99_us) {
            write!(f, "  p50 {:.1} ms  p99 {:.1} ms", p50 / 1e3, p99 / 1e3)?;
        }
        if let Some(lag) = live.lag_p99_us.filter(|_| live.elapsed_s > 0.0) {
            write!(f, "  schedule lag p99 {:.1} ms", lag / 1e3)?;
        }
        for (role, cores) in &live.cpu_cores {
            write!(f, "  {role} {:.0} %", cores * 100.0)?;
        }
        Ok(())
    }
}

const ANNOUNCED_ABOVE: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remaining_time_is_extrapolated() {
        let minute = Duration::from_secs(60);
        assert_eq!(remaining(1, 4, minute), None);
        assert_eq!(remaining(2, 4, minute * 2), Some(minute * 3));
        assert_eq!(remaining(4, 4, minute * 4), Some(minute));
    }
}
