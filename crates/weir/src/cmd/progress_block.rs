//! The block that shows the running cell: progress, rates, latency sparklines, backlog and CPU
//! cores by process role.

use std::collections::VecDeque;
use std::fmt::Display;
use std::time::Duration;

use console::{Color, Style, measure_text_width};
use weir_bench::Live;

use crate::cmd::terminal::Size;

#[derive(Debug, Default)]
pub(crate) struct LatencyHistory {
    p50_us: VecDeque<f64>,
    p99_us: VecDeque<f64>,
}

impl LatencyHistory {
    /// Appends the latest latencies and removes the oldest beyond [`HISTORY_MAX`].
    pub(crate) fn add(&mut self, live: &Live) {
        for (history, value) in [
            (&mut self.p50_us, live.p50_us),
            (&mut self.p99_us, live.p99_us),
        ] {
            history.extend(value.filter(|us| us.is_finite()));
            while history.len() > HISTORY_MAX {
                history.pop_front();
            }
        }
    }
}

pub(crate) struct ProgressSnapshot<'a> {
    pub(crate) heading: &'a str,
    pub(crate) live: &'a Live,
    pub(crate) history: &'a LatencyHistory,
    pub(crate) running: Duration,
    pub(crate) remaining: Option<Duration>,
    pub(crate) utf8: bool,
    pub(crate) color: bool,
}

impl ProgressSnapshot<'_> {
    /// Returns the lines of the block, without the least important ones if rows are few.
    pub(crate) fn lines(&self, size: Size) -> Vec<String> {
        let columns = size.columns.min(COLUMNS_MAX + 1);
        let size = Size { columns, ..size };
        let columns = columns.saturating_sub(1);
        let mut lines = vec![self.heading(columns), self.progress(columns), self.rates()];
        lines.extend(self.spark("p99", &self.history.p99_us, columns));
        let p50 = lines.len();
        lines.extend(self.spark("p50", &self.history.p50_us, columns));
        lines.extend(self.cores());
        let rows = size.rows.saturating_sub(2).max(1);
        // The CPU cores are more important than the median.
        if lines.len() > rows && lines.len() > p50 + 1 {
            lines.remove(p50);
        }
        lines.truncate(rows);
        lines.iter().map(|line| size.fit(line)).collect()
    }

    fn paint(&self, style: Style, text: impl Display) -> String {
        let style = style.force_styling(self.color);
        style.apply_to(text).to_string()
    }

    fn strong(&self, text: impl Display) -> String {
        self.paint(Style::new().bold(), text)
    }

    fn pale(&self, text: impl Display) -> String {
        self.paint(Style::new().dim(), text)
    }

    fn tint(&self, color: Color, text: impl Display) -> String {
        self.paint(Style::new().fg(color), text)
    }

    fn heading(&self, columns: usize) -> String {
        let remaining = self.remaining.map(clock);
        let remaining = remaining.map_or_else(String::new, |it| format!(", about {it} left"));
        let times = format!("{} elapsed{remaining}", clock(self.running));
        let heading = self.strong(self.heading);
        let used = measure_text_width(self.heading) + times.len();
        match columns.saturating_sub(used) {
            0..3 => heading,
            gap => format!("{heading}{:gap$}{}", "", self.pale(times)),
        }
    }

    fn progress(&self, columns: usize) -> String {
        let live = self.live;
        let (share, text) = if live.elapsed_s > 0.0 {
            // An overdue phase is shown at its end, not beyond it.
            let elapsed_s = live.elapsed_s.min(live.total_s);
            (
                live.elapsed_s / live.total_s.max(1e-9),
                format!("{} {elapsed_s:.0} of {:.0} s", live.phase, live.total_s),
            )
        } else {
            let [connected, clients] = [live.connected, live.clients].map(|it| it as f64);
            let (of, all) = (grouped(connected), grouped(clients));
            (
                connected / clients.max(1.0),
                format!("{} {of} of {all} clients", live.phase),
            )
        };
        let width = columns.saturating_sub(text.chars().count() + 2).min(60);
        let filled = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
        let (full, empty) = match self.utf8 {
            true => ("█", "░"),
            false => ("#", "-"),
        };
        let full = self.tint(Color::Green, full.repeat(filled));
        let empty = self.pale(empty.repeat(width - filled));
        format!("{full}{empty}  {text}")
    }

    fn rates(&self) -> String {
        let live = self.live;
        let is_loaded = live.elapsed_s > 0.0;
        let mut parts = Vec::new();
        if let Some(achieved) = live.achieved_per_s {
            // Single seconds vary; a tenth less means that the producer is behind.
            let is_behind = live.elapsed_s > 2.0 && achieved < live.offered_per_s * 0.9;
            let achieved = match is_behind {
                true => self.tint(Color::Red, grouped(achieved)),
                false => self.strong(grouped(achieved)),
            };
            let (name, offered) = (self.pale("records"), grouped(live.offered_per_s));
            parts.push(format!("{name} {achieved} of {offered}/s"));
        }
        if let Some(delivered) = live.delivered_per_s.filter(|_| is_loaded) {
            let (name, delivered) = (self.pale("deliveries"), self.strong(grouped(delivered)));
            parts.push(format!("{name} {delivered}/s"));
        }
        if let Some(backlog) = live.backlog.map(|it| self.strong(grouped(it as f64))) {
            parts.push(format!("{} {backlog}", self.pale("backlog")));
        }
        if let Some(lag_us) = live.lag_p99_us.filter(|_| is_loaded) {
            let (name, lag) = (self.pale("schedule lag p99"), time(lag_us));
            parts.push(format!("{name} {lag}"));
        }
        match parts.is_empty() {
            true => self.pale("no load yet"),
            false => parts.join("   "),
        }
    }

    fn spark(&self, name: &str, values: &VecDeque<f64>, columns: usize) -> Option<String> {
        let last = format!("{:<9}", time(*values.back()?));
        let max = values.iter().copied().fold(0.0, f64::max);
        let width = columns.saturating_sub(32).min(HISTORY_MAX);
        let graph = self.graph(values, max, width);
        let is_wide = columns > 14 + graph.chars().count() + 18;
        let max = Some(time(max)).filter(|_| is_wide);
        let max = max.map_or_else(String::new, |max| self.pale(format!("  up to {max}")));
        let (name, last) = (self.pale(format!("{name}  ")), self.strong(last));
        Some(format!("{name}{last}{}{max}", self.tint(ROLES[0], graph)))
    }

    fn graph(&self, values: &VecDeque<f64>, max: f64, width: usize) -> String {
        let steps: &[char] = match self.utf8 {
            true => &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            false => &['.', ':', '-', '=', '+', '*', '#', '@'],
        };
        let shown = values.iter().skip(values.len().saturating_sub(width));
        shown
            .map(|value| {
                let step = (value / max.max(1e-9) * steps.len() as f64).ceil() as usize;
                steps[step.clamp(1, steps.len()) - 1]
            })
            .collect()
    }

    /// Returns the CPU cores used by each process role, with one color per role, and their sum.
    fn cores(&self) -> Option<String> {
        let roles = &self.live.cpu_cores;
        let full = if self.utf8 { "■" } else { "#" };
        let used = roles.iter().zip(ROLES.into_iter().cycle());
        let used = used.map(|((role, cores), color)| {
            let cores = self.strong(format_args!("{cores:.2}"));
            format!("{} {role} {cores}  ", self.tint(color, full))
        });
        let used: String = used.collect();
        let sum: f64 = roles.values().sum();
        let total = self.pale(format_args!("total {sum:.2} cores"));
        (!roles.is_empty()).then(|| format!("{}{used}{total}", self.pale("CPU  ")))
    }
}

const ROLES: [Color; 6] = [
    Color::Cyan,
    Color::Yellow,
    Color::Magenta,
    Color::Blue,
    Color::Green,
    Color::Red,
];

fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.1} s", us / 1e6),
        us if us >= 1e4 => format!("{:.0} ms", us / 1e3),
        us if us >= 1e3 => format!("{:.1} ms", us / 1e3),
        us => format!("{us:.0} us"),
    }
}

fn clock(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
    }
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.max(0.0));
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// Maximum width of the block. Wider blocks are hard to read.
const COLUMNS_MAX: usize = 110;
const HISTORY_MAX: usize = 72;

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Live {
        Live {
            phase: "hold",
            elapsed_s: 12.0,
            total_s: 48.0,
            connected: 10_000,
            clients: 10_000,
            offered_per_s: 100.0,
            achieved_per_s: Some(99.6),
            delivered_per_s: Some(25_003.0),
            p50_us: Some(900.0),
            p99_us: Some(4_200.0),
            lag_p99_us: Some(120.0),
            backlog: Some(1_250),
            cpu_cores: [("broker".to_owned(), 0.31), ("gateway".to_owned(), 0.456)].into(),
        }
    }

    fn shown(columns: usize, rows: usize, utf8: bool) -> Vec<String> {
        let mut history = LatencyHistory::default();
        for p99_us in [1_000.0, 8_400.0, 4_200.0] {
            history.add(&Live {
                p99_us: Some(p99_us),
                ..live()
            });
        }
        let snapshot = ProgressSnapshot {
            heading: "gateway-10000-1  cell 3 of 16",
            live: &live(),
            history: &history,
            running: Duration::from_secs(161),
            remaining: Some(Duration::from_secs(540)),
            utf8,
            color: false,
        };
        snapshot.lines(Size { columns, rows })
    }

    #[test]
    fn block_shows_all_lines() {
        let lines = shown(100, 24, true);
        assert_eq!(lines.len(), 6);
        assert!(lines[0].starts_with("gateway-10000-1  cell 3 of 16"));
        assert!(lines[0].ends_with("2:41 min elapsed, about 9:00 min left"));
        assert!(lines[1].contains("█░") && lines[1].ends_with("hold 12 of 48 s"));
        assert!(lines[2].starts_with("records 100 of 100/s   deliveries 25,003/s   backlog 1,250"));
        assert_eq!(lines[3], "p99  4.2 ms   ▁█▄  up to 8.4 ms");
        assert!(lines[4].starts_with("p50  900 us   ███"));
        assert_eq!(
            lines[5],
            "CPU  ■ broker 0.31  ■ gateway 0.46  total 0.77 cores"
        );
    }

    #[test]
    fn block_fits_into_any_terminal() {
        for columns in [1, 10, 40, 79, 200] {
            for rows in [1, 3, 6, 24] {
                let lines = shown(columns, rows, true);
                assert!(lines.len() <= rows.saturating_sub(2).max(1));
                for line in &lines {
                    assert!(line.chars().count() < columns.max(2), "{columns}: {line}");
                }
            }
        }
        assert!(shown(80, 24, false).concat().is_ascii());
    }
}
