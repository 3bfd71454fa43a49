//! Decodes the elements of Avro's binary encoding.

use super::error::{AvroErrorKind, LocatedError};
use crate::varint::{short_varint, short_varint_len};

/// Maximum number of items of an array in total if they take no bytes, such as nulls.
const EMPTY_ITEMS_MAX: u64 = 1 << 16;

/// Position in a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

/// A block of an array or map.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) count: u64,
    start: usize,
    /// Position after the block, if the writer gave its size.
    end: Option<usize>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn fault<T>(&self, fault: AvroErrorKind) -> Result<T, LocatedError> {
        Err(fault.at(self.at))
    }

    /// Advances by a number of bytes, and returns these.
    #[inline]
    pub(super) fn take(&mut self, count: u64) -> Result<&'a [u8], LocatedError> {
        match usize::try_from(count) {
            Ok(length) if length <= self.left() => {
                let start = self.at;
                self.at += length;
                Ok(&self.bytes[start..self.at])
            }
            _ => self.fault(AvroErrorKind::End(count.saturating_sub(self.left() as u64))),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], LocatedError> {
        let found = self.bytes[self.at..].first_chunk();
        let found = found.copied();
        let missing = N.saturating_sub(self.left()) as u64;
        let array = found.ok_or_else(|| AvroErrorKind::End(missing).at(self.at))?;
        self.at += N;
        Ok(array)
    }

    pub(super) fn float(&mut self) -> Result<f32, LocatedError> {
        self.array().map(f32::from_le_bytes)
    }

    pub(super) fn double(&mut self) -> Result<f64, LocatedError> {
        self.array().map(f64::from_le_bytes)
    }

    pub(super) fn boolean(&mut self) -> Result<bool, LocatedError> {
        let at = self.at;
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [byte] => Err(AvroErrorKind::Boolean(byte).at(at)),
        }
    }

    #[inline]
    pub(super) fn long(&mut self) -> Result<i64, LocatedError> {
        match self.bytes.get(self.at..) {
            Some(&[byte, ..]) if byte < 0x80 => {
                self.at += 1;
                Ok(unzigzag(byte.into()))
            }
            // Most lengths of texts.
            Some(&[low, high, ..]) if high < 0x80 => {
                self.at += 2;
                Ok(unzigzag(u64::from(low & 0x7f) | u64::from(high) << 7))
            }
            _ => self.long_varint().map(unzigzag),
        }
    }

    fn long_varint(&mut self) -> Result<u64, LocatedError> {
        match short_varint(self.bytes.get(self.at..)) {
            Some((number, length)) => {
                self.at += length;
                Ok(number)
            }
            None => self.longest_varint(),
        }
    }

    fn longest_varint(&mut self) -> Result<u64, LocatedError> {
        const BYTES_MAX: usize = 10;
        let mut number = 0;
        for i in 0..BYTES_MAX {
            let Some(&byte) = self.bytes.get(self.at + i) else {
                return Err(AvroErrorKind::End(1).at(self.bytes.len()));
            };
            // The last byte holds one bit.
            if i == BYTES_MAX - 1 && byte > 1 {
                break;
            }
            number |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.at += i + 1;
                return Ok(number);
            }
        }
        self.fault(AvroErrorKind::Varint)
    }

    #[inline]
    pub(super) fn int(&mut self) -> Result<i32, LocatedError> {
        let at = self.at;
        let number = self.long()?;
        i32::try_from(number).map_err(|_| AvroErrorKind::Int(number).at(at))
    }

    /// Skips numbers without checking their range.
    #[inline]
    pub(super) fn skip_varints(&mut self, count: u64) -> Result<(), LocatedError> {
        for _ in 0..count {
            match self.bytes.get(self.at) {
                Some(&byte) if byte < 0x80 => self.at += 1,
                _ => self.skip_long_varint()?,
            }
        }
        Ok(())
    }

    #[inline]
    fn skip_long_varint(&mut self) -> Result<(), LocatedError> {
        match short_varint_len(self.bytes.get(self.at..)) {
            Some(length) => {
                self.at += length;
                Ok(())
            }
            None => self.longest_varint().map(drop),
        }
    }

    /// Reads bytes or a text with their length.
    #[inline]
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], LocatedError> {
        let at = self.at;
        let length = self.long()?;
        let left = self.left();
        match usize::try_from(length) {
            Ok(length) if length <= left => {
                let start = self.at;
                self.at += length;
                Ok(&self.bytes[start..self.at])
            }
            _ => Err(AvroErrorKind::Length(length, left).at(at)),
        }
    }

    /// Reads the index of an enum's symbol.
    pub(super) fn symbol(&mut self, count: u32) -> Result<u32, LocatedError> {
        let at = self.at;
        let index = self.int()?;
        let found = u32::try_from(index).ok().filter(|index| *index < count);
        found.ok_or_else(|| AvroErrorKind::Symbol(index, count).at(at))
    }

    /// Reads the index of a union's branch.
    #[inline]
    pub(super) fn branch(&mut self, count: u32) -> Result<u32, LocatedError> {
        // Nearly all unions have few branches.
        if let Some(&byte) = self.bytes.get(self.at) {
            let index = u32::from(byte) >> 1;
            if byte & 0x81 == 0 && index < count {
                self.at += 1;
                return Ok(index);
            }
        }
        self.other_branch(count)
    }

    fn other_branch(&mut self, count: u32) -> Result<u32, LocatedError> {
        let at = self.at;
        let index = self.int()?;
        let found = u32::try_from(index).ok().filter(|index| *index < count);
        found.ok_or_else(|| AvroErrorKind::Branch(index, count).at(at))
    }
}

fn unzigzag(number: u64) -> i64 {
    // The lowest bit is the sign; the other 63 bits fit.
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Blocks of an array or map.
#[derive(Debug)]
pub(super) struct Blocks {
    item_min: u32,
    /// Number of items so far, counted if they may take no bytes.
    empty_items: u64,
}

impl Blocks {
    /// Starts with items of at least `item_min` bytes.
    pub(super) fn new(item_min: u32) -> Self {
        Self {
            item_min,
            empty_items: 0,
        }
    }

    /// Reads the head of the next block, `None` at the end. The count is limited by the bytes that
    /// follow.
    #[inline]
    pub(super) fn next(&mut self, cursor: &mut Cursor<'_>) -> Result<Option<Block>, LocatedError> {
        let at = cursor.at;
        let count = cursor.long()?;
        if count == 0 {
            return Ok(None);
        }
        let mut left = cursor.left();
        let mut end = None;
        if count < 0 {
            let size = cursor.long()?;
            left = cursor.left();
            match usize::try_from(size) {
                Ok(size) if size <= left => {
                    left = size;
                    end = Some(cursor.at + size);
                }
                _ => return Err(AvroErrorKind::Length(size, left).at(at)),
            }
        }
        let count = count.unsigned_abs();
        if self.item_min == 0 {
            self.empty_items = self.empty_items.saturating_add(count);
            if self.empty_items > EMPTY_ITEMS_MAX {
                return Err(AvroErrorKind::EmptyItems(EMPTY_ITEMS_MAX).at(at));
            }
        } else if count > left as u64 / u64::from(self.item_min) {
            return Err(AvroErrorKind::Count(count, left).at(at));
        }
        let start = cursor.at;
        Ok(Some(Block { count, start, end }))
    }
}

impl Block {
    /// Returns an error if the items did not end where the block does.
    pub(super) fn check_end(&self, cursor: &Cursor<'_>) -> Result<(), LocatedError> {
        match self.end {
            Some(end) if end != cursor.at => Err(self.size_fault(end, cursor)),
            _ => Ok(()),
        }
    }

    /// Moves from inside the block to its end, if the writer gave its size. Returns `true` then.
    pub(super) fn leave(&self, cursor: &mut Cursor<'_>) -> Result<bool, LocatedError> {
        match self.end {
            Some(end) if end < cursor.at => Err(self.size_fault(end, cursor)),
            Some(end) => {
                cursor.at = end;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn size_fault(&self, end: usize, cursor: &Cursor<'_>) -> LocatedError {
        AvroErrorKind::BlockSize(end - self.start).at(cursor.at)
    }
}
