//! `weir load clients`.

use std::sync::atomic::Ordering;

use weir_load::clients::{self, ClientsError, ClientsOptions};
use weir_load::worker::Link;
use weir_load::worker::protocol::{Command, Event};

pub(crate) use crate::cmd::clients_args::ClientsArgs;
use crate::cmd::clients_watch::Watch;
use crate::cmd::load_local;
use crate::exit::{Exit, Failure};
use crate::signal;

/// Runs the clients.
pub(crate) fn run(args: &ClientsArgs) -> Result<Exit, Failure> {
    let options = args
        .options()
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    match args.worker {
        true => run_worker(&options),
        false => run_here(args, &options),
    }
}

fn run_worker(options: &ClientsOptions) -> Result<Exit, Failure> {
    let link = Link::stdio();
    match clients::run(options, &link) {
        Ok(_) => Ok(Exit::Fine),
        Err(error) => {
            link.events.send(&Event::Error {
                message: error.to_string(),
            });
            Err(failure(error))
        }
    }
}

fn run_here(args: &ClientsArgs, options: &ClientsOptions) -> Result<Exit, Failure> {
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let mut watch = Watch::new(args.json, args.duration);
    let result = load_local::run(
        &stop,
        |link| clients::run(options, link),
        |event, commands| {
            watch.show(event);
            if let Event::Ready { .. } = event {
                // The worker may have failed meanwhile, which its result will tell.
                let _ = commands.send(Command::Start(watch.schedule()));
            }
        },
    );
    let summary = result.map_err(failure)?;
    watch.finish(&summary);
    if watch.is_saturated() {
        eprintln!(
            "weir: the clients' own event loop was busy for {:.0} % of the time: latencies show \
             this tool, not the server; use fewer clients or a faster machine",
            watch.busy_share() * 100.0
        );
        return Ok(Exit::Instrument);
    }
    if watch.has_refused() {
        eprintln!("weir: some latencies could not be read: the figures are not complete");
        return Ok(Exit::Instrument);
    }
    let interrupted = stop.load(Ordering::Relaxed) && args.duration.is_some();
    Ok(if interrupted {
        Exit::Interrupted
    } else {
        Exit::Fine
    })
}

fn failure(error: ClientsError) -> Failure {
    let exit = match error {
        ClientsError::Server { .. } => Exit::Usage,
        ClientsError::Unreachable { .. } => Exit::Unreachable,
        ClientsError::Descriptors { .. } | ClientsError::Io(_) => Exit::Instrument,
    };
    Failure::new(exit, error)
}
