//! Records of fetch responses. Each refers to the bytes of its response or, if its batch was
//! compressed, to the decompressed bytes.

use std::ops::Range;
use std::sync::Arc;

use super::aborted::AbortedFilter;
use super::buffers::{Buffer, BufferPool};
use super::plan::PartitionKey;
use crate::record::{HeaderList, Record};
use weir_wire::fetch::AbortedTransaction;
use weir_wire::records::{
    BatchBase, BatchView, Batches, Codec, DecompressBuffer, Headers, RecordPosition, RecordsError,
};

/// Records of one partition in a response.
#[derive(Debug)]
pub(crate) struct FetchedRecords {
    pub(crate) key: PartitionKey,
    pub(crate) generation: u64,
    pub(crate) topic: Arc<str>,
    /// Offset of the request; batches may start before it.
    pub(crate) from: i64,
    pub(crate) response: Arc<Buffer>,
    /// Position of the batches in the response.
    pub(crate) range: Range<usize>,
    /// Transactions whose records are left out; `None` if uncommitted records are read.
    pub(crate) aborted: Option<Vec<AbortedTransaction>>,
}

/// Headers of all whole batches of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScannedRecords {
    /// Offset after the last record.
    pub(crate) next: i64,
    /// Leader epoch of the last batch.
    pub(crate) epoch: i32,
}

/// Reads the batch headers of a fetched partition; `None` without a whole batch.
pub(crate) fn scan(batches: &[u8]) -> Result<Option<ScannedRecords>, RecordsError> {
    let mut last = None;
    for batch in Batches::new(batches) {
        let batch = batch?;
        last = Some(ScannedRecords {
            next: batch.next_offset()?,
            epoch: batch.leader_epoch,
        });
    }
    Ok(last)
}

/// Bytes of records, with the partition they are from.
#[derive(Debug)]
struct RecordBytes {
    topic: Arc<str>,
    partition: i32,
    bytes: Arc<Buffer>,
}

/// A record that keeps the bytes it is in.
#[derive(Debug, Clone)]
pub(crate) struct BatchRecord {
    source: Arc<RecordBytes>,
    position: RecordPosition,
}

impl BatchRecord {
    pub(crate) fn topic(&self) -> &str {
        &self.source.topic
    }

    pub(crate) fn partition(&self) -> i32 {
        self.source.partition
    }

    pub(crate) fn offset(&self) -> i64 {
        self.position.offset
    }

    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.position.key(&self.source.bytes.bytes)
    }

    pub(crate) fn without_headers(&self) -> Record<'_> {
        let bytes = self.source.bytes.bytes.as_slice();
        Record {
            topic: &self.source.topic,
            partition: self.source.partition,
            offset: self.position.offset,
            timestamp_ms: self.position.timestamp_ms,
            key: self.position.key(bytes),
            value: self.position.value(bytes),
            headers: HeaderList::new(),
        }
    }

    /// Returns the record with its headers. Invalid headers are skipped and counted.
    pub(crate) fn record(&self, skipped: &mut u64) -> Record<'_> {
        let mut record = self.without_headers();
        let headers = self.position.headers(&self.source.bytes.bytes);
        if headers != NO_HEADERS {
            for header in Headers::new(headers, self.position.offset) {
                match header {
                    Ok(header) => record.headers.push(header),
                    Err(_) => *skipped += 1,
                }
            }
        }
        record
    }
}

/// Records that could not be decoded. The rest of their partition in the response was dropped.
#[derive(Debug, thiserror::Error)]
#[error("topic \"{topic}\" partition {}: offset {position}: {error}", .key.1)]
pub(crate) struct DecodeFailure {
    pub(crate) key: PartitionKey,
    pub(crate) generation: u64,
    topic: Arc<str>,
    /// Offset after the last record that was decoded.
    pub(crate) position: i64,
    error: RecordsError,
}

/// Decoder of the records of one fetched partition after another.
#[derive(Debug)]
pub(crate) struct RecordDecoder {
    pool: Arc<BufferPool>,
    scratch: DecompressBuffer,
    /// Compare the checksum of each batch.
    checks_crc: bool,
    current: Option<OpenRecords>,
}

/// Partition that is being decoded.
#[derive(Debug)]
struct OpenRecords {
    key: PartitionKey,
    generation: u64,
    response: Arc<RecordBytes>,
    /// Batches that were not opened yet.
    left: Range<usize>,
    /// Records before this offset are not delivered.
    from: i64,
    aborted: Option<AbortedFilter>,
    batch: Option<OpenBatch>,
}

#[derive(Debug)]
struct OpenBatch {
    base: BatchBase,
    bytes: Arc<RecordBytes>,
    /// Records that were not decoded yet.
    left: Range<usize>,
    count: usize,
}

impl RecordDecoder {
    pub(crate) fn new(pool: Arc<BufferPool>, checks_crc: bool) -> Self {
        Self {
            pool,
            scratch: DecompressBuffer::default(),
            checks_crc,
            current: None,
        }
    }

    /// Begins with the records of another partition.
    pub(crate) fn open(&mut self, fetched: FetchedRecords) {
        self.current = Some(OpenRecords {
            key: fetched.key,
            generation: fetched.generation,
            response: Arc::new(RecordBytes {
                topic: fetched.topic,
                partition: fetched.key.1,
                bytes: fetched.response,
            }),
            left: fetched.range,
            from: fetched.from,
            aborted: fetched.aborted.map(AbortedFilter::new),
            batch: None,
        });
    }

    /// Returns the partition whose records are being decoded, with its assignment.
    pub(crate) fn current(&self) -> Option<(PartitionKey, u64)> {
        let current = self.current.as_ref()?;
        Some((current.key, current.generation))
    }

    /// Drops the records that were not decoded yet.
    pub(crate) fn close(&mut self) {
        self.current = None;
    }

    /// Returns the next record, or `None` if another partition must be opened.
    pub(crate) fn next(&mut self) -> Option<Result<BatchRecord, DecodeFailure>> {
        let current = self.current.as_mut()?;
        let next = loop {
            match current.next_record() {
                Ok(None) => {}
                Ok(Some(record)) => return Some(Ok(record)),
                Err(error) => break Some(Err(current.failure(error))),
            }
            match current.open_batch(&self.pool, &mut self.scratch, self.checks_crc) {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error) => break Some(Err(current.failure(error))),
            }
        };
        self.current = None;
        next
    }
}

impl OpenRecords {
    fn failure(&self, error: RecordsError) -> DecodeFailure {
        DecodeFailure {
            key: self.key,
            generation: self.generation,
            topic: Arc::clone(&self.response.topic),
            position: self.from,
            error,
        }
    }

    fn next_record(&mut self) -> Result<Option<BatchRecord>, RecordsError> {
        let Some(batch) = &mut self.batch else {
            return Ok(None);
        };
        while batch.count > 0 {
            let bytes = batch.bytes.bytes.bytes.as_slice();
            let range = (batch.left.start, batch.left.end);
            let (position, next) = RecordPosition::read(&batch.base, bytes, range)?;
            batch.left.start = next;
            batch.count -= 1;
            if position.offset >= self.from {
                self.from = position.offset.saturating_add(1);
                return Ok(Some(BatchRecord {
                    source: Arc::clone(&batch.bytes),
                    position,
                }));
            }
        }
        match batch.left.len() {
            0 => Ok(None),
            left => Err(RecordsError::Trailing { left }),
        }
    }

    /// Opens the next batch whose records are delivered. Returns `false` if there is none.
    fn open_batch(
        &mut self,
        pool: &Arc<BufferPool>,
        scratch: &mut DecompressBuffer,
        checks_crc: bool,
    ) -> Result<bool, RecordsError> {
        self.batch = None;
        let response = Arc::clone(&self.response);
        loop {
            let left = response.bytes.bytes.get(self.left.clone());
            let mut batches = Batches::new(left.unwrap_or_default());
            let Some(batch) = batches.next().transpose()? else {
                return Ok(false);
            };
            let end = self.left.end - batches.left_bytes();
            self.left.start = end;
            if checks_crc {
                batch.verify_crc()?;
            }
            if self.is_left_out(&batch)? {
                continue;
            }
            let (bytes, left) = match batch.codec()? {
                Codec::None => {
                    let start = end - batch.payload().len();
                    (Arc::clone(&response), start..end)
                }
                _ => decompress(&response, &batch, pool, scratch)?,
            };
            self.batch = Some(OpenBatch {
                base: batch.base(),
                bytes,
                left,
                count: batch.record_count,
            });
            return Ok(true);
        }
    }

    /// Returns `true` for markers, and for records of aborted transactions if only committed ones
    /// are read.
    fn is_left_out(&mut self, batch: &BatchView<'_>) -> Result<bool, RecordsError> {
        let last_offset = batch.next_offset()?.saturating_sub(1);
        if last_offset < self.from {
            return Ok(true);
        }
        match &mut self.aborted {
            Some(aborted) => aborted.leaves_out(batch),
            None => Ok(batch.is_control()),
        }
    }
}

fn decompress(
    response: &RecordBytes,
    batch: &BatchView<'_>,
    pool: &Arc<BufferPool>,
    scratch: &mut DecompressBuffer,
) -> Result<(Arc<RecordBytes>, Range<usize>), RecordsError> {
    let mut buffer = pool.take();
    scratch.swap(&mut buffer.bytes);
    let decompressed = batch.decompress(scratch, &mut || true).map(|_| ());
    scratch.swap(&mut buffer.bytes);
    decompressed?;
    let range = 0..buffer.bytes.len();
    let bytes = RecordBytes {
        topic: Arc::clone(&response.topic),
        partition: response.partition,
        bytes: Arc::new(buffer),
    };
    Ok((Arc::new(bytes), range))
}

/// A header count of zero.
const NO_HEADERS: &[u8] = &[0];

#[cfg(test)]
mod tests;
