//! `weir bench list`: lists the built-in plans with question, duration and resources.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use weir_bench::libraries::{self, LibrariesPlan};
use weir_bench::overhead::{self, OverheadPlan};
use weir_bench::plan::{BUILT_IN, BuiltIn, Plan, PlanEstimate};

use crate::cmd::bench_common::usage;
use crate::cmd::terminal;
use crate::exit::{Exit, Failure};

/// Arguments of `weir bench list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Directory to write the plans to, as files
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
}

/// Prints every built-in plan, and exports it if requested.
pub(crate) fn run(args: &ListArgs) -> Result<Exit, Failure> {
    let columns = terminal::size().columns.clamp(60, 100);
    for built_in in BUILT_IN {
        let plan = Plan::parse(built_in.text, built_in.file, |_| None).map_err(usage)?;
        let quick = plan.clone().with(&plan.quick.clone(), built_in.file);
        let quick = quick.map_err(usage)?;
        println!("{}", plan.name);
        print_wrapped(&plan.question, columns);
        if let Some(full_scale) = &plan.full_scale {
            print_wrapped(full_scale, columns);
        }
        println!("  --quick  {}", resources(&quick));
        println!("  full     {}", resources(&plan));
        if let Some(dir) = &args.export {
            export(built_in, dir)?;
        }
        println!();
    }
    overhead_plan(args, columns)?;
    libraries_plan(args, columns)?;
    println!(
        "Run a plan with: weir bench run PLAN --quick\n\
         Times are estimates for runs in which every level is sustained. Memory is the sum of all \
         processes\nwithout kernel buffers."
    );
    Ok(Exit::Success)
}

/// Prints the plan that compares proxies.
fn overhead_plan(args: &ListArgs, columns: usize) -> Result<(), Failure> {
    let plan = OverheadPlan::built_in().map_err(usage)?;
    println!("{}", plan.name);
    print_wrapped(&plan.question, columns);
    if let Some(dir) = &args.export {
        write(dir, overhead::BUILT_IN_FILE, overhead::BUILT_IN_TEXT)?;
    }
    println!();
    Ok(())
}

/// Prints the plan that compares client libraries.
fn libraries_plan(args: &ListArgs, columns: usize) -> Result<(), Failure> {
    let plan = LibrariesPlan::built_in().map_err(usage)?;
    println!("{}", plan.name);
    print_wrapped(&plan.question, columns);
    let quick = plan
        .clone()
        .with(&plan.quick.clone(), libraries::BUILT_IN_FILE);
    let quick = quick.map_err(usage)?;
    println!("  --quick  at most 5 min; {} cells", quick.cells.len());
    println!("  full     some hours; select with --cells, for example --cells 'produce.warm/*'");
    if let Some(dir) = &args.export {
        write(dir, libraries::BUILT_IN_FILE, libraries::BUILT_IN_TEXT)?;
    }
    println!();
    Ok(())
}

fn export(built_in: &BuiltIn, dir: &Path) -> Result<(), Failure> {
    let mut files = [
        (built_in.file, built_in.text),
        (built_in.adapters_file, built_in.adapters),
    ]
    .into_iter()
    .chain(built_in.server)
    .filter(|(file, _)| !file.is_empty());
    files.try_for_each(|(file, text)| write(dir, file, text))
}

fn write(dir: &Path, file: &str, text: &str) -> Result<(), Failure> {
    let path = dir.join(file);
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&path, text))
        .with_context(|| format!("cannot write {}", path.display()))
        .map_err(|error| Failure::new(Exit::Usage, error))?;
    println!("  written to {}", path.display());
    Ok(())
}

/// Returns for example `about 14 min, 1.4 GB of memory, 210 MB of disk; up to 4000 clients, 16
/// cells`.
fn resources(plan: &Plan) -> String {
    let estimate = PlanEstimate::of(plan);
    let clients = match estimate.connections {
        0 | 1 => String::new(),
        max => format!("up to {max} clients, "),
    };
    format!(
        "about {}, {} of memory, {} of disk; {clients}{} cells",
        length(estimate.time),
        bytes(estimate.memory_bytes),
        bytes(estimate.disk_bytes),
        estimate.cells
    )
}

fn length(time: Duration) -> String {
    let minutes = time.as_secs_f64() / 60.0;
    match minutes {
        0.0..90.0 => format!("{:.0} min", minutes.ceil()),
        _ => format!("{:.1} h", minutes / 60.0),
    }
}

fn bytes(count: u64) -> String {
    let megabytes = count as f64 / 1e6;
    match megabytes {
        0.0..1000.0 => format!("{:.0} MB", megabytes.ceil()),
        _ => format!("{:.1} GB", megabytes / 1e3),
    }
}

fn print_wrapped(text: &str, columns: usize) {
    let mut line = String::from(" ");
    for word in text.split_whitespace() {
        if line.len() > 1 && line.chars().count() + 1 + word.chars().count() > columns {
            println!("{line}");
            line = String::from(" ");
        }
        line.push(' ');
        line.push_str(word);
    }
    println!("{line}");
}
