//! Records that a client lends, whichever it is.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rdkafka::message::{BorrowedMessage, Headers, Message};

use crate::fetch::BatchRecord;
use crate::record::{HeaderList, Record};

/// A record without a copy of its bytes. Another thread may use and drop it.
pub struct BorrowedRecord<'a>(ClientRecord<'a>);

enum ClientRecord<'a> {
    Librdkafka(BorrowedMessage<'a>),
    Lean(BatchRecord),
}

impl<'a> BorrowedRecord<'a> {
    pub(super) fn librdkafka(message: BorrowedMessage<'a>) -> Self {
        Self(ClientRecord::Librdkafka(message))
    }

    pub(super) fn lean(record: BatchRecord) -> Self {
        Self(ClientRecord::Lean(record))
    }

    /// Returns the topic of the record.
    pub fn topic(&self) -> &str {
        match &self.0 {
            ClientRecord::Librdkafka(message) => message.topic(),
            ClientRecord::Lean(record) => record.topic(),
        }
    }

    /// Returns the partition within that topic.
    pub fn partition(&self) -> i32 {
        match &self.0 {
            ClientRecord::Librdkafka(message) => message.partition(),
            ClientRecord::Lean(record) => record.partition(),
        }
    }

    /// Returns the offset in that partition.
    pub fn offset(&self) -> i64 {
        match &self.0 {
            ClientRecord::Librdkafka(message) => message.offset(),
            ClientRecord::Lean(record) => record.offset(),
        }
    }

    /// Returns the key; `None` is a null key.
    pub fn key(&self) -> Option<&[u8]> {
        match &self.0 {
            ClientRecord::Librdkafka(message) => message.key(),
            ClientRecord::Lean(record) => record.key(),
        }
    }

    /// Returns the record with its headers. Headers whose names are not UTF-8 are skipped and
    /// counted.
    pub fn record(&self, headers_skipped: &mut u64) -> Record<'_> {
        match &self.0 {
            ClientRecord::Librdkafka(message) => Record {
                headers: borrow_headers(message, headers_skipped),
                ..borrow(message)
            },
            ClientRecord::Lean(record) => record.record(headers_skipped),
        }
    }

    /// Returns the record without its headers, which are not parsed.
    pub fn without_headers(&self) -> Record<'_> {
        match &self.0 {
            ClientRecord::Librdkafka(message) => borrow(message),
            ClientRecord::Lean(record) => record.without_headers(),
        }
    }
}

fn borrow<'a>(message: &'a BorrowedMessage<'_>) -> Record<'a> {
    Record {
        topic: message.topic(),
        partition: message.partition(),
        offset: message.offset(),
        timestamp_ms: message.timestamp().to_millis().unwrap_or(-1),
        key: message.key(),
        value: message.payload(),
        headers: HeaderList::new(),
    }
}

pub(crate) fn borrow_headers<'a>(
    message: &'a BorrowedMessage<'_>,
    skipped: &mut u64,
) -> HeaderList<'a> {
    let mut list = HeaderList::new();
    let Some(headers) = message.headers() else {
        return list;
    };
    for index in 0..headers.count() {
        // rdkafka 0.39 unwraps the UTF-8 check of the name, and producers choose the name, so the
        // panic is caught here. This costs nothing when there is no panic.
        match catch_unwind(AssertUnwindSafe(|| headers.try_get(index))) {
            Ok(Some(header)) => list.push((header.key, header.value)),
            Ok(None) => break,
            Err(_) => *skipped += 1,
        }
    }
    list
}
