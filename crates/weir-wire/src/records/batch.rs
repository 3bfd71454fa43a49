//! Batch headers, and iteration over batches.

use super::RecordsError;
use super::compression::{self, Codec, DecompressBuffer};
use super::position::BatchBase;
use super::record::Records;
use crate::WireError;
use crate::reader::WireReader;

/// Iterator over the batches of one partition's fetched records. A truncated batch at the end,
/// where the broker reached its size limit, ends the iteration without an error.
#[derive(Debug, Clone)]
pub struct Batches<'a> {
    left: &'a [u8],
}

impl<'a> Batches<'a> {
    /// Creates an iterator that starts at the first batch.
    pub fn new(records: &'a [u8]) -> Self {
        Self { left: records }
    }

    /// Returns the number of bytes after the last batch that the iterator returned.
    pub fn left_bytes(&self) -> usize {
        self.left.len()
    }

    fn next_batch(&mut self) -> Result<Option<BatchView<'a>>, RecordsError> {
        let mut reader = WireReader::new(self.left);
        let (Ok(base_offset), Ok(length)) = (reader.i64("base offset"), reader.i32("batch length"))
        else {
            return Ok(None);
        };
        let impossible = WireError::Length {
            what: "batch length",
            value: i64::from(length),
        };
        let length = usize::try_from(length).map_err(|_| impossible)?;
        if length < HEADER_BYTES_AFTER_LENGTH {
            return Err(impossible.into());
        }
        let Ok(body) = reader.bytes(length, "batch") else {
            return Ok(None);
        };
        self.left = reader.rest();
        BatchView::read(base_offset, body).map(Some)
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<BatchView<'a>, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch();
        if next.is_err() {
            // The position of the next batch is unknown.
            self.left = &[];
        }
        next.transpose()
    }
}

/// A borrowed batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchView<'a> {
    /// Offset of its first record.
    pub base_offset: i64,
    /// CRC-32C of the bytes from the attributes to the end.
    pub crc: u32,
    /// Flag bits; see the methods.
    pub attributes: i16,
    /// Distance from the first to the last offset. Compaction may have removed records in between.
    pub last_offset_delta: i32,
    /// Base of the record timestamps, in milliseconds.
    pub base_timestamp_ms: i64,
    /// Maximum timestamp, in milliseconds. With log-append time, the timestamp of all records.
    pub max_timestamp_ms: i64,
    /// Number of records.
    pub record_count: usize,
    /// Epoch of the leader that appended the batch.
    pub leader_epoch: i32,
    /// Producer of a transaction or of idempotent records, -1 for none.
    pub producer_id: i64,
    /// Bytes that `crc` covers.
    checked: &'a [u8],
    payload: &'a [u8],
}

impl<'a> BatchView<'a> {
    fn read(base_offset: i64, body: &'a [u8]) -> Result<Self, RecordsError> {
        let mut reader = WireReader::new(body);
        let leader_epoch = reader.i32("leader epoch")?;
        let magic = reader.i8("magic")?;
        if magic != 2 {
            return Err(RecordsError::Magic { base_offset, magic });
        }
        let crc = reader.u32("crc")?;
        let checked = reader.rest();
        let attributes = reader.i16("attributes")?;
        let last_offset_delta = reader.i32("last offset delta")?;
        let base_timestamp_ms = reader.i64("base timestamp")?;
        let max_timestamp_ms = reader.i64("max timestamp")?;
        let producer_id = reader.i64("producer id")?;
        reader.bytes(2 + 4, "producer epoch and base sequence")?;
        let count = reader.i32("record count")?;
        let record_count = usize::try_from(count).map_err(|_| WireError::Length {
            what: "record count",
            value: i64::from(count),
        })?;
        Ok(Self {
            base_offset,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp_ms,
            max_timestamp_ms,
            record_count,
            leader_epoch,
            producer_id,
            checked,
            payload: reader.rest(),
        })
    }

    /// Returns the compression codec.
    pub fn codec(&self) -> Result<Codec, RecordsError> {
        Codec::from_bits(self.attributes & 0x07)
    }

    /// Returns `true` if the broker set the timestamp, which is the same for all records.
    pub fn log_append_time(&self) -> bool {
        self.attributes & 0x08 != 0
    }

    /// Returns `true` if the batch contains a transaction marker, which applications must not see.
    pub fn is_control(&self) -> bool {
        self.attributes & 0x20 != 0
    }

    /// Returns `true` if the batch belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & 0x10 != 0
    }

    /// Returns the fields that records refer to.
    pub fn base(&self) -> BatchBase {
        BatchBase {
            offset: self.base_offset,
            timestamp_ms: self.base_timestamp_ms,
            log_append_time_ms: self.log_append_time().then_some(self.max_timestamp_ms),
        }
    }

    /// Returns the offset after this batch.
    pub fn next_offset(&self) -> Result<i64, RecordsError> {
        self.base_offset
            .checked_add(i64::from(self.last_offset_delta))
            .and_then(|last| last.checked_add(1))
            .ok_or(RecordsError::Overflow { what: "offset" })
    }

    /// Verifies the checksum. No other method does.
    ///
    /// # Errors
    /// [`RecordsError::Checksum`] if it does not match.
    pub fn verify_crc(&self) -> Result<(), RecordsError> {
        let found = crc32c::crc32c(self.checked);
        if found == self.crc {
            return Ok(());
        }
        Err(RecordsError::Checksum {
            base_offset: self.base_offset,
            found,
            expected: self.crc,
        })
    }

    /// Returns an iterator over the records. A compressed batch is decompressed into `buffer`.
    ///
    /// # Errors
    /// The codec is unknown, or the payload cannot be decompressed.
    pub fn records<'s>(&self, buffer: &'s mut DecompressBuffer) -> Result<Records<'s>, RecordsError>
    where
        'a: 's,
    {
        let bytes = match self.codec()? {
            Codec::None => self.payload,
            codec => compression::decompress(codec, self.payload, buffer, &mut || true)?,
        };
        Ok(Records {
            reader: WireReader::new(bytes),
            left: self.record_count,
            base_offset: self.base_offset,
            log_append_time_ms: self.log_append_time().then_some(self.max_timestamp_ms),
            base_timestamp_ms: self.base_timestamp_ms,
        })
    }

    /// Returns the encoded records, which may be compressed.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Decompresses the records into `buffer`, where they may be changed, while `proceed` returns
    /// `true`. `proceed` is called often and should be fast.
    ///
    /// # Errors
    /// [`RecordsError::Stopped`] if `proceed` returned `false`.
    pub fn decompress<'s>(
        &self,
        buffer: &'s mut DecompressBuffer,
        proceed: &mut dyn FnMut() -> bool,
    ) -> Result<&'s mut [u8], RecordsError> {
        compression::decompress(self.codec()?, self.payload, buffer, proceed)?;
        Ok(buffer.decompressed_mut())
    }
}

/// Bytes from the leader epoch to the record count.
pub(super) const HEADER_BYTES_AFTER_LENGTH: usize = 49;
