//! The block that shows a cell under way: progress, rates, latencies as sparklines, backlog, cores by part.

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
    /// Takes what is new.
    pub(crate) fn add(&mut self, live: &Live) {
        for (kept, value) in [
            (&mut self.p50_us, live.p50_us),
            (&mut self.p99_us, live.p99_us),
        ] {
            kept.extend(value.filter(|us| us.is_finite()));
            while kept.len() > HISTORY_MAX {
                kept.pop_front();
            }
        }
    }
}

/// A moment of a run.
pub(crate) struct ProgressSnapshot<'a> {
    pub(crate) heading: &'a str,
    pub(crate) live: &'a Live,
    pub(crate) history: &'a LatencyHistory,
    pub(crate) running: Duration,
    pub(crate) left: Option<Duration>,
    pub(crate) utf8: bool,
    pub(crate) color: bool,
}

impl ProgressSnapshot<'_> {
    /// The lines, the least important left out where rows are few.
    pub(crate) fn lines(&self, size: Size) -> Vec<Text> {
        // The last column stays free: some terminals go on to the next row when it is written.
        let columns = size.columns.saturating_sub(1).min(COLUMNS_MAX);
        let mut lines = vec![
            self.heading(columns),
            self.progress(columns),
            self.rates(columns),
        ];
        lines.extend(self.spark("p99", &self.history.p99_us, columns));
        lines.extend(self.cores(columns));
        lines.extend(self.spark("p50", &self.history.p50_us, columns));
        // They are shown in another order than they are left out.
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
        let mut times = format!("{} so far", clock(self.running));
        if let Some(left) = self.left {
            times.push_str(&format!(", about {} left", clock(left)));
        }
        line.push(Style::Strong, self.heading);
        let column = columns.saturating_sub(times.len());
        if line.room() > times.len() + 2 {
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
                    // What takes longer than it should is at its end, not beyond it.
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
            // A second has its jitter; a tenth less is a producer that is held up.
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
            line.push(Style::Pale, "generator late ")
                .push(Style::Plain, &time(lag_us));
        }
        if line.room() == columns {
            line.push(Style::Pale, "no load yet");
        }
        line
    }

    fn spark(&self, name: &str, values: &VecDeque<f64>, columns: usize) -> Option<Text> {
        let last = values.back()?;
        let mut line = self.line(columns);
        let text = time(*last);
        let most = values.iter().copied().fold(0.0, f64::max);
        let room = columns.saturating_sub(32).min(HISTORY_MAX);
        line.push(Style::Pale, &format!("{name}  "))
            .push(Style::Strong, &format!("{text:<9}"))
            .push(Style::Part(0), &self.graph(values, most, room));
        if line.room() > 18 {
            line.push(Style::Pale, &format!("  up to {}", time(most)));
        }
        Some(line)
    }

    fn graph(&self, values: &VecDeque<f64>, most: f64, room: usize) -> String {
        let steps: &[char] = match self.utf8 {
            true => &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            false => &['.', ':', '-', '=', '+', '*', '#', '@'],
        };
        let shown = values.iter().skip(values.len().saturating_sub(room));
        shown
            .map(|value| {
                let step = (value / most.max(1e-9) * steps.len() as f64).ceil() as usize;
                steps[step.clamp(1, steps.len()) - 1]
            })
            .collect()
    }

    /// Cores of each part, one bar in parts of colour and then the figures.
    fn cores(&self, columns: usize) -> Option<Text> {
        let parts = &self.live.cpu_cores;
        if parts.is_empty() {
            return None;
        }
        let mut line = self.line(columns);
        line.push(Style::Pale, "CPU  ");
        let full = if self.utf8 { "■" } else { "#" };
        for (place, (part, cores)) in parts.iter().enumerate() {
            line.push(Style::Part(place), full)
                .push(Style::Plain, &format!(" {part} "))
                .push(Style::Strong, &format!("{cores:.2}"))
                .push(Style::Plain, "  ");
        }
        let sum: f64 = parts.values().sum();
        line.push(Style::Pale, &format!("together {sum:.2} cores"));
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

/// A wider block is harder to read.
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
        let course = ProgressSnapshot {
            heading: "gateway-10000-1  cell 3 of 16",
            live: &live(),
            history: &history,
            running: Duration::from_secs(161),
            left: Some(Duration::from_secs(540)),
            utf8,
            color: false,
        };
        let lines = course.lines(Size { columns, rows });
        lines.iter().map(|line| line.as_str().to_owned()).collect()
    }

    #[test]
    fn everything_is_there() {
        let lines = shown(100, 24, true);
        assert_eq!(lines.len(), 6);
        assert!(lines[0].starts_with("gateway-10000-1  cell 3 of 16"));
        assert!(lines[0].ends_with("2:41 min so far, about 9:00 min left"));
        assert!(lines[1].contains("█░") && lines[1].ends_with("hold 12 of 48 s"));
        assert!(lines[2].starts_with("records 100 of 100/s   deliveries 25,003/s   backlog 1,250"));
        assert_eq!(lines[3], "p99  4.2 ms   ▁█▄  up to 8.4 ms");
        assert!(lines[4].starts_with("p50  900 us   ███"));
        assert_eq!(
            lines[5],
            "CPU  ■ broker 0.31  ■ gateway 0.46  together 0.77 cores"
        );
    }

    #[test]
    fn it_fits_into_any_terminal() {
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
