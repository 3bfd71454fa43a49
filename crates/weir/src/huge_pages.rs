//! Disables transparent huge pages, with which a few kilobytes per thread occupy 2 MiB.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

/// Disables transparent huge pages and restarts the process with `exec`.
///
/// The restart is needed because existing huge pages stay, and the first allocations happen before
/// `main`. The setting survives `exec`, so the restarted process returns from here immediately.
pub(crate) fn disable_huge_pages() {
    // A kernel without huge pages returns an error; then nothing needs to be disabled.
    let is_new = transparent_huge_pages_are_disabled().is_ok_and(|disabled| !disabled);
    let Ok(own) = std::env::current_exe() else {
        return;
    };
    if !is_new || disable_transparent_huge_pages(true).is_err() {
        return;
    }
    let mut args = std::env::args_os();
    let mut command = Command::new(own);
    if let Some(name) = args.next() {
        command.arg0(name);
    }
    let error = command.args(args).exec();
    tracing::debug!(%error, "restart without huge pages failed, continuing with huge pages");
}
