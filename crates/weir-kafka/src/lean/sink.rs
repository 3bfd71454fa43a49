//! Records and events, as passed to the caller.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use super::error::LeanError;
use weir_wire::records::RecordSlice;

/// A record, borrowed from the thread's read buffer.
#[derive(Debug, Clone, Copy)]
pub struct LeanRecord<'a> {
    /// Topic name.
    pub topic: &'a str,
    /// Partition of that topic.
    pub partition: i32,
    pub(super) slice: RecordSlice<'a>,
}

impl<'a> Deref for LeanRecord<'a> {
    type Target = RecordSlice<'a>;

    fn deref(&self) -> &Self::Target {
        &self.slice
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
