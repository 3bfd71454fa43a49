//! Finds the path of an error in a record.

use std::fmt::Write;

use super::cursor::Cursor;
use super::error::{AvroError, AvroErrorKind, LocatedError};
use super::schema::AvroSchema;
use super::skip::{Skipper, Trace, TraceStep};

#[derive(Debug, Default)]
struct Steps(Vec<TraceStep>);

impl Trace for Steps {
    fn enter(&mut self, step: TraceStep) {
        self.0.push(step);
    }

    fn leave(&mut self) {
        self.0.pop();
    }
}

impl Steps {
    /// Returns the path in the extraction language, shortened in the middle.
    fn path(&self, schema: &AvroSchema, bytes: &[u8]) -> String {
        const STEPS_MAX: usize = 16;
        const NAME_CHARS_MAX: usize = 60;
        let mut path = String::new();
        for (i, step) in self.0.iter().enumerate() {
            if i >= STEPS_MAX / 2 && i + STEPS_MAX / 2 < self.0.len() {
                if i == STEPS_MAX / 2 {
                    path.push_str("...");
                }
                continue;
            }
            // Writing to a string cannot fail.
            let _ = match *step {
                TraceStep::Field(index) => {
                    let dot = if path.is_empty() { "" } else { "." };
                    let name = schema.fields[index as usize].name.chars();
                    let name: String = name.take(NAME_CHARS_MAX).collect();
                    write!(path, "{dot}{name}")
                }
                TraceStep::Index(index) => write!(path, "[{index}]"),
                TraceStep::Key(start, end) => {
                    let key = String::from_utf8_lossy(&bytes[start..end]);
                    let key: String = key.chars().take(NAME_CHARS_MAX).collect();
                    write!(path, "['{}']", key.escape_default())
                }
            };
        }
        path
    }
}

/// Checks a record from its start to its end.
pub(super) fn check(schema: &AvroSchema, bytes: &[u8]) -> Result<(), LocatedError> {
    let mut skipper = Skipper::<_, true> { schema, trace: () };
    let mut cursor = Cursor::new(bytes, 0);
    skipper.value(&mut cursor, schema.root, 0)?;
    match bytes.len() - cursor.at {
        0 => Ok(()),
        more => Err(AvroErrorKind::Trailing(more).at(cursor.at)),
    }
}

/// Returns the first error of a record with its path; `fallback` if a full check finds none.
#[cold]
pub(super) fn locate(schema: &AvroSchema, bytes: &[u8], fallback: LocatedError) -> AvroError {
    let mut skipper = Skipper::<_, true> {
        schema,
        trace: Steps::default(),
    };
    let outcome = skipper.value(&mut Cursor::new(bytes, 0), schema.root, 0);
    let (LocatedError { fault, at }, path) = match outcome {
        Err(found) => (found, skipper.trace.path(schema, bytes)),
        Ok(()) => (fallback, String::new()),
    };
    AvroError {
        fault,
        at,
        path: path.into(),
    }
}
