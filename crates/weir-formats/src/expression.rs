//! The connector's extraction language: parses an expression such as `VALUE.a[0]` into a root and
//! steps.
//!
//! `ROOT [index...] ( "." name [index...] )* [ ".*" ]`. The text is split at every dot first, even
//! inside quotes. So names that contain a dot cannot be addressed.

use std::sync::Arc;

use strum::EnumString;

use crate::error::{ExpressionError, PathFailure};
use crate::white_space::{has_line_end, trim};

/// Part of a record from which an expression selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "UPPERCASE")]
pub enum Root {
    /// The key.
    Key,
    /// The value.
    Value,
    /// The headers.
    Headers,
    /// The name of the topic.
    Topic,
    /// The timestamp in milliseconds.
    Timestamp,
    /// The partition.
    Partition,
    /// The offset.
    Offset,
}

/// A step from a node to a child node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathStep {
    /// Name of a member.
    Member(Arc<str>),
    /// Position from 0, and the name of the indexed node for error texts.
    Index {
        /// Position.
        index: u32,
        /// Name of the indexed node.
        container: Arc<str>,
    },
}

/// Kind of the value in which a step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParentKind {
    /// Record, message, map or object.
    Object,
    /// Array or list.
    Array,
    /// A single value.
    Scalar,
    /// No value.
    Null,
}

impl PathStep {
    /// Returns the reason why the step fails in a value of this kind.
    pub fn missing(&self, parent: ParentKind) -> PathFailure {
        match self {
            Self::Member(name) => {
                let name = Arc::clone(name);
                match parent {
                    ParentKind::Object => PathFailure::NotFound(name),
                    ParentKind::Array => PathFailure::ArrayObject(name),
                    ParentKind::Scalar => PathFailure::ScalarObject(name),
                    ParentKind::Null => PathFailure::NullObject(name),
                }
            }
            Self::Index { index, container } => match parent {
                ParentKind::Object => PathFailure::NotArray(*index),
                ParentKind::Array => PathFailure::IndexNotFound(*index),
                ParentKind::Scalar => PathFailure::NotIndexed(Arc::clone(container)),
                ParentKind::Null => PathFailure::NullIndex(*index),
            },
        }
    }
}

/// A parsed extraction expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    text: Box<str>,
    root: Root,
    steps: Vec<PathStep>,
    has_path: bool,
    /// `true` for `.*`, all members of the node.
    wildcard: bool,
}

impl Expression {
    /// Parses `#{expression}`, the form used in field parameters.
    ///
    /// # Errors
    /// [`ExpressionError`] if the text is not wrapped, or the expression is invalid.
    pub fn parse_wrapped(text: &str) -> Result<Self, ExpressionError> {
        let inner = text
            .strip_prefix("#{")
            .and_then(|rest| rest.strip_suffix('}'));
        match inner {
            Some(inner) if !inner.is_empty() && !has_line_end(inner) => Self::parse(inner),
            _ => Err(ExpressionError::NotWrapped),
        }
    }

    /// Parses a bare expression, the form used in template parameters.
    ///
    /// # Errors
    /// [`ExpressionError`] if the root, a segment or an index is invalid.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let tokens = tokens(text)?;
        let first = tokens.first().copied().unwrap_or_default();
        let root = root_of(first).ok_or_else(|| ExpressionError::MissingRoot(text.to_owned()))?;
        if tokens.last() == Some(&".") {
            return Err(ExpressionError::TrailingDot(text.to_owned()));
        }
        let wildcard = tokens.ends_with(&[".", "*"]);
        let tokens = if wildcard {
            &tokens[..tokens.len() - 2]
        } else {
            &tokens[..]
        };

        // Every second token is a segment. After an empty segment, dots are at positions of
        // segments, so `VALUE..a` selects a member named ".". The connector does the same.
        let mut steps = Vec::new();
        indexes_of(first, text, &mut steps)?;
        for segment in tokens.iter().step_by(2).skip(1) {
            let name = segment.split('[').next().unwrap_or_default();
            steps.push(PathStep::Member(name.into()));
            indexes_of(segment, text, &mut steps)?;
        }
        Ok(Self {
            text: text.into(),
            root,
            steps,
            has_path: tokens.len() > 1,
            wildcard,
        })
    }

    /// Returns the expression as written, without `#{` and `}`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the part of a record where the expression starts.
    pub fn root(&self) -> Root {
        self.root
    }

    /// Returns `true` if the expression ends in `.*`.
    pub fn is_wildcard(&self) -> bool {
        self.wildcard
    }

    /// Returns `true` if a name follows the root. Indexes of the root do not count.
    pub fn has_path(&self) -> bool {
        self.has_path
    }

    /// Returns all steps below the root, starting with the root's own indexes.
    pub fn steps(&self) -> &[PathStep] {
        &self.steps
    }
}

/// Splits at dots and returns each dot as a separate token.
fn tokens(text: &str) -> Result<Vec<&str>, ExpressionError> {
    let mut tokens = Vec::new();
    for part in text.split_inclusive('.') {
        let (name, dot) = match part.strip_suffix('.') {
            Some(name) => (name, true),
            None => (part, false),
        };
        if trim(name) != name {
            return Err(ExpressionError::WhiteChar(text.to_owned()));
        }
        if !name.is_empty() {
            tokens.push(name);
        }
        if dot {
            tokens.push(".");
        }
    }
    Ok(tokens)
}

fn root_of(token: &str) -> Option<Root> {
    match token.split_once('[') {
        Some((name, rest)) if rest.ends_with(']') => {
            let root = name.parse().ok();
            root.filter(|root| matches!(root, Root::Key | Root::Value | Root::Headers))
        }
        _ => token.parse().ok(),
    }
}

/// Appends the steps of the `[...]` parts of a segment.
fn indexes_of(segment: &str, text: &str, out: &mut Vec<PathStep>) -> Result<(), ExpressionError> {
    let Some(start) = segment.find('[') else {
        return Ok(());
    };
    let mut container: Arc<str> = segment[..start].into();
    let mut rest = &segment[start..];
    while !rest.is_empty() {
        let (index, after) =
            index(rest).ok_or_else(|| ExpressionError::InvalidIndex(text.to_owned()))?;
        rest = after;
        match index {
            PathIndex::Name(name) => {
                container = name.into();
                out.push(PathStep::Member(Arc::clone(&container)));
            }
            PathIndex::Position(index) => {
                let inner = format!("{container}[{index}]").into();
                let container = std::mem::replace(&mut container, inner);
                out.push(PathStep::Index { index, container });
            }
        }
    }
    Ok(())
}

enum PathIndex<'a> {
    Name(&'a str),
    Position(u32),
}

/// Parses one `[digits]` or `['name']`. Returns it and the text that follows.
fn index(text: &str) -> Option<(PathIndex<'_>, &str)> {
    let inner = text.strip_prefix('[')?;
    if let Some(quoted) = inner.strip_prefix('\'') {
        let (name, rest) = quoted.split_once('\'')?;
        return Some((PathIndex::Name(name), rest.strip_prefix(']')?));
    }
    let (digits, rest) = inner.split_once(']')?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // The connector stores the index in a Java int, which sets the limit.
    let position = digits
        .parse::<u32>()
        .ok()
        .filter(|i| i32::try_from(*i).is_ok())?;
    Some((PathIndex::Position(position), rest))
}

#[cfg(test)]
mod tests;
