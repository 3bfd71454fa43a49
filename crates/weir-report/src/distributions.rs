//! Complete distributions of client libraries, from the file with the samples as measured.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use weir_stats::run::{Distribution, Run};

/// The fields of a line that are needed.
#[derive(Deserialize)]
struct SampleLine {
    cell: String,
    driver: String,
    repetition: u32,
    latency: Option<Distribution>,
    pacing: Option<Distribution>,
}

type Found = HashMap<(String, String, u32), SampleLine>;

/// Replaces the distributions of a run by the complete ones, if it has a file with them. Returns a
/// warning if that fails; reports then have no distribution charts.
pub(crate) fn read(dir: &Path, run: &mut Run) -> Option<String> {
    let libraries = run.libraries.as_mut()?;
    let name = libraries.distributions_file.clone()?;
    // Run directories are untrusted.
    if name != PACKED && name != PLAIN {
        return Some(format!("{name:?} is not the file of a run's distributions"));
    }
    let mut found = match open(dir).and_then(parse) {
        Ok(found) => found,
        Err(error) => {
            return Some(format!(
                "cannot read {name}: {error}; charts of distributions are missing"
            ));
        }
    };
    for sample in &mut libraries.samples {
        let key = (
            sample.cell.clone(),
            sample.driver.clone(),
            sample.repetition,
        );
        let Some(line) = found.remove(&key) else {
            continue;
        };
        // Values of the run file decide; the pairs only add detail.
        for (own, raw) in [
            (&mut sample.latency, line.latency),
            (&mut sample.pacing, line.pacing),
        ] {
            if let (Some(own), Some(raw)) = (own, raw) {
                if raw.thinned() == *own {
                    *own = raw;
                }
            }
        }
    }
    libraries.distributions_file = None;
    None
}

/// Opens the compressed file, or the one of a run that has not ended.
fn open(dir: &Path) -> io::Result<Box<dyn Read>> {
    match File::open(dir.join(PACKED)) {
        Ok(file) => Ok(Box::new(MultiGzDecoder::new(BufReader::new(file)))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Box::new(File::open(dir.join(PLAIN))?))
        }
        Err(error) => Err(error),
    }
}

fn parse(file: Box<dyn Read>) -> io::Result<Found> {
    let mut found = Found::new();
    for line in BufReader::new(file.take(BYTES_MAX)).lines() {
        let line: SampleLine = serde_json::from_str(&line?)?;
        if line.latency.is_some() || line.pacing.is_some() {
            let key = (line.cell.clone(), line.driver.clone(), line.repetition);
            found.insert(key, line);
        }
    }
    Ok(found)
}

/// Maximum decompressed size; a run directory is untrusted.
const BYTES_MAX: u64 = 256 << 20;
const PACKED: &str = "libraries.jsonl.gz";
const PLAIN: &str = "libraries.jsonl";
