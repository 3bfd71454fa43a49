//! Replays records of a file or a topic in their order, repeatedly.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use weir_kafka::KafkaSettings;
use weir_kafka::peek::{PeekError, sample};

/// Source of the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplaySource {
    /// File.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Format of the records in it.
        format: ReplayFormat,
    },
    /// Oldest records of a topic, with their keys and headers.
    Topic {
        /// Name of the topic.
        topic: String,
        /// Number of records, over all partitions.
        records: usize,
    },
}

/// Format of the records in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayFormat {
    /// One record per line: the value, or key and value with this separator.
    Lines(Option<String>),
    /// Length of the key, key, length of the value, value. Lengths have 32 bits, big-endian; -1: no
    /// key.
    Lengths,
}

/// Error for an unknown format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown format \"{0}\": use lines or lengths")]
pub struct UnknownReplayFormat(String);

impl FromStr for ReplayFormat {
    type Err = UnknownReplayFormat;

    fn from_str(text: &str) -> Result<Self, UnknownReplayFormat> {
        match text {
            "lines" => Ok(Self::Lines(None)),
            "lengths" => Ok(Self::Lengths),
            _ => Err(UnknownReplayFormat(text.to_owned())),
        }
    }
}

/// Error of reading the records.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("cannot read {}: {_1}", _0.display())]
    File(PathBuf, io::Error),
    /// A record, numbered from 1, is incomplete or has an invalid length.
    #[error(
        "{}: record {_1} is cut off or has a length beyond the end: is it \
         --replay-format lines?",
        _0.display()
    )]
    Cut(PathBuf, usize),
    /// The file or topic has no records.
    #[error("no records in {0}: give a file or a topic with at least one")]
    Empty(String),
    /// The records exceed [`BYTES_MAX`].
    #[error("{0} has more than 256 MiB: give a part of it")]
    TooLarge(String),
    /// The topic cannot be read.
    #[error(transparent)]
    Topic(#[from] PeekError),
}

/// Record to replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayRecord {
    /// Key of the record.
    pub key: Option<Vec<u8>>,
    /// Value of the record.
    pub value: Vec<u8>,
    /// Headers of the record, without those that Weir's producers write.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl ReplayRecord {
    fn new(key: Option<&[u8]>, value: &[u8]) -> Self {
        Self {
            key: key.map(<[u8]>::to_vec),
            value: value.to_vec(),
            headers: Vec::new(),
        }
    }
}

impl ReplaySource {
    /// Reads all records.
    pub fn read(&self, kafka: &KafkaSettings) -> Result<Vec<ReplayRecord>, ReplayError> {
        let (records, from) = match self {
            Self::File { path, format } => (
                parse(&read_file(path)?, format, path)?,
                path.display().to_string(),
            ),
            Self::Topic { topic, records } => {
                let found = sample(kafka, topic, *records, BYTES_MAX, TOPIC_WITHIN)?;
                let records = found.into_iter().filter_map(|record| {
                    let headers = record.headers.into_iter();
                    let headers = headers.filter(|(name, _)| !OURS.contains(&name.as_str()));
                    Some(ReplayRecord {
                        key: record.key,
                        // A tombstone has no value to send.
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
    let failed = |error| ReplayError::File(path.to_owned(), error);
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
    let (mut rest, mut records) = (bytes, Vec::new());
    if let ReplayFormat::Lines(separator) = format {
        let lines = bytes.split(|byte| *byte == b'\n');
        let lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let lines = lines.filter(|line| !line.is_empty());
        return Ok(lines
            .map(|line| of_line(line, separator.as_deref()))
            .collect());
    }
    while !rest.is_empty() {
        let cut = || ReplayError::Cut(path.to_owned(), records.len() + 1);
        let key = take(&mut rest).ok_or_else(cut)?;
        let value = take(&mut rest).flatten().ok_or_else(cut)?;
        records.push(ReplayRecord::new(key, value));
    }
    Ok(records)
}

fn of_line(line: &[u8], separator: Option<&str>) -> ReplayRecord {
    let at = separator
        .and_then(|text| memchr::memmem::find(line, text.as_bytes()).zip(Some(text.len())));
    match at {
        Some((at, length)) => ReplayRecord::new(Some(&line[..at]), &line[at + length..]),
        None => ReplayRecord::new(None, line),
    }
}

/// Takes a length and that many bytes. `Some(None)` for length -1, `None` if bytes are missing.
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

/// Position in the records, which are replayed in a cycle.
#[derive(Debug, Clone)]
pub(super) struct Replay {
    records: Arc<[ReplayRecord]>,
    /// By record, the number of its key's name.
    names: Vec<usize>,
    next: usize,
    last: usize,
}

impl Replay {
    /// Returns the replay and the names of its keys in order of first appearance.
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

    /// Returns the name number of the next record's key.
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

/// Headers that each run writes itself.
const OURS: [&str; 3] = [
    crate::stamp::DUE_HEADER,
    crate::stamp::SEQ_HEADER,
    crate::stamp::TEXT_HEADER,
];
/// Limit of the records, which are held in memory.
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
    fn lines_are_values_or_keyed_values() {
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
    fn records_repeat_in_order() {
        let records: Vec<_> = [("a", "1"), ("b", "2"), ("a", "3")]
            .map(|(key, value)| record(Some(key), value))
            .into();
        let (mut replay, names) = Replay::new(records.into());
        assert_eq!(names, ["a", "b"]);
        let mut replayed = Vec::new();
        for _ in 0..4 {
            let name = replay.name();
            replay.make();
            replayed.push((name, replay.last().value.clone()));
        }
        let expected = [(0, "1"), (1, "2"), (0, "3"), (0, "1")];
        assert_eq!(
            replayed,
            expected.map(|(name, value)| (name, value.as_bytes().to_vec()))
        );
    }

    #[test]
    fn missing_file_and_unknown_format_are_errors() {
        let source = ReplaySource::File {
            path: "no/such/file".into(),
            format: ReplayFormat::Lines(None),
        };
        let error = source
            .read(&KafkaSettings::plaintext("a:1"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("cannot read no/such/file: "), "{error}");
        assert!("words".parse::<ReplayFormat>().is_err());
    }
}
