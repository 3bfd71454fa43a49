//! Records that were made elsewhere: of a file or a topic, sent again in their order, over and over.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use weir_kafka::peek::{PeekError, sample};

/// Where records come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplaySource {
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// How records stand in it.
        format: ReplayFormat,
    },
    /// The oldest records of a topic, with their keys and headers.
    Topic {
        /// Its name.
        topic: String,
        /// How many, over all partitions.
        records: usize,
    },
}

/// How records stand in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayFormat {
    /// One a line: the value, or key and value with this text between them.
    Lines(Option<String>),
    /// Length of the key, key, length of the value, value; lengths of 32 bits, big-endian, -1 for no key.
    Lengths,
}

impl FromStr for ReplayFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "lines" => Ok(Self::Lines(None)),
            "lengths" => Ok(Self::Lengths),
            _ => Err(format!("unknown format \"{text}\": use lines or lengths")),
        }
    }
}

/// Why there is nothing to send again.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A length that the file does not have.
    #[error("{}: record {record} is cut off or has a length beyond the end: is it --replay-format lines?", path.display())]
    Cut {
        /// The file.
        path: PathBuf,
        /// Number of the record, from 1.
        record: usize,
    },
    /// Nothing in it.
    #[error("no records in {0}: give a file or a topic with at least one")]
    Empty(String),
    /// More than is kept.
    #[error("{0} has more than 256 MiB: give a part of it")]
    TooLarge(String),
    /// The topic.
    #[error(transparent)]
    Topic(#[from] PeekError),
}

/// One of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayRecord {
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Vec<u8>,
    /// Its headers; those of this program's own producers are left out.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl ReplaySource {
    /// Reads all of them.
    ///
    /// # Errors
    /// [`ReplayError`] if there is none, or too much.
    pub fn read(&self, bootstrap_servers: &str) -> Result<Vec<ReplayRecord>, ReplayError> {
        let (records, from) = match self {
            Self::File { path, format } => (
                parse(&read_file(path)?, format, path)?,
                path.display().to_string(),
            ),
            Self::Topic { topic, records } => {
                let found = sample(bootstrap_servers, topic, *records, BYTES_MAX, TOPIC_WITHIN)?;
                let records = found.into_iter().filter_map(|record| {
                    let headers = record.headers.into_iter();
                    let headers = headers.filter(|(name, _)| !OURS.contains(&name.as_str()));
                    Some(ReplayRecord {
                        key: record.key,
                        // A deletion has no value to send.
                        value: record.value?,
                        headers: headers
                            .filter_map(|(name, value)| Some((name, value?)))
                            .collect(),
                    })
                });
                (records.collect(), format!("topic \"{topic}\""))
            }
        };
        match records.is_empty() {
            true => Err(ReplayError::Empty(from)),
            false => Ok(records),
        }
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, ReplayError> {
    let failed = |source| ReplayError::File {
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let limit = BYTES_MAX as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() > BYTES_MAX {
        true => Err(ReplayError::TooLarge(path.display().to_string())),
        false => Ok(bytes),
    }
}

fn parse(
    bytes: &[u8],
    format: &ReplayFormat,
    path: &Path,
) -> Result<Vec<ReplayRecord>, ReplayError> {
    match format {
        ReplayFormat::Lines(separator) => {
            let lines = bytes.split(|byte| *byte == b'\n');
            let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
            let lines = lines.filter(|line| !line.is_empty());
            Ok(lines
                .map(|line| of_line(line, separator.as_deref()))
                .collect())
        }
        ReplayFormat::Lengths => {
            let (mut rest, mut records) = (bytes, Vec::new());
            while !rest.is_empty() {
                let cut = || ReplayError::Cut {
                    path: path.to_owned(),
                    record: records.len() + 1,
                };
                let key = take(&mut rest).ok_or_else(cut)?.map(<[u8]>::to_vec);
                let value = take(&mut rest).flatten().ok_or_else(cut)?.to_vec();
                records.push(ReplayRecord {
                    key,
                    value,
                    headers: Vec::new(),
                });
            }
            Ok(records)
        }
    }
}

fn of_line(line: &[u8], separator: Option<&str>) -> ReplayRecord {
    let at = separator
        .and_then(|text| memchr::memmem::find(line, text.as_bytes()).zip(Some(text.len())));
    let (key, value) = match at {
        Some((at, length)) => (Some(line[..at].to_vec()), &line[at + length..]),
        None => (None, line),
    };
    ReplayRecord {
        key,
        value: value.to_vec(),
        headers: Vec::new(),
    }
}

/// Takes a length and as many bytes; `Some(None)` for length -1, `None` if they are not there.
fn take<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    match i32::from_be_bytes(*length) {
        -1 => Some(None),
        length => {
            let (bytes, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
            *rest = after;
            Some(Some(bytes))
        }
    }
}

/// Goes through them, and from the first again.
#[derive(Debug, Clone)]
pub(super) struct Replay {
    records: Arc<[ReplayRecord]>,
    /// By record, which of the names its key is.
    names: Vec<usize>,
    next: usize,
    last: usize,
}

impl Replay {
    /// Also tells the names of its keys, in order of their first appearance.
    pub(super) fn new(records: Arc<[ReplayRecord]>) -> (Self, Vec<String>) {
        let (mut all, mut known) = (Vec::new(), HashMap::new());
        let names = records.iter().map(|record| {
            let key = record.key.as_deref().unwrap_or_default();
            *known.entry(key.to_vec()).or_insert_with(|| {
                all.push(String::from_utf8_lossy(key).into_owned());
                all.len() - 1
            })
        });
        let names = names.collect();
        let replay = Self {
            records,
            names,
            next: 0,
            last: 0,
        };
        (replay, all)
    }

    /// Name of the next record's key.
    pub(super) fn name(&self) -> usize {
        self.names[self.next]
    }

    pub(super) fn make(&mut self) {
        self.last = self.next;
        self.next = (self.next + 1) % self.records.len();
    }

    pub(super) fn last(&self) -> &ReplayRecord {
        &self.records[self.last]
    }
}

/// Headers that each run writes anew.
const OURS: [&str; 3] = [
    crate::stamp::DUE_HEADER,
    crate::stamp::SEQ_HEADER,
    crate::stamp::TEXT_HEADER,
];
/// All of it is kept in memory.
const BYTES_MAX: usize = 256 << 20;
const TOPIC_WITHIN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], format: &ReplayFormat) -> Result<Vec<ReplayRecord>, ReplayError> {
        parse(bytes, format, Path::new("f"))
    }

    fn record(key: Option<&str>, value: &str) -> ReplayRecord {
        ReplayRecord {
            key: key.map(|key| key.as_bytes().to_vec()),
            value: value.as_bytes().to_vec(),
            headers: Vec::new(),
        }
    }

    #[test]
    fn lines_are_values_or_keys_and_values() {
        let text = b"a=1\r\n\nno key\nb==2";
        let plain = read(text, &ReplayFormat::Lines(None)).unwrap();
        assert_eq!(plain[0], record(None, "a=1"));
        let keyed = read(text, &ReplayFormat::Lines(Some("=".to_owned()))).unwrap();
        let expected = [
            record(Some("a"), "1"),
            record(None, "no key"),
            record(Some("b"), "=2"),
        ];
        assert_eq!(keyed, expected);
    }

    #[test]
    fn lengths_allow_any_byte_and_no_key() {
        let mut bytes = Vec::new();
        for part in [Some("k\n"), Some("v"), None, Some("")] {
            let length = part.map_or(-1, |part| part.len() as i32);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(part.unwrap_or_default().as_bytes());
        }
        let found = read(&bytes, &ReplayFormat::Lengths).unwrap();
        assert_eq!(found, [record(Some("k\n"), "v"), record(None, "")]);
        for cut in [1, 5, 9, bytes.len() - 1] {
            assert!(
                read(&bytes[..cut], &ReplayFormat::Lengths).is_err(),
                "{cut}"
            );
        }
        let negative = (-2_i32).to_be_bytes();
        let error = read(&negative, &ReplayFormat::Lengths).unwrap_err();
        assert!(
            error.to_string().contains("f: record 1 is cut off"),
            "{error}"
        );
    }

    #[test]
    fn records_come_in_order_and_again() {
        let records: Vec<_> = [("a", "1"), ("b", "2"), ("a", "3")]
            .map(|(key, value)| record(Some(key), value))
            .into();
        let (mut replay, names) = Replay::new(records.into());
        assert_eq!(names, ["a", "b"]);
        let mut came = Vec::new();
        for _ in 0..4 {
            let name = replay.name();
            replay.make();
            came.push((name, replay.last().value.clone()));
        }
        let expected = [(0, "1"), (1, "2"), (0, "3"), (0, "1")];
        assert_eq!(
            came,
            expected.map(|(name, value)| (name, value.as_bytes().to_vec()))
        );
    }

    #[test]
    fn what_is_not_there_is_named() {
        let source = ReplaySource::File {
            path: "no/such/file".into(),
            format: ReplayFormat::Lines(None),
        };
        let error = source.read("").unwrap_err().to_string();
        assert!(error.starts_with("cannot read no/such/file: "), "{error}");
        assert!("words".parse::<ReplayFormat>().is_err());
    }
}
