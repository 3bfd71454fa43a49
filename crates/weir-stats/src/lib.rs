//! Histograms, the run file format, interval logs and confidence intervals.
//!
//! Pure: no clock, no files, no randomness. Callers hand in bytes and instants and get values back.

mod codec;
pub mod compact;
pub mod compare;
pub mod histogram;
pub mod hlog;
pub mod interval;
pub mod knee;
pub mod libraries;
pub mod metric;
pub mod perf;
pub mod run;
pub mod steady;
pub mod student;
pub mod trend;
pub mod utc;

pub use compact::CompactHistogram;
pub use histogram::{Histogram, HistogramError, NegativeCount, samples_needed};
