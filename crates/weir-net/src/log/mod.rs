//! Logging that peers cannot abuse: a separate thread writes the lines, lines that a peer can cause
//! are limited per kind of event, and text of a peer is truncated and escaped.
//!
//! The counters are per process, as the log is.

mod limiter;
mod recent;
mod truncated;
mod writer;

pub use limiter::{LogLimiter, report_suppressed, suppressed_lines};
pub use recent::recent_lines;
pub use truncated::Truncated;
pub use writer::{LogWriter, dropped_lines};

#[doc(hidden)]
pub use tracing as __tracing;

/// Levels under the names of the `tracing` macros.
#[doc(hidden)]
#[expect(non_upper_case_globals, reason = "`limited!` gets them as they are")]
pub mod __level {
    use tracing::Level;

    pub const error: Level = Level::ERROR;
    pub const warn: Level = Level::WARN;
    pub const info: Level = Level::INFO;
    pub const debug: Level = Level::DEBUG;
}

/// Logs an event that a peer can cause: `limited!(warn, "kind of event", %error, "message")`. Takes
/// a level, the kind for reports of suppressed lines, and the arguments of the `tracing` macros.
///
/// Each call site may log a burst of ten lines and then one line per second. Further lines are
/// counted, see [`log::report_suppressed`](crate::log::report_suppressed). If the level is
/// disabled, nothing is formatted or counted.
#[macro_export]
macro_rules! limited {
    ($level:ident, $kind:literal, $($event:tt)+) => {
        if $crate::log::__tracing::enabled!($crate::log::__level::$level) {
            static LIMITER: $crate::log::LogLimiter = $crate::log::LogLimiter::new($kind);
            if LIMITER.admits() {
                $crate::log::__tracing::$level!($($event)+);
            }
        }
    };
}
