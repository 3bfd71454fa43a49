//! Reads descriptor sets, the output of `protoc --descriptor_set_out`.

use super::super::error::{ProtobufFault, ProtobufSchemaError as SchemaError, WireError};
use super::super::wire::{self, BYTES, VARINT};
use super::raw::{
    Features, Label, NESTING_MAX, Presence, RawDefault, RawEnum, RawField, RawFile, RawKind,
    RawMessage, SCALARS, SCHEMA_BYTES_MAX,
};

/// Reads all files of a set, in its order.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<RawFile>, SchemaError> {
    if bytes.len() > SCHEMA_BYTES_MAX {
        return Err(SchemaError::TooLarge {
            max: SCHEMA_BYTES_MAX,
            of: "bytes",
        });
    }
    let mut files = Vec::new();
    let read = each(bytes, |number, value| {
        if number == 1 {
            files.push(read_file(value.bytes()?)?);
        }
        Ok(())
    });
    match read {
        Ok(()) => Ok(files),
        Err(error) => Err(SchemaError::Descriptor(
            error.in_place("the descriptor set"),
        )),
    }
}

/// Value of a field of a descriptor.
#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

impl<'a> Value<'a> {
    fn bytes(self) -> Result<&'a [u8], WireError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(ProtobufFault::WireType.at(0)),
        }
    }

    fn text(self) -> Result<String, WireError> {
        let text = std::str::from_utf8(self.bytes()?);
        text.map(str::to_owned)
            .map_err(|_| ProtobufFault::Encoding.at(0))
    }

    fn number(self) -> Result<u64, WireError> {
        match self {
            Self::Number(number) => Ok(number),
            _ => Err(ProtobufFault::WireType.at(0)),
        }
    }

    /// Returns a number of type `int32`, which is written with the sign extended to 64 bits.
    fn int32(self) -> Result<i64, WireError> {
        self.number().map(|number| i64::from(number as i32))
    }

    fn flag(self) -> Result<bool, WireError> {
        self.number().map(|number| number != 0)
    }
}

/// Calls `found` with the number and value of each field of a message.
fn each<'a>(
    bytes: &'a [u8],
    mut found: impl FnMut(u32, Value<'a>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    let mut at = 0;
    while at < bytes.len() {
        let (tag, value_at) = wire::tag(bytes, at)?;
        let value = match tag.wire {
            VARINT => Value::Number(wire::varint(bytes, value_at)?.0),
            BYTES => {
                let extent = wire::length(bytes, value_at)?;
                Value::Bytes(&bytes[extent.at..extent.end])
            }
            _ => Value::Other,
        };
        // Positions inside nested messages are reported from the start of the outermost one that
        // is inside the set, which is precise enough to find the file.
        found(tag.number, value).map_err(|error| WireError {
            at: at + error.at,
            ..error
        })?;
        at = wire::skip(bytes, value_at, tag, 0)?;
    }
    Ok(())
}

/// Reads the descriptor of one file.
pub(super) fn read_file(bytes: &[u8]) -> Result<RawFile, WireError> {
    let features = file_features(bytes)?;
    let mut file = RawFile::default();
    each(bytes, |number, value| {
        match number {
            2 => file.package = value.text()?,
            3 => file.imports.push(value.text()?),
            4 => file.messages.push(message(value.bytes()?, features, 0)?),
            5 => file.enums.push(enumeration(value.bytes()?, features)?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(file)
}

/// Returns the rules of a file's syntax or edition with the file's own options.
fn file_features(bytes: &[u8]) -> Result<Features, WireError> {
    let mut features = Features::PROTO2;
    let mut options: &[u8] = &[];
    each(bytes, |number, value| {
        match number {
            8 => options = value.bytes()?,
            12 => match value.bytes()? {
                b"proto3" => features = Features::PROTO3,
                b"editions" => features = Features::EDITION_2023,
                _ => {}
            },
            _ => {}
        }
        Ok(())
    })?;
    option_features(options, 50, features)
}

/// Returns `features` changed by the field `number` of an options message.
fn option_features(
    options: &[u8],
    number: u32,
    mut features: Features,
) -> Result<Features, WireError> {
    each(options, |found, value| {
        if found != number {
            return Ok(());
        }
        each(value.bytes()?, |feature, value| {
            let Value::Number(value) = value else {
                return Ok(());
            };
            let (name, value) = match (feature, value) {
                (1, 1) => ("field_presence", "EXPLICIT"),
                (1, 2) => ("field_presence", "IMPLICIT"),
                (1, 3) => ("field_presence", "LEGACY_REQUIRED"),
                (2, 1) => ("enum_type", "OPEN"),
                (2, 2) => ("enum_type", "CLOSED"),
                (4, 2) => ("utf8_validation", "VERIFY"),
                (4, 3) => ("utf8_validation", "NONE"),
                (5, 1) => ("message_encoding", "LENGTH_PREFIXED"),
                (5, 2) => ("message_encoding", "DELIMITED"),
                _ => return Ok(()),
            };
            features.set(name, value);
            Ok(())
        })
    })?;
    Ok(features)
}

fn message(bytes: &[u8], outer: Features, depth: usize) -> Result<RawMessage, WireError> {
    if depth == NESTING_MAX {
        return Err(ProtobufFault::Depth.at(0));
    }
    let mut message = RawMessage::default();
    let mut features = outer;
    each(bytes, |number, value| {
        if number == 7 {
            let options = value.bytes()?;
            features = option_features(options, 12, outer)?;
            each(options, |number, value| {
                if number == 7 {
                    message.is_map_entry = value.flag()?;
                }
                Ok(())
            })?;
        }
        Ok(())
    })?;
    // Maps have one encoding.
    features.is_delimited &= !message.is_map_entry;
    each(bytes, |number, value| {
        match number {
            1 => message.name = value.text()?,
            2 => message.fields.push(field(value.bytes()?, features)?),
            3 => {
                let nested = self::message(value.bytes()?, features, depth + 1)?;
                message.messages.push(nested);
            }
            4 => message.enums.push(enumeration(value.bytes()?, features)?),
            8 => message.oneof_count += 1,
            _ => {}
        }
        Ok(())
    })?;
    Ok(message)
}

fn field(bytes: &[u8], outer: Features) -> Result<RawField, WireError> {
    const TYPE_GROUP: u64 = 10;
    let (mut kind, mut type_name, mut default) = (0, String::new(), None);
    let mut field = RawField {
        name: String::new(),
        number: 0,
        kind: RawKind::Scalar("bytes"),
        label: Label::Default,
        oneof: None,
        default: None,
        features: outer,
    };
    let mut is_optional = false;
    each(bytes, |number, value| {
        match number {
            1 => field.name = value.text()?,
            3 => field.number = value.int32()?,
            4 => {
                field.label = match value.number()? {
                    2 => Label::Required,
                    3 => Label::Repeated,
                    _ => Label::Default,
                }
            }
            5 => kind = value.number()?,
            6 => type_name = value.text()?,
            7 => default = Some(value.text()?),
            8 => field.features = option_features(value.bytes()?, 21, outer)?,
            9 => field.oneof = Some(value.number()?.try_into().unwrap_or(u32::MAX)),
            17 => is_optional = value.flag()?,
            _ => {}
        }
        Ok(())
    })?;
    if is_optional {
        field.label = Label::Optional;
        // The oneof that stands for the keyword has no other member.
        field.oneof = None;
    }
    let scalar = usize::try_from(kind).ok().and_then(|k| k.checked_sub(1));
    let scalar = scalar.and_then(|k| SCALARS.get(k)).copied();
    field.kind = match scalar {
        Some(name) if !name.is_empty() => RawKind::Scalar(name),
        _ if kind == TYPE_GROUP => RawKind::Group(type_name),
        _ => RawKind::Named(type_name),
    };
    field.default = default.map(|text| match field.kind {
        RawKind::Scalar("string") => RawDefault::Bytes(text.into_bytes()),
        RawKind::Scalar("bytes") => RawDefault::Bytes(super::lexer::unescape(text.as_bytes())),
        _ => RawDefault::Word(text),
    });
    // In editions an explicit feature of the type, in descriptors the type itself.
    if kind == TYPE_GROUP {
        field.features.is_delimited = true;
    }
    if field.features.presence == Presence::Required && field.label == Label::Optional {
        field.features.presence = Presence::Explicit;
    }
    Ok(field)
}

fn enumeration(bytes: &[u8], outer: Features) -> Result<RawEnum, WireError> {
    let mut features = outer;
    let mut found = RawEnum::default();
    each(bytes, |number, value| {
        match number {
            1 => found.name = value.text()?,
            2 => {
                let (mut name, mut code) = (String::new(), 0);
                each(value.bytes()?, |number, value| {
                    match number {
                        1 => name = value.text()?,
                        2 => code = value.int32()?,
                        _ => {}
                    }
                    Ok(())
                })?;
                found.values.push((name, code));
            }
            3 => features = option_features(value.bytes()?, 7, outer)?,
            _ => {}
        }
        Ok(())
    })?;
    found.is_closed = features.has_closed_enums;
    Ok(found)
}
