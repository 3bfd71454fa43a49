//! Record headers as nodes of expressions.

use weir_formats::error::PathFailure;
use weir_formats::expression::{ParentKind, PathStep};
use weir_formats::selector_value::SelectorValue;
use weir_formats::utf8::append_text;

use crate::record_view::RecordView;

/// Position in the headers. A single header with a null value is null, not an error.
#[derive(Clone, Copy)]
pub(crate) enum HeaderNode<'a> {
    All,
    Repeated(&'a str),
    Single(Option<&'a [u8]>),
}

/// Finds the node of the headers that a path selects.
pub(crate) fn find_header<'a>(
    steps: &'a [PathStep],
    record: &RecordView<'a>,
) -> Result<HeaderNode<'a>, PathFailure> {
    let mut node = HeaderNode::All;
    for step in steps {
        node = step_header(node, step, record.headers)?;
    }
    Ok(node)
}

type Header<'a> = (&'a str, Option<&'a [u8]>);

/// Appends the header or headers that a path selects.
pub(crate) fn append_headers(
    steps: &[PathStep],
    record: &RecordView<'_>,
    complex: bool,
    out: &mut String,
) -> Result<SelectorValue, PathFailure> {
    match find_header(steps, record)? {
        HeaderNode::Single(None) => return Ok(SelectorValue::Null),
        HeaderNode::Single(Some(value)) => append_text(value, out),
        HeaderNode::All | HeaderNode::Repeated(_) if !complex => {
            return Err(PathFailure::NotScalar);
        }
        HeaderNode::All => {
            out.push('{');
            for (i, (key, value)) in record.headers.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                out.push_str(key);
                out.push('=');
                append_text(value.unwrap_or(b"null"), out);
            }
            out.push('}');
        }
        HeaderNode::Repeated(key) => {
            out.push('[');
            for (i, value) in header_values(record.headers, key).enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                append_text(value.unwrap_or(b"null"), out);
            }
            out.push(']');
        }
    }
    Ok(SelectorValue::Text)
}

fn step_header<'a>(
    node: HeaderNode<'a>,
    step: &'a PathStep,
    headers: &[Header<'a>],
) -> Result<HeaderNode<'a>, PathFailure> {
    let (found, parent) = match (node, step) {
        (HeaderNode::All, PathStep::Member(name)) => {
            let mut found = header_values(headers, name);
            let found = match (found.next(), found.next()) {
                (Some(_), Some(_)) => Some(HeaderNode::Repeated(name)),
                (single, _) => single.map(HeaderNode::Single),
            };
            (found, ParentKind::Object)
        }
        (HeaderNode::All, PathStep::Index { index, .. }) => {
            let header = headers.get(*index as usize);
            let found = header.map(|(_, value)| HeaderNode::Single(*value));
            (found, ParentKind::Array)
        }
        (HeaderNode::Repeated(name), PathStep::Index { index, .. }) => {
            let value = header_values(headers, name).nth(*index as usize);
            (value.map(HeaderNode::Single), ParentKind::Array)
        }
        (HeaderNode::Repeated(_), PathStep::Member(_)) => (None, ParentKind::Array),
        (HeaderNode::Single(_), _) => (None, ParentKind::Scalar),
    };
    found.ok_or_else(|| step.missing(parent))
}

pub(crate) fn header_values<'a, 'h>(
    headers: &'h [Header<'a>],
    key: &'h str,
) -> impl Iterator<Item = Option<&'a [u8]>> + 'h {
    headers
        .iter()
        .filter(move |(name, _)| *name == key)
        .map(|(_, value)| *value)
}
