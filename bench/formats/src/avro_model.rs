//! Random Avro schemas and values for `apache-avro`, and their encoding.

use apache_avro::types::Value;

use crate::source::Source;

/// Maximum nesting of generated types.
const DEPTH_MAX: usize = 4;

/// A type of a generated schema. Named types have a number.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // the variants are named as in the specification
pub enum Type {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize, usize),
    Enum(usize, usize),
    Record(usize, Vec<Type>),
    Array(Box<Type>),
    Map(Box<Type>),
    Union(Vec<Type>),
}

/// Generator of types and values.
pub(crate) struct Generator<'a> {
    pub(crate) source: Source<'a>,
    /// Number of named types so far.
    named: usize,
}

impl<'a> Generator<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self {
            source: Source(data),
            named: 0,
        }
    }

    /// Returns a record type with 1 to 8 fields.
    pub(crate) fn record_type(&mut self, depth: usize) -> Type {
        let number = self.name();
        let count = self.source.below(8) + 1;
        let fields = (0..count).map(|_| self.any_type(depth + 1)).collect();
        Type::Record(number, fields)
    }

    fn name(&mut self) -> usize {
        self.named += 1;
        self.named
    }

    fn any_type(&mut self, depth: usize) -> Type {
        let kinds = if depth < DEPTH_MAX { 14 } else { 10 };
        match self.source.below(kinds) {
            0 => Type::Null,
            1 => Type::Boolean,
            2 => Type::Int,
            3 => Type::Long,
            4 => Type::Float,
            5 => Type::Double,
            6 => Type::Bytes,
            7 => Type::String,
            8 => Type::Fixed(self.name(), self.source.below(9) + 1),
            9 => Type::Enum(self.name(), self.source.below(100) + 1),
            10 => self.record_type(depth),
            11 => Type::Array(self.item(depth).into()),
            12 => Type::Map(self.item(depth).into()),
            _ => self.union(depth),
        }
    }

    /// Returns a type whose values have bytes: of others, a block could have any number.
    fn item(&mut self, depth: usize) -> Type {
        let found = self.any_type(depth + 1);
        if found.may_be_empty() {
            Type::Long
        } else {
            found
        }
    }

    fn union(&mut self, depth: usize) -> Type {
        let mut branches = vec![Type::Null];
        for _ in 0..self.source.below(3) + 1 {
            let branch = self.any_type(depth + 1);
            let kind = std::mem::discriminant(&branch);
            let is_new = branches
                .iter()
                .all(|own| std::mem::discriminant(own) != kind);
            if is_new && !matches!(branch, Type::Union(_)) {
                branches.push(branch);
            }
        }
        let first = self.source.below(branches.len());
        branches.swap(0, first);
        Type::Union(branches)
    }

    /// Returns a value of a type.
    pub(crate) fn value(&mut self, of: &Type) -> Value {
        let source = &mut self.source;
        match of {
            Type::Null => Value::Null,
            Type::Boolean => Value::Boolean(source.below(2) == 1),
            Type::Int => Value::Int(source.number() as i32),
            Type::Long => Value::Long(source.number() as i64),
            Type::Float => Value::Float(f32::from_bits(source.number() as u32)),
            Type::Double => Value::Double(f64::from_bits(source.number())),
            Type::Bytes => {
                let length = source.below(20);
                Value::Bytes(source.bytes(length).to_vec())
            }
            Type::String => Value::String(source.text()),
            Type::Fixed(_, size) => {
                let mut bytes = source.bytes(*size).to_vec();
                bytes.resize(*size, 0);
                Value::Fixed(*size, bytes)
            }
            Type::Enum(number, count) => {
                let index = source.below(*count);
                Value::Enum(index as u32, format!("E{number}_{index}"))
            }
            Type::Record(_, fields) => {
                let fields = fields.iter().enumerate();
                Value::Record(
                    fields
                        .map(|(i, of)| (format!("f{i}"), self.value(of)))
                        .collect(),
                )
            }
            Type::Array(of) => {
                let count = source.below(6);
                Value::Array((0..count).map(|_| self.value(of)).collect())
            }
            Type::Map(of) => {
                let count = source.below(6);
                let entries = (0..count).map(|i| (format!("k{i}"), self.value(of)));
                Value::Map(entries.collect())
            }
            Type::Union(branches) => {
                let index = source.below(branches.len());
                Value::Union(index as u32, self.value(&branches[index]).into())
            }
        }
    }

    /// Encodes a value in blocks of random lengths, with and without their sizes.
    pub(crate) fn encode(&mut self, value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Boolean(value) => out.push(u8::from(*value)),
            Value::Int(number) => put_long((*number).into(), out),
            Value::Long(number) => put_long(*number, out),
            Value::Float(number) => out.extend(number.to_le_bytes()),
            Value::Double(number) => out.extend(number.to_le_bytes()),
            Value::Bytes(bytes) => put_bytes(bytes, out),
            Value::String(text) => put_bytes(text.as_bytes(), out),
            Value::Fixed(_, bytes) => out.extend(bytes),
            Value::Enum(index, _) => put_long((*index).into(), out),
            Value::Record(fields) => fields.iter().for_each(|(_, field)| self.encode(field, out)),
            Value::Union(index, inner) => {
                put_long((*index).into(), out);
                self.encode(inner, out);
            }
            Value::Array(items) => self.blocks(items.iter(), out, |this, item, out| {
                this.encode(item, out);
            }),
            Value::Map(entries) => self.blocks(entries.iter(), out, |this, (key, value), out| {
                put_bytes(key.as_bytes(), out);
                this.encode(value, out);
            }),
            // Null has no bytes; the generator makes no other values.
            _ => {}
        }
    }

    fn blocks<T>(
        &mut self,
        mut items: impl ExactSizeIterator<Item = T>,
        out: &mut Vec<u8>,
        put: impl Fn(&mut Self, T, &mut Vec<u8>),
    ) {
        while items.len() > 0 {
            let count = self.source.below(items.len()) + 1;
            let mut bytes = Vec::new();
            for item in items.by_ref().take(count) {
                put(self, item, &mut bytes);
            }
            if self.source.below(2) == 1 {
                put_long(-(count as i64), out);
                put_long(bytes.len() as i64, out);
            } else {
                put_long(count as i64, out);
            }
            out.extend(bytes);
        }
        out.push(0);
    }
}

impl Type {
    fn may_be_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Record(_, fields) => fields.iter().all(Self::may_be_empty),
            _ => false,
        }
    }

    /// Returns the schema as JSON.
    pub(crate) fn schema(&self) -> String {
        match self {
            Self::Null => "\"null\"".to_owned(),
            Self::Boolean => "\"boolean\"".to_owned(),
            Self::Int => "\"int\"".to_owned(),
            Self::Long => "\"long\"".to_owned(),
            Self::Float => "\"float\"".to_owned(),
            Self::Double => "\"double\"".to_owned(),
            Self::Bytes => "\"bytes\"".to_owned(),
            Self::String => "\"string\"".to_owned(),
            Self::Fixed(number, size) => {
                format!(r#"{{"type": "fixed", "name": "N{number}", "size": {size}}}"#)
            }
            Self::Enum(number, count) => {
                let symbols: Vec<_> = (0..*count).map(|i| format!("\"E{number}_{i}\"")).collect();
                let symbols = symbols.join(", ");
                format!(r#"{{"type": "enum", "name": "N{number}", "symbols": [{symbols}]}}"#)
            }
            Self::Record(number, fields) => {
                let fields = fields.iter().enumerate();
                let field = |(i, of): (usize, &Self)| {
                    format!(r#"{{"name": "f{i}", "type": {}}}"#, of.schema())
                };
                let fields = fields.map(field).collect::<Vec<_>>().join(", ");
                format!(r#"{{"type": "record", "name": "N{number}", "fields": [{fields}]}}"#)
            }
            Self::Array(item) => format!(r#"{{"type": "array", "items": {}}}"#, item.schema()),
            Self::Map(value) => format!(r#"{{"type": "map", "values": {}}}"#, value.schema()),
            Self::Union(branches) => {
                let branches: Vec<_> = branches.iter().map(Self::schema).collect();
                format!("[{}]", branches.join(", "))
            }
        }
    }
}

/// Appends a number in zigzag form.
pub fn put_long(number: i64, out: &mut Vec<u8>) {
    let mut rest = (number << 1 ^ number >> 63) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends bytes after their length.
pub fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_long(bytes.len() as i64, out);
    out.extend(bytes);
}
