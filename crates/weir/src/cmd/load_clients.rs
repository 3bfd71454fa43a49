//! `weir load clients`: simulated gateway clients.

use weir_engine::client_agents::{
    self as agent, AgentCoordinator, CoordinatorOptions, Engine, TOKEN_VARIABLE,
};
use weir_load::clients::{self, clients_per_process};
use weir_load::delivery::DeliverySummary;
use weir_load::worker::CoordinatorChannel;

pub(crate) use crate::cmd::clients_args::ClientsArgs;
use crate::cmd::clients_args::{ClientsRun, EngineArg};
use crate::cmd::clients_progress::ClientsProgress;
use crate::cmd::load_common::{exit_for, run_worker};
use crate::cmd::load_local;
use crate::exit::{Exit, Failure, OrExit as _};
use crate::signal;

pub(crate) fn run(args: &ClientsArgs) -> Result<Exit, Failure> {
    let run = args.run().or_exit(Exit::Usage)?;
    for note in &run.notes {
        eprintln!("weir: configuration file, {note}");
    }
    match args.output.output.worker {
        true => run_worker(|link| work(args, &run, link)),
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
        return Ok(clients::run(&run.options, link)?);
    };
    let needed = run.options.clients.div_ceil(clients_per_process()).max(1);
    let agents = args.agents.map_or(needed, usize::from);
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
    Ok(coordinator.run(&run.options, link)?)
}

fn run_here(args: &ClientsArgs, run: &ClientsRun) -> Result<Exit, Failure> {
    let stop = signal::stop_flag().or_exit(Exit::Tool)?;
    let mut progress = ClientsProgress::new(args.output.display(run.duration));
    let result = load_local::run(
        &stop,
        |link| work(args, run, link),
        |event| progress.show(event),
    );
    let output = &args.output.output;
    let summary = progress.finish(&result?, output.json);
    output.summary.write(&summary)?;
    if progress.is_invalid() {
        return Ok(Exit::Tool);
    }
    Ok(exit_for(&stop, run.duration.is_some()))
}
