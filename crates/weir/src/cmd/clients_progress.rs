//! Progress output and summary of `weir load clients`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use weir_load::clock::Clock;
use weir_load::delivery::{DeliverySummary, Spread};
use weir_load::worker::protocol::{
    LatencyInterval, LatencyTag, Schedule, WorkerEvent, WorkerProgress,
};
use weir_stats::Histogram;

use crate::cmd::load_common::{
    ProgressTracker, StatusLine, latency_source, print_json, schedule_from_now, time,
};

/// Shows the events of a run and collects their results.
pub(crate) struct ClientsProgress {
    json: bool,
    /// Print only the report of the published programs.
    published_report: bool,
    duration: Option<Duration>,
    clock: Clock,
    line: StatusLine,
    tracker: ProgressTracker,
    latencies: BTreeMap<LatencyTag, Histogram>,
    /// First counters of the measured window.
    first: Option<WorkerProgress>,
    last: WorkerProgress,
    /// Sum (in thousandths) and number of the busy shares since all clients were connected.
    busy_permille: (u64, u64),
    started: bool,
    /// Number of latency intervals that could not be decoded.
    undecoded_intervals: u64,
}

impl ClientsProgress {
    pub(crate) fn new(json: bool, published_report: bool, duration: Option<Duration>) -> Self {
        Self {
            json,
            published_report,
            duration,
            clock: Clock::start(),
            line: StatusLine::new(),
            tracker: ProgressTracker::default(),
            latencies: BTreeMap::new(),
            first: None,
            last: WorkerProgress::default(),
            busy_permille: (0, 0),
            started: false,
            undecoded_intervals: 0,
        }
    }

    /// Starts the measured window and returns its schedule.
    pub(crate) fn schedule(&mut self) -> Schedule {
        self.started = true;
        schedule_from_now(&self.clock, self.duration)
    }

    pub(crate) fn show(&mut self, event: &WorkerEvent) {
        if self.json {
            print_json(event);
        }
        match event {
            WorkerEvent::Progress(progress) => self.progress(progress),
            WorkerEvent::Interval(interval) => self.interval(interval),
            WorkerEvent::Report { text } if !self.json => println!("{text}"),
            WorkerEvent::Ready { connections, .. } if !self.json && !self.published_report => {
                self.line.end();
                println!("{connections} clients are subscribed");
            }
            _ => {}
        }
    }

    fn interval(&mut self, interval: &LatencyInterval) {
        match Histogram::from_base64(&interval.histogram) {
            Ok(histogram) => self
                .latencies
                .entry(interval.tag)
                .or_default()
                .merge(&histogram),
            Err(error) => {
                self.undecoded_intervals += 1;
                tracing::error!(%error, "latency interval not decoded");
            }
        }
    }

    fn progress(&mut self, progress: &WorkerProgress) {
        let change = self.tracker.next(progress);
        if self.started {
            self.busy_permille.0 += change.total("busy_permille");
            self.busy_permille.1 += 1;
            self.first.get_or_insert_with(|| progress.clone());
        }
        self.last = progress.clone();
        if self.json || self.published_report {
            return;
        }
        self.line.show(&change.status("connected", "updates"));
    }

    /// Returns the mean busy share of the receiving thread, of the busiest one if there are
    /// several.
    pub(crate) fn busy_share(&self) -> f64 {
        self.busy_permille.0 as f64 / self.busy_permille.1.max(1) as f64 / 1000.0
    }

    /// Returns `true` if the latencies include delays of this tool.
    pub(crate) fn is_saturated(&self) -> bool {
        self.busy_share() > BUSY_SHARE_MAX
    }

    /// Returns `true` if latency intervals are missing because they could not be decoded.
    pub(crate) fn has_undecoded_intervals(&self) -> bool {
        self.undecoded_intervals > 0
    }

    /// Returns the increase of a counter per second over the measured window.
    fn rate(&self, counter: &str) -> f64 {
        let Some(first) = &self.first else { return 0.0 };
        let value = |at: &WorkerProgress| at.counters.get(counter).copied().unwrap_or(0);
        let span_ns = self.last.unix_ns.saturating_sub(first.unix_ns);
        if span_ns == 0 {
            return 0.0;
        }
        value(&self.last).saturating_sub(value(first)) as f64 / (span_ns as f64 / 1e9)
    }

    pub(crate) fn finish(&mut self, summary: &DeliverySummary) {
        self.line.end();
        if self.json {
            println!("{}", self.as_json(summary));
        } else if !self.published_report {
            self.print(summary);
        }
    }

    fn as_json(&self, summary: &DeliverySummary) -> Value {
        let latency = |tag: LatencyTag| self.latencies.get(&tag).map(latency_json);
        json!({
            "event": "end",
            "busy_share": self.busy_share(),
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
        println!("clients        {}", summary.clients);
        println!(
            "updates        {} ({} in the window), {:.0}/s, {:.2} Mbit/s",
            summary.updates_total,
            summary.deliveries_in_window,
            self.rate("updates"),
            self.rate("bytes_received") * 8.0 / 1e6,
        );
        for (tag, name) in [
            (LatencyTag::Response, "response"),
            (LatencyTag::Service, "service"),
            (LatencyTag::StateAge, "state age"),
        ] {
            match self.latencies.get(&tag) {
                Some(histogram) => println!("{name:<14} {}", latency_text(histogram)),
                None if tag == LatencyTag::Response => println!("{name:<14} –"),
                None => {}
            }
        }
        if let Some(source) =
            latency_source(summary).filter(|_| self.latencies.contains_key(&LatencyTag::Response))
        {
            println!("               {source}");
        }
        fairness("p99 by client", &summary.client_p99_us, |us| {
            time(us * 1000)
        });
        fairness("updates each", &summary.client_deliveries, |n| {
            n.to_string()
        });
        println!(
            "lost           {}{}",
            summary.lost,
            if summary.settled { "" } else { " (gaps only)" }
        );
        println!("duplicated     {}", summary.duplicated);
        println!("reordered      {}", summary.reordered);
        println!("conflated      {}", summary.conflated);
        println!("unchecked      {}", summary.unchecked);
        println!("disconnects    {}", summary.disconnects);
        for (text, count) in &summary.errors {
            println!("error          {count} x {text}");
        }
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
fn fairness(name: &str, spread: &Spread, text: impl Fn(u64) -> String) {
    let [Some(min), Some(median), Some(max)] = [spread.min(), spread.percentile(50), spread.max()]
    else {
        return;
    };
    println!(
        "{name:<14} {} to {}, median {}",
        text(min),
        text(max),
        text(median)
    );
}

/// Above this busy share, latencies include delays of this tool.
const BUSY_SHARE_MAX: f64 = 0.9;
