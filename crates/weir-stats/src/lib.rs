//! Histograms, the run file format, interval logs and confidence intervals.
//!
//! Pure: no clock, no files, no randomness. Callers pass bytes and times.

pub mod answer;
pub mod compact;
pub mod compare;
mod hdr_codec;
pub mod histogram;
pub mod hlog;
pub mod interval;
pub mod knee;
pub mod libraries;
pub mod metric;
pub mod perf;
pub mod run;
pub mod search;
pub mod steady_state;
pub mod student_t;
pub mod trend;
pub mod utc;

pub use compact::CompactHistogram;
pub use histogram::{Histogram, HistogramError, NegativeCount, samples_needed};
