//! Compresses the raw files of a run, and takes from `run.json` what they have.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use weir_stats::run::Run;

use super::journal::{DRIVERS, SAMPLES};
use crate::BenchError;

/// Compresses the samples and the transcripts in the directory of a run that has ended. Leaves only
/// the pairs of few percentiles in the samples of `run`; reports read the file for the others.
///
/// # Errors
/// A file cannot be read or written. `run` is then unchanged, and the files are complete,
/// compressed or not.
pub fn pack(dir: &Path, run: &mut Run) -> Result<(), BenchError> {
    for path in files(dir, PLAIN)? {
        replace(&path, &with_ending(&path, PACKED), |from, to| {
            let mut encoder = GzEncoder::new(to, Compression::best());
            io::copy(&mut BufReader::new(from), &mut encoder)?;
            encoder.finish()
        })?;
    }
    if let Some(libraries) = &mut run.libraries {
        libraries.distributions_file = Some(format!("{SAMPLES}{PACKED}"));
        for sample in &mut libraries.samples {
            for found in [&mut sample.latency, &mut sample.pacing]
                .into_iter()
                .flatten()
            {
                *found = found.thinned();
            }
        }
    }
    Ok(())
}

/// Decompresses the files of a run that is resumed.
pub(super) fn unpack(dir: &Path) -> Result<(), BenchError> {
    for path in files(dir, &format!("{PLAIN}{PACKED}"))? {
        replace(&path, &path.with_extension(""), |from, mut to| {
            io::copy(&mut MultiGzDecoder::new(BufReader::new(from)), &mut to)?;
            Ok(to)
        })?;
    }
    Ok(())
}

/// Returns the raw files with this ending: the samples, and the transcripts of the drivers.
fn files(dir: &Path, ending: &str) -> Result<Vec<PathBuf>, BenchError> {
    let mut found = Vec::new();
    for dir in [dir.to_owned(), dir.join(DRIVERS)] {
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(BenchError::read(&dir, error)),
        };
        for entry in entries {
            let path = entry.map_err(|error| BenchError::read(&dir, error))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Writes `to` from the content of `from`, which is then removed. An interruption leaves `from`
/// complete.
fn replace(
    from: &Path,
    to: &Path,
    convert: impl FnOnce(File, BufWriter<File>) -> io::Result<BufWriter<File>>,
) -> Result<(), BenchError> {
    let partial = with_ending(to, ".partial");
    let input = File::open(from).map_err(|error| BenchError::read(from, error))?;
    let written = File::create(&partial)
        .and_then(|output| convert(input, BufWriter::new(output))?.flush())
        .and_then(|()| fs::rename(&partial, to))
        .and_then(|()| fs::remove_file(from));
    written.map_err(|error| BenchError::file(to, error))
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

const PLAIN: &str = ".jsonl";
pub(super) const PACKED: &str = ".gz";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacked_files_are_the_original_ones() {
        let dir = std::env::temp_dir().join(format!("weir-pack-{}", std::process::id()));
        fs::create_dir_all(dir.join(DRIVERS)).unwrap();
        let samples = dir.join(SAMPLES);
        let transcript = dir.join(DRIVERS).join("java.jsonl");
        let log = dir.join(DRIVERS).join("java.log");
        for path in [&samples, &transcript, &log] {
            fs::write(path, "{\"cell\":1}\n".repeat(1000)).unwrap();
        }
        let mut run = Run::default();
        pack(&dir, &mut run).unwrap();
        assert!(!samples.exists() && !transcript.exists() && log.exists());
        let packed = fs::metadata(with_ending(&samples, PACKED)).unwrap().len();
        assert!(packed < 200, "{packed} bytes");
        // Nothing is left to do.
        pack(&dir, &mut run).unwrap();
        unpack(&dir).unwrap();
        let text = fs::read_to_string(&samples).unwrap();
        let entries = fs::read_dir(&dir).unwrap().count();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!((text.len(), entries), (11_000, 2));
    }
}
