//! Huge pages, which have the few kilobytes of every thread take 2 MiB of memory.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

/// Has this process begin anew without huge pages. Those that are there already would stay, and the first
/// allocations come before `main`; the setting outlives `exec`, so the second time nothing is left to do.
pub(crate) fn disable_huge_pages() {
    // A kernel without huge pages refuses, and needs none of it.
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
    tracing::debug!(%error, "goes on with the pages it has");
}
