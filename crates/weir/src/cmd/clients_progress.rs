//! Progress output and summary of `weir load clients`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_load::delivery::{DeliverySummary, Spread};
use weir_load::worker::protocol::{LatencyTag, WorkerCommand, WorkerEvent, WorkerProgress};
use weir_stats::Histogram;

use crate::cmd::load_common::{
    ProgressDelta, ProgressDisplay, latency_source, print_deliveries, print_errors, row, time,
};

/// Events of the clients so far, for the progress line and the summary.
pub(crate) struct ClientsProgress {
    display: ProgressDisplay,
    latencies: BTreeMap<LatencyTag, Histogram>,
    /// First counters of the measured window; rates start from them.
    first: Option<WorkerProgress>,
    has_undecoded_intervals: bool,
}

impl ClientsProgress {
    pub(crate) fn new(display: ProgressDisplay) -> Self {
        Self {
            display,
            latencies: BTreeMap::new(),
            first: None,
            has_undecoded_intervals: false,
        }
    }

    /// Shows an event and returns the command that starts the measured window.
    pub(crate) fn show(&mut self, event: &WorkerEvent) -> Option<WorkerCommand> {
        match event {
            WorkerEvent::Progress(progress) if self.display.started => {
                self.first.get_or_insert_with(|| progress.clone());
            }
            WorkerEvent::Interval(interval) => match Histogram::from_base64(&interval.histogram) {
                Ok(histogram) => {
                    let latencies = self.latencies.entry(interval.tag).or_default();
                    latencies.merge(&histogram);
                }
                Err(error) => {
                    self.has_undecoded_intervals = true;
                    tracing::error!(%error, "latency interval not decoded");
                }
            },
            _ => {}
        }
        let status = |change: &ProgressDelta| change.status("connected", "updates");
        self.display.show(event, "clients are subscribed", status)
    }

    /// Returns `true` if the results include delays of this tool or are incomplete. Prints the
    /// reason.
    pub(crate) fn is_invalid(&self) -> bool {
        let remedy = "fewer clients, more agents";
        if self
            .display
            .is_saturated("event loop of the clients", remedy)
        {
            return true;
        }
        if self.has_undecoded_intervals {
            eprintln!(
                "weir: some latency intervals could not be decoded; the results are incomplete"
            );
        }
        self.has_undecoded_intervals
    }

    /// Returns the increase of a counter per second since the start of the window.
    fn rate(&self, counter: &str) -> f64 {
        let (Some(last), now) = (self.first.clone(), self.display.last.clone()) else {
            return 0.0;
        };
        ProgressDelta { last, now }.per_s(counter)
    }

    /// Prints the summary, as one line of JSON or as text, and returns it as JSON.
    pub(crate) fn finish(&mut self, summary: &DeliverySummary, json: bool) -> Value {
        self.display.end();
        let object = self.as_json(summary);
        if json {
            println!("{object}");
        } else if !self.display.quiet {
            self.print(summary);
        }
        object
    }

    fn as_json(&self, summary: &DeliverySummary) -> Value {
        let latency = |tag: LatencyTag| self.latencies.get(&tag).map(latency_json);
        json!({
            "event": "end",
            "busy_share": self.display.busy_share(),
            "updates_per_s": self.rate("updates"),
            "received_mbit_per_s": self.rate("bytes_received") * 8.0 / 1e6,
            "response": latency(LatencyTag::Response),
            "service": latency(LatencyTag::Service),
            "state_age": latency(LatencyTag::StateAge),
            "client_p99_us": spread_json(&summary.client_p99_us),
            "client_deliveries": spread_json(&summary.client_deliveries),
            "latency_source": latency_source(summary),
            "summary": summary,
        })
    }

    fn print(&self, summary: &DeliverySummary) {
        println!();
        row("clients", summary.clients);
        let (all, measured) = (
            summary.counts.updates_total,
            summary.counts.deliveries_in_window,
        );
        let (per_s, mbit) = (
            self.rate("updates"),
            self.rate("bytes_received") * 8.0 / 1e6,
        );
        let rates = format_args!("{per_s:.0}/s, {mbit:.2} Mbit/s");
        row(
            "updates",
            format_args!("{all} ({measured} in the window), {rates}"),
        );
        let text = |tag| self.latencies.get(&tag).map(latency_text);
        let response = text(LatencyTag::Response);
        row("response", response.as_deref().unwrap_or("–"));
        for (tag, name) in [
            (LatencyTag::Service, "service"),
            (LatencyTag::StateAge, "state age"),
        ] {
            if let Some(text) = text(tag) {
                row(name, text);
            }
        }
        if let Some(source) = latency_source(summary).filter(|_| response.is_some()) {
            row("", source);
        }
        print_spread("p99 by client", &summary.client_p99_us, |us| {
            time(us * 1000)
        });
        print_spread("updates each", &summary.client_deliveries, |n| {
            n.to_string()
        });
        print_deliveries(summary, true);
        print_errors(&summary.errors);
    }
}

fn latency_text(histogram: &Histogram) -> String {
    let percentile = |p| time(histogram.percentile_ns(p).unwrap_or(0));
    format!(
        "mean {} (stddev {})  p50 {}  p90 {}  p99 {}  max {}",
        time(histogram.mean_ns().unwrap_or(0.0) as u64),
        time(histogram.stddev_ns().unwrap_or(0.0) as u64),
        percentile(50.0),
        percentile(90.0),
        percentile(99.0),
        time(histogram.max_ns().unwrap_or(0)),
    )
}

fn latency_json(histogram: &Histogram) -> Value {
    let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
    let mean_us = |ns: Option<f64>| ns.map(|ns| ns / 1e3);
    json!({
        "count": histogram.count(),
        "mean_us": mean_us(histogram.mean_ns()),
        "stddev_us": mean_us(histogram.stddev_ns()),
        "p50_us": us(histogram.percentile_ns(50.0)),
        "p90_us": us(histogram.percentile_ns(90.0)),
        "p99_us": us(histogram.percentile_ns(99.0)),
        "max_us": us(histogram.max_ns()),
    })
}

fn spread_json(spread: &Spread) -> Value {
    json!({
        "clients": spread.clients(),
        "min": spread.min(),
        "p50": spread.percentile(50),
        "p90": spread.percentile(90),
        "max": spread.max(),
    })
}

/// Prints the minimum, maximum and median of a metric over the clients.
fn print_spread(name: &str, spread: &Spread, text: impl Fn(u64) -> String) {
    let [Some(min), Some(median), Some(max)] = [spread.min(), spread.percentile(50), spread.max()]
    else {
        return;
    };
    let [min, max, median] = [min, max, median].map(text);
    row(name, format_args!("{min} to {max}, median {median}"));
}
