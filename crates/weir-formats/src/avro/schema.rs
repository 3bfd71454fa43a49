//! Parsed schemas: all types of a schema in one table.

/// Position of a type in its schema.
pub(super) type TypeId = u32;

/// A parsed Avro schema.
#[derive(Debug)]
pub struct AvroSchema {
    pub(super) types: Vec<AvroType>,
    pub(super) root: TypeId,
    /// Fields of all records, those of a record next to each other.
    pub(super) fields: Vec<Field>,
    /// Branches of all unions.
    pub(super) branches: Vec<TypeId>,
    /// Symbols of all enums.
    pub(super) symbols: Vec<Box<str>>,
}

/// A field of a record.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: Box<str>,
    pub(super) id: TypeId,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct AvroType {
    pub(super) kind: TypeKind,
    pub(super) size: Size,
}

/// Kind of a type. Logical types are those of their underlying type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeKind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(u32),
    /// Range of the symbols.
    Enum(Span),
    /// Range of the fields.
    Record(Span),
    Array(TypeId),
    Map(TypeId),
    /// Range of the branches.
    Union(Span),
}

/// Range in one of the tables of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Span {
    pub(super) fn of<T>(self, table: &[T]) -> &[T] {
        &table[self.start as usize..self.start as usize + self.len as usize]
    }
}

/// Number of bytes of the values of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    /// Lower bound; it is above the size limit of records if the sum does not fit.
    pub(super) min: u32,
    /// Every value has `min` bytes.
    pub(super) is_exact: bool,
    /// Any bytes are a value of the type.
    pub(super) is_opaque: bool,
}

impl AvroType {
    pub(super) fn is_record(&self) -> bool {
        matches!(self.kind, TypeKind::Record(_))
    }
}

impl Size {
    /// Size that varies with the value, and is at least `min`.
    pub(super) const fn varying(min: u32) -> Self {
        Self {
            min,
            is_exact: false,
            is_opaque: false,
        }
    }

    /// Size of values without further structure.
    pub(super) const fn opaque(bytes: u32) -> Self {
        Self {
            min: bytes,
            is_exact: true,
            is_opaque: true,
        }
    }

    /// Returns the size of a value followed by another.
    pub(super) fn and(self, next: Self) -> Self {
        Self {
            min: self.min.saturating_add(next.min),
            is_exact: self.is_exact && next.is_exact,
            is_opaque: self.is_opaque && next.is_opaque,
        }
    }
}

impl AvroSchema {
    pub(super) fn get(&self, id: TypeId) -> &AvroType {
        &self.types[id as usize]
    }

    pub(super) fn kind(&self, id: TypeId) -> TypeKind {
        self.types[id as usize].kind
    }

    pub(super) fn fields(&self, span: Span) -> &[Field] {
        span.of(&self.fields)
    }

    pub(super) fn branches(&self, span: Span) -> &[TypeId] {
        span.of(&self.branches)
    }

    pub(super) fn symbols(&self, span: Span) -> &[Box<str>] {
        span.of(&self.symbols)
    }
}
