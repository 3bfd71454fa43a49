//! Skips values, or checks them.

use super::cursor::{Blocks, Cursor};
use super::error::{AvroErrorKind, LocatedError};
use super::schema::{AvroSchema, Span, TypeId, TypeKind};

/// Maximum nesting of records, arrays and maps.
pub(super) const DEPTH_MAX: usize = 256;

/// Receiver of the position of a walk. The receiver `()` costs nothing.
pub(super) trait Trace {
    fn enter(&mut self, _step: TraceStep) {}
    fn leave(&mut self) {}
}

impl Trace for () {}

/// Step from a value to one inside it.
#[derive(Debug, Clone, Copy)]
pub(super) enum TraceStep {
    /// Position in the schema's table of fields.
    Field(u32),
    Index(u64),
    /// Start and end of the key in the record.
    Key(usize, usize),
}

/// Walk over complete values. With `STRICT` every byte is checked, otherwise only what is needed to
/// find the end of a value.
pub(super) struct Skipper<'s, T, const STRICT: bool> {
    pub(super) schema: &'s AvroSchema,
    pub(super) trace: T,
}

/// Skips a value without checking more than necessary.
#[inline]
pub(super) fn skip(
    schema: &AvroSchema,
    cursor: &mut Cursor<'_>,
    id: TypeId,
) -> Result<(), LocatedError> {
    let mut id = id;
    if let TypeKind::Union(branches) = schema.kind(id) {
        let index = cursor.branch(branches.len)? as usize;
        id = schema.branches(branches)[index];
    }
    match schema.kind(id) {
        TypeKind::Null => Ok(()),
        TypeKind::Int | TypeKind::Long | TypeKind::Enum(_) => cursor.skip_varints(1),
        TypeKind::Bytes | TypeKind::String => cursor.bytes().map(drop),
        _ => {
            let mut skipper = Skipper::<_, false> { schema, trace: () };
            skipper.value(cursor, id, 0)
        }
    }
}

/// Skips consecutive values of the same type.
pub(super) fn skip_items(
    schema: &AvroSchema,
    cursor: &mut Cursor<'_>,
    id: TypeId,
    count: u64,
) -> Result<(), LocatedError> {
    let size = schema.get(id).size;
    if size.is_exact {
        return cursor.take(count.saturating_mul(size.min.into())).map(drop);
    }
    match schema.kind(id) {
        TypeKind::Int | TypeKind::Long | TypeKind::Enum(_) => cursor.skip_varints(count),
        _ => (0..count).try_for_each(|_| skip(schema, cursor, id)),
    }
}

/// Returns the depth inside a record, array or map, or an error if that is too deep.
pub(super) fn deeper(depth: usize, cursor: &Cursor<'_>) -> Result<usize, LocatedError> {
    match depth {
        DEPTH_MAX => Err(AvroErrorKind::Depth(DEPTH_MAX).at(cursor.at)),
        _ => Ok(depth + 1),
    }
}

impl<T: Trace, const STRICT: bool> Skipper<'_, T, STRICT> {
    /// Skips a value that is inside `depth` records, arrays and maps.
    pub(super) fn value(
        &mut self,
        cursor: &mut Cursor<'_>,
        id: TypeId,
        depth: usize,
    ) -> Result<(), LocatedError> {
        let of_type = self.schema.get(id);
        let size = of_type.size;
        // A full check enters records to find the field that is incomplete, but not those without
        // bytes, which could contain each other many times.
        let is_simple = size.is_opaque && (size.min == 0 || !of_type.is_record());
        if size.is_exact && (is_simple || !STRICT) {
            return cursor.take(size.min.into()).map(drop);
        }
        match of_type.kind {
            TypeKind::Null | TypeKind::Float | TypeKind::Double | TypeKind::Fixed(_) => {
                cursor.take(size.min.into()).map(drop)
            }
            TypeKind::Boolean => cursor.boolean().map(drop),
            TypeKind::Int if STRICT => cursor.int().map(drop),
            TypeKind::Enum(symbols) if STRICT => cursor.symbol(symbols.len).map(drop),
            TypeKind::Int | TypeKind::Long | TypeKind::Enum(_) => cursor.skip_varints(1),
            TypeKind::Bytes | TypeKind::String => cursor.bytes().map(drop),
            TypeKind::Record(fields) => self.record(cursor, fields, deeper(depth, cursor)?),
            TypeKind::Array(item) => self.array(cursor, item, deeper(depth, cursor)?),
            TypeKind::Map(value) => self.map(cursor, value, deeper(depth, cursor)?),
            TypeKind::Union(branches) => {
                let index = cursor.branch(branches.len)? as usize;
                self.value(cursor, self.schema.branches(branches)[index], depth)
            }
        }
    }

    fn record(
        &mut self,
        cursor: &mut Cursor<'_>,
        fields: Span,
        depth: usize,
    ) -> Result<(), LocatedError> {
        for (index, field) in (fields.start..).zip(self.schema.fields(fields)) {
            self.trace.enter(TraceStep::Field(index));
            self.value(cursor, field.id, depth)?;
            self.trace.leave();
        }
        Ok(())
    }

    fn array(
        &mut self,
        cursor: &mut Cursor<'_>,
        item: TypeId,
        depth: usize,
    ) -> Result<(), LocatedError> {
        let size = self.schema.get(item).size;
        let mut blocks = Blocks::new(size.min);
        let mut index = 0;
        while let Some(block) = blocks.next(cursor)? {
            if !STRICT && block.leave(cursor)? {
                continue;
            }
            match self.schema.kind(item) {
                _ if size.is_exact && (size.is_opaque || !STRICT) => {
                    cursor.take(block.count.saturating_mul(size.min.into()))?;
                }
                TypeKind::Int | TypeKind::Long | TypeKind::Enum(_) if !STRICT => {
                    cursor.skip_varints(block.count)?;
                }
                _ => {
                    for _ in 0..block.count {
                        self.trace.enter(TraceStep::Index(index));
                        self.value(cursor, item, depth)?;
                        self.trace.leave();
                        index += 1;
                    }
                }
            }
            block.check_end(cursor)?;
        }
        Ok(())
    }

    fn map(
        &mut self,
        cursor: &mut Cursor<'_>,
        value: TypeId,
        depth: usize,
    ) -> Result<(), LocatedError> {
        let mut blocks = map_blocks(self.schema, value);
        while let Some(block) = blocks.next(cursor)? {
            if !STRICT && block.leave(cursor)? {
                continue;
            }
            for _ in 0..block.count {
                let length = cursor.bytes()?.len();
                let end = cursor.at;
                self.trace.enter(TraceStep::Key(end - length, end));
                self.value(cursor, value, depth)?;
                self.trace.leave();
            }
            block.check_end(cursor)?;
        }
        Ok(())
    }
}

/// Returns the blocks of a map, whose keys take at least one byte.
pub(super) fn map_blocks(schema: &AvroSchema, value: TypeId) -> Blocks {
    Blocks::new(schema.get(value).size.min.saturating_add(1))
}
