//! Logging that peers cannot abuse: a separate thread writes the lines, lines that a peer can cause
//! are limited per kind of event, and text of a peer is truncated and escaped.
//!
//! The counters are per process, as the log is.

mod limiter;
mod truncated;
mod writer;

pub use limiter::{LogLimiter, report_suppressed, suppressed_lines};
pub use truncated::Truncated;
pub use writer::{LogWriter, dropped_lines};

#[doc(hidden)]
pub use tracing as __tracing;

/// Logs an event that a peer can cause: `limited!(warn, "kind of event", %error, "message")`. Takes
/// a level, the kind for reports of suppressed lines, and the arguments of the `tracing` macros.
///
/// Each call site may log a burst of ten lines and then one line per second. Further lines are
/// counted, see [`log::report_suppressed`](crate::log::report_suppressed). If the level is
/// disabled, nothing is formatted or counted.
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
