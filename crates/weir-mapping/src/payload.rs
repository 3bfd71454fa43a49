//! Extracts values from record keys and values with the evaluators of a connection.

use std::borrow::Cow;
use std::sync::Arc;

use weir_formats::avro::{self, AvroReader};
use weir_formats::error::PathFailure;
use weir_formats::expression::{ParentKind, PathStep};
use weir_formats::json::{self, JsonCheck, JsonReader, MemberSink, NodeId, PathTree};
use weir_formats::protobuf::{self, ProtobufReader};
use weir_formats::selector_value::SelectorValue;
use weir_formats::utf8::append_text;

use crate::error::{ExtractionReason, PayloadError, PayloadProblem};
use crate::evaluator::{Evaluator, Separators, append_kvp, kvp_value};
use crate::field_set::FieldSet;
use crate::record_part::{KeyAndValue, RecordPart};
use crate::record_view::RecordView;
use crate::schema::{
    CompiledSchema, DocumentFormat, DocumentKind, SchemaCache, SchemaProblem, SchemaSource,
    read_frame,
};

/// Evaluator configuration of keys or of values.
#[derive(Debug, Clone, Default)]
pub(crate) struct PartConfig {
    pub(crate) evaluator: Evaluator,
    pub(crate) separators: Separators,
    /// Format of documents; unused by other evaluators.
    pub(crate) format: Arc<DocumentFormat>,
}

impl PartConfig {
    /// Returns `true` if a payload without bytes counts as null.
    pub(crate) fn is_null_if_empty(&self) -> bool {
        self.evaluator.is_document() && self.format.is_null_if_empty()
    }
}

/// Paths into the documents of keys or of values, and the format of these.
#[derive(Debug, Clone)]
pub(crate) struct DocumentPaths {
    pub(crate) tree: Arc<PathTree>,
    pub(crate) format: Arc<DocumentFormat>,
}

/// Document paths of a connection's templates or fields.
pub(crate) type PathTrees = KeyAndValue<DocumentPaths>;

/// Paths to read in the next records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WantedPaths {
    /// Paths of the templates of a topic, given by its position.
    Topic(usize),
    /// Paths of fields.
    Fields(FieldSet),
}

/// Reader of record payloads, with memory that is reused between records.
#[derive(Debug, Clone, Default)]
pub(crate) struct PayloadReader {
    readers: KeyAndValue<PartReader>,
    paths: Option<PathTrees>,
    wanted: Option<WantedPaths>,
}

#[derive(Debug, Clone, Default)]
struct PartReader {
    bodies: BodyReader,
    schemas: SchemaCache,
    /// Result of reading the current payload, `None` before it is read.
    outcome: Option<Result<Document, ExtractionReason>>,
}

/// Readers of all formats; a connection uses one of them.
#[derive(Debug, Clone, Default)]
struct BodyReader {
    json: JsonReader,
    avro: AvroReader,
    protobuf: ProtobufReader,
    /// Nodes that Avro and Protobuf readers select once the schema is known.
    wanted: Vec<NodeId>,
    /// Schema for which [`Self::wanted`] was selected last.
    selected: Option<CompiledSchema>,
}

/// A document that was read.
#[derive(Debug, Clone, Copy)]
struct Document {
    /// Reader that read it; null is a JSON document for all formats.
    kind: DocumentKind,
    /// Position in the payload.
    start: usize,
}

/// Calls a method that the readers of all formats have, on the one that read a document.
macro_rules! of_format {
    ($readers:ident, $kind:expr, $method:ident($($argument:expr),*)) => {
        match $kind {
            DocumentKind::Json => $readers.json.$method($($argument),*).map_err(Missing::from),
            DocumentKind::Avro => $readers.avro.$method($($argument),*).map_err(Missing::from),
            DocumentKind::Protobuf => {
                $readers.protobuf.$method($($argument),*).map_err(Missing::from)
            }
        }
    };
}

impl PayloadReader {
    /// Starts the next record. Returns `true` if the caller must call [`Self::want`] because the
    /// wanted paths or the path trees differ from those of the previous record.
    pub(crate) fn next_record(
        &mut self,
        paths: &PathTrees,
        is_same: impl Fn(&WantedPaths) -> bool,
    ) -> bool {
        self.readers.key.outcome = None;
        self.readers.value.outcome = None;
        let same_paths = self.paths.as_ref().is_some_and(|old| {
            Arc::ptr_eq(&old.key.tree, &paths.key.tree)
                && Arc::ptr_eq(&old.value.tree, &paths.value.tree)
        });
        !(same_paths && self.wanted.as_ref().is_some_and(is_same))
    }

    /// Sets the wanted nodes of this and the following records.
    pub(crate) fn want(
        &mut self,
        paths: &PathTrees,
        wanted: WantedPaths,
        nodes: impl Iterator<Item = (RecordPart, NodeId)> + Clone,
    ) {
        for part in [RecordPart::Key, RecordPart::Value] {
            let of_part = nodes.clone().filter(|(p, _)| *p == part);
            let of_part = of_part.map(|(_, node)| node);
            let bodies = &mut self.readers.of_mut(part).bodies;
            bodies.json.select(&paths.of(part).tree, of_part.clone());
            bodies.wanted.clear();
            bodies.wanted.extend(of_part);
            bodies.selected = None;
        }
        self.paths = Some(paths.clone());
        self.wanted = Some(wanted);
    }

    /// Appends the value of a wanted node of a document.
    pub(crate) fn append_document(
        &mut self,
        part: RecordPart,
        node: NodeId,
        record: &RecordView<'_>,
        complex: bool,
        out: &mut String,
    ) -> Result<SelectorValue, ExtractionReason> {
        let (reader, document, bytes) = self.document(part, record)?;
        let appended = of_format!(reader, document.kind, append(node, bytes, complex, out));
        appended.map_err(|missing| reason(part, document, missing))
    }

    /// Passes the members of a wanted node of a document to `emit`.
    pub(crate) fn document_members(
        &mut self,
        (part, node, array_name): (RecordPart, NodeId, &str),
        record: &RecordView<'_>,
        emit: &mut MemberSink<'_>,
    ) -> Result<(), ExtractionReason> {
        let (reader, document, bytes) = self.document(part, record)?;
        let passed = of_format!(
            reader,
            document.kind,
            members(node, bytes, array_name, emit)
        );
        passed.map_err(|missing| reason(part, document, missing))
    }

    /// Reads a document, unless it has been read for this record. Returns its body.
    fn document<'a>(
        &mut self,
        part: RecordPart,
        record: &RecordView<'a>,
    ) -> Result<(&mut BodyReader, Document, &'a [u8]), ExtractionReason> {
        let Some(paths) = self.paths.as_ref().map(|paths| paths.of(part)) else {
            // Unreachable: the caller has called `want`.
            return Err(PathFailure::NotScalar.into());
        };
        let reader = self.readers.of_mut(part);
        let document = reader.document(paths, part, record)?;
        // A null document is one without bytes.
        let payload = payload(record, part).unwrap_or_default();
        let bytes = payload.get(document.start..).unwrap_or_default();
        Ok((&mut reader.bodies, document, bytes))
    }
}

impl PartReader {
    /// Reads the current payload, unless it has been read.
    fn document(
        &mut self,
        paths: &DocumentPaths,
        part: RecordPart,
        record: &RecordView<'_>,
    ) -> Result<Document, ExtractionReason> {
        if self.outcome.is_none() {
            self.outcome = Some(self.read(paths, part, record));
        }
        match &self.outcome {
            Some(Ok(document)) => Ok(*document),
            Some(Err(reason)) => Err(reason.clone()),
            // Unreachable: the outcome was set above.
            None => Err(PathFailure::NotScalar.into()),
        }
    }

    fn read(
        &mut self,
        paths: &DocumentPaths,
        part: RecordPart,
        record: &RecordView<'_>,
    ) -> Result<Document, ExtractionReason> {
        let format = &*paths.format;
        let error = |problem| payload_error(part, format.kind, problem);
        let bytes = match payload(record, part) {
            Some(bytes) if !bytes.is_empty() || !format.is_null_if_empty() => bytes,
            Some(_) | None => {
                let read = self.bodies.json.read(&[], JsonCheck::Needed);
                read.map_err(|json| error(json.into()))?;
                return Ok(Document {
                    kind: DocumentKind::Json,
                    start: 0,
                });
            }
        };
        let found = find_schema(&mut self.schemas, format, part, record);
        let (start, schema) = found.map_err(|missing| match missing {
            SchemaProblem::Pending(id) => ExtractionReason::SchemaPending(id),
            SchemaProblem::Unusable(problem) => error(problem),
        })?;
        let body = bytes.get(start..).unwrap_or_default();
        self.bodies.read(paths, schema, body).map_err(error)?;
        Ok(Document {
            kind: format.kind,
            start,
        })
    }
}

/// Returns the position of the body and its schema, if decoding needs one.
fn find_schema<'a>(
    schemas: &'a mut SchemaCache,
    format: &'a DocumentFormat,
    part: RecordPart,
    record: &RecordView<'_>,
) -> Result<(usize, Option<&'a CompiledSchema>), SchemaProblem> {
    match &format.schema {
        SchemaSource::None => Ok((0, None)),
        SchemaSource::File(schema) => {
            let missing = || SchemaProblem::Unusable(PayloadProblem::SchemaNotLoaded);
            Ok((0, Some(schema.get().ok_or_else(missing)?)))
        }
        SchemaSource::Registry(framing, table) => {
            let frame = read_frame(*framing, part, record)
                .map_err(|error| SchemaProblem::Unusable(PayloadProblem::Frame(error)))?;
            let schema = match format.registered() {
                Some(_) => Some(schemas.get(table, format.kind, &frame)?),
                None => None,
            };
            Ok((frame.start, schema))
        }
    }
}

impl BodyReader {
    fn read(
        &mut self,
        paths: &DocumentPaths,
        schema: Option<&CompiledSchema>,
        body: &[u8],
    ) -> Result<(), PayloadProblem> {
        let check = paths.format.check;
        let is_selected = match (schema, &self.selected) {
            (Some(schema), Some(selected)) => schema.is_same(selected),
            (None, _) => true,
            (Some(_), None) => false,
        };
        let wanted = self.wanted.iter().copied();
        match schema {
            Some(CompiledSchema::Avro(avro)) => {
                if !is_selected {
                    self.avro.select(avro, &paths.tree, wanted);
                    self.selected = schema.cloned();
                }
                self.avro.read_body(body, check)?;
            }
            Some(CompiledSchema::Protobuf(message)) => {
                if !is_selected {
                    self.protobuf.select(message, &paths.tree, wanted);
                    self.selected = schema.cloned();
                }
                self.protobuf.read(body, check)?;
            }
            Some(CompiledSchema::Json(_)) | None => {
                if let Some(CompiledSchema::Json(json)) = schema {
                    json.check(body)?;
                }
                self.json.set_numbers(paths.format.numbers);
                self.json.read(body, check)?;
            }
        }
        Ok(())
    }
}

/// Reason why a document of any format has no text for a node.
enum Missing {
    Reason(PathFailure),
    Payload(PayloadProblem),
}

impl From<json::Missing> for Missing {
    fn from(missing: json::Missing) -> Self {
        match missing {
            json::Missing::Reason(reason) => Self::Reason(reason),
            json::Missing::Json(error) => Self::Payload(error.into()),
        }
    }
}

impl From<avro::Missing> for Missing {
    fn from(missing: avro::Missing) -> Self {
        match missing {
            avro::Missing::Reason(reason) => Self::Reason(reason),
            avro::Missing::Avro(error) => Self::Payload(error.into()),
        }
    }
}

impl From<protobuf::Missing> for Missing {
    fn from(missing: protobuf::Missing) -> Self {
        match missing {
            protobuf::Missing::Reason(reason) => Self::Reason(reason),
            protobuf::Missing::Protobuf(error) => Self::Payload(error.into()),
        }
    }
}

fn reason(part: RecordPart, document: Document, missing: Missing) -> ExtractionReason {
    match missing {
        Missing::Reason(reason) => reason.into(),
        Missing::Payload(problem) => payload_error(part, document.kind, problem),
    }
}

fn payload_error(
    part: RecordPart,
    kind: DocumentKind,
    problem: PayloadProblem,
) -> ExtractionReason {
    let evaluator = match kind {
        DocumentKind::Json => Evaluator::Json,
        DocumentKind::Avro => Evaluator::Avro,
        DocumentKind::Protobuf => Evaluator::Protobuf,
    };
    PayloadError {
        part,
        evaluator,
        problem,
    }
    .into()
}

/// Returns the bytes of the key or value.
pub(crate) fn payload<'a>(record: &RecordView<'a>, part: RecordPart) -> Option<&'a [u8]> {
    match part {
        RecordPart::Key => record.key,
        RecordPart::Value => record.value,
    }
}

/// Appends a payload that is one scalar value.
pub(crate) fn append_scalar(
    part: RecordPart,
    evaluator: Evaluator,
    record: &RecordView<'_>,
    out: &mut String,
) -> Result<SelectorValue, ExtractionReason> {
    let Some(bytes) = payload(record, part) else {
        return Ok(SelectorValue::Null);
    };
    let appended = evaluator.append(bytes, out);
    appended.map_err(|problem| PayloadError {
        part,
        evaluator,
        problem,
    })?;
    Ok(SelectorValue::Text)
}

/// Appends the value that a path selects in key-value pairs.
pub(crate) fn append_pairs(
    bytes: Option<&[u8]>,
    steps: &[PathStep],
    separators: Separators,
    complex: bool,
    out: &mut String,
) -> Result<SelectorValue, ExtractionReason> {
    let text = bytes.map(decode).unwrap_or_default();
    let parent = match weir_formats::white_space::is_blank(&text) {
        true => ParentKind::Null,
        false => ParentKind::Object,
    };
    let Some((step, below)) = steps.split_first() else {
        if parent == ParentKind::Null {
            return Ok(SelectorValue::Null);
        }
        if !complex {
            return Err(PathFailure::NotScalar.into());
        }
        append_kvp(&text, separators, out);
        return Ok(SelectorValue::Text);
    };
    let value = match step {
        PathStep::Member(key) => kvp_value(&text, key, separators),
        PathStep::Index { .. } => None,
    };
    let value = value.ok_or_else(|| step.missing(parent))?;
    if let Some(step) = below.first() {
        return Err(step.missing(ParentKind::Scalar).into());
    }
    out.push_str(value);
    Ok(SelectorValue::Text)
}

pub(crate) fn decode(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => {
            let mut text = String::new();
            append_text(bytes, &mut text);
            text.into()
        }
    }
}
