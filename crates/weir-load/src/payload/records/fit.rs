//! Chooses the lengths of texts so that records have the requested size.

use super::super::random::TextPool;
use super::slots::slot_len;
use super::spec::RecordSpec;
use super::writer::{RecordSlot, RecordWriter, TextLengths};
use crate::error::{LoadError, Result};

/// Writer of records of one size.
pub(super) struct Fit<'a> {
    spec: &'a RecordSpec,
    longest_key: usize,
    marked: bool,
    pool: &'a mut TextPool,
    /// Length of the texts of the last record.
    each: Option<usize>,
}

struct Written {
    out: Vec<u8>,
    slots: Vec<RecordSlot>,
    size: usize,
    texts: usize,
}

impl<'a> Fit<'a> {
    pub(super) fn new(
        spec: &'a RecordSpec,
        longest_key: usize,
        marked: bool,
        pool: &'a mut TextPool,
    ) -> Self {
        Self {
            spec,
            longest_key,
            marked,
            pool,
            each: None,
        }
    }

    /// Returns the bytes and slots of a record.
    ///
    /// # Errors
    /// The schema has no records, or none of the size.
    pub(super) fn record(&mut self, seed: u64) -> Result<(Vec<u8>, Vec<RecordSlot>)> {
        let written = match self.spec.size {
            None => {
                let each = self.spec.usual_text_len();
                self.write(TextLengths::of_each(each), seed)?
            }
            Some(size) => self.sized(size, seed)?,
        };
        Ok((written.out, written.slots))
    }

    fn sized(&mut self, size: usize, seed: u64) -> Result<Written> {
        // The numbers of another record may be longer, but rarely by much.
        if let Some(each) = self.each {
            let written = self.write(TextLengths::of_each(each), seed)?;
            if written.size <= size {
                return self.filled(size, each, written, seed);
            }
        }
        let least = self.write(TextLengths::of_each(0), seed)?;
        if least.size > size || least.texts == 0 && least.size < size {
            return Err(self.impossible(size, &least));
        }
        // Each text has at least its own bytes, so that no longer record is ever written.
        let (mut low, mut high) = (0, (size - least.size) / least.texts.max(1));
        while low < high {
            let each = low + (high - low).div_ceil(2);
            match self.write(TextLengths::of_each(each), seed)?.size <= size {
                true => low = each,
                false => high = each - 1,
            }
        }
        self.each = Some(low);
        let written = self.write(TextLengths::of_each(low), seed)?;
        self.filled(size, low, written, seed)
    }

    /// Lengthens the first text by what is missing. Its length may need a byte more, so that a size
    /// can be out of reach by one.
    fn filled(&mut self, size: usize, each: usize, written: Written, seed: u64) -> Result<Written> {
        let missing = size - written.size;
        if missing == 0 || written.texts == 0 {
            return Ok(written);
        }
        for less in 0..LENGTH_BYTES_MAX.min(missing) {
            let first = each + missing - less;
            let longer = self.write(TextLengths { each, first }, seed)?;
            if longer.size <= size {
                return Ok(longer);
            }
        }
        Ok(written)
    }

    fn impossible(&self, size: usize, least: &Written) -> LoadError {
        let reason = match least.texts {
            0 => format!(
                "values of the {} have {} bytes and no text to lengthen; omit --size",
                self.spec.schema().origin,
                least.size
            ),
            _ => format!(
                "values of the {} have at least {} bytes; give more or omit --size",
                self.spec.schema().origin,
                least.size
            ),
        };
        LoadError::option("--size", &size, reason)
    }

    fn write(&mut self, lengths: TextLengths, seed: u64) -> Result<Written> {
        let mut writer = RecordWriter::new(self.pool, lengths, seed);
        let written = self.spec.write(&mut writer);
        written.map_err(|fault| self.spec.error(fault))?;
        let slots = writer.slots.iter();
        let slots: usize = slots
            .map(|slot| slot_len(slot, self.longest_key, self.marked))
            .sum();
        Ok(Written {
            size: writer.out.len() + slots,
            texts: writer.texts,
            out: writer.out,
            slots: writer.slots,
        })
    }
}

/// Maximum growth of all lengths around a text.
const LENGTH_BYTES_MAX: usize = 16;
