//! One record as filters see it, its changes, and the buffer of new values and headers.

use std::ops::Range;

use weir_wire::records::RecordLayout;

use crate::headers::{self, Malformed};

/// Changes that filters made to one record. Ranges refer to the replacement buffer.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The value was edited in place.
    pub(crate) is_edited_in_place: bool,
    pub(crate) value: Option<Range<usize>>,
    pub(crate) headers: Option<Range<usize>>,
}

/// New values and headers whose length differs from the replaced ones.
#[derive(Debug, Default)]
pub(crate) struct ReplacementBuffer {
    pub(crate) bytes: Vec<u8>,
    /// Value or header list that a filter writes; reused for every record.
    pub(crate) fresh: Vec<u8>,
    pub(crate) undecodable: u64,
}

impl ReplacementBuffer {
    /// Appends `bytes` and returns their range.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}

/// A record that filters read and change within the limits of [`Filter`](crate::Filter).
#[derive(Debug)]
pub(crate) struct RecordEdit<'a> {
    payload: &'a mut [u8],
    layout: &'a RecordLayout,
    replacements: &'a mut ReplacementBuffer,
    changes: Changes,
}

impl<'a> RecordEdit<'a> {
    pub(crate) fn new(
        payload: &'a mut [u8],
        layout: &'a RecordLayout,
        replacements: &'a mut ReplacementBuffer,
    ) -> Self {
        Self {
            payload,
            layout,
            replacements,
            changes: Changes::default(),
        }
    }

    pub(crate) fn finish(self) -> Changes {
        self.changes
    }

    /// Returns the value as changed by the previous filters; `None` for a tombstone.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        let original = self.layout.value.clone()?;
        Some(match &self.changes.value {
            Some(replaced) => &self.replacements.bytes[replaced.clone()],
            None => &self.payload[original],
        })
    }

    /// Calls `edit` to change the value in place; `edit` returns `true` if it changed the value.
    /// Not called for a tombstone.
    pub(crate) fn edit_value(&mut self, edit: impl FnOnce(&mut [u8]) -> bool) {
        let Some(original) = self.layout.value.clone() else {
            return;
        };
        match &self.changes.value {
            Some(replaced) => {
                edit(&mut self.replacements.bytes[replaced.clone()]);
            }
            None => self.changes.is_edited_in_place |= edit(&mut self.payload[original]),
        }
    }

    /// Calls `write` to append a new value to an empty buffer; `write` returns `true` if it
    /// replaces the old value. Not called for a tombstone.
    pub(crate) fn rewrite_value(&mut self, write: impl FnOnce(&[u8], &mut Vec<u8>) -> bool) {
        let mut fresh = std::mem::take(&mut self.replacements.fresh);
        fresh.clear();
        let is_new = self
            .value()
            .is_some_and(|value| write(value, &mut fresh) && value != fresh);
        if is_new {
            self.put_value(&fresh);
        }
        self.replacements.fresh = fresh;
    }

    fn put_value(&mut self, fresh: &[u8]) {
        let original = self.layout.value.clone();
        match original.filter(|range| range.len() == fresh.len() && self.changes.value.is_none()) {
            Some(range) => {
                self.payload[range].copy_from_slice(fresh);
                self.changes.is_edited_in_place = true;
            }
            None => self.changes.value = Some(self.replacements.keep(fresh)),
        }
    }

    /// Returns `true` if there is a header with this name.
    pub(crate) fn has_header(&self, name: &str) -> Result<bool, Malformed> {
        headers::has(self.headers(), name)
    }

    /// Calls `write` to append new headers, beginning with their count; it returns `true` if they
    /// replace the old ones.
    pub(crate) fn rewrite_headers(
        &mut self,
        write: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<bool, Malformed>,
    ) -> Result<(), Malformed> {
        let mut fresh = std::mem::take(&mut self.replacements.fresh);
        fresh.clear();
        let written = write(self.headers(), &mut fresh);
        if written == Ok(true) {
            self.changes.headers = Some(self.replacements.keep(&fresh));
        }
        self.replacements.fresh = fresh;
        written.map(drop)
    }

    fn headers(&self) -> &[u8] {
        match &self.changes.headers {
            Some(replaced) => &self.replacements.bytes[replaced.clone()],
            None => &self.payload[self.layout.headers.clone()],
        }
    }

    /// Counts a value that a filter could not decode and left unchanged.
    pub(crate) fn count_undecodable(&mut self) {
        self.replacements.undecodable += 1;
    }
}
