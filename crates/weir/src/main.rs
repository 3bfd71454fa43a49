//! The `weir` binary: command line, logging and exit codes. The crates below it do the work.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool prints"
)]

mod cli;
mod cmd;
mod completions;
mod environment;
mod exit;
mod help;
mod logging;
mod man;
mod options_file;
mod signal;

use std::process::ExitCode;

use crate::cli::CliCommand;
use crate::exit::{Exit, Failure};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ignore_broken_pipe();
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let log = cli::init_logging(&cli);
    let result = run(cli.command);
    drop(log);
    match result {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("weir: {failure}");
            failure.exit.into()
        }
    }
}

fn run(command: CliCommand) -> Result<Exit, Failure> {
    match command {
        CliCommand::Gateway(command) => cmd::gateway::run(command),
        CliCommand::Proxy(command) => cmd::proxy::run(command),
        CliCommand::Lab(command) => cmd::lab::run(command),
        CliCommand::Load(command) => cmd::load::run(command),
        CliCommand::Bench(command) => cmd::bench::run(command),
        CliCommand::Demo(args) => cmd::demo::run(&args),
        CliCommand::Agent(args) => cmd::agent::run(&args),
        CliCommand::Completions { shell } => {
            print!("{}", completions::script(shell));
            Ok(Exit::Success)
        }
        CliCommand::Man { dir } => man::write_pages(&dir),
    }
}

/// Suppresses the panic message when standard output is a closed pipe, as in `weir ... | head`.
///
/// The panic still unwinds, so child processes and threads are stopped as usual.
fn ignore_broken_pipe() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>();
        if !message.is_some_and(|text| text.starts_with("failed printing to stdout: Broken pipe")) {
            default_hook(panic);
        }
    }));
}
