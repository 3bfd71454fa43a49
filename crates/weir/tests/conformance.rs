//! Unmodified Lightstreamer SDKs against the gateway's binary and a real broker
//! (docs/conformance.md).
//!
//! A test program without the standard harness (`harness = false`). All cases run with each SDK;
//! one line is printed per SDK and case. `conformance/expected.toml` lists the known failures.

#![allow(clippy::print_stdout, reason = "the table of results is its output")]

mod conformance {
    pub(crate) mod accessibility;
    pub(crate) mod browser;
    pub(crate) mod cases;
    pub(crate) mod command;
    pub(crate) mod diffs;
    pub(crate) mod driver;
    pub(crate) mod driver_process;
    pub(crate) mod event_pages;
    pub(crate) mod events;
    pub(crate) mod expected;
    pub(crate) mod gateway;
    pub(crate) mod identity;
    pub(crate) mod messages;
    pub(crate) mod modes;
    pub(crate) mod pacing;
    pub(crate) mod page;
    pub(crate) mod pages;
    pub(crate) mod proxy;
    pub(crate) mod report_page;
    pub(crate) mod restarts;
    pub(crate) mod runner;
    pub(crate) mod sdk;
    pub(crate) mod secure;
    pub(crate) mod site_page;
    pub(crate) mod test_env;
    pub(crate) mod transports;
}

use std::process::ExitCode;

fn main() -> ExitCode {
    // The same arguments as those of cargo's harness; all arguments except options are filters.
    let filters: Vec<_> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    if std::env::args().any(|word| word == "--list") {
        conformance::runner::list();
        return ExitCode::SUCCESS;
    }
    conformance::runner::run(&filters)
}
