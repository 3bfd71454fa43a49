//! Fetch responses with leader hints (KIP-951, from version 16), forwarded as they arrive.
//!
//! The addresses follow the records at the end of the response. The walk reads the fields between
//! the records and skips the records themselves, so that they can be spliced.

use weir_wire::WireError;
use weir_wire::reader::WireReader;

use super::addresses::AddressMapper;
use super::headers::RESPONSE_PEEK_BYTES;
use super::leader_hints::{self, Resize};
use crate::versions::FETCH;

/// Returns `true` if responses of this version may end with addresses of leaders.
pub(super) fn has_hints(key: i16, version: i16) -> bool {
    key == FETCH && version >= 16
}

/// The position in a response.
#[derive(Debug)]
pub(super) struct FetchWalk {
    part: ResponsePart,
    /// Bytes of the response from this position on.
    left: usize,
    /// Topics, partitions and aborted transactions that are not passed yet, in the response, topic
    /// and partition.
    topics: u32,
    partitions: u32,
    aborted: u32,
    /// Bytes of the last records.
    records: usize,
    /// A partition has moved. Brokers add addresses only then, and clients use them only then.
    is_moved: bool,
}

/// The part of the response that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponsePart {
    Head,
    Topic,
    Partition,
    AbortedTransaction,
    Records,
    PartitionTags,
    TopicTags,
    Tags,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WalkStep {
    /// The next bytes to forward, of which some may not have arrived.
    Forward(usize),
    /// Number of bytes needed first.
    Incomplete(usize),
    /// The tagged fields at the end of the response, complete.
    Tags(usize),
}

impl FetchWalk {
    /// Creates the walk through a response of `total` bytes with its size prefix.
    pub(super) fn new(total: usize) -> Self {
        Self {
            part: ResponsePart::Head,
            left: total,
            topics: 0,
            partitions: 0,
            aborted: 0,
            records: 0,
            is_moved: false,
        }
    }

    /// Returns `true` after the last byte of the response.
    pub(super) fn is_done(&self) -> bool {
        self.part == ResponsePart::End
    }

    /// Returns the size of the records passed last.
    pub(super) fn records(&self) -> usize {
        self.records
    }

    /// Passes as many parts as `bytes` contain, which begin at the position.
    ///
    /// # Errors
    /// A response that does not match its version, or a part of more than [`PART_BYTES_MAX`] bytes.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Result<WalkStep, WireError> {
        let mut passed = 0;
        while self.part != ResponsePart::End {
            let here = bytes.get(passed..).unwrap_or_default();
            let here = &here[..here.len().min(self.left)];
            if self.part == ResponsePart::Tags {
                let left = self.left;
                return Ok(match (passed, here.len() < left) {
                    (1.., _) => WalkStep::Forward(passed),
                    (_, true) => WalkStep::Incomplete(left),
                    (_, false) => {
                        self.pass(left)?;
                        self.part = ResponsePart::End;
                        WalkStep::Tags(left)
                    }
                });
            }
            match self.read(here) {
                Ok(count) => {
                    self.pass(count)?;
                    passed += count;
                }
                Err(WireError::Truncated { .. }) if here.len() < self.left => {
                    return self.incomplete(passed, here.len());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(WalkStep::Forward(passed))
    }

    fn incomplete(&self, passed: usize, arrived: usize) -> Result<WalkStep, WireError> {
        if passed > 0 {
            return Ok(WalkStep::Forward(passed));
        }
        if arrived >= PART_BYTES_MAX {
            return Err(WireError::Length {
                what: "fields of a fetch response",
                value: arrived as i64,
            });
        }
        let wanted = (2 * arrived).clamp(PART_BYTES_MIN, PART_BYTES_MAX);
        Ok(WalkStep::Incomplete(wanted.min(self.left)))
    }

    fn pass(&mut self, count: usize) -> Result<(), WireError> {
        self.left = self.left.checked_sub(count).ok_or(WireError::Truncated {
            what: "fetch response",
            needed: count,
            left: self.left,
        })?;
        Ok(())
    }

    /// Reads one part. Returns its length, which for records may exceed `bytes`.
    fn read(&mut self, bytes: &[u8]) -> Result<usize, WireError> {
        let mut reader = WireReader::new(bytes);
        let mut skipped = 0;
        match self.part {
            ResponsePart::Head => {
                reader.bytes(RESPONSE_PEEK_BYTES, "header")?;
                reader.skip_tags("header tags")?;
                reader.bytes(4 + 2 + 4, "throttle time, error code and session id")?;
                self.topics = count(&mut reader, "topics")?;
                self.part = self.next_topic();
            }
            ResponsePart::Topic => {
                reader.bytes(16, "topic id")?;
                self.partitions = count(&mut reader, "partitions")?;
                self.topics -= 1;
                self.part = self.next_partition();
            }
            ResponsePart::Partition => {
                reader.i32("partition")?;
                let error = reader.i16("error code")?;
                reader.bytes(3 * 8, "offsets")?;
                self.aborted = count(&mut reader, "aborted transactions")?;
                self.partitions -= 1;
                self.is_moved |= MOVED.contains(&error);
                self.part = self.next_aborted();
            }
            ResponsePart::AbortedTransaction => {
                reader.bytes(16, "aborted transaction")?;
                reader.skip_tags("aborted transaction tags")?;
                self.aborted -= 1;
                self.part = self.next_aborted();
            }
            ResponsePart::Records => {
                reader.i32("preferred read replica")?;
                skipped = reader.uvarint("records")?.saturating_sub(1) as usize;
                self.records = skipped;
                self.part = ResponsePart::PartitionTags;
                let is_last = self.topics == 0 && self.partitions == 0;
                if is_last && !self.is_moved {
                    // Nothing that must be read follows.
                    self.part = ResponsePart::End;
                    let fields = bytes.len() - reader.rest().len();
                    // Invariant: records that exceed the response are an error, not forwarded.
                    return Ok(self.left.max(fields + skipped));
                }
            }
            ResponsePart::PartitionTags => {
                reader.skip_tags("partition tags")?;
                self.part = self.next_partition();
            }
            ResponsePart::TopicTags => {
                reader.skip_tags("topic tags")?;
                self.part = self.next_topic();
            }
            ResponsePart::Tags | ResponsePart::End => {}
        }
        Ok(bytes.len() - reader.rest().len() + skipped)
    }

    fn next_topic(&self) -> ResponsePart {
        match self.topics {
            0 => ResponsePart::Tags,
            _ => ResponsePart::Topic,
        }
    }

    fn next_partition(&self) -> ResponsePart {
        match self.partitions {
            0 => ResponsePart::TopicTags,
            _ => ResponsePart::Partition,
        }
    }

    fn next_aborted(&self) -> ResponsePart {
        match self.aborted {
            0 => ResponsePart::Records,
            _ => ResponsePart::AbortedTransaction,
        }
    }
}

/// Replaces the addresses in a whole response, whose size stays the same. Returns `true` if there
/// were any.
pub(super) fn replace_in(
    frame: &mut [u8],
    mapper: &mut dyn AddressMapper,
) -> Result<bool, WireError> {
    let mut walk = FetchWalk::new(frame.len());
    let mut at = 0;
    while !walk.is_done() {
        match walk.advance(&frame[at..])? {
            WalkStep::Forward(count) => at += count,
            WalkStep::Tags(_) => {
                let made = leader_hints::replace(&frame[at..], mapper, Resize::Never)?;
                if let Some(made) = &made {
                    frame[at..].copy_from_slice(made);
                }
                return Ok(made.is_some());
            }
            WalkStep::Incomplete(needed) => {
                let (what, left) = ("fetch response", frame.len() - at);
                return Err(WireError::Truncated { what, needed, left });
            }
        }
    }
    Ok(false)
}

/// Reads the count of an array whose elements may not have arrived; null counts as 0.
fn count(reader: &mut WireReader<'_>, what: &'static str) -> Result<u32, WireError> {
    Ok(reader.uvarint(what)?.saturating_sub(1))
}

/// Error codes NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH.
const MOVED: [i16; 2] = [6, 74];
/// Bytes of an incomplete part that are waited for first.
const PART_BYTES_MIN: usize = 64;
/// Maximum size of a part, except records and the tagged fields at the end.
const PART_BYTES_MAX: usize = 64 * 1024;

#[cfg(test)]
#[path = "../../tests/wire/fetch_walk.rs"]
pub(super) mod tests;
