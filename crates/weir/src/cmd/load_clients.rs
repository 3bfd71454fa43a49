//! `weir load clients`: simulated gateway clients.

use std::sync::atomic::Ordering;

use weir_load::agent::{self, AgentCoordinator, CoordinatorOptions, Engine, TOKEN_VARIABLE};
use weir_load::clients::{self, clients_per_process};
use weir_load::delivery::DeliverySummary;
use weir_load::worker::CoordinatorChannel;
use weir_load::worker::protocol::{WorkerCommand, WorkerEvent};

pub(crate) use crate::cmd::clients_args::ClientsArgs;
use crate::cmd::clients_args::{ClientsRun, EngineArg};
use crate::cmd::clients_progress::ClientsProgress;
use crate::cmd::load_local;
use crate::exit::{Exit, Failure};
use crate::signal;

/// Runs the clients.
pub(crate) fn run(args: &ClientsArgs) -> Result<Exit, Failure> {
    let run = args
        .run()
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    for note in &run.notes {
        eprintln!("weir: configuration file, {note}");
    }
    match args.worker {
        true => run_worker(args, &run),
        false => run_here(args, &run),
    }
}

/// Runs the clients in this process, or distributes them to agents.
fn work(
    args: &ClientsArgs,
    run: &ClientsRun,
    link: &CoordinatorChannel,
) -> Result<DeliverySummary, Failure> {
    let Some(engine) = args.engine else {
        let result = clients::run(&run.options, link);
        return result.map_err(|error| Failure::new(error.class().into(), error));
    };
    let needed = run.options.clients.div_ceil(clients_per_process()).max(1);
    let agents = args.agents.map_or(needed, usize::from);
    let coordinate = || {
        let given = std::env::var(TOKEN_VARIABLE).ok();
        let token = given.filter(|token| !token.is_empty());
        let token = token.unwrap_or_else(agent::new_token);
        let coordinator = AgentCoordinator::bind(CoordinatorOptions {
            listen: args.listen,
            agents,
            token: token.clone(),
            engine: match engine {
                EngineArg::Local => Engine::Local {
                    exe: std::env::current_exe().map_err(agent::AgentError::Start)?,
                },
                EngineArg::Manual => Engine::Manual,
            },
            join_timeout: args.join_timeout,
        })?;
        if engine == EngineArg::Manual {
            eprintln!(
                "weir: waiting for {agents} agents; start each of them with\n  \
                 {TOKEN_VARIABLE}={token} weir agent --coordinator {}",
                coordinator.address()
            );
        }
        coordinator.run(&run.options, link)
    };
    coordinate().map_err(|error| Failure::new(error.class().into(), error))
}

fn run_worker(args: &ClientsArgs, run: &ClientsRun) -> Result<Exit, Failure> {
    let link = CoordinatorChannel::stdio();
    match work(args, run, &link) {
        Ok(_) => Ok(Exit::Success),
        Err(failure) => {
            link.events.error(failure.to_string(), None);
            Err(failure)
        }
    }
}

fn run_here(args: &ClientsArgs, run: &ClientsRun) -> Result<Exit, Failure> {
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let mut progress = ClientsProgress::new(args.json, args.published_report, run.duration);
    let result = load_local::run(
        &stop,
        |link| work(args, run, link),
        |event, commands| {
            progress.show(event);
            if let WorkerEvent::Ready { .. } = event {
                // If the worker has failed in the meantime, its result contains the error.
                let _ = commands.send(WorkerCommand::Start(progress.schedule()));
            }
        },
    );
    let summary = result?;
    progress.finish(&summary);
    if progress.is_saturated() {
        eprintln!(
            "weir: the event loop of the clients was busy for {:.0} % of the time, so latencies \
             include delays of this tool; use fewer clients, more agents or a faster machine",
            progress.busy_share() * 100.0
        );
        return Ok(Exit::Instrument);
    }
    if progress.has_undecoded_intervals() {
        eprintln!("weir: some latency intervals could not be decoded; the results are incomplete");
        return Ok(Exit::Instrument);
    }
    let interrupted = stop.load(Ordering::Relaxed) && run.duration.is_some();
    Ok(if interrupted {
        Exit::Interrupted
    } else {
        Exit::Success
    })
}
