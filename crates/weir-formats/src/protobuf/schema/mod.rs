//! Schemas: from descriptor sets and `.proto` texts to compiled message types.

mod build;
mod default;
mod descriptor;
mod known;
mod lexer;
mod parser;
mod raw;
mod tokens;
pub(super) mod types;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use self::raw::{RawFile, SCHEMA_BYTES_MAX};
use self::types::{MessageId, MessageType, Types};
use super::error::ProtobufSchemaError as SchemaError;

/// Name of the main text in errors.
const MAIN_FILE: &str = "schema";

/// Message types of a descriptor set, or of a `.proto` text and its references.
#[derive(Clone)]
pub struct ProtobufSchema {
    pub(super) types: Arc<Types>,
    /// All messages by id, so that finding one for a record allocates nothing.
    messages: Arc<[Arc<ProtobufMessage>]>,
}

/// A message type of a schema.
pub struct ProtobufMessage {
    pub(super) types: Arc<Types>,
    pub(super) id: MessageId,
}

impl ProtobufSchema {
    /// Reads a descriptor set that includes all imports, as `protoc --include_imports
    /// --descriptor_set_out` writes it. The main file is the last one.
    pub fn from_descriptor_set(bytes: &[u8]) -> Result<Self, SchemaError> {
        let files = descriptor::read(bytes)?;
        if files.is_empty() {
            return Err(SchemaError::definition(
                "the descriptor set",
                "contains no files",
            ));
        }
        Ok(Self::new(build::build(&files)?))
    }

    /// Parses a `.proto` text, or a file's descriptor in base64. `references` are the imported
    /// files: names as in the imports, and texts. The files that come with `protoc` and with the
    /// Confluent registry are built in.
    pub fn parse_proto(text: &str, references: &[(String, String)]) -> Result<Self, SchemaError> {
        let all = references.iter().map(|(_, text)| text.len());
        if all.sum::<usize>().saturating_add(text.len()) > SCHEMA_BYTES_MAX {
            return Err(SchemaError::TooLarge {
                max: SCHEMA_BYTES_MAX,
                of: "bytes",
            });
        }
        let files = parse_files(text, references)?;
        Ok(Self::new(build::build(&files)?))
    }

    fn new(types: Types) -> Self {
        let types = Arc::new(types);
        let message = |id| {
            let types = Arc::clone(&types);
            Arc::new(ProtobufMessage { types, id })
        };
        // The number of messages fits into an id because each got one.
        let messages = (0..types.messages.len() as MessageId).map(message);
        Self {
            messages: messages.collect(),
            types,
        }
    }

    /// Returns the message with a name: full, or without the package if only one has it.
    pub fn message(&self, name: &str) -> Option<Arc<ProtobufMessage>> {
        let short = self.types.by_short_name.get(name).copied().flatten();
        let id = short.or_else(|| self.types.by_name.get(name).copied())?;
        self.messages.get(id as usize).cloned()
    }

    /// Returns the message at a position of the main file: the index of a message at the top
    /// level, then of a message inside, and so on. No index means the first message.
    ///
    /// As in the Confluent libraries for Java, the types of maps and groups have no index.
    pub fn message_at(&self, indexes: &[i32]) -> Option<Arc<ProtobufMessage>> {
        let first = [0];
        let indexes = if indexes.is_empty() { &first } else { indexes };
        let mut siblings = &*self.types.top;
        let mut found = None;
        for index in indexes {
            let id = *siblings.get(usize::try_from(*index).ok()?)?;
            siblings = &self.types.message(id).nested;
            found = self.messages.get(id as usize);
        }
        found.cloned()
    }

    /// Returns the full names of all messages, in no particular order.
    pub fn message_names(&self) -> impl Iterator<Item = &str> {
        self.types.by_name.keys().map(|name| &**name)
    }
}

impl ProtobufMessage {
    /// Returns the full name of the message type.
    pub fn name(&self) -> &str {
        &self.message_type().name
    }

    pub(super) fn message_type(&self) -> &MessageType {
        self.types.message(self.id)
    }
}

impl fmt::Debug for ProtobufSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.types.by_name.len();
        write!(f, "ProtobufSchema({count} messages)")
    }
}

impl fmt::Debug for ProtobufMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProtobufMessage")
            .field(&self.name())
            .finish()
    }
}

/// Parses a text and the files that it imports, directly or not. The main file comes last.
fn parse_files(text: &str, references: &[(String, String)]) -> Result<Vec<RawFile>, SchemaError> {
    let texts: HashMap<&str, &str> = references
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let main = parse_file(MAIN_FILE, text)?;
    let mut seen = HashSet::new();
    let mut next: Vec<(String, String)> = imports(MAIN_FILE, &main);
    let mut files = Vec::new();
    while let Some((importer, name)) = next.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let text = texts.get(name.as_str()).copied();
        let Some(text) = text.or_else(|| known::text(&name)) else {
            return Err(SchemaError::MissingImport {
                file: importer,
                import: name,
            });
        };
        let file = parse_file(&name, text)?;
        next.extend(imports(&name, &file));
        files.push(file);
    }
    files.push(main);
    Ok(files)
}

/// Returns the imports of a file, each with the file's name.
fn imports(name: &str, file: &RawFile) -> Vec<(String, String)> {
    let pair = |import: &String| (name.to_owned(), import.clone());
    file.imports.iter().map(pair).collect()
}

fn parse_file(name: &str, text: &str) -> Result<RawFile, SchemaError> {
    if let Some(bytes) = encoded_descriptor(text) {
        return descriptor::read_file(&bytes)
            .map_err(|error| SchemaError::Descriptor(error.in_place(name)));
    }
    parser::parse(text).map_err(|error| SchemaError::Syntax {
        file: name.to_owned(),
        line: error.line,
        problem: shortened(error.problem),
    })
}

/// Returns the bytes of a text in base64. Confluent's client for Python registers the descriptor of
/// a file in this form, and not all registries convert it.
fn encoded_descriptor(text: &str) -> Option<Vec<u8>> {
    // A definition needs brackets or a semicolon, which base64 does not have.
    let bytes = BASE64_STANDARD.decode(text.trim()).ok()?;
    (!bytes.is_empty()).then_some(bytes)
}

/// Returns an error text that quotes no more than the beginning of a long word.
fn shortened(mut problem: String) -> String {
    if problem.len() > PROBLEM_BYTES_MAX {
        let end = (0..=PROBLEM_BYTES_MAX)
            .rev()
            .find(|at| problem.is_char_boundary(*at));
        problem.truncate(end.unwrap_or_default());
        problem.push('…');
    }
    problem
}

/// Maximum length of an error text about a schema, which can quote the schema.
const PROBLEM_BYTES_MAX: usize = 200;
