//! A batch as bytes that may be changed: its size, its format, and its checksum made right again.

use std::ops::Range;

use super::batch::HEADER_BYTES_AFTER_LENGTH;

/// Bytes of a batch before its records.
pub const BATCH_HEADER_BYTES: usize = LENGTH.end + HEADER_BYTES_AFTER_LENGTH;

/// What lies at the front of some records' bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstBatch {
    /// A batch of the current format, of so many bytes with its header.
    Batch(usize),
    /// A message of an old format, 0 or 1.
    Old(i8),
    /// A batch that is cut: the rest does not hold all of it.
    Cut,
    /// No batch: its own length or format can not be.
    Garbage,
}

/// Looks at the first batch of `records`, which must not be empty.
#[must_use]
pub fn front(records: &[u8]) -> FirstBatch {
    let (Some(length), Some(magic)) = (records.get(LENGTH), records.get(MAGIC)) else {
        return FirstBatch::Cut;
    };
    match *magic as i8 {
        2 => {}
        old @ 0..=1 => return FirstBatch::Old(old),
        _ => return FirstBatch::Garbage,
    }
    // Invariant: the range has four bytes.
    let length = i32::from_be_bytes(length.try_into().unwrap_or_default());
    match usize::try_from(length) {
        Ok(length) if length >= HEADER_BYTES_AFTER_LENGTH => match LENGTH.end + length {
            whole if whole <= records.len() => FirstBatch::Batch(whole),
            _ => FirstBatch::Cut,
        },
        _ => FirstBatch::Garbage,
    }
}

/// Sets the checksum of a batch to that of its content.
///
/// # Panics
/// If the bytes are shorter than a batch's header, which is the caller's mistake.
pub fn seal(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[CHECKED_AT..]);
    batch[CRC].copy_from_slice(&crc.to_be_bytes());
}

/// Sets the length of a batch to that of its bytes, and its checksum.
///
/// # Panics
/// If the bytes are shorter than a batch's header, which is the caller's mistake.
pub fn set_length_and_crc(batch: &mut [u8]) {
    // Invariant: batches lie in frames, whose size has 31 bits.
    let length = i32::try_from(batch.len() - LENGTH.end).unwrap_or(i32::MAX);
    batch[LENGTH].copy_from_slice(&length.to_be_bytes());
    seal(batch);
}

const LENGTH: Range<usize> = 8..12;
const MAGIC: usize = 16;
const CRC: Range<usize> = 17..21;
const CHECKED_AT: usize = 21;
