//! `weir bench run proxy-overhead`: the plan that compares proxies, and what can be changed about it.

use clap::Args;
use weir_bench::overhead::{self, OverheadOverrides, OverheadPlan, ProxyPath};
use weir_bench::plan::PlanError;
use weir_load::units::parse_count;

use crate::cmd::bench::{BenchRunArgs, exit_of, failure, options, print_result, usage};
use crate::cmd::bench_progress::BenchProgress;
use crate::cmd::load_common::key_value;
use crate::exit::{Exit, Failure};
use crate::signal;

/// What only the plan proxy-overhead has.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of proxy-overhead")]
pub(crate) struct OverheadArgs {
    /// Bytes of each value.
    #[arg(long, value_name = "BYTES", value_parser = parse_count)]
    record_size: Option<u64>,
    /// A producer property by Apache Kafka's name; may be repeated.
    #[arg(long = "producer-property", value_name = "KEY=VALUE", value_parser = key_value)]
    producer_properties: Vec<(String, String)>,
    /// Ways to the broker: direct, relay, pass-through, lower-case.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    subjects: Option<Vec<ProxyPath>>,
    /// Another proxy in front of the same broker, by a name of your choice; may be repeated.
    #[arg(long, value_name = "NAME=HOST:PORT", value_parser = key_value)]
    foreign: Vec<(String, String)>,
    /// Port of the broker that is started, so that a foreign proxy can be told before.
    #[arg(long, value_name = "PORT", conflicts_with = "bootstrap")]
    broker_port: Option<u16>,
}

/// The plan, if `name` is that of one that compares proxies: the built-in one, or a file of that kind.
pub(crate) fn plan(name: &str) -> Option<Result<OverheadPlan, PlanError>> {
    if name == NAME {
        return Some(OverheadPlan::built_in());
    }
    let text = std::fs::read_to_string(name).ok()?;
    let is_one = text
        .lines()
        .any(|line| line.trim_start().starts_with("subjects"));
    is_one.then(|| OverheadPlan::parse(&text, name))
}

/// Runs it.
pub(crate) fn run(args: &BenchRunArgs, plan: OverheadPlan) -> Result<Exit, Failure> {
    let mut plan = plan;
    let own = &args.overhead;
    if args.quick {
        let quick = plan.quick.clone();
        plan = plan.with(&quick, &args.plan).map_err(usage)?;
    }
    let overrides = OverheadOverrides {
        subjects: own.subjects.clone(),
        rounds: args.repetitions,
        messages: args.messages,
        record_bytes: own.record_size,
        rates_per_s: args.rates.as_deref().map(without_zero),
        rate_hold: args.hold,
        warm_up: args.warm_up,
        kafka_tools: args.kafka_tools.then_some(true),
        ..OverheadOverrides::default()
    };
    plan.foreign.extend(own.foreign.iter().cloned());
    plan.producer
        .extend(own.producer_properties.iter().cloned());
    let plan = plan.with(&overrides, "command line").map_err(usage)?;
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let mut watch = BenchProgress::new(args.json);
    watch.announce(plan.estimated_time());
    let options = options(&args.out, args.bootstrap.clone())?;
    let result = overhead::run(&plan, &options, own.broker_port, &mut watch, &stop);
    watch.end();
    let finished = result.map_err(|error| failure(error, &stop))?;
    weir_report::write_all(&finished.dir)
        .map_err(|error| Failure::new(Exit::Instrument, anyhow::Error::new(error)))?;
    if args.json {
        print!("{}", finished.run.to_json());
    } else {
        match weir_report::overhead_table(&finished.run) {
            Some(table) => println!("\n{table}"),
            None => print_result(&finished),
        }
        println!("report  {}", finished.dir.join("report.html").display());
        println!("raw     {}", finished.dir.display());
    }
    Ok(exit_of(finished.run.outcome))
}

fn without_zero(rates: &[f64]) -> Vec<u64> {
    let whole = rates.iter().map(|rate| rate.round() as u64);
    whole.filter(|rate| *rate > 0).collect()
}

/// Name of the plan.
pub(crate) const NAME: &str = "proxy-overhead";
