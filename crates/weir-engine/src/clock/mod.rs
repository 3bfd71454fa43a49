//! Bound of the difference between two clocks, from the timestamps of many small exchanges.
//!
//! The four timestamps of an [`Exchange`] are t0 to t3. Whatever the network delays are, the offset
//! of the peer's clock is between `t2 - t3` and `t1 - t0`. Of each second, the sample with the
//! shortest round trip is stored. Rates are fitted to the samples within [`HORIZON`], so a rate may
//! change slowly. The bound includes all offsets that the samples before and after a time allow,
//! each extrapolated with the rates of its side. So the bound also covers a clock step that is too
//! small to be detected.
//!
//! This module has no sockets and no clocks; [`udp`] has them.

mod rates;
pub mod udp;

use std::time::Duration;

use thiserror::Error;
use weir_load::clock::nanos;

use rates::{RATE_MAX, Rates, Sample};

/// Timestamps of one exchange, in nanoseconds. This machine's clock has the first and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Request sent.
    pub sent_ns: u64,
    /// Request received by the peer.
    pub peer_received_ns: u64,
    /// Response sent by the peer.
    pub peer_sent_ns: u64,
    /// Response received.
    pub received_ns: u64,
}

/// Reason why no bound can be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ClockError {
    /// The exchanges do not reach from the start to the end of the time span.
    #[error("too few clock exchanges: {0} s with a response")]
    TooFew(usize),
    /// No constant rate fits the samples around this time, in nanoseconds of the own clock.
    #[error("a clock was stepped, or changed its rate, after {at_s} s", at_s = .0 / 1_000_000_000)]
    Stepped(u64),
}

/// Offset of the peer's clock from this machine's clock over a time span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockBound {
    /// Offset of the peer's clock in the middle of the time span, in nanoseconds.
    pub offset_ns: i64,
    /// Rate of the offset in nanoseconds per second.
    pub drift_ns_per_s: f64,
    /// Largest possible difference between the offset and `offset_ns` in the whole time span.
    pub error_ns: u64,
}

/// Samples of one peer.
#[derive(Debug, Clone, Default)]
pub struct ClockHistory {
    /// The best sample of each window, in order of time.
    samples: Vec<Sample>,
    /// Time of the first exchange; sample times are relative to it.
    start_ns: Option<u64>,
    /// Offset of the first exchange; sample offsets are relative to it.
    base_ns: i128,
    /// Number of the window of the last sample.
    window: u64,
    ignored: u64,
}

impl ClockHistory {
    /// Adds an exchange. Impossible timestamps are ignored and counted.
    pub fn add(&mut self, exchange: &Exchange) {
        let own_ns = exchange.received_ns.checked_sub(exchange.sent_ns);
        let peer_ns = exchange.peer_sent_ns.checked_sub(exchange.peer_received_ns);
        let (Some(own_ns), Some(peer_ns)) = (own_ns, peer_ns) else {
            self.ignored += 1;
            return;
        };
        let start_ns = *self.start_ns.get_or_insert(exchange.sent_ns);
        // A peer's clock that is faster by a small rate can make the round trip negative.
        if peer_ns > own_ns + own_ns / 1000 || exchange.sent_ns < start_ns {
            self.ignored += 1;
            return;
        }
        let high_ns = i128::from(exchange.peer_received_ns) - i128::from(exchange.sent_ns);
        let low_ns = i128::from(exchange.peer_sent_ns) - i128::from(exchange.received_ns);
        if self.samples.is_empty() {
            self.base_ns = (high_ns + low_ns) / 2;
        }
        // Both limits hold within the exchange; its middle is the time of the sample.
        let slack_ns = seconds(own_ns) * RATE_MAX / 2.0;
        let sample = Sample {
            at_s: seconds(exchange.sent_ns - start_ns) + seconds(own_ns) / 2.0,
            low_ns: (low_ns - self.base_ns) as f64 - slack_ns,
            high_ns: (high_ns - self.base_ns) as f64 + slack_ns,
        };
        let window = (exchange.sent_ns - start_ns) / nanos(WINDOW);
        match self.samples.last_mut() {
            Some(last) if window <= self.window => {
                if sample.width_ns() < last.width_ns() {
                    *last = sample;
                }
            }
            _ => self.push(window, sample),
        }
    }

    fn push(&mut self, window: u64, sample: Sample) {
        if self.samples.len() >= SAMPLES_MAX {
            // No running cell needs samples of this age.
            self.samples.drain(..SAMPLES_MAX / 2);
        }
        self.window = window;
        self.samples.push(sample);
    }

    /// Returns the number of exchanges with impossible timestamps.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Returns the bound between two times of the own clock, in nanoseconds.
    ///
    /// # Errors
    /// [`ClockError`] if the exchanges do not cover the time span, or a clock was stepped.
    pub fn bound(&self, from_ns: u64, until_ns: u64) -> Result<ClockBound, ClockError> {
        let few = ClockError::TooFew(self.samples.len());
        let start_ns = self.start_ns.ok_or(few)?;
        let at = |ns: u64| ns.checked_sub(start_ns).map(seconds).ok_or(few);
        let (from_s, until_s) = (at(from_ns)?, at(until_ns)?);
        let before = self.samples.iter().rposition(|it| it.at_s <= from_s);
        let after = self.samples.iter().position(|it| it.at_s >= until_s);
        let (Some(before), Some(after)) = (before, after) else {
            return Err(few);
        };
        let (first, last) = (before, after.max(before + 1));
        if last >= self.samples.len() || before + 1 < SIDE_SAMPLES_MIN {
            return Err(few);
        }
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let middle_s = f64::midpoint(from_s, until_s);
        let (mut offset, mut drift) = (0.0, 0.0);
        for at in first..last {
            let (left, right) = self.rates_around(at, start_ns)?;
            let (a, b) = (&self.samples[at], &self.samples[at + 1]);
            for at_s in [a.at_s.max(from_s), b.at_s.min(until_s)] {
                let (from_a, from_b) = (left.from(a, at_s), right.from(b, at_s));
                low = low.min(from_a.0).min(from_b.0);
                high = high.max(from_a.1).max(from_b.1);
            }
            if (a.at_s..=b.at_s).contains(&middle_s) {
                let (from_a, from_b) = (left.from(a, middle_s), right.from(b, middle_s));
                offset = f64::midpoint(from_a.0.min(from_b.0), from_a.1.max(from_b.1));
                drift = f64::midpoint(left.middle(), right.middle());
            }
        }
        let error = (high - offset).max(offset - low);
        let whole_ns = self.base_ns + offset.round() as i128;
        Ok(ClockBound {
            offset_ns: i64::try_from(whole_ns).map_err(|_| few)?,
            drift_ns_per_s: drift,
            error_ns: error.ceil() as u64 + 1,
        })
    }

    /// Returns the rates of the samples up to `at`, and of those after it.
    fn rates_around(&self, at: usize, start_ns: u64) -> Result<(Rates, Rates), ClockError> {
        let all = &self.samples;
        let near = |it: &&Sample| (it.at_s - all[at].at_s).abs() <= HORIZON.as_secs_f64();
        let from = at - all[..at].iter().rev().take_while(near).count();
        let until = at + 1 + all[at + 1..].iter().take_while(near).count();
        let stepped = || ClockError::Stepped(start_ns + (all[at].at_s * 1e9) as u64);
        let rates = |samples: &[Sample]| Rates::of(samples).ok_or_else(stepped);
        // Both sides together detect a step between them.
        rates(&all[from..until])?;
        // Few samples do not determine a rate, so a short side borrows from the other one.
        let until_min = (from + SIDE_SAMPLES_MIN).min(all.len());
        let left = rates(&all[from..(at + 1).max(until_min)])?;
        let from_max = until.saturating_sub(SIDE_SAMPLES_MIN);
        let right = rates(&all[(at + 1).min(from_max)..until])?;
        Ok((left, right))
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Time before and after a measured time span in which clocks are compared: 64 exchanges.
pub const LEAD: Duration = Duration::from_secs(8);
/// Length of a window; the best sample of each window is stored.
const WINDOW: Duration = Duration::from_secs(1);
/// Distance up to which samples determine the rate of a clock.
const HORIZON: Duration = Duration::from_secs(30);
/// Minimum number of samples that determine the rate of a side. If a side has fewer, samples of the
/// other side are included.
const SIDE_SAMPLES_MIN: usize = 6;
/// Maximum number of samples: nine hours.
const SAMPLES_MAX: usize = 1 << 15;

#[cfg(test)]
mod tests;
