//! Structure of schemas, for programs that write records.

use super::schema::{AvroSchema, TypeId, TypeKind};

/// A type in a schema.
#[derive(Debug, Clone, Copy)]
pub struct AvroTypeRef<'a> {
    schema: &'a AvroSchema,
    id: TypeId,
}

/// Structure of a type. Logical types are those of their underlying type.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // the variants are named as in the specification
pub enum AvroShape<'a> {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    /// Number of bytes.
    Fixed(usize),
    /// Number of symbols.
    Enum(usize),
    /// Names and types of the fields, in order.
    Record(Vec<(&'a str, AvroTypeRef<'a>)>),
    /// Type of the items.
    Array(AvroTypeRef<'a>),
    /// Type of the values.
    Map(AvroTypeRef<'a>),
    /// Branches, in order.
    Union(Vec<AvroTypeRef<'a>>),
}

impl AvroSchema {
    /// Returns the type of whole records.
    pub fn record_type(&self) -> AvroTypeRef<'_> {
        AvroTypeRef {
            schema: self,
            id: self.root,
        }
    }
}

impl<'a> AvroTypeRef<'a> {
    /// Returns a number that is equal for all uses of a named type of the schema.
    pub fn id(self) -> u32 {
        self.id
    }

    /// Returns the structure of the type.
    pub fn shape(self) -> AvroShape<'a> {
        let of = |id| Self {
            schema: self.schema,
            id,
        };
        match self.schema.kind(self.id) {
            TypeKind::Null => AvroShape::Null,
            TypeKind::Boolean => AvroShape::Boolean,
            TypeKind::Int => AvroShape::Int,
            TypeKind::Long => AvroShape::Long,
            TypeKind::Float => AvroShape::Float,
            TypeKind::Double => AvroShape::Double,
            TypeKind::Bytes => AvroShape::Bytes,
            TypeKind::String => AvroShape::String,
            TypeKind::Fixed(size) => AvroShape::Fixed(size as usize),
            TypeKind::Enum(symbols) => AvroShape::Enum(symbols.len as usize),
            TypeKind::Record(fields) => {
                let fields = self.schema.fields(fields).iter();
                AvroShape::Record(fields.map(|field| (&*field.name, of(field.id))).collect())
            }
            TypeKind::Array(item) => AvroShape::Array(of(item)),
            TypeKind::Map(value) => AvroShape::Map(of(value)),
            TypeKind::Union(branches) => {
                let branches = self.schema.branches(branches).iter();
                AvroShape::Union(branches.map(|id| of(*id)).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recursive_record_is_walked_by_id() {
        let schema = r#"{"type": "record", "name": "Node", "fields": [
            {"name": "next", "type": ["null", "Node"]},
            {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
            {"name": "hash", "type": {"type": "fixed", "name": "H", "size": 4}}]}"#;
        let schema = AvroSchema::parse(schema, &[]).expect("a schema");
        let root = schema.record_type();
        let AvroShape::Record(fields) = root.shape() else {
            panic!("a record");
        };
        let names: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["next", "kind", "hash"]);
        let AvroShape::Union(branches) = fields[0].1.shape() else {
            panic!("a union");
        };
        assert!(matches!(branches[0].shape(), AvroShape::Null));
        assert_eq!(branches[1].id(), root.id());
        assert!(matches!(fields[1].1.shape(), AvroShape::Enum(2)));
        assert!(matches!(fields[2].1.shape(), AvroShape::Fixed(4)));
    }
}
