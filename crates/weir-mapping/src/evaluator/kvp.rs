//! Key-value pairs in text: `a=1,b=2`.

use weir_formats::white_space::trim;

/// Separator of pairs, and separator of key and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Separators {
    pub(crate) pairs: char,
    pub(crate) key_value: char,
}

impl Default for Separators {
    fn default() -> Self {
        Self {
            pairs: ',',
            key_value: '=',
        }
    }
}

/// Returns the pairs in order, without those that have no key or several values.
pub(crate) fn pairs(
    text: &str,
    by: Separators,
) -> impl DoubleEndedIterator<Item = (&str, &str)> + Clone {
    text.split(by.pairs).filter_map(move |pair| {
        let (key, value) = pair.split_once(by.key_value).unwrap_or((pair, ""));
        let (key, value) = (trim(key), trim(value));
        let is_one = !value.contains(by.key_value);
        (is_one && !key.is_empty()).then_some((key, value))
    })
}

/// Returns the last value of a key.
pub(crate) fn kvp_value<'a>(text: &'a str, key: &str, by: Separators) -> Option<&'a str> {
    let found = pairs(text, by).rev().find(|(k, _)| *k == key);
    found.map(|(_, value)| value)
}

/// Appends all pairs as `{a=1, b=2}`. A repeated key keeps its first position and gets its last
/// value.
pub(crate) fn append_kvp(text: &str, by: Separators, out: &mut String) {
    out.push('{');
    let all = pairs(text, by);
    let mut is_first = true;
    for (i, (key, _)) in all.clone().enumerate() {
        if all.clone().take(i).any(|(before, _)| before == key) {
            continue;
        }
        out.push_str(if is_first { "" } else { ", " });
        is_first = false;
        out.push_str(key);
        out.push('=');
        out.push_str(kvp_value(text, key, by).unwrap_or_default());
    }
    out.push('}');
}
