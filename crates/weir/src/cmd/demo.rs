//! `weir demo`: everything at once on one machine, with nothing to prepare.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use weir_bench::LiveEndpoints;
use weir_bench::plan::Plan;
use weir_stats::run::{Run, RunOutcome};

use crate::cmd::bench;
use crate::cmd::bench_progress::BenchProgress;
use crate::exit::{Exit, Failure};
use crate::signal;

/// Where the demo leaves its result, or what it keeps up.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Where the run folder is made.
    #[arg(long, value_name = "DIR", default_value = "weir-runs")]
    out: PathBuf,
    /// Measure nothing: keep a broker, the gateway and the producers of a built-in plan (keyed unless named) up
    /// until Ctrl-C, for examples/ and any client SDK.
    #[arg(long, value_name = "PLAN", num_args = 0..=1, default_missing_value = "keyed")]
    stay: Option<String>,
    /// With --stay, the gateway's address.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:8080",
        requires = "stay"
    )]
    listen: SocketAddr,
    /// With --stay, the address of the gateway's dashboard, metrics and health.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:8090",
        requires = "stay"
    )]
    admin: SocketAddr,
}

/// Runs the demo.
pub(crate) fn run(args: &DemoArgs) -> Result<Exit, Failure> {
    match &args.stay {
        Some(name) => stay(args, name),
        None => compare(args),
    }
}

fn compare(args: &DemoArgs) -> Result<Exit, Failure> {
    let plan = plan().map_err(|error| Failure::new(Exit::Usage, error))?;
    let levels: Vec<String> = plan.levels.iter().map(u64::to_string).collect();
    println!(
        "One topic, {} records a second under 40 keys, brought to {} clients in four ways:\n  \
         groups      each client is a Kafka consumer group of its own and reads the whole topic\n  \
         standalone  each client is a plain Kafka consumer and reads the whole topic\n  \
         gateway     each client subscribes to its one key at weir's gateway, by WebSocket\n  \
         floor       ready-made frames to plain sockets: the least any server could do\n\
         Broker, gateway, producers and clients all run here, on free ports; about 3 minutes.\n",
        plan.workload.rate_per_s,
        levels.join(", "),
    );
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let mut watch = BenchProgress::new(false);
    let options = bench::options(&args.out, None)?;
    let finished = bench::execute(&plan, &options, &mut watch, &stop)?;
    bench::print_result(&finished);
    println!(
        "live    weir demo --stay keeps a broker, the gateway and producers up for clients of yours"
    );
    Ok(exit_of(&finished.run))
}

fn plan() -> Result<Plan, weir_bench::plan::PlanError> {
    // Invariant: the plan is built in, and a test parses it.
    let plan = Plan::built_in("keyed").expect("the plan is part of the program")?;
    let demo = plan.demo.clone();
    let mut plan = plan.with(&demo, "keyed.toml")?;
    // A demo on a small machine shows figures; it does not judge them.
    plan.thresholds.clear();
    Ok(plan)
}

fn stay(args: &DemoArgs, name: &str) -> Result<Exit, Failure> {
    let (plan, _) = bench::load_plan(name)?;
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let mut watch = BenchProgress::new(false);
    let options = bench::options(&args.out, None)?;
    let addresses = [args.listen, args.admin];
    let up = |live: &LiveEndpoints| show(&plan, live);
    let result = weir_bench::stay(&plan, &options, addresses, &mut watch, &stop, up);
    watch.end();
    result.map_err(|error| bench::failure(error, &stop))?;
    Ok(Exit::Fine)
}

fn show(plan: &Plan, live: &LiveEndpoints) {
    println!(
        "\ngateway       http://{}  (ws://{0})\nadapter set   {}\ndata adapter  {}\nitem          {}\n\
         fields        {}\ndashboard     http://{}/dashboard\nmetrics       http://{5}/metrics\n\
         broker        {}, topic {}, {} records a second\n\n\
         Up until Ctrl-C.",
        live.listen,
        live.adapter_set,
        live.data_adapter,
        live.item,
        live.fields.join(" "),
        live.admin,
        live.bootstrap,
        live.topic,
        plan.workload.rate_per_s,
    );
}

/// Fine when each architecture has at least one valid level.
fn exit_of(run: &Run) -> Exit {
    match run.outcome {
        RunOutcome::Passed | RunOutcome::ThresholdFailed => Exit::Fine,
        RunOutcome::Invalid => Exit::Instrument,
        RunOutcome::Interrupted => Exit::Interrupted,
    }
}
