//! Item names given by clients, and their canonical form.
//!
//! `PREFIX` or `PREFIX-[p1=v1,p2=v2,...]`. The canonical form has the parameters sorted by name.
//! Routing compares it as a string.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use weir_formats::white_space::has_line_end;

use crate::error::ItemNameError;

/// Item name in canonical form, with its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanonicalItem {
    text: Box<str>,
    prefix_len: usize,
    parameters: Vec<(Range<usize>, Range<usize>)>,
}

impl CanonicalItem {
    /// Parses a name given by a client.
    ///
    /// # Errors
    /// The syntax is invalid, or a parameter name is repeated.
    pub fn parse(written: &str) -> Result<Self, ItemNameError> {
        let (prefix, list) = split(written).ok_or(ItemNameError::Invalid)?;
        let mut parameters = BTreeMap::new();
        for parameter in item_parameters(list) {
            let (name, value) = parameter.ok_or(ItemNameError::Invalid)?;
            if parameters.insert(name, value).is_some() {
                return Err(ItemNameError::DuplicateParameter);
            }
        }
        Ok(Self::join(prefix, &parameters))
    }

    fn join(prefix: &str, parameters: &BTreeMap<&str, &str>) -> Self {
        let mut text = String::with_capacity(prefix.len() + 2);
        text.push_str(prefix);
        let mut spans = Vec::with_capacity(parameters.len());
        for (name, value) in parameters {
            text.push_str(if spans.is_empty() { "-[" } else { "," });
            let name_start = text.len();
            text.push_str(name);
            let name_end = text.len();
            text.push('=');
            text.push_str(value);
            spans.push((name_start..name_end, name_end + 1..text.len()));
        }
        if !spans.is_empty() {
            text.push(']');
        }
        Self {
            text: text.into(),
            prefix_len: prefix.len(),
            parameters: spans,
        }
    }

    /// Returns the canonical text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the part before `-[`.
    pub fn prefix(&self) -> &str {
        &self.text[..self.prefix_len]
    }

    /// Returns the parameter names and values, sorted by name.
    pub fn parameters(&self) -> impl ExactSizeIterator<Item = (&str, &str)> + Clone {
        self.parameters
            .iter()
            .map(|(name, value)| (&self.text[name.clone()], &self.text[value.clone()]))
    }
}

impl fmt::Display for CanonicalItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns `true` if the text is not empty and has only characters allowed in an item prefix.
pub(crate) fn is_prefix(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    !text.is_empty() && text.bytes().all(allowed)
}

/// Splits a name into prefix and parameter list, which is empty for a plain name.
fn split(written: &str) -> Option<(&str, &str)> {
    let (prefix, list) = match written.split_once('[') {
        Some((head, rest)) => (head.strip_suffix('-')?, rest.strip_suffix(']')?),
        None => (written, ""),
    };
    (is_prefix(prefix) && !has_line_end(list)).then_some((prefix, list))
}

/// Parses `name=value,name=value[,]`. The caller stops at the first `None`, a syntax error.
pub(crate) fn item_parameters(list: &str) -> impl Iterator<Item = Option<(&str, &str)>> {
    let mut rest = list;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        Some(rest.split_once('=').and_then(|(name, after)| {
            let (value, after) = after.split_once(',').unwrap_or((after, ""));
            rest = after;
            (is_parameter_name(name) && !value.is_empty()).then_some((name, value))
        }))
    })
}

fn is_parameter_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes.next();
    first.is_some_and(|b| b.is_ascii_alphabetic() || b == b'.' || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(written: &str) -> Result<String, ItemNameError> {
        CanonicalItem::parse(written).map(|item| item.as_str().to_owned())
    }

    #[test]
    fn plain_names_and_unusual_values_are_unchanged() {
        for name in [
            "item",
            "ITEM",
            "item-",
            "-",
            "item-[a='x']",
            "item-[a=x]]",
            "item-[a=1][b=2]",
            "item-[k=v=w]",
            "item--[a=1]",
            "a_1-[.x=é]",
            "item-[a==]",
        ] {
            assert_eq!(canonical(name).as_deref(), Ok(name));
        }
    }

    #[test]
    fn parameters_are_sorted_in_java_order() {
        assert_eq!(canonical("item-[]").unwrap(), "item");
        assert_eq!(canonical("item-[b=1,a=2]").unwrap(), "item-[a=2,b=1]");
        assert_eq!(canonical("item-[a=1,]").unwrap(), "item-[a=1]");
        assert_eq!(
            canonical("item-[A=1,a=2,_b=3]").unwrap(),
            "item-[A=1,_b=3,a=2]"
        );
    }

    #[test]
    fn invalid_names_are_rejected_as_by_connector() {
        for name in [
            "item-[a=]",
            "item-[a]",
            "item-[=1]",
            "item-[a=1,,b=2]",
            "item-[ a=1]",
            "item-[1a=1]",
            "item-[a.b=1]",
            "item[]",
            "it.em",
            "",
            "-[a=1]",
            "item-[a=1",
            "item-[a=1]x",
            "item]",
            "item-[,]",
            "item-[a=1\n]",
            "it em",
            "item-[a-b=1]",
            "[",
            "item-[a=1, b=2]",
        ] {
            assert_eq!(canonical(name), Err(ItemNameError::Invalid), "{name:?}");
        }
        assert_eq!(
            canonical("item-[a=1,a=2]"),
            Err(ItemNameError::DuplicateParameter)
        );
    }

    #[test]
    fn error_texts_match_connector() {
        assert_eq!(ItemNameError::Invalid.to_string(), "Invalid Item");
        let duplicate = ItemNameError::DuplicateParameter.to_string();
        assert_eq!(duplicate, "No duplicated keys are allowed");
    }

    #[test]
    fn item_parts_come_from_canonical_text() {
        let item = CanonicalItem::parse("stock-[b=1=2,a=x]").unwrap();
        assert_eq!(item.prefix(), "stock");
        assert_eq!(
            item.parameters().collect::<Vec<_>>(),
            [("a", "x"), ("b", "1=2")]
        );
        assert_eq!(item, CanonicalItem::parse("stock-[a=x,b=1=2]").unwrap());
    }
}
