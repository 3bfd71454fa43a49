//! The extraction language: parses an expression into a root and steps.
//!
//! `ROOT [index...] ( "." name [index...] )* [ ".*" ]`. The text is split at every dot first, even
//! inside quotes. So names that contain a dot cannot be addressed.

use crate::error::ExpressionError;
use crate::text::{has_line_end, trim};

/// Part of a record where an expression starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// Record key.
    Key,
    /// Record value.
    Value,
    /// Record headers.
    Headers,
    /// Topic name.
    Topic,
    /// Kafka timestamp in milliseconds since 1970.
    Timestamp,
    /// Partition number.
    Partition,
    /// Offset.
    Offset,
}

impl Root {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "KEY" => Self::Key,
            "VALUE" => Self::Value,
            "HEADERS" => Self::Headers,
            "TOPIC" => Self::Topic,
            "TIMESTAMP" => Self::Timestamp,
            "PARTITION" => Self::Partition,
            "OFFSET" => Self::Offset,
            _ => return None,
        })
    }

    fn allows_index(self) -> bool {
        matches!(self, Self::Key | Self::Value | Self::Headers)
    }
}

/// A step from a node to a child node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathStep {
    /// Member with this name.
    Member(Box<str>),
    /// Element at this position.
    Index {
        /// Position from 0.
        index: u32,
        /// Name of the indexed node, for error texts.
        container: Box<str>,
    },
}

/// A parsed extraction expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    text: Box<str>,
    root: Root,
    root_steps: Vec<PathStep>,
    path: Vec<PathStep>,
    segments: usize,
    wildcard: bool,
}

impl Expression {
    /// Parses `#{expression}`, the form used in field parameters.
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
        let mut root_steps = Vec::new();
        let mut path = Vec::new();
        indexes_of(first, text, &mut root_steps)?;
        for segment in tokens.iter().step_by(2).skip(1) {
            let name = segment.split('[').next().unwrap_or_default();
            path.push(PathStep::Member(name.into()));
            indexes_of(segment, text, &mut path)?;
        }
        let segments = tokens.len().saturating_sub(1);
        Ok(Self {
            text: text.into(),
            root,
            root_steps,
            path,
            segments,
            wildcard,
        })
    }

    /// Returns the expression as written, without `#{` and `}`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the root.
    pub fn root(&self) -> Root {
        self.root
    }

    /// Returns `true` if the expression ends in `.*`.
    pub fn is_wildcard(&self) -> bool {
        self.wildcard
    }

    /// Returns `true` if a name follows the root. Indexes of the root do not count.
    pub fn has_path(&self) -> bool {
        self.segments > 0
    }

    /// Returns all steps below the root, starting with the root's own indexes.
    pub fn steps(&self) -> impl Iterator<Item = &PathStep> {
        self.root_steps.iter().chain(&self.path)
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
            Root::from_name(name).filter(|root| root.allows_index())
        }
        _ => Root::from_name(token),
    }
}

/// Appends the steps of the `[...]` parts of a segment.
fn indexes_of(segment: &str, text: &str, out: &mut Vec<PathStep>) -> Result<(), ExpressionError> {
    let Some(start) = segment.find('[') else {
        return Ok(());
    };
    let mut container = segment[..start].to_owned();
    let mut rest = &segment[start..];
    while !rest.is_empty() {
        let (index, after) =
            index(rest).ok_or_else(|| ExpressionError::InvalidIndex(text.to_owned()))?;
        rest = after;
        match index {
            PathIndex::Name(name) => {
                name.clone_into(&mut container);
                out.push(PathStep::Member(name.into()));
            }
            PathIndex::Position(index) => {
                let inner = format!("{container}[{index}]");
                let container = std::mem::replace(&mut container, inner).into();
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
