//! One batch through a chain of filters: opened, changed, and made valid again.

use weir_kafka::records::{
    BATCH_HEADER_BYTES, Batches, Codec, RecordLayout, RecordsError, SnappyFraming, put_record,
    seal, set_length_and_crc,
};

use super::buffers::{BatchBuffers, FilterCounts, MemoryMeter, ReplacementBuffer};
use super::record::RecordEdit;
use super::{Filter, RecordRejection};

/// What has become of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchOutcome {
    /// Nothing: it goes on as it came.
    Untouched,
    /// It was changed where it lies.
    Edited,
    /// It was written anew, behind what was in `out`.
    Rebuilt,
    /// Nothing: it costs more than may be done now.
    Later,
}

/// Why a batch does not go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BatchRejection {
    /// Format 0 or 1, which filters can not open.
    OldFormat,
    /// It is larger than we are ready to hold.
    TooLarge(String),
    /// Its checksum is wrong.
    Corrupt,
    /// It is no batch, although its checksum says so.
    Unreadable(String),
    /// Records that filters refused, by their place in it, the first of them.
    Records(Vec<(i32, String)>),
}

impl From<RecordsError> for BatchRejection {
    fn from(error: RecordsError) -> Self {
        match error {
            RecordsError::TooLarge { bytes_max, .. } => Self::TooLarge(format!(
                "a batch unpacks to more than {bytes_max} bytes: send smaller batches"
            )),
            RecordsError::Stopped => Self::TooLarge(TOO_SLOW.to_owned()),
            RecordsError::Checksum { .. } => Self::Corrupt,
            other => Self::Unreadable(other.to_string()),
        }
    }
}

/// Takes `batch`, all of one, through `chain`. A batch that is refused may be half changed.
pub(super) fn run(
    batch: &mut [u8],
    chain: &[&dyn Filter],
    tools: &mut BatchBuffers,
    tally: &mut FilterCounts,
    out: &mut Vec<u8>,
) -> Result<BatchOutcome, BatchRejection> {
    tools.unpacked_bytes = 0;
    let none = || BatchRejection::Unreadable("no batch".to_owned());
    let view = Batches::new(batch).next().ok_or_else(none)??;
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
    } = &mut *tools;
    if count > limits.frame_records {
        return Err(too_many(limits.frame_records));
    }
    if !meter.take(RECORD_UNITS * count as u64 + view.payload().len() as u64) {
        return Ok(BatchOutcome::Later);
    }
    if codec != Codec::None {
        scratch.set_bytes_max(meter.batch_bytes.min(limits.batch_bytes));
        match view.unpack(scratch, &mut || meter.may_proceed()) {
            Ok(unpacked) => {
                let units = unpacked.len() as u64;
                meter.charge(units);
            }
            Err(RecordsError::TooLarge { bytes_max, .. }) if bytes_max < limits.batch_bytes => {
                return Ok(BatchOutcome::Later);
            }
            Err(error) => return Err(error.into()),
        }
    }
    tally.batches += 1;
    tally.records += count as u64;
    let (header, packed) = batch.split_at_mut(BATCH_HEADER_BYTES);
    let form = SnappyFraming::of(packed);
    let payload = match codec {
        Codec::None => packed,
        _ => tools.scratch.decompressed_mut(),
    };
    tools.unpacked_bytes = payload.len();
    tools.rows.clear();
    tools.room.bytes.clear();
    let mut walk = BatchFilter {
        chain,
        room: &mut tools.room,
        rows: &mut tools.rows,
        bytes_max: tools.limits.batch_bytes,
        meter: &mut tools.meter,
    };
    let edited = walk.records(payload, count)?;
    let plain: &[u8] = match (tools.rows.is_empty(), edited, codec) {
        (true, false, _) => return Ok(BatchOutcome::Untouched),
        (true, true, Codec::None) => {
            seal(batch);
            tally.batches_edited += 1;
            return Ok(BatchOutcome::Edited);
        }
        (true, true, _) => payload,
        (false, ..) => {
            tools.plain.clear();
            rebuild(
                payload,
                tools.limits.batch_bytes,
                &tools.room,
                &tools.rows,
                &mut tools.plain,
            )?;
            &tools.plain
        }
    };
    let start = out.len();
    out.extend_from_slice(header);
    tools.packer.pack(codec, form, plain, out)?;
    set_length_and_crc(&mut out[start..]);
    tally.batches_rebuilt += 1;
    Ok(BatchOutcome::Rebuilt)
}

/// The records of one batch on their way through the filters.
struct BatchFilter<'a> {
    chain: &'a [&'a dyn Filter],
    room: &'a mut ReplacementBuffer,
    rows: &'a mut Vec<(usize, super::record::Changes)>,
    bytes_max: usize,
    meter: &'a mut MemoryMeter,
}

impl BatchFilter<'_> {
    /// Whether anything was changed where it lies; what was not is in the rows.
    fn records(&mut self, payload: &mut [u8], count: usize) -> Result<bool, BatchRejection> {
        let (mut at, mut edited) = (0, false);
        let mut refused = Vec::new();
        for index in 0..count {
            if index % RECORDS_PER_LOOK == 0 && !self.meter.may_proceed() {
                return Err(BatchRejection::TooLarge(TOO_SLOW.to_owned()));
            }
            let layout = RecordLayout::read(payload, at)?;
            at = layout.end();
            let mut record = RecordEdit::new(payload, &layout, self.room);
            let passed = self
                .chain
                .iter()
                .try_for_each(|filter| filter.record(&mut record));
            let changes = record.finish();
            edited |= changes.edited;
            if changes.value.is_some() || changes.headers.is_some() {
                self.rows.push((index, changes));
            }
            if let Err(RecordRejection(why)) = passed {
                if refused.len() < REJECTED_LISTED_MAX {
                    refused.push((i32::try_from(index).unwrap_or(i32::MAX), why.into_owned()));
                }
            }
            check_size(self.room.bytes.len(), self.bytes_max)?;
        }
        if at != payload.len() {
            let left = payload.len() - at;
            return Err(RecordsError::Trailing { left }.into());
        }
        match refused.is_empty() {
            true => Ok(edited),
            false => Err(BatchRejection::Records(refused)),
        }
    }
}

/// Writes all records with the new values and headers.
fn rebuild(
    payload: &[u8],
    bytes_max: usize,
    room: &ReplacementBuffer,
    rows: &[(usize, super::record::Changes)],
    plain: &mut Vec<u8>,
) -> Result<(), BatchRejection> {
    let (mut at, mut index) = (0, 0);
    let mut rows = rows.iter().peekable();
    while at < payload.len() {
        let layout = RecordLayout::read(payload, at)?;
        let start = std::mem::replace(&mut at, layout.end());
        match rows.next_if(|(row, _)| *row == index) {
            None => plain.extend_from_slice(&payload[start..at]),
            Some((_, changes)) => {
                let part = |range: &Option<std::ops::Range<usize>>| {
                    range.clone().map(|range| &room.bytes[range])
                };
                let old_value = layout.value.clone().map(|range| &payload[range]);
                let old_headers = &payload[layout.headers.clone()];
                put_record(
                    plain,
                    payload,
                    &layout,
                    part(&changes.value).or(old_value),
                    part(&changes.headers).unwrap_or(old_headers),
                );
            }
        }
        index += 1;
        check_size(plain.len(), bytes_max)?;
    }
    Ok(())
}

fn check_size(bytes: usize, bytes_max: usize) -> Result<(), BatchRejection> {
    match bytes <= bytes_max {
        true => Ok(()),
        false => Err(BatchRejection::TooLarge(format!(
            "its records would take more than {bytes_max} bytes: send smaller batches"
        ))),
    }
}

pub(super) fn too_many(records_max: usize) -> BatchRejection {
    BatchRejection::TooLarge(format!(
        "more than {records_max} records: send smaller batches"
    ))
}

pub(super) const TOO_SLOW: &str = "filters of the proxy take too long for it: send smaller batches";
/// What a record costs besides its bytes.
const RECORD_UNITS: u64 = 64;
const RECORDS_PER_LOOK: usize = 64;
/// A producer sees what is wrong from the first of them.
const REJECTED_LISTED_MAX: usize = 100;
