//! Logging that peers cannot turn against the process: lines are written by a thread of their own,
//! lines that a peer can cause are limited per kind of event, and text of a peer is cut and escaped.
//!
//! The counters here belong to the process, as its log does.

mod limiter;
mod truncated;
mod writer;

pub use limiter::{LogLimiter, report_suppressed, suppressed_lines};
pub use truncated::Truncated;
pub use writer::{LogWriter, dropped_lines};

#[doc(hidden)]
pub use tracing as __tracing;

/// Logs an event that a peer can cause: `limited!(warn, "kind of event", %error, "message")`. Takes a
/// level, the kind under which suppressed lines are summed up, and what the macros of `tracing` take.
///
/// Each call site may log a burst of ten lines and then one line per second; the rest is counted, see
/// [`log::report_suppressed`](crate::log::report_suppressed). Nothing is formatted or counted where
/// the level is off.
#[macro_export]
macro_rules! limited {
    ($level:ident, $kind:literal, $($event:tt)+) => {
        if $crate::__log_enabled!($level) {
            static LIMITER: $crate::log::LogLimiter = $crate::log::LogLimiter::new($kind);
            if LIMITER.admits() {
                $crate::log::__tracing::$level!($($event)+);
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __log_enabled {
    (error) => {
        $crate::log::__tracing::enabled!($crate::log::__tracing::Level::ERROR)
    };
    (warn) => {
        $crate::log::__tracing::enabled!($crate::log::__tracing::Level::WARN)
    };
    (info) => {
        $crate::log::__tracing::enabled!($crate::log::__tracing::Level::INFO)
    };
    (debug) => {
        $crate::log::__tracing::enabled!($crate::log::__tracing::Level::DEBUG)
    };
}
