//! Bytes of one record with random content, and the places that are filled in for each record.

use super::super::random::{Random, TextPool};
use super::fields::SlotContent;
use crate::varint::{push_varint, zigzag};

/// Maximum number of values in a record, so that a schema cannot exhaust the memory.
const VALUES_MAX: usize = 100_000;
/// Maximum number of random bytes in a record; Kafka's usual limit is 1 MiB.
const BYTES_MAX: usize = 128 << 20;
/// Maximum nesting of records, messages, arrays and maps. Protobuf libraries read no deeper
/// messages.
const DEPTH_MAX: usize = 100;
/// Part of a long text; the pool of random text is larger.
const PIECE_BYTES: usize = 64 << 10;
/// Elements of each array, list and map.
pub(super) const ELEMENTS: usize = 2;

/// Reason why no record of a schema can be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WriteFault {
    /// A type contains itself. The writer of an enclosing optional value omits it.
    Recursive(String),
    /// A schema without values, or with too many.
    Schema(String),
}

/// Place at which each record has bytes of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordSlot {
    pub(super) at: usize,
    pub(super) content: SlotContent,
    pub(super) form: TextForm,
}

/// Form of a text in a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextForm {
    /// As it is.
    Json,
    /// After its length in zigzag form.
    Avro,
    /// After its length.
    Protobuf,
}

impl TextForm {
    pub(super) fn push_length(self, length: usize, out: &mut Vec<u8>) {
        match self {
            Self::Json => {}
            Self::Avro => push_varint(zigzag(length as i64), out),
            Self::Protobuf => push_varint(length as u64, out),
        }
    }
}

/// Lengths of the texts of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextLengths {
    /// Length of all texts except the first.
    pub(super) each: usize,
    /// Length of the first text.
    pub(super) first: usize,
}

impl TextLengths {
    pub(super) fn of_each(each: usize) -> Self {
        Self { each, first: each }
    }
}

/// Writer of one record.
#[derive(Debug)]
pub(super) struct RecordWriter<'a> {
    pub(super) out: Vec<u8>,
    pub(super) slots: Vec<RecordSlot>,
    pool: &'a mut TextPool,
    lengths: TextLengths,
    /// Texts and values so far.
    pub(super) texts: usize,
    values: usize,
    /// Random bytes so far.
    random_bytes: usize,
    /// Enclosing types: the ids of named ones, and [`UNNAMED`] for arrays and maps.
    open: Vec<u32>,
}

/// Stands for an array or map; they have no id.
const UNNAMED: u32 = u32::MAX;

/// Position to which a writer can return.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriterMark {
    out: usize,
    slots: usize,
    texts: usize,
}

impl<'a> RecordWriter<'a> {
    /// The same seed gives the same content.
    pub(super) fn new(pool: &'a mut TextPool, lengths: TextLengths, seed: u64) -> Self {
        pool.random = Random::new(seed);
        Self {
            out: Vec::new(),
            slots: Vec::new(),
            pool,
            lengths,
            texts: 0,
            values: 0,
            random_bytes: 0,
            open: Vec::new(),
        }
    }

    pub(super) fn mark(&self) -> WriterMark {
        WriterMark {
            out: self.out.len(),
            slots: self.slots.len(),
            texts: self.texts,
        }
    }

    /// Removes everything after the mark.
    pub(super) fn return_to(&mut self, mark: WriterMark) {
        self.out.truncate(mark.out);
        self.slots.truncate(mark.slots);
        self.texts = mark.texts;
    }

    /// Counts a value.
    pub(super) fn count(&mut self) -> Result<(), WriteFault> {
        self.values += 1;
        match self.values > VALUES_MAX {
            true => Err(WriteFault::Schema(format!(
                "a record would have more than {VALUES_MAX} values"
            ))),
            false => Ok(()),
        }
    }

    /// Starts a value of a named type; a type that contains itself has no end.
    pub(super) fn enter(
        &mut self,
        id: u32,
        name: impl FnOnce() -> String,
    ) -> Result<(), WriteFault> {
        if self.open.contains(&id) {
            return Err(WriteFault::Recursive(name()));
        }
        self.push_open(id)
    }

    /// Starts an array or map.
    pub(super) fn enter_unnamed(&mut self) -> Result<(), WriteFault> {
        self.push_open(UNNAMED)
    }

    fn push_open(&mut self, id: u32) -> Result<(), WriteFault> {
        if self.open.len() == DEPTH_MAX {
            return Err(WriteFault::Schema(format!(
                "a record would have more than {DEPTH_MAX} levels"
            )));
        }
        self.open.push(id);
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.open.pop();
    }

    /// Returns the number of enclosing types.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Leaves types that were not written to their end.
    pub(super) fn leave_to(&mut self, depth: usize) {
        self.open.truncate(depth);
    }

    /// Returns `true` within the outermost type only.
    pub(super) fn is_top(&self) -> bool {
        self.open.len() == 1
    }

    pub(super) fn slot(&mut self, content: SlotContent, form: TextForm) {
        let at = self.out.len();
        self.slots.push(RecordSlot { at, content, form });
    }

    pub(super) fn random(&mut self) -> u64 {
        self.pool.random.next_u64()
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        let bound = u32::try_from(bound).unwrap_or(u32::MAX);
        self.pool.random.below(bound) as usize
    }

    /// Appends a finite number of moderate size.
    pub(super) fn float(&mut self) {
        let number = self.below(1_000_000) as f32 / 100.0;
        self.out.extend(number.to_le_bytes());
    }

    pub(super) fn double(&mut self) {
        let number = self.below(1_000_000_000) as f64 / 100.0;
        self.out.extend(number.to_le_bytes());
    }

    /// Appends a text of the length that is its turn.
    pub(super) fn text(&mut self, form: TextForm) -> Result<(), WriteFault> {
        let length = match self.texts {
            0 => self.lengths.first,
            _ => self.lengths.each,
        };
        self.texts += 1;
        form.push_length(length, &mut self.out);
        self.characters(length)
    }

    /// Appends random characters.
    pub(super) fn characters(&mut self, length: usize) -> Result<(), WriteFault> {
        self.random_bytes = self.random_bytes.saturating_add(length);
        if self.random_bytes > BYTES_MAX {
            return Err(WriteFault::Schema(format!(
                "a record would have more than {BYTES_MAX} bytes"
            )));
        }
        let mut rest = length;
        while rest > 0 {
            let piece = rest.min(PIECE_BYTES);
            let at = self.pool.draw(piece);
            self.out.extend_from_slice(self.pool.piece(at, piece));
            rest -= piece;
        }
        Ok(())
    }
}
