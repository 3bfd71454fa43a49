//! Reads schemas and the files that they import.

use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path};
use std::sync::Arc;

use weir_formats::avro::AvroSchema;
use weir_formats::protobuf::{ProtobufSchema, ProtobufSchemaError};

use super::parsed::ParsedSchema;

/// Maximum size of a file; the parsers accept no more.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Maximum number of imported files.
const IMPORTS_MAX: usize = 200;

/// Reads a file of limited size.
fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let read = |error: std::io::Error| format!("cannot read the file: {error}");
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(read)?;
    let mut file = file.take(FILE_BYTES_MAX + 1);
    file.read_to_end(&mut bytes).map_err(read)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("more than {FILE_BYTES_MAX} bytes"));
    }
    Ok(bytes)
}

pub(super) fn text(path: &Path) -> Result<String, String> {
    String::from_utf8(bytes(path)?).map_err(|_| "not UTF-8".to_owned())
}

pub(super) fn avro(text: &str) -> Result<ParsedSchema, String> {
    let schema = AvroSchema::parse(text, &[]).map_err(|error| error.to_string())?;
    Ok(ParsedSchema::Avro(Arc::new(schema)))
}

/// Reads a `.proto` text with its imports, or a descriptor set. Also returns the text that can be
/// registered, or the reason why there is none.
#[allow(clippy::type_complexity)] // a text or the reason why there is none
pub(super) fn protobuf(
    path: &Path,
) -> Result<(ProtobufSchema, Result<Arc<str>, &'static str>), String> {
    if path
        .extension()
        .is_none_or(|extension| extension != "proto")
    {
        let schema = ProtobufSchema::from_descriptor_set(&bytes(path)?);
        let schema = schema.map_err(|error| {
            format!("not a Protobuf descriptor set: {error}; the name of a text ends in .proto")
        })?;
        return Ok((
            schema,
            Err("a descriptor set has no text; give the .proto file"),
        ));
    }
    let text = text(path)?;
    let directory = path.parent().unwrap_or_else(|| Path::new(""));
    let mut imports: Vec<(String, String)> = Vec::new();
    loop {
        match ProtobufSchema::parse_proto(&text, &imports) {
            Ok(schema) if imports.is_empty() => return Ok((schema, Ok(text.into()))),
            Ok(schema) => {
                let reason = "it imports files, which have subjects of their own; register all of \
                     them and use --schema-id";
                return Ok((schema, Err(reason)));
            }
            Err(ProtobufSchemaError::MissingImport { file, import }) => {
                if imports.len() == IMPORTS_MAX {
                    return Err(format!("more than {IMPORTS_MAX} imported files"));
                }
                let text = imported(directory, &import);
                let text = text.map_err(|e| format!("import \"{import}\" in {file}: {e}"))?;
                imports.push((import, text));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

fn imported(directory: &Path, import: &str) -> Result<String, String> {
    let import = Path::new(import);
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !import.components().all(is_inside) {
        return Err("not a path below the directory of the schema".to_owned());
    }
    text(&directory.join(import))
}

pub(super) fn first_message(schema: ProtobufSchema) -> Result<ParsedSchema, String> {
    let message = schema.message_at(&[]);
    let message = message.ok_or_else(|| "it defines no message type".to_owned())?;
    Ok(ParsedSchema::Protobuf { schema, message })
}

pub(super) fn named_message(schema: ProtobufSchema, name: &str) -> Result<ParsedSchema, String> {
    let Some(message) = schema.message(name) else {
        let mut names: Vec<_> = schema.message_names().take(NAMES_SHOWN).collect();
        names.sort_unstable();
        let names = names.join(", ");
        return Err(format!(
            "the schema has no such message type; some of its own: {names}"
        ));
    };
    Ok(ParsedSchema::Protobuf { schema, message })
}

const NAMES_SHOWN: usize = 10;
