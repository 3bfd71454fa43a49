//! `weir bench report`: rebuilds reports from raw files and shows several runs side by side.

use std::path::{Path, PathBuf};

use clap::Args;
use weir_bench::Finished;
use weir_report::{ReportError, RunData};

use crate::cmd::bench_common::print_result;
use crate::exit::{Exit, Failure};

/// Arguments of `weir bench report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Run directories
    ///
    /// The outputs of each run are rebuilt. With several runs, an additional report shows them side
    /// by side.
    #[arg(required = true, value_name = "RUN")]
    dirs: Vec<PathBuf>,
    /// Directory of the side-by-side report of several runs
    #[arg(long, value_name = "DIR", default_value = "weir-runs/side-by-side")]
    out: PathBuf,
}

/// Rebuilds the reports and prints the result table.
pub(crate) fn run(args: ReportArgs) -> Result<Exit, Failure> {
    for dir in &args.dirs {
        weir_report::write_all(dir).map_err(failure)?;
    }
    let finished = match args.dirs.as_slice() {
        [dir] => Finished {
            dir: dir.clone(),
            run: RunData::read(dir).map_err(failure)?.run,
        },
        dirs => side_by_side(dirs, args.out)?,
    };
    print_result(&finished);
    Ok(Exit::Success)
}

fn side_by_side(dirs: &[PathBuf], out: PathBuf) -> Result<Finished, Failure> {
    let dirs: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
    let data = weir_report::overlay(&dirs).map_err(failure)?;
    weir_report::write_data(&data, &out).map_err(failure)?;
    Ok(Finished {
        dir: out,
        run: data.run,
    })
}

fn failure(error: ReportError) -> Failure {
    Failure::new(Exit::Usage, error)
}
