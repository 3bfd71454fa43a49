//! Recognizes other kinds of configuration files that are mistaken for an `adapters.xml`.

use crate::error::Problem;

/// Keys that only configurations of the connector's Kafka Connect variant have.
const KAFKA_CONNECT: &[&str] = &[
    "connector.class",
    "lightstreamer.server.proxy_adapter.address",
    "item.templates",
    "topic.mappings",
    "topic.mappings.regex.enable",
    "record.mappings",
    "record.mapping",
];

/// Returns the kind of a file that is not XML, and the line that identifies it.
pub(super) fn recognize(text: &str) -> Option<(u32, Problem)> {
    if text
        .trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n'])
        .starts_with('<')
    {
        return None;
    }
    let mut toml = None;
    for (number, line) in (1..).zip(text.lines()) {
        let Some(key) = key(line) else {
            let is_table = line.starts_with('[') && line.trim_end().ends_with(']');
            if is_table && toml.is_none() {
                toml = Some(number);
            }
            continue;
        };
        if KAFKA_CONNECT.contains(&key) {
            let key = key.to_owned();
            return Some((number, Problem::KafkaConnect { key }));
        }
    }
    toml.map(|line| (line, Problem::Toml))
}

/// Returns the key of a line `key = value`, `key: value` or `"key": value`.
fn key(line: &str) -> Option<&str> {
    let (key, _) = line.split_once(['=', ':'])?;
    let key = key.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '{' | ','));
    (!key.starts_with(['#', '!', '['])).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_file_kinds_are_recognized() {
        let connect = |key: &str| Problem::KafkaConnect { key: key.into() };
        let rows = [
            ("\u{feff} \n<adapters_conf/>", None),
            ("<a>\nconnector.class=x\n</a>", None),
            ("# topic.mappings=x\nname=a\n", None),
            ("", None),
            (
                "name=a\nconnector.class=x",
                Some((2, connect("connector.class"))),
            ),
            ("topic.mappings : a:b", Some((1, connect("topic.mappings")))),
            (
                "{\n \"name\": \"a\",\n \"config\": {\n  \"record.mappings\": \"x\"\n}}",
                Some((4, connect("record.mappings"))),
            ),
            (
                "listen = \"h:1\"\n[limits]\nitems = 1",
                Some((2, Problem::Toml)),
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(recognize(text), expected, "{text}");
        }
    }
}
