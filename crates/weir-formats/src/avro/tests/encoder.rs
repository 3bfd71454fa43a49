//! Schemas and values of a test, and a simple encoder.

use std::fmt::Write;

/// A type.
#[derive(Debug, Clone)]
pub(super) enum Type {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    Enum(usize),
    Record(Vec<(String, Self)>),
    Array(Box<Self>),
    Map(Box<Self>),
    Union(Vec<Self>),
}

/// A value of a type.
#[derive(Debug, Clone)]
pub(super) enum Data {
    Null,
    Boolean(bool),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    Bytes(Vec<u8>),
    String(String),
    Fixed(Vec<u8>),
    Enum(usize),
    /// Names and values of fields.
    Record(Vec<(String, Self)>),
    Array(Vec<Self>),
    Map(Vec<(String, Self)>),
    Union(usize, Box<Self>),
}

impl Type {
    /// Returns the schema in JSON.
    pub(super) fn schema(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, &mut 0);
        out
    }

    fn write(&self, out: &mut String, names: &mut usize) {
        *names += 1;
        let name = format!("N{names}");
        let _ = match self {
            Self::Null => write!(out, "\"null\""),
            Self::Boolean => write!(out, "\"boolean\""),
            Self::Int => write!(out, "{{\"type\": \"int\", \"logicalType\": \"date\"}}"),
            Self::Long => write!(out, "\"long\""),
            Self::Float => write!(out, "\"float\""),
            Self::Double => write!(out, "\"double\""),
            Self::Bytes => write!(out, "\"bytes\""),
            Self::String => write!(out, "\"string\""),
            Self::Fixed(size) => write!(
                out,
                "{{\"type\": \"fixed\", \"name\": \"{name}\", \"size\": {size}}}"
            ),
            Self::Enum(count) => {
                let symbols: Vec<_> = (0..*count).map(symbol).collect();
                write!(
                    out,
                    "{{\"type\": \"enum\", \"name\": \"{name}\", \"symbols\": {symbols:?}}}"
                )
            }
            Self::Record(fields) => {
                let _ = write!(
                    out,
                    "{{\"type\": \"record\", \"name\": \"x.{name}\", \"fields\": ["
                );
                for (i, (name, field)) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    let _ = write!(out, "{comma}{{\"name\": {name:?}, \"type\": ");
                    field.write(out, names);
                    out.push('}');
                }
                write!(out, "]}}")
            }
            Self::Array(item) => {
                out.push_str("{\"type\": \"array\", \"items\": ");
                item.write(out, names);
                write!(out, "}}")
            }
            Self::Map(value) => {
                out.push_str("{\"type\": \"map\", \"values\": ");
                value.write(out, names);
                write!(out, "}}")
            }
            Self::Union(branches) => {
                out.push('[');
                for (i, branch) in branches.iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    branch.write(out, names);
                }
                write!(out, "]")
            }
        };
    }
}

/// Returns the name of a symbol of any enum.
pub(super) fn symbol(index: usize) -> String {
    format!("S{index}")
}

/// Appends a number in zigzag form.
pub(super) fn put_long(number: i64, out: &mut Vec<u8>) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    while rest > 0x7f {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

pub(super) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_long(bytes.len() as i64, out);
    out.extend(bytes);
}

/// Encoder that divides arrays and maps into blocks, some of them with their size.
pub(super) struct Encoder {
    /// State of the generator for the sizes of blocks; 0 for single blocks without size.
    pub(super) seed: u64,
}

impl Encoder {
    pub(super) fn encode(&mut self, data: &Data) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(data, &mut out);
        out
    }

    fn put(&mut self, data: &Data, out: &mut Vec<u8>) {
        match data {
            Data::Null => {}
            Data::Boolean(value) => out.push(u8::from(*value)),
            Data::Int(number) => put_long((*number).into(), out),
            Data::Long(number) => put_long(*number, out),
            Data::Float(number) => out.extend(number.to_le_bytes()),
            Data::Double(number) => out.extend(number.to_le_bytes()),
            Data::Bytes(bytes) => put_bytes(bytes, out),
            Data::String(text) => put_bytes(text.as_bytes(), out),
            Data::Fixed(bytes) => out.extend(bytes),
            Data::Enum(index) => put_long(*index as i64, out),
            Data::Record(fields) => fields.iter().for_each(|(_, field)| self.put(field, out)),
            Data::Array(items) => self.blocks(items, out, Self::put),
            Data::Map(entries) => self.blocks(entries, out, |this, (key, value), out| {
                put_bytes(key.as_bytes(), out);
                this.put(value, out);
            }),
            Data::Union(index, value) => {
                put_long(*index as i64, out);
                self.put(value, out);
            }
        }
    }

    fn blocks<T>(
        &mut self,
        items: &[T],
        out: &mut Vec<u8>,
        put: impl Fn(&mut Self, &T, &mut Vec<u8>),
    ) {
        let mut rest = items;
        while !rest.is_empty() {
            let (count, is_sized) = self.block(rest.len());
            let (block, after) = rest.split_at(count);
            rest = after;
            let mut bytes = Vec::new();
            block.iter().for_each(|item| put(self, item, &mut bytes));
            if is_sized {
                put_long(-(count as i64), out);
                put_long(bytes.len() as i64, out);
            } else {
                put_long(count as i64, out);
            }
            out.extend(bytes);
        }
        out.push(0);
    }

    /// Returns the number of items in the next block, and whether to write its size.
    fn block(&mut self, rest: usize) -> (usize, bool) {
        if self.seed == 0 {
            return (rest, false);
        }
        let next = self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d);
        self.seed = next.wrapping_add(0x1405_7b7e_f767_814f) | 1;
        let random = self.seed >> 33;
        let count = (random as usize >> 1) % rest + 1;
        (count, random & 1 == 1)
    }
}
