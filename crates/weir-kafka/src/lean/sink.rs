//! Records and events, as passed to the caller.

use std::cell::RefCell;
use std::rc::Rc;

use super::error::LeanError;
use crate::records::{Headers, RecordSlice};

/// A record, borrowed from the thread's read buffer.
#[derive(Debug, Clone, Copy)]
pub struct LeanRecord<'a> {
    /// Topic name.
    pub topic: &'a str,
    /// Partition of that topic.
    pub partition: i32,
    /// Offset in that partition.
    pub offset: i64,
    /// Milliseconds since the Unix epoch, -1 for none.
    pub timestamp_ms: i64,
    /// `timestamp_ms` was set by the broker (`LogAppendTime`), not by the producer.
    pub log_append_time: bool,
    /// Key; `None` is null.
    pub key: Option<&'a [u8]>,
    /// Value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    slice: RecordSlice<'a>,
}

impl<'a> LeanRecord<'a> {
    pub(super) fn new(topic: &'a str, partition: i32, slice: RecordSlice<'a>) -> Self {
        Self {
            topic,
            partition,
            offset: slice.offset,
            timestamp_ms: slice.timestamp_ms,
            log_append_time: slice.log_append_time,
            key: slice.key,
            value: slice.value,
            slice,
        }
    }

    /// Returns the headers in order. They are parsed on iteration.
    #[must_use]
    pub fn headers(&self) -> Headers<'a> {
        self.slice.headers()
    }

    /// Returns the value of the last header with this name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.slice.header(name)
    }
}

/// Receiver of records and events. All calls come from the thread of [`run`](super::run), one at a
/// time. A slow call delays all consumers.
pub trait LeanSink {
    /// Reports that the consumer has a position in every partition: it will receive all records
    /// produced from now on. Called once per consumer.
    fn on_ready(&mut self, consumer: usize);
    /// Receives one record. Records come in offset order within their partition, each once.
    fn on_record(&mut self, consumer: usize, record: &LeanRecord<'_>);
    /// Reports an error, after which the consumer retries.
    fn on_error(&mut self, consumer: usize, error: &LeanError);
    /// Reports that `n` bytes were read from a socket of the consumer.
    fn on_bytes(&mut self, consumer: usize, n: usize);
}

/// Lets the caller keep access to the sink.
impl<T: LeanSink> LeanSink for Rc<RefCell<T>> {
    fn on_ready(&mut self, consumer: usize) {
        self.borrow_mut().on_ready(consumer);
    }

    fn on_record(&mut self, consumer: usize, record: &LeanRecord<'_>) {
        self.borrow_mut().on_record(consumer, record);
    }

    fn on_error(&mut self, consumer: usize, error: &LeanError) {
        self.borrow_mut().on_error(consumer, error);
    }

    fn on_bytes(&mut self, consumer: usize, n: usize) {
        self.borrow_mut().on_bytes(consumer, n);
    }
}
