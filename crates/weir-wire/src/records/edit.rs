//! Reads the size and format of an encoded batch, and updates its length and checksum.

use std::ops::Range;

use super::batch::HEADER_BYTES_AFTER_LENGTH;

/// Bytes of a batch before its records.
pub const BATCH_HEADER_BYTES: usize = LENGTH.end + HEADER_BYTES_AFTER_LENGTH;

/// State of the first batch in encoded records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstBatch {
    /// A batch of the current format; its size in bytes with the header.
    Batch(usize),
    /// A message of an old format, 0 or 1.
    OldFormat(i8),
    /// A truncated batch.
    Truncated,
    /// Invalid bytes: the length or format is impossible.
    Invalid,
}

/// Returns the state of the first batch of `records`, which must not be empty.
pub fn first_batch(records: &[u8]) -> FirstBatch {
    let (Some(length), Some(magic)) = (records.get(LENGTH), records.get(MAGIC)) else {
        return FirstBatch::Truncated;
    };
    match *magic as i8 {
        2 => {}
        old @ 0..=1 => return FirstBatch::OldFormat(old),
        _ => return FirstBatch::Invalid,
    }
    // Invariant: the range has four bytes.
    let length = i32::from_be_bytes(length.try_into().unwrap_or_default());
    match usize::try_from(length) {
        Ok(length) if length >= HEADER_BYTES_AFTER_LENGTH => match LENGTH.end + length {
            total if total <= records.len() => FirstBatch::Batch(total),
            _ => FirstBatch::Truncated,
        },
        _ => FirstBatch::Invalid,
    }
}

/// Sets the checksum of a batch.
///
/// # Panics
/// If the bytes are shorter than a batch header, which is a bug of the caller.
pub fn set_crc(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[CHECKED_AT..]);
    batch[CRC].copy_from_slice(&crc.to_be_bytes());
}

/// Sets the length and the checksum of a batch.
///
/// # Panics
/// If the bytes are shorter than a batch header, which is a bug of the caller.
pub fn set_length_and_crc(batch: &mut [u8]) {
    // Invariant: batches are part of frames, whose size has 31 bits.
    let length = i32::try_from(batch.len() - LENGTH.end).unwrap_or(i32::MAX);
    batch[LENGTH].copy_from_slice(&length.to_be_bytes());
    set_crc(batch);
}

const LENGTH: Range<usize> = 8..12;
const MAGIC: usize = 16;
const CRC: Range<usize> = 17..21;
const CHECKED_AT: usize = 21;
