//! Applies a filter chain to one record batch: decompresses it, edits its records, compresses it
//! again, and updates length and checksum.

use weir_wire::records::{
    BATCH_HEADER_BYTES, Batches, Codec, RecordLayout, RecordsError, SnappyFraming, put_record,
    set_crc, set_length_and_crc,
};

use crate::FilterCounts;
use crate::buffers::{BatchBuffers, WorkMeter};
use crate::record::{Changes, RecordEdit, ReplacementBuffer};
use crate::{Filter, RecordRejection};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchOutcome {
    /// An unchanged batch.
    Untouched,
    /// A batch changed in place.
    Edited,
    /// A rebuilt batch, appended to `out`.
    Rebuilt,
    /// A batch that exceeds the remaining work budget; it must be filtered again with a new one.
    Deferred,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BatchRejection {
    /// A topic id without a known name.
    UnknownTopic,
    /// Message format 0 or 1, which filters cannot decode.
    OldFormat,
    /// A batch beyond the limits.
    TooLarge(String),
    /// A wrong checksum.
    Corrupt,
    /// Invalid content with a correct checksum.
    Invalid(String),
    /// Records rejected by filters, by their index; at most [`REJECTED_LISTED_MAX`].
    Records(Vec<(i32, String)>),
}

impl From<RecordsError> for BatchRejection {
    fn from(error: RecordsError) -> Self {
        match error {
            RecordsError::TooLarge { bytes_max, .. } => Self::TooLarge(format!(
                "a batch decompresses to more than {bytes_max} bytes: send smaller batches"
            )),
            RecordsError::Stopped => Self::TooLarge(TOO_SLOW.to_owned()),
            RecordsError::Checksum { .. } => Self::Corrupt,
            other => Self::Invalid(other.to_string()),
        }
    }
}

/// Applies `chain` to `batch`, which is one whole batch, and appends a rebuilt batch to `out`. A
/// rejected batch may be partly edited.
pub(crate) fn run(
    batch: &mut [u8],
    chain: &[&dyn Filter],
    batch_buffers: &mut BatchBuffers,
    counts: &mut FilterCounts,
    out: &mut Vec<u8>,
) -> Result<BatchOutcome, BatchRejection> {
    batch_buffers.decompressed_bytes = 0;
    let no_batch = || BatchRejection::Invalid("no batch".to_owned());
    let view = Batches::new(batch).next().ok_or_else(no_batch)??;
    view.verify_crc()?;
    if view.is_control() || view.record_count == 0 {
        return Ok(BatchOutcome::Untouched);
    }
    let (codec, count) = (view.codec()?, view.record_count);
    let BatchBuffers {
        scratch,
        limits,
        meter,
        ..
    } = &mut *batch_buffers;
    if count > limits.frame_records {
        return Err(too_many(limits.frame_records));
    }
    if !meter.take(RECORD_UNITS * count as u64 + view.payload().len() as u64) {
        return Ok(BatchOutcome::Deferred);
    }
    if codec != Codec::None {
        scratch.set_bytes_max(meter.batch_bytes.min(limits.batch_bytes));
        match view.decompress(scratch, &mut || meter.may_proceed()) {
            Ok(decompressed) => {
                let units = decompressed.len() as u64;
                meter.charge(units);
            }
            Err(RecordsError::TooLarge { bytes_max, .. }) if bytes_max < limits.batch_bytes => {
                return Ok(BatchOutcome::Deferred);
            }
            Err(error) => return Err(error.into()),
        }
    }
    counts.batches += 1;
    counts.records += count as u64;
    let (header, stored) = batch.split_at_mut(BATCH_HEADER_BYTES);
    let framing = SnappyFraming::of(stored);
    let payload = match codec {
        Codec::None => stored,
        _ => batch_buffers.scratch.decompressed_mut(),
    };
    batch_buffers.decompressed_bytes = payload.len();
    batch_buffers.length_changes.clear();
    batch_buffers.replacements.bytes.clear();
    let mut filter = BatchFilter {
        chain,
        replacements: &mut batch_buffers.replacements,
        length_changes: &mut batch_buffers.length_changes,
        bytes_max: batch_buffers.limits.batch_bytes,
        meter: &mut batch_buffers.meter,
    };
    let edited = filter.edit_records(payload, count)?;
    let uncompressed: &[u8] = match (batch_buffers.length_changes.is_empty(), edited, codec) {
        (true, false, _) => return Ok(BatchOutcome::Untouched),
        (true, true, Codec::None) => {
            set_crc(batch);
            counts.batches_edited += 1;
            return Ok(BatchOutcome::Edited);
        }
        (true, true, _) => payload,
        (false, ..) => {
            batch_buffers.uncompressed.clear();
            rebuild(
                payload,
                batch_buffers.limits.batch_bytes,
                &batch_buffers.replacements,
                &batch_buffers.length_changes,
                &mut batch_buffers.uncompressed,
            )?;
            &batch_buffers.uncompressed
        }
    };
    let start = out.len();
    out.extend_from_slice(header);
    batch_buffers
        .compressor
        .compress(codec, framing, uncompressed, out)?;
    set_length_and_crc(&mut out[start..]);
    counts.batches_rebuilt += 1;
    Ok(BatchOutcome::Rebuilt)
}

struct BatchFilter<'a> {
    chain: &'a [&'a dyn Filter],
    replacements: &'a mut ReplacementBuffer,
    /// Records with changed lengths, by their index in the batch.
    length_changes: &'a mut Vec<(usize, Changes)>,
    bytes_max: usize,
    meter: &'a mut WorkMeter,
}

impl BatchFilter<'_> {
    /// Applies the chain to all records. Returns `true` if one was edited in place; other changes
    /// are added to `length_changes`.
    fn edit_records(&mut self, payload: &mut [u8], count: usize) -> Result<bool, BatchRejection> {
        let (mut at, mut edited) = (0, false);
        let mut rejected = Vec::new();
        for index in 0..count {
            if index % RECORDS_PER_CLOCK_READ == 0 && !self.meter.may_proceed() {
                return Err(BatchRejection::TooLarge(TOO_SLOW.to_owned()));
            }
            let layout = RecordLayout::read(payload, at)?;
            at = layout.end();
            let mut record = RecordEdit::new(payload, &layout, self.replacements);
            let passed = self
                .chain
                .iter()
                .try_for_each(|filter| filter.record(&mut record));
            let changes = record.finish();
            edited |= changes.is_edited_in_place;
            if changes.value.is_some() || changes.headers.is_some() {
                self.length_changes.push((index, changes));
            }
            if let Err(RecordRejection(reason)) = passed {
                if rejected.len() < REJECTED_LISTED_MAX {
                    rejected.push((
                        i32::try_from(index).unwrap_or(i32::MAX),
                        reason.into_owned(),
                    ));
                }
            }
            check_size(self.replacements.bytes.len(), self.bytes_max)?;
        }
        if at != payload.len() {
            let left = payload.len() - at;
            return Err(RecordsError::Trailing { left }.into());
        }
        match rejected.is_empty() {
            true => Ok(edited),
            false => Err(BatchRejection::Records(rejected)),
        }
    }
}

/// Appends all records to `uncompressed`, with their new values and headers.
fn rebuild(
    payload: &[u8],
    bytes_max: usize,
    replacements: &ReplacementBuffer,
    length_changes: &[(usize, Changes)],
    uncompressed: &mut Vec<u8>,
) -> Result<(), BatchRejection> {
    let (mut at, mut index) = (0, 0);
    let mut length_changes = length_changes.iter().peekable();
    while at < payload.len() {
        let layout = RecordLayout::read(payload, at)?;
        let start = std::mem::replace(&mut at, layout.end());
        match length_changes.next_if(|(changed, _)| *changed == index) {
            None => uncompressed.extend_from_slice(&payload[start..at]),
            Some((_, changes)) => {
                let replacement = |range: &Option<std::ops::Range<usize>>| {
                    range.clone().map(|range| &replacements.bytes[range])
                };
                let old_value = layout.value.clone().map(|range| &payload[range]);
                let old_headers = &payload[layout.headers.clone()];
                put_record(
                    uncompressed,
                    payload,
                    &layout,
                    replacement(&changes.value).or(old_value),
                    replacement(&changes.headers).unwrap_or(old_headers),
                );
            }
        }
        index += 1;
        check_size(uncompressed.len(), bytes_max)?;
    }
    Ok(())
}

fn check_size(bytes: usize, bytes_max: usize) -> Result<(), BatchRejection> {
    match bytes <= bytes_max {
        true => Ok(()),
        false => Err(BatchRejection::TooLarge(format!(
            "filtered records take more than {bytes_max} bytes: send smaller batches"
        ))),
    }
}

pub(crate) fn too_many(records_max: usize) -> BatchRejection {
    BatchRejection::TooLarge(format!(
        "more than {records_max} records: send smaller batches"
    ))
}

pub(crate) const TOO_SLOW: &str = "filtering takes too long: send smaller batches";
/// Cost of a record in the units of [`WorkMeter`], in addition to one unit per byte.
const RECORD_UNITS: u64 = 64;
/// Number of records after which the CPU time is checked.
const RECORDS_PER_CLOCK_READ: usize = 64;
/// Maximum number of rejected records listed. The first ones are enough for a producer.
const REJECTED_LISTED_MAX: usize = 100;
