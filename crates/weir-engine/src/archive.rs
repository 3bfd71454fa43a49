//! A directory as lines of text, so that it can be collected from the log of a pod.
//!
//! Lines are JSON objects with the member `archive`. The data of all lines is one Zstandard stream
//! of files: length of the path, path, length of the content, content. The last line has the
//! SHA-256 of the stream, so a log with missing lines is detected.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek as _, Write};
use std::path::{Component, Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::session::hex;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "archive", rename_all = "snake_case")]
enum ArchiveLine {
    Start,
    Data { base64: String },
    End { sha256: String },
}

/// Returns `true` if a line belongs to an archive.
pub fn is_archive_line(line: &str) -> bool {
    line.starts_with("{\"archive\":")
}

/// Writes the files of a directory as lines, with paths that begin with its name.
///
/// # Errors
/// The error of a file, or of the output.
pub fn write_archive(dir: &Path, output: impl Write) -> io::Result<()> {
    let mut lines = LineWriter {
        output,
        context: Context::new(&SHA256),
    };
    lines.line(&ArchiveLine::Start)?;
    let buffered = io::BufWriter::with_capacity(DATA_BYTES, &mut lines);
    let mut stream = zstd::Encoder::new(buffered, 0)?;
    let root = dir.parent().unwrap_or(dir);
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            match entry.file_type()? {
                kind if kind.is_dir() => dirs.push(entry.path()),
                kind if kind.is_file() => write_file(&mut stream, root, &entry.path())?,
                // Run directories have no links and devices.
                _ => {}
            }
        }
    }
    stream.finish()?.flush()?;
    let sha256 = hex(lines.context.clone().finish().as_ref());
    lines.line(&ArchiveLine::End { sha256 })
}

fn write_file(stream: &mut impl Write, root: &Path, path: &Path) -> io::Result<()> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let name = path.strip_prefix(root).map_err(io::Error::other)?;
    let name = name.to_str().ok_or(io::ErrorKind::InvalidInput)?.as_bytes();
    let length = u16::try_from(name.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(name)?;
    stream.write_all(&size.to_be_bytes())?;
    match io::copy(&mut (&mut file).take(size), stream)? == size {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

struct LineWriter<W> {
    output: W,
    context: Context,
}

impl<W: Write> LineWriter<W> {
    fn line(&mut self, line: &ArchiveLine) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.output.write_all(&text)?;
        self.output.flush()
    }
}

impl<W: Write> Write for &mut LineWriter<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        // The buffer in front passes larger pieces on unchanged.
        let data = &data[..data.len().min(DATA_BYTES)];
        self.context.update(data);
        let base64 = STANDARD.encode(data);
        self.line(&ArchiveLine::Data { base64 })?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the lines of an archive and unpacks it below a directory.
pub struct ArchiveReader {
    dir: PathBuf,
    /// Compressed data, in a file without a name.
    data: Option<(File, Context)>,
}

impl ArchiveReader {
    /// Creates a reader that unpacks below `dir`, which is created.
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            data: None,
        }
    }

    /// Reads a line. Returns the unpacked directory with the last one. A second start begins again.
    ///
    /// # Errors
    /// `InvalidData` if the line is none of an archive, or lines are missing; else the error of a
    /// file.
    pub fn line(&mut self, line: &str) -> io::Result<Option<PathBuf>> {
        match (serde_json::from_str(line)?, self.data.as_mut()) {
            (ArchiveLine::Start, _) => {
                fs::create_dir_all(&self.dir)?;
                let file = File::options()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .open(self.dir.join(PART_FILE))?;
                fs::remove_file(self.dir.join(PART_FILE))?;
                self.data = Some((file, Context::new(&SHA256)));
                Ok(None)
            }
            (ArchiveLine::Data { base64 }, Some((file, context))) => {
                let data = STANDARD.decode(base64).map_err(invalid)?;
                context.update(&data);
                file.write_all(&data)?;
                Ok(None)
            }
            (ArchiveLine::End { sha256 }, Some((file, context))) => {
                if hex(context.clone().finish().as_ref()) != sha256 {
                    return Err(invalid("lines of the archive are missing"));
                }
                file.rewind()?;
                unpack(BufReader::new(zstd::Decoder::new(file)?), &self.dir).map(Some)
            }
            (_, None) => Err(invalid("the archive has no start")),
        }
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Unpacks files below `root`. Returns the directory that has them.
fn unpack(mut stream: impl BufRead, root: &Path) -> io::Result<PathBuf> {
    let mut top = None;
    while !stream.fill_buf()?.is_empty() {
        let (mut length, mut size) = ([0; 2], [0; 8]);
        stream.read_exact(&mut length)?;
        let mut name = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut name)?;
        stream.read_exact(&mut size)?;
        let size = u64::from_be_bytes(size);
        let name = PathBuf::from(String::from_utf8(name).map_err(invalid)?);
        let mut parts = name.components();
        let first = parts.next().filter(|_| parts.clone().next().is_some());
        let Some(Component::Normal(first)) = first else {
            return Err(invalid("the archive has a file outside its directory"));
        };
        if !parts.all(|part| matches!(part, Component::Normal(_))) {
            return Err(invalid("the archive has a file outside its directory"));
        }
        top = Some(root.join(first));
        let path = root.join(&name);
        fs::create_dir_all(path.parent().unwrap_or(root))?;
        // Not over a file that is there.
        let mut file = File::options().write(true).create_new(true).open(path)?;
        if io::copy(&mut (&mut stream).take(size), &mut file)? != size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    top.ok_or_else(|| invalid("the archive has no file"))
}

/// Data of a line. With its encoding it fits into the 64 KiB that log collectors support at least.
const DATA_BYTES: usize = 12 << 10;
const PART_FILE: &str = ".archive.part";

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(dir: &Path) -> Vec<String> {
        let mut text = Vec::new();
        write_archive(dir, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn read(lines: &[String], out: &Path) -> io::Result<Option<PathBuf>> {
        let mut reader = ArchiveReader::new(out);
        let mut found = None;
        for line in lines {
            assert!(is_archive_line(line), "{line}");
            found = reader.line(line)?;
        }
        Ok(found)
    }

    #[test]
    fn directories_are_unpacked_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        fs::create_dir_all(run.join("cell/raw")).unwrap();
        let noise: Vec<u8> = (0..200_000).map(|_| rand::random()).collect();
        fs::write(run.join("cell/raw/noise"), &noise).unwrap();
        fs::write(run.join("run.json"), "{}").unwrap();
        fs::write(run.join("empty"), "").unwrap();
        let lines = lines(&run);
        assert!(lines.len() > 10);
        let out = dir.path().join("out");
        // The log may be read again from its start.
        let twice = [&lines[..4], &lines[..]].concat();
        assert_eq!(read(&twice, &out).unwrap().unwrap(), out.join("run"));
        assert_eq!(fs::read(out.join("run/cell/raw/noise")).unwrap(), noise);
        assert_eq!(fs::read_to_string(out.join("run/run.json")).unwrap(), "{}");
        assert_eq!(fs::read(out.join("run/empty")).unwrap(), b"");
        // Nothing is overwritten.
        assert!(read(&lines, &out).is_err());
    }

    #[test]
    fn missing_lines_are_detected() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        fs::create_dir(&run).unwrap();
        let noise: Vec<u8> = (0..100_000).map(|_| rand::random()).collect();
        fs::write(run.join("noise"), noise).unwrap();
        let lines = lines(&run);
        let out = dir.path().join("out");
        for missing in 0..lines.len() {
            let mut rest = lines.clone();
            rest.remove(missing);
            let result = read(&rest, &out);
            assert!(!matches!(result, Ok(Some(_))), "without line {missing}");
        }
    }

    #[test]
    fn files_outside_the_directory_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["../evil", "/evil", "run/../../evil", "evil", "run/..", ""] {
            let mut stream = Vec::new();
            stream.extend_from_slice(&(name.len() as u16).to_be_bytes());
            stream.extend_from_slice(name.as_bytes());
            stream.extend_from_slice(&1_u64.to_be_bytes());
            stream.push(b'x');
            let result = unpack(&stream[..], &dir.path().join("a/b"));
            assert!(result.is_err(), "{name}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
