//! `weir bench list`: lists the built-in plans with question, duration and resources.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use weir_bench::plan::{AnyPlan, BUILT_IN, PlanEstimate};

use crate::cmd::editor_schema;
use crate::cmd::text_table::print_wrapped;
use crate::exit::{Exit, Failure, OrExit as _};

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Directory to write the plans to, as files
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
}

pub(crate) fn run(args: &ListArgs) -> Result<Exit, Failure> {
    for built_in in BUILT_IN {
        let text = built_in.text_with_bars()?;
        let plan = AnyPlan::parse(&text, built_in.file, &|_| None)?;
        let quick = plan.quick(built_in.file)?;
        let (name, question) = plan.question();
        println!("{name}");
        print_wrapped(question, "  ");
        if let Some(full_scale) = plan.full_scale() {
            print_wrapped(full_scale, "  ");
        }
        if let (Some(quick), Some(full)) = (quick.estimate(), plan.estimate()) {
            print_wrapped(&format!("--quick: {}", resources(&quick)), "  ");
            print_wrapped(&format!("full: {}", resources(&full)), "  ");
        } else if let AnyPlan::Libraries(quick) = quick {
            let cells = quick.cells.len();
            print_wrapped(&format!("--quick: at most 5 min; {cells} cells"), "  ");
            let full = "full: some hours; select with --cells, for example 'produce.warm/*'";
            print_wrapped(full, "  ");
        }
        if let Some(dir) = &args.export {
            write(
                dir,
                built_in.file,
                &(editor_schema::PLAN.header.to_owned() + &text),
            )?;
            for (file, text) in built_in.configs {
                write(dir, file, text)?;
            }
        }
        println!();
    }
    if let Some(dir) = &args.export {
        println!("Schema of plans, for editors");
        write(dir, editor_schema::PLAN.file, editor_schema::PLAN.text)?;
        println!();
    }
    println!("Run a plan with: weir bench run PLAN --quick");
    print_wrapped(
        "Times are estimates for runs in which every level is sustained. Memory is the sum of all \
         processes without kernel buffers.",
        "",
    );
    Ok(Exit::Success)
}

fn write(dir: &Path, file: &str, text: &str) -> Result<(), Failure> {
    let path = dir.join(file);
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&path, text))
        .with_context(|| format!("cannot write {}", path.display()))
        .or_exit(Exit::Usage)?;
    println!("  written to {}", path.display());
    Ok(())
}

/// Returns for example `about 14 min, 1.4 GB of memory, 210 MB of disk; up to 4000 clients, 16
/// cells`.
fn resources(estimate: &PlanEstimate) -> String {
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
