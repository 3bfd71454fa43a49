//! How key and value bytes become text.

mod string;

pub(crate) use string::append_text;

/// The type of a record's key or value, as `record.{key,value}.evaluator.type` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Evaluator {
    /// UTF-8 text.
    #[default]
    String,
}

impl Evaluator {
    /// All names the connector knows, supported here or not.
    pub(crate) const NAMES: &'static [&'static str] = &[
        "AVRO",
        "JSON",
        "PROTOBUF",
        "KVP",
        "STRING",
        "INTEGER",
        "BOOLEAN",
        "BYTE_ARRAY",
        "BYTE_BUFFER",
        "BYTES",
        "DOUBLE",
        "FLOAT",
        "LONG",
        "SHORT",
        "UUID",
    ];

    /// The evaluator of that name, `None` if this version has none.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "STRING" => Some(Self::String),
            _ => None,
        }
    }

    /// Appends the text of a payload that is not null.
    pub(crate) fn append(self, payload: &[u8], out: &mut String) {
        match self {
            Self::String => append_text(payload, out),
        }
    }
}
