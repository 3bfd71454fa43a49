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
mod signal;

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    cli::init_logging(&cli);
    match cmd::run(cli.command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("weir: {failure}");
            failure.exit.into()
        }
    }
}
