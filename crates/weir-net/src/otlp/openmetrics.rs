//! Reads the text that a registry writes for Prometheus, so that both ways of export have one
//! source of metrics.

use std::borrow::Cow;

/// A metric with its samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Family<'a> {
    /// Name without the suffix of its type.
    pub(super) name: &'a str,
    pub(super) kind: FamilyKind,
    pub(super) help: Cow<'a, str>,
    pub(super) samples: Vec<Sample<'a>>,
}

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FamilyKind {
    Counter,
    Gauge,
    Histogram,
}

/// A value of a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sample<'a> {
    /// Rest of the name behind that of the family, such as `_bucket`.
    pub(super) suffix: &'a str,
    pub(super) labels: Vec<(&'a str, Cow<'a, str>)>,
    /// Value as written.
    pub(super) value: &'a str,
}

/// Parses a page. Lines that a registry does not write are ignored.
pub(super) fn parse(page: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    let mut help = None;
    for line in page.lines() {
        if let Some(text) = line.strip_prefix("# HELP ") {
            help = text.split_once(' ');
        } else if let Some(text) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = text.split_once(' ') else {
                continue;
            };
            let kind = match kind {
                "counter" => FamilyKind::Counter,
                "histogram" => FamilyKind::Histogram,
                _ => FamilyKind::Gauge,
            };
            let help = help.take().filter(|(of, _)| *of == name);
            families.push(Family {
                name,
                kind,
                help: help.map_or(Cow::Borrowed(""), |(_, text)| unescape(text)),
                samples: Vec::new(),
            });
        } else if let Some(family) = families.last_mut() {
            let rest = line.strip_prefix(family.name);
            family.samples.extend(rest.and_then(sample));
        }
    }
    families
}

/// Parses a sample behind the name of its family.
fn sample(rest: &str) -> Option<Sample<'_>> {
    let end = rest.find(['{', ' '])?;
    let (suffix, rest) = rest.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.split_ascii_whitespace().next()?;
    Some(Sample {
        suffix,
        labels,
        value,
    })
}

type Labels<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// Parses labels up to the closing brace, and returns the rest.
fn labels(mut rest: &str) -> Option<(Labels<'_>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.strip_prefix(',').unwrap_or(rest);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let end = end_of_text(quoted)?;
        labels.push((name, unescape(&quoted[..end])));
        rest = &quoted[end + 1..];
    }
}

/// Returns the index of the first quotation mark without a backslash before it.
fn end_of_text(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })
}

fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        plain.push(match char {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_their_samples() {
        let page = "# HELP a Help of a.\n# TYPE a counter\na_total{x=\"1\",y=\"b\"} 3\n\
            # TYPE b gauge\nb 0.5\n# EOF\n";
        let families = parse(page);
        let [a, b] = &families[..] else {
            panic!("{families:?}")
        };
        assert_eq!(
            (a.name, a.kind, &*a.help),
            ("a", FamilyKind::Counter, "Help of a.")
        );
        let labels = vec![("x", "1".into()), ("y", "b".into())];
        let (suffix, value) = ("_total", "3");
        assert_eq!(
            a.samples,
            [Sample {
                suffix,
                labels,
                value
            }]
        );
        assert_eq!(
            (b.kind, &*b.help, b.samples[0].value),
            (FamilyKind::Gauge, "", "0.5")
        );
    }

    #[test]
    fn texts_are_unescaped() {
        let page = "# TYPE a gauge\na{x=\"q\\\"},b=\\\\\",y=\"l\\nm\"} 1\n";
        let families = parse(page);
        let labels = &families[0].samples[0].labels;
        assert_eq!(labels[0], ("x", "q\"},b=\\".into()));
        assert_eq!(labels[1], ("y", "l\nm".into()));
        assert_eq!(parse("# TYPE a gauge\na{x=\"1} 1\n")[0].samples, []);
    }
}
