//! `weir demo`: a comparison, or a running gateway with load, on one machine without preparation.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use weir_bench::LiveEndpoints;
use weir_bench::plan::{Plan, Valid};
use weir_load::kafka::KafkaArgs;
use weir_stats::run::{Run, RunOutcome};

use crate::cmd::bench_common::{self, RunOptions};
use crate::cmd::bench_progress::BenchProgress;
use crate::cmd::plan_name::PlanNameParser;
use crate::cmd::summary_file::SummaryArgs;
use crate::exit::{Exit, Failure, OrExit as _};
use crate::signal;

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Parent directory of the run directory
    #[arg(long, value_name = "DIR", default_value = "weir-runs")]
    out: PathBuf,
    /// Run broker, gateway and producers until Ctrl-C, without a measurement
    ///
    /// The producers are those of the built-in plan, keyed by default. Use the programs in
    /// examples/ or any client SDK as clients.
    #[arg(
        long,
        value_name = "PLAN",
        num_args = 0..=1,
        default_missing_value = "keyed",
        value_parser = PlanNameParser,
        hide_possible_values = true
    )]
    serve: Option<String>,
    /// Client address of the gateway, with --serve
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:8080",
        requires = "serve"
    )]
    listen: SocketAddr,
    /// Address of dashboard, metrics and health of the gateway, with --serve
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:8090",
        requires = "serve"
    )]
    admin: SocketAddr,
}

pub(crate) fn run(args: &DemoArgs) -> Result<Exit, Failure> {
    match &args.serve {
        Some(name) => serve(args, name),
        None => compare(args),
    }
}

/// Runs the built-in comparison with the small levels of its plan.
fn compare(args: &DemoArgs) -> Result<Exit, Failure> {
    // The demo may run on a small machine, so it checks no thresholds.
    let plan = bench_common::load_clients_plan("keyed")?;
    let plan = plan.with(plan.demo.clone(), "keyed.toml");
    let plan: Valid<Plan> = plan?.without_limits();
    let levels: Vec<String> = plan.levels.iter().map(u64::to_string).collect();
    println!(
        "One topic, {} records per second with 40 keys, delivered to {} clients by four \
         architectures:\n  \
         groups      each client is a Kafka consumer group and reads the whole topic\n  \
         standalone  each client is a plain Kafka consumer and reads the whole topic\n  \
         gateway     each client subscribes to one key at the gateway, over WebSocket\n  \
         floor       pre-encoded frames to plain sockets, the baseline for any server\n\
         Broker, gateway, producers and clients run on this machine, on free ports, for about \
         3 minutes.\n",
        plan.workload.rate_per_s,
        levels.join(", "),
    );
    let run = RunOptions {
        kafka: KafkaArgs::default(),
        out: args.out.clone(),
        json: false,
        summary: SummaryArgs::default(),
        require_conclusive: false,
    };
    let finished = run.execute(None, |options, progress, stop| {
        weir_bench::run(&plan, options, progress, stop)
    })?;
    bench_common::print_result(&finished);
    println!("live    weir demo --serve runs broker, gateway and producers for your own clients");
    Ok(exit_of(&finished.run))
}

/// Runs broker, gateway and producers of a built-in plan until a signal stops them.
fn serve(args: &DemoArgs, name: &str) -> Result<Exit, Failure> {
    let plan = bench_common::load_clients_plan(name)?;
    let stop = signal::stop_flag().or_exit(Exit::Tool)?;
    let mut progress = BenchProgress::new(false);
    let options = bench_common::options(&args.out, &KafkaArgs::default())?;
    let addresses = [args.listen, args.admin];
    let on_ready = |live: &LiveEndpoints| show(&plan, live);
    let result =
        weir_bench::serve_until(&plan, &options, addresses, &mut progress, &stop, on_ready);
    progress.end();
    result.map_err(|error| bench_common::failure(error, &stop))?;
    Ok(Exit::Success)
}

/// Prints what a client needs to connect.
fn show(plan: &Plan, live: &LiveEndpoints) {
    println!(
        "\ngateway       http://{}  (ws://{0})\nadapter set   {}\ndata adapter  {}\n\
         item          {}\n\
         fields        {}\ndashboard     http://{}/dashboard\nmetrics       http://{5}/metrics\n\
         broker        {}, topic {}, {} records per second\n\n\
         Stop with Ctrl-C.",
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

/// Returns the exit code of a demo: success if each architecture has at least one valid level.
fn exit_of(run: &Run) -> Exit {
    match run.outcome {
        RunOutcome::Complete | RunOutcome::ThresholdFailed => Exit::Success,
        RunOutcome::Incomplete => Exit::Unreachable,
        RunOutcome::Invalid => Exit::Tool,
        RunOutcome::Interrupted => Exit::Interrupted,
    }
}
