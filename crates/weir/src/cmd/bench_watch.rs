//! How a run looks while it goes on: a line that is rewritten on a terminal, few lines elsewhere.

use std::fmt;
use std::io::IsTerminal as _;

use weir_load::bench::{Live, Observer};

use crate::cmd::load_common::StatusLine;

/// Shows a run's course on standard output, or on standard error when the result is JSON.
pub(crate) struct Watch {
    to_stderr: bool,
    terminal: bool,
    line: StatusLine,
    phase: &'static str,
}

impl Watch {
    /// `json`: standard output belongs to the result.
    pub(crate) fn new(json: bool) -> Self {
        Self {
            to_stderr: json,
            terminal: !json && std::io::stdout().is_terminal(),
            line: StatusLine::new(),
            phase: "",
        }
    }

    /// Leaves the rewritten line.
    pub(crate) fn end(&mut self) {
        self.line.end();
    }

    fn print(&mut self, text: &dyn fmt::Display) {
        self.end();
        match self.to_stderr {
            true => eprintln!("{text}"),
            false => println!("{text}"),
        }
    }
}

impl Observer for Watch {
    fn note(&mut self, text: &str) {
        self.print(&format_args!("  {text}"));
    }

    fn cell(&mut self, number: usize, cells: usize, id: &str) {
        self.phase = "";
        self.print(&format_args!("[{number}/{cells}] {id}"));
    }

    /// Each second on a terminal; elsewhere when a phase begins.
    fn live(&mut self, live: &Live) {
        if self.terminal {
            self.line.show(&Status(live));
        } else if self.phase != live.phase {
            self.phase = live.phase;
            self.print(&Status(live));
        }
    }
}

/// One line about the state of a cell.
struct Status<'a>(&'a Live);

impl fmt::Display for Status<'_> {
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
            write!(f, "  generator late by {:.1} ms", lag / 1e3)?;
        }
        for (part, cores) in &live.cpu_cores {
            write!(f, "  {part} {:.0} %", cores * 100.0)?;
        }
        Ok(())
    }
}
