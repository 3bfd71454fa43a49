//! The block that shows the running cell: progress, rates, latency sparklines, backlog and CPU
//! cores by process role.

use std::collections::VecDeque;
use std::time::Duration;

use weir_bench::Live;

use crate::cmd::terminal::{Size, Style, Text};

/// Latencies of the last seconds.
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

/// The state of a run at one point in time.
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
    pub(crate) fn lines(&self, size: Size) -> Vec<Text> {
        // The last column stays free, because some terminals wrap when it is written.
        let columns = size.columns.saturating_sub(1).min(COLUMNS_MAX);
        let mut lines = vec![
            self.heading(columns),
            self.progress(columns),
            self.rates(columns),
        ];
        lines.extend(self.spark("p99", &self.history.p99_us, columns));
        lines.extend(self.cores(columns));
        lines.extend(self.spark("p50", &self.history.p50_us, columns));
        // The lines are dropped from the end, but p50 is shown before the CPU cores.
        lines.truncate(size.rows.saturating_sub(2).max(1));
        if lines.len() > 5 {
            let p50 = lines.remove(5);
            lines.insert(4, p50);
        }
        lines
    }

    fn line(&self, columns: usize) -> Text {
        Text::new(columns, self.color)
    }

    fn heading(&self, columns: usize) -> Text {
        let mut line = self.line(columns);
        let mut times = format!("{} elapsed", clock(self.running));
        if let Some(remaining) = self.remaining {
            times.push_str(&format!(", about {} left", clock(remaining)));
        }
        line.push(Style::Strong, self.heading);
        let column = columns.saturating_sub(times.len());
        if line.free_columns() > times.len() + 2 {
            line.at(column).push(Style::Pale, &times);
        }
        line
    }

    fn progress(&self, columns: usize) -> Text {
        let live = self.live;
        let is_loading = live.elapsed_s > 0.0;
        let (share, text) = match is_loading {
            true => (
                live.elapsed_s / live.total_s.max(1e-9),
                format!(
                    "{} {:.0} of {:.0} s",
                    live.phase,
                    // An overdue phase is shown at its end, not beyond it.
                    live.elapsed_s.min(live.total_s),
                    live.total_s
                ),
            ),
            false => (
                live.connected as f64 / live.clients.max(1) as f64,
                format!(
                    "{} {} of {} clients",
                    live.phase,
                    grouped(live.connected as f64),
                    grouped(live.clients as f64)
                ),
            ),
        };
        let mut line = self.line(columns);
        let width = columns.saturating_sub(text.chars().count() + 2).min(60);
        let filled = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
        let (full, empty) = if self.utf8 {
            ("█", "░")
        } else {
            ("#", "-")
        };
        line.push(Style::Good, &full.repeat(filled))
            .push(Style::Pale, &empty.repeat(width - filled))
            .push(Style::Plain, &format!("  {text}"));
        line
    }

    fn rates(&self, columns: usize) -> Text {
        let live = self.live;
        let mut line = self.line(columns);
        if let Some(achieved) = live.achieved_per_s {
            // Single seconds vary; a tenth less means that the producer is behind.
            let is_behind = live.elapsed_s > 2.0 && achieved < live.offered_per_s * 0.9;
            let style = if is_behind {
                Style::Alarm
            } else {
                Style::Strong
            };
            line.push(Style::Pale, "records ")
                .push(style, &grouped(achieved))
                .push(
                    Style::Plain,
                    &format!(" of {}/s   ", grouped(live.offered_per_s)),
                );
        }
        if let Some(delivered) = live.delivered_per_s.filter(|_| live.elapsed_s > 0.0) {
            line.push(Style::Pale, "deliveries ")
                .push(Style::Strong, &grouped(delivered))
                .push(Style::Plain, "/s   ");
        }
        if let Some(backlog) = live.backlog {
            line.push(Style::Pale, "backlog ")
                .push(Style::Strong, &grouped(backlog as f64))
                .push(Style::Plain, "   ");
        }
        if let Some(lag_us) = live.lag_p99_us.filter(|_| live.elapsed_s > 0.0) {
            line.push(Style::Pale, "schedule lag p99 ")
                .push(Style::Plain, &time(lag_us));
        }
        if line.free_columns() == columns {
            line.push(Style::Pale, "no load yet");
        }
        line
    }

    fn spark(&self, name: &str, values: &VecDeque<f64>, columns: usize) -> Option<Text> {
        let last = values.back()?;
        let mut line = self.line(columns);
        let text = time(*last);
        let max = values.iter().copied().fold(0.0, f64::max);
        let width = columns.saturating_sub(32).min(HISTORY_MAX);
        line.push(Style::Pale, &format!("{name}  "))
            .push(Style::Strong, &format!("{text:<9}"))
            .push(Style::Role(0), &self.graph(values, max, width));
        if line.free_columns() > 18 {
            line.push(Style::Pale, &format!("  up to {}", time(max)));
        }
        Some(line)
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
    fn cores(&self, columns: usize) -> Option<Text> {
        let roles = &self.live.cpu_cores;
        if roles.is_empty() {
            return None;
        }
        let mut line = self.line(columns);
        line.push(Style::Pale, "CPU  ");
        let full = if self.utf8 { "■" } else { "#" };
        for (index, (role, cores)) in roles.iter().enumerate() {
            line.push(Style::Role(index), full)
                .push(Style::Plain, &format!(" {role} "))
                .push(Style::Strong, &format!("{cores:.2}"))
                .push(Style::Plain, "  ");
        }
        let sum: f64 = roles.values().sum();
        line.push(Style::Pale, &format!("total {sum:.2} cores"));
        Some(line)
    }
}

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
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Maximum width of the block. Wider blocks are hard to read.
const COLUMNS_MAX: usize = 110;
/// Maximum number of seconds in a sparkline.
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
        let lines = snapshot.lines(Size { columns, rows });
        lines.iter().map(|line| line.as_str().to_owned()).collect()
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
