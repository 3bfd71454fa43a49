//! Reads schemas and the files that they import.

use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path};
use std::sync::Arc;

use thiserror::Error;
use weir_formats::avro::{AvroSchema, AvroSchemaError};
use weir_formats::protobuf::{ProtobufSchema, ProtobufSchemaError};

use super::parsed::ParsedSchema;

/// Maximum size of a file; the parsers accept no more.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Maximum number of imported files.
const IMPORTS_MAX: usize = 200;

/// Reason why a schema cannot be used.
#[derive(Debug, Error)]
pub(crate) enum ValueSchemaError {
    #[error("cannot read the file: {0}")]
    Read(#[from] std::io::Error),
    #[error("more than {FILE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("not UTF-8")]
    NotText,
    #[error(transparent)]
    Avro(#[from] AvroSchemaError),
    #[error(transparent)]
    Protobuf(#[from] ProtobufSchemaError),
    #[error("not a Protobuf descriptor set: {0}; the name of a text ends in .proto")]
    DescriptorSet(ProtobufSchemaError),
    #[error("more than {IMPORTS_MAX} imported files")]
    TooManyImports,
    #[error("import \"{import}\" in {file}: {cause}")]
    Import {
        import: String,
        file: String,
        cause: Box<Self>,
    },
    #[error("not a path below the directory of the schema")]
    Outside,
    #[error("it defines no message type")]
    NoMessage,
    #[error("the schema has no such message type; some of its own: {0}")]
    UnknownMessage(String),
    #[error("JSON values have a fixed form; use it for Avro or Protobuf")]
    Json,
}

type Result<T> = std::result::Result<T, ValueSchemaError>;

/// Reads a file of limited size.
fn bytes(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = File::open(path)?.take(FILE_BYTES_MAX + 1);
    file.read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ValueSchemaError::TooLarge);
    }
    Ok(bytes)
}

pub(super) fn text(path: &Path) -> Result<String> {
    String::from_utf8(bytes(path)?).map_err(|_| ValueSchemaError::NotText)
}

pub(super) fn avro(text: &str) -> Result<ParsedSchema> {
    Ok(ParsedSchema::Avro(Arc::new(AvroSchema::parse(text, &[])?)))
}

/// Text that can be registered, or the reason why there is none.
pub(super) type RegistrableText = std::result::Result<Arc<str>, &'static str>;

/// Reads a `.proto` text with its imports, or a descriptor set. Also returns the text that can be
/// registered, or the reason why there is none.
pub(super) fn protobuf(path: &Path) -> Result<(ProtobufSchema, RegistrableText)> {
    if path
        .extension()
        .is_none_or(|extension| extension != "proto")
    {
        let schema = ProtobufSchema::from_descriptor_set(&bytes(path)?);
        let schema = schema.map_err(ValueSchemaError::DescriptorSet)?;
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
                    return Err(ValueSchemaError::TooManyImports);
                }
                let text = imported(directory, &import);
                match text {
                    Ok(text) => imports.push((import, text)),
                    Err(error) => {
                        return Err(ValueSchemaError::Import {
                            import,
                            file,
                            cause: Box::new(error),
                        });
                    }
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn imported(directory: &Path, import: &str) -> Result<String> {
    let import = Path::new(import);
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_));
    if !import.components().all(is_inside) {
        return Err(ValueSchemaError::Outside);
    }
    text(&directory.join(import))
}

pub(super) fn first_message(schema: ProtobufSchema) -> Result<ParsedSchema> {
    let message = schema.message_at(&[]);
    let message = message.ok_or(ValueSchemaError::NoMessage)?;
    Ok(ParsedSchema::Protobuf { schema, message })
}

pub(super) fn named_message(schema: ProtobufSchema, name: &str) -> Result<ParsedSchema> {
    let Some(message) = schema.message(name) else {
        let mut names: Vec<_> = schema.message_names().take(NAMES_SHOWN).collect();
        names.sort_unstable();
        return Err(ValueSchemaError::UnknownMessage(names.join(", ")));
    };
    Ok(ParsedSchema::Protobuf { schema, message })
}

const NAMES_SHOWN: usize = 10;
