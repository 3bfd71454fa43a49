//! The `weir` binary: command line, log set-up and exit codes; the work is in the crates below it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool prints"
)]

mod cli;
mod cmd;
mod descriptors;
mod exit;
mod huge_pages;
mod signal;

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ignore_broken_pipe();
    let cli = cli::Cli::parse();
    let log = cli::init_logging(&cli);
    let result = cmd::run(cli.command);
    drop(log);
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("weir: {failure}");
            failure.exit.into()
        }
    }
}

/// `weir ... | head` ends when its reader has seen enough: what was started is stopped as ever, but there is
/// nobody to tell, and nothing to tell.
fn ignore_broken_pipe() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>();
        if !message.is_some_and(|text| text.starts_with("failed printing to stdout: Broken pipe")) {
            tell(panic);
        }
    }));
}
