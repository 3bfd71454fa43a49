//! Histogram of eight rows of asterisks, with the published scale.

use std::fmt::{self, Write};

const ROWS: usize = 8;
const STARS_MAX: f64 = 20.0;

/// Samples from `low_ms` to `top_ms` in rows of `step_ms`. A row includes its upper edge; the lower
/// edge belongs to the previous row. Only the first row includes both.
pub(super) struct Graph {
    low_ms: u64,
    top_ms: u64,
    step_ms: u64,
    counts: [u64; ROWS],
}

impl Graph {
    /// Counts `samples` (milliseconds and number), which must be within the edges.
    pub(super) fn new(low_ms: u64, top_ms: u64, samples: impl Iterator<Item = (u64, u64)>) -> Self {
        let step_ms = (top_ms - low_ms).div_ceil(ROWS as u64).max(1);
        let mut counts = [0; ROWS];
        for (ms, count) in samples {
            let above_edge = (ms - low_ms).saturating_sub(1);
            // Less than the number of rows, because a step is at least an eighth of the range.
            counts[(above_edge / step_ms) as usize] += count;
        }
        Self {
            low_ms,
            top_ms,
            step_ms,
            counts,
        }
    }

    /// Writes the rows between `Min` and `end`, without a trailing line feed.
    pub(super) fn write(&self, out: &mut String, end: &str) -> fmt::Result {
        let unit = self.unit();
        writeln!(out, "Min")?;
        let mut edge_ms = self.low_ms;
        for count in self.counts {
            if edge_ms > self.top_ms {
                break;
            }
            let upper_ms = edge_ms + self.step_ms;
            write!(out, "{edge_ms:04} - {upper_ms:04} ")?;
            // At most 20 by the choice of the unit.
            let stars = (count as f64 / unit + 0.5).floor() as usize;
            out.extend(std::iter::repeat_n('*', stars));
            out.push_str(if count > 0 { "|\n" } else { "\n" });
            edge_ms = upper_ms;
        }
        out.push_str(end);
        Ok(())
    }

    /// Returns the number of samples per asterisk: the smallest count after the last empty row
    /// other than the last row, or more to limit rows to 20 asterisks, but at least 1.
    fn unit(&self) -> f64 {
        let smallest = self.counts.into_iter().fold(0, |least, count| match least {
            0 => count,
            _ => count.min(least),
        });
        let (smallest, largest) = (
            smallest as f64,
            self.counts.into_iter().fold(0, u64::max) as f64,
        );
        match largest / smallest > STARS_MAX {
            true => (largest / STARS_MAX).max(1.0),
            false => smallest.max(1.0),
        }
    }
}
