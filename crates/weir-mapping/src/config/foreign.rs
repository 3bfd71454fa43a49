//! Recognizes files of other kinds that were given as `adapters.xml`.

use crate::error::Problem;

/// Keys that occur only in configurations of the connector's Kafka Connect variant.
const KAFKA_CONNECT_KEYS: &[&str] = &[
    "connector.class",
    "lightstreamer.server.proxy_adapter.address",
    "item.templates",
    "topic.mappings",
    "topic.mappings.regex.enable",
    "record.mappings",
    "record.mapping",
];

/// Returns the problem of a file that is TOML or a Kafka Connect configuration, with the number of
/// the line that identifies it.
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
        if KAFKA_CONNECT_KEYS.contains(&key) {
            let problem = format!(
                "this is a configuration of the Kafka Connect sink (it has [{key}]), not \
                 adapters.xml; weir gateway does not run inside Kafka Connect: write an \
                 adapters.xml with item-template.NAME for item.templates, map.TOPIC.to for \
                 topic.mappings, field.NAME for record.mappings, and bootstrap.servers"
            );
            return Some((number, Problem(problem)));
        }
    }
    let problem = "this is TOML, not adapters.xml; give it with --config";
    toml.map(|line| (line, Problem(problem.to_owned())))
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
        let rows = [
            ("\u{feff} \n<adapters_conf/>", None),
            ("<a>\nconnector.class=x\n</a>", None),
            ("# topic.mappings=x\nname=a\n", None),
            ("", None),
            (
                "name=a\nconnector.class=x",
                Some((2, "(it has [connector.class])")),
            ),
            (
                "topic.mappings : a:b",
                Some((1, "(it has [topic.mappings])")),
            ),
            (
                "{\n \"name\": \"a\",\n \"config\": {\n  \"record.mappings\": \"x\"\n}}",
                Some((4, "(it has [record.mappings])")),
            ),
            (
                "listen = \"h:1\"\n[limits]\nitems = 1",
                Some((2, "this is TOML")),
            ),
        ];
        for (text, expected) in rows {
            let found = recognize(text);
            assert_eq!(found.as_ref().map(|f| f.0), expected.map(|e| e.0), "{text}");
            let texts = found.iter().zip(expected.iter());
            for ((_, problem), (_, part)) in texts {
                assert!(problem.0.contains(part), "{problem}");
            }
        }
    }
}
