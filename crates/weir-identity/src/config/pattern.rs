//! Item patterns of rules: `PREFIX`, `PREFIX-[p=VALUE,...]`, `PREFIX-[*]` and `*`.

use std::fmt;

use thiserror::Error;
use weir_mapping::CanonicalItem;

use crate::claims::{ClaimPath, ClaimPathError};

/// Items that a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemPattern {
    /// `*`: every item.
    Any,
    /// `PREFIX-[*]`: every item of the prefix that has parameters.
    AnyParameters(Box<str>),
    /// `PREFIX` or `PREFIX-[p=VALUE,...]`: items with exactly these parameters.
    Named {
        /// Prefix.
        prefix: Box<str>,
        /// Parameter names and values, sorted by name.
        parameters: Vec<(Box<str>, ValuePattern)>,
    },
}

/// Values of an item parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValuePattern {
    /// `*`: every value.
    Any,
    /// Exactly this value.
    Literal(Box<str>),
    /// `{claims.PATH}`: the values of a claim.
    Claim(ClaimPath),
}

/// Error in an item pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum PatternError {
    #[error("invalid item pattern \"{0}\"; write PREFIX, PREFIX-[NAME=VALUE,...], PREFIX-[*] or *")]
    Syntax(String),
    #[error("item pattern \"{pattern}\": parameter \"{name}\" occurs twice")]
    DuplicateParameter { pattern: String, name: String },
    #[error("item pattern \"{pattern}\": no item can have the value \"{value}\"")]
    Unnameable { pattern: String, value: String },
    #[error("item pattern \"{pattern}\": {error}")]
    Claim {
        pattern: String,
        error: ClaimPathError,
    },
}

impl ItemPattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let syntax = || PatternError::Syntax(text.to_owned());
        if text == "*" {
            return Ok(Self::Any);
        }
        let (prefix, list) = match text.split_once("-[") {
            Some((prefix, rest)) => (prefix, Some(rest.strip_suffix(']').ok_or_else(syntax)?)),
            None => (text, None),
        };
        // The prefix is one that an item may have.
        let plain = CanonicalItem::parse(prefix).map_err(|_| syntax())?;
        if plain.as_str() != prefix || plain.parameters().len() != 0 {
            return Err(syntax());
        }
        let prefix: Box<str> = prefix.into();
        let mut parameters: Vec<(Box<str>, ValuePattern)> = Vec::new();
        match list {
            Some("*") => return Ok(Self::AnyParameters(prefix)),
            Some("") => return Err(syntax()),
            Some(mut rest) => {
                while !rest.is_empty() {
                    let (name, value, after) = first_parameter(rest).ok_or_else(syntax)?;
                    let value = parse_value(text, &prefix, name, value)?;
                    if parameters.iter().any(|(other, _)| **other == *name) {
                        let (pattern, name) = (text.to_owned(), name.to_owned());
                        return Err(PatternError::DuplicateParameter { pattern, name });
                    }
                    parameters.push((name.into(), value));
                    rest = after;
                }
            }
            None => {}
        }
        parameters.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Self::Named { prefix, parameters })
    }
}

/// Splits `NAME=VALUE` and the rest after a comma off a list. A comma in braces belongs to the
/// value, because names of claims may contain one.
fn first_parameter(list: &str) -> Option<(&str, &str, &str)> {
    let (name, after) = list.split_once('=')?;
    let mut is_quoted = false;
    let mut is_claim = after.starts_with('{');
    let end = after.find(|c| {
        is_quoted ^= is_claim && c == '"';
        is_claim &= is_quoted || c != '}';
        c == ',' && !is_claim
    });
    let (value, rest) = after.split_at(end.unwrap_or(after.len()));
    match rest.strip_prefix(',') {
        Some("") => None,
        Some(rest) => Some((name, value, rest)),
        None => Some((name, value, "")),
    }
}

fn parse_value(
    pattern: &str,
    prefix: &str,
    name: &str,
    value: &str,
) -> Result<ValuePattern, PatternError> {
    let nameable = |value: &str| {
        let item = CanonicalItem::parse(&format!("{prefix}-[{name}={value}]")).ok();
        let item = item.filter(|_| is_nameable(value));
        item.is_some_and(|item| item.parameters().eq([(name, value)]))
    };
    if !nameable("x") {
        return Err(PatternError::Syntax(pattern.to_owned()));
    }
    if value == "*" {
        return Ok(ValuePattern::Any);
    }
    if let Some(path) = value
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
    {
        return parse_placeholder(path)
            .map(ValuePattern::Claim)
            .map_err(|error| {
                let pattern = pattern.to_owned();
                PatternError::Claim { pattern, error }
            });
    }
    match nameable(value) {
        true => Ok(ValuePattern::Literal(value.into())),
        false => Err(PatternError::Unnameable {
            pattern: pattern.to_owned(),
            value: value.to_owned(),
        }),
    }
}

/// Parses `claims.PATH`, the content of braces.
pub(super) fn parse_placeholder(text: &str) -> Result<ClaimPath, ClaimPathError> {
    match text.strip_prefix("claims.") {
        Some(path) => ClaimPath::parse(path),
        None => Err(ClaimPathError(text.to_owned())),
    }
}

/// Returns `true` if a parameter of an item that a client names may have this value: item groups
/// are split at white space, parameters at commas.
pub(crate) fn is_nameable(value: &str) -> bool {
    !value.is_empty() && !value.contains([' ', ',', '\t', '\n', '\u{b}', '\u{c}', '\r'])
}

impl fmt::Display for ItemPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::AnyParameters(prefix) => write!(f, "{prefix}-[*]"),
            Self::Named { prefix, parameters } => {
                f.write_str(prefix)?;
                for (place, (name, value)) in parameters.iter().enumerate() {
                    let before = if place == 0 { "-[" } else { "," };
                    write!(f, "{before}{name}={value}")?;
                }
                f.write_str(if parameters.is_empty() { "" } else { "]" })
            }
        }
    }
}

impl fmt::Display for ValuePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Literal(text) => f.write_str(text),
            Self::Claim(path) => write!(f, "{{claims.{path}}}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_written_sorted() {
        for (written, expected) in [
            ("*", "*"),
            ("news", "news"),
            ("a-b", "a-b"),
            ("quote-[*]", "quote-[*]"),
            ("quote-[symbol=*]", "quote-[symbol=*]"),
            (
                "orders-[region={claims.region},account={claims.accounts}]",
                "orders-[account={claims.accounts},region={claims.region}]",
            ),
            (
                "x-[b=2,a={claims.\"https://x,y/}\".z]",
                "x-[a={claims.\"https://x,y/}\".z},b=2]",
            ),
        ] {
            match ItemPattern::parse(written) {
                Ok(pattern) => assert_eq!(pattern.to_string(), expected),
                // A brace inside a quoted name ends with the quote.
                Err(error) => assert!(written.contains("\".z]"), "{error}"),
            }
        }
        let quoted = "x-[a={claims.\"https://x,y/}\".z},b=2]";
        assert_eq!(ItemPattern::parse(quoted).unwrap().to_string(), quoted);
    }

    #[test]
    fn bad_patterns_are_rejected() {
        for text in [
            "",
            "-[*]",
            "a b",
            "a-[",
            "a-[]",
            "a-[x]",
            "a-[=1]",
            "a-[x=1",
            "a.b",
            "a-[*,x=1]",
            "a-[x=1,]",
            "a-[1x=1]",
            "**",
            "a*",
            "a-[x-y=1]",
            "{claims.a}",
        ] {
            assert_eq!(
                ItemPattern::parse(text),
                Err(PatternError::Syntax(text.into())),
                "{text}"
            );
        }
        let twice = ItemPattern::parse("a-[x=1,x=*]");
        assert!(matches!(
            twice,
            Err(PatternError::DuplicateParameter { .. })
        ));
        for text in ["a-[x=b c]", "a-[x=]", "a-[x=1\u{2028}]"] {
            let error = ItemPattern::parse(text);
            assert!(
                matches!(error, Err(PatternError::Unnameable { .. })),
                "{text}: {error:?}"
            );
        }
        for text in [
            "a-[x={region}]",
            "a-[x={claims.}]",
            "a-[x={}]",
            "a-[x={claims.a b}]",
        ] {
            let error = ItemPattern::parse(text);
            assert!(
                matches!(error, Err(PatternError::Claim { .. })),
                "{text}: {error:?}"
            );
        }
    }
}
