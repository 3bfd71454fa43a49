//! Histograms of several quantities, reported as intervals of the measured window.

use weir_stats::Histogram;

use crate::worker::EventSender;
use crate::worker::protocol::{LatencyInterval, LatencyTag, WorkerEvent};

/// Histograms by quantity since the last report.
#[derive(Debug)]
pub(crate) struct Intervals<const N: usize> {
    tags: [LatencyTag; N],
    pub(crate) histograms: [Histogram; N],
    /// Values of the last second, for progress displays; not limited to the measured window.
    pub(crate) second: Histogram,
    from_unix_ns: u64,
}

impl<const N: usize> Intervals<N> {
    /// Starts the first interval.
    pub(crate) fn new(tags: [LatencyTag; N], now_unix_ns: u64) -> Self {
        Self {
            tags,
            histograms: [(); N].map(|()| Histogram::new()),
            second: Histogram::new(),
            from_unix_ns: now_unix_ns,
        }
    }

    /// Sends the nonempty intervals and the progress, and starts a new interval.
    pub(crate) fn report(
        &mut self,
        events: &EventSender,
        now_unix_ns: u64,
        counters: &[(&str, u64)],
    ) {
        for (tag, histogram) in self.tags.into_iter().zip(&mut self.histograms) {
            if !histogram.is_empty() {
                events.send(&WorkerEvent::Interval(LatencyInterval {
                    from_unix_ns: self.from_unix_ns,
                    until_unix_ns: now_unix_ns,
                    tag,
                    histogram: histogram.to_base64(),
                }));
                histogram.clear();
            }
        }
        events.progress(now_unix_ns, counters, Some(&mut self.second));
        self.from_unix_ns = now_unix_ns;
    }
}
