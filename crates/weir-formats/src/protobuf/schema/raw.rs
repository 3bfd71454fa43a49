//! A file as declared, before names are resolved.

/// Greatest nesting of message declarations.
pub(super) const NESTING_MAX: usize = 64;
/// Greatest size of a descriptor set, and of all `.proto` texts of a schema together.
pub(super) const SCHEMA_BYTES_MAX: usize = 16 << 20;

/// A `.proto` file.
#[derive(Debug, Default)]
pub(super) struct RawFile {
    pub(super) package: String,
    pub(super) messages: Vec<RawMessage>,
    pub(super) enums: Vec<RawEnum>,
    pub(super) imports: Vec<String>,
}

/// Rules that depend on the syntax or edition and on `features` options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Features {
    pub(super) presence: Presence,
    pub(super) has_closed_enums: bool,
    pub(super) checks_encoding: bool,
    pub(super) is_delimited: bool,
}

/// Rule for values equal to the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Explicit,
    Implicit,
    Required,
}

impl Features {
    pub(super) const PROTO2: Self = Self {
        presence: Presence::Explicit,
        has_closed_enums: true,
        checks_encoding: false,
        is_delimited: false,
    };
    pub(super) const PROTO3: Self = Self {
        presence: Presence::Implicit,
        has_closed_enums: false,
        checks_encoding: true,
        is_delimited: false,
    };
    pub(super) const EDITION_2023: Self = Self {
        presence: Presence::Explicit,
        has_closed_enums: false,
        checks_encoding: true,
        is_delimited: false,
    };

    /// Sets a feature by the names of the Protobuf language; others have no effect on reading.
    pub(super) fn set(&mut self, feature: &str, value: &str) {
        match (feature, value) {
            ("field_presence", "EXPLICIT") => self.presence = Presence::Explicit,
            ("field_presence", "IMPLICIT") => self.presence = Presence::Implicit,
            ("field_presence", "LEGACY_REQUIRED") => self.presence = Presence::Required,
            ("enum_type", _) => self.has_closed_enums = value == "CLOSED",
            ("utf8_validation", _) => self.checks_encoding = value == "VERIFY",
            ("message_encoding", _) => self.is_delimited = value == "DELIMITED",
            _ => {}
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct RawMessage {
    pub(super) name: String,
    pub(super) fields: Vec<RawField>,
    pub(super) messages: Vec<Self>,
    pub(super) enums: Vec<RawEnum>,
    pub(super) oneof_count: u32,
    pub(super) is_map_entry: bool,
}

#[derive(Debug)]
pub(super) struct RawField {
    pub(super) name: String,
    pub(super) number: i64,
    pub(super) kind: RawKind,
    pub(super) label: Label,
    pub(super) oneof: Option<u32>,
    pub(super) default: Option<RawDefault>,
    pub(super) features: Features,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    /// Optional by its keyword in proto3, or a member of a oneof.
    Optional,
    /// Without a keyword, or optional in proto2.
    Default,
    Required,
    Repeated,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RawKind {
    Scalar(&'static str),
    /// A message or enum by its name, relative unless it starts with a dot.
    Named(String),
    /// A group by the name of its message.
    Group(String),
}

#[derive(Debug)]
pub(super) enum RawDefault {
    /// Number, boolean or name of an enum value.
    Word(String),
    Bytes(Vec<u8>),
}

#[derive(Debug, Default)]
pub(super) struct RawEnum {
    pub(super) name: String,
    pub(super) values: Vec<(String, i64)>,
    pub(super) is_closed: bool,
}

/// Names of the scalar types, by their numbers in descriptors from 1; empty for others.
pub(super) const SCALARS: [&str; 18] = [
    "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "", "",
    "bytes", "uint32", "", "sfixed32", "sfixed64", "sint32", "sint64",
];

/// Returns the kind of a field type as written.
pub(super) fn kind_of(name: &str) -> RawKind {
    match SCALARS.iter().find(|s| **s == name && !name.is_empty()) {
        Some(scalar) => RawKind::Scalar(scalar),
        None => RawKind::Named(name.to_owned()),
    }
}
