//! `weir bench run proxy-overhead`: the plan that compares proxies.

use weir_bench::overhead::{self, OverheadOverrides, OverheadPlan};
use weir_bench::plan::PlanError;

use crate::cmd::bench_common::{
    OVERHEAD_PLAN, exit_of, failure, options, print_files, print_result, usage,
};
use crate::cmd::bench_progress::BenchProgress;
use crate::cmd::bench_run_args::BenchRunArgs;
use crate::exit::{Exit, Failure};
use crate::signal;

/// Returns the plan if `name` is the built-in plan or a plan file that compares proxies.
pub(crate) fn plan(name: &str) -> Option<Result<OverheadPlan, PlanError>> {
    if name == OVERHEAD_PLAN {
        return Some(OverheadPlan::built_in());
    }
    let text = std::fs::read_to_string(name).ok()?;
    let is_one = text
        .lines()
        .any(|line| line.trim_start().starts_with("subjects"));
    is_one.then(|| OverheadPlan::parse(&text, name))
}

/// Runs the plan.
pub(crate) fn run(args: &BenchRunArgs, plan: OverheadPlan) -> Result<Exit, Failure> {
    let mut plan = plan;
    let own = &args.overhead;
    if args.quick {
        let quick = plan.quick.clone();
        plan = plan.with(&quick, &args.plan).map_err(usage)?;
    }
    let overrides = OverheadOverrides {
        subjects: own.subjects.clone(),
        repetitions: args.repetitions,
        records: args.records,
        record_bytes: own.record_size,
        rates_per_s: args.rates.as_deref().map(without_zero),
        rate_hold: args.hold,
        warm_up: args.warm_up,
        kafka_tools: args.kafka_tools.then_some(true),
        ..OverheadOverrides::default()
    };
    plan.external_proxies
        .extend(own.external_proxies.iter().cloned());
    plan.producer.extend(own.kafka_properties.iter().cloned());
    let plan = plan.with(&overrides, "command line").map_err(usage)?;
    let stop = signal::stop_flag().map_err(|error| Failure::new(Exit::Instrument, error))?;
    let mut progress = BenchProgress::new(args.json);
    progress.announce(plan.estimated_time());
    let options = options(&args.out, args.bootstrap.clone())?;
    let result = overhead::run(&plan, &options, own.broker_port, &mut progress, &stop);
    progress.end();
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
        print_files(&finished);
    }
    Ok(exit_of(finished.run.outcome))
}

/// Returns the rates as whole numbers, without those that round to 0.
fn without_zero(rates: &[f64]) -> Vec<u64> {
    let whole = rates.iter().map(|rate| rate.round() as u64);
    whole.filter(|rate| *rate > 0).collect()
}
