//! One record as filters see it, and what has become of it.

use std::ops::Range;

use weir_kafka::records::RecordLayout;

use super::buffers::ReplacementBuffer;
use super::headers::{self, Malformed};

/// One record on its way: to be read, and changed within what a [`Filter`](super::Filter) may.
#[derive(Debug)]
pub struct RecordEdit<'a> {
    payload: &'a mut [u8],
    layout: &'a RecordLayout,
    room: &'a mut ReplacementBuffer,
    changes: Changes,
}

/// What filters have changed; ranges lie in the room.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Bytes of the batch itself.
    pub(super) edited: bool,
    pub(super) value: Option<Range<usize>>,
    pub(super) headers: Option<Range<usize>>,
}

impl<'a> RecordEdit<'a> {
    pub(super) fn new(
        payload: &'a mut [u8],
        layout: &'a RecordLayout,
        room: &'a mut ReplacementBuffer,
    ) -> Self {
        Self {
            payload,
            layout,
            room,
            changes: Changes::default(),
        }
    }

    pub(super) fn finish(self) -> Changes {
        self.changes
    }

    /// The key; `None` is null.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        let range = self.layout.key.clone()?;
        Some(&self.payload[range])
    }

    /// The value as the filters before have left it; `None` is a tombstone.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        let original = self.layout.value.clone()?;
        Some(match &self.changes.value {
            Some(replaced) => &self.room.bytes[replaced.clone()],
            None => &self.payload[original],
        })
    }

    /// Has `edit` change the value without changing its length; it says whether it did. A tombstone is
    /// not shown to it.
    pub fn edit_value(&mut self, edit: impl FnOnce(&mut [u8]) -> bool) {
        let Some(original) = self.layout.value.clone() else {
            return;
        };
        match &self.changes.value {
            Some(replaced) => {
                edit(&mut self.room.bytes[replaced.clone()]);
            }
            None => self.changes.edited |= edit(&mut self.payload[original]),
        }
    }

    /// Has `write` append a new value to an empty buffer; it says whether that is to replace the old one.
    /// A tombstone is not shown to it.
    pub fn rewrite_value(&mut self, write: impl FnOnce(&[u8], &mut Vec<u8>) -> bool) {
        let mut fresh = std::mem::take(&mut self.room.fresh);
        fresh.clear();
        let is_new = self
            .value()
            .is_some_and(|value| write(value, &mut fresh) && value != fresh);
        if is_new {
            self.put_value(&fresh);
        }
        self.room.fresh = fresh;
    }

    fn put_value(&mut self, fresh: &[u8]) {
        let original = self.layout.value.clone();
        match original.filter(|range| range.len() == fresh.len() && self.changes.value.is_none()) {
            Some(range) => {
                self.payload[range].copy_from_slice(fresh);
                self.changes.edited = true;
            }
            None => self.changes.value = Some(self.room.keep(fresh)),
        }
    }

    /// Whether there is a header of this name.
    ///
    /// # Errors
    /// [`Malformed`] if the headers can not be read.
    pub(super) fn has_header(&self, name: &str) -> Result<bool, Malformed> {
        headers::has(self.headers(), name)
    }

    /// Has `write` append new headers, with their count in front; it says whether they are to replace the old.
    ///
    /// # Errors
    /// [`Malformed`] if the headers can not be read.
    pub(super) fn rewrite_headers(
        &mut self,
        write: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<bool, Malformed>,
    ) -> Result<(), Malformed> {
        let mut fresh = std::mem::take(&mut self.room.fresh);
        fresh.clear();
        let written = write(self.headers(), &mut fresh);
        if written == Ok(true) {
            self.changes.headers = Some(self.room.keep(&fresh));
        }
        self.room.fresh = fresh;
        written.map(drop)
    }

    fn headers(&self) -> &[u8] {
        match &self.changes.headers {
            Some(replaced) => &self.room.bytes[replaced.clone()],
            None => &self.payload[self.layout.headers.clone()],
        }
    }

    /// Counts a value that a filter could not read and left as it is.
    pub(super) fn count_unreadable(&mut self) {
        self.room.unreadable += 1;
    }
}
