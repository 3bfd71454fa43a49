//! `weir bench report`: every output again, from raw files alone; several runs side by side.

use std::path::{Path, PathBuf};

use clap::Args;
use weir_bench::Finished;
use weir_report::{ReportError, RunData};

use crate::cmd::bench::print_result;
use crate::exit::{Exit, Failure};

/// Which runs.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Run folders. The outputs of each are rebuilt; with more than one, all are laid over each other as well.
    #[arg(required = true, value_name = "RUN")]
    dirs: Vec<PathBuf>,
    /// With several runs: the folder for what shows them side by side.
    #[arg(long, value_name = "DIR", default_value = "weir-runs/side-by-side")]
    out: PathBuf,
}

/// Rebuilds, and prints the table.
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
    Ok(Exit::Fine)
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
