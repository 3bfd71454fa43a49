//! Lines of `gateway.toml`: those of parameters, and all that have errors.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::de::{DeTable, DeValue, Error};

/// Maximum number of errors that are reported at once.
const ERRORS_MAX: usize = 20;

/// Lines of parameters by connection and name, those of connections with an empty name.
pub(super) type ParameterLines = BTreeMap<(String, String), u32>;

/// Returns the lines of the parameters of all connections; none if the text is not TOML.
pub(super) fn parameter_lines(text: &str) -> ParameterLines {
    let mut lines = ParameterLines::new();
    let Ok(document) = DeTable::parse(text) else {
        return lines;
    };
    for (key, value) in document.get_ref() {
        let DeValue::Table(connections) = value.get_ref() else {
            continue;
        };
        if key.get_ref() != "connection" {
            continue;
        }
        for (name, connection) in connections {
            let name_text = name.get_ref().to_string();
            let (line, _) = line_of(text, name.span().start);
            lines.insert((name_text.clone(), String::new()), line);
            if let DeValue::Table(parameters) = connection.get_ref() {
                add_lines(&name_text, "", parameters, text, &mut lines);
            }
        }
    }
    lines
}

fn add_lines(
    connection: &str,
    prefix: &str,
    table: &DeTable<'_>,
    text: &str,
    lines: &mut ParameterLines,
) {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        if let DeValue::Table(inner) = value.get_ref() {
            add_lines(connection, &format!("{name}."), inner, text, lines);
            continue;
        }
        let (line, _) = line_of(text, key.span().start);
        lines.insert((connection.to_owned(), name), line);
    }
}

/// Returns the errors of a text for which `parse` fails, in the order of the file: all of the
/// syntax, otherwise all of names and values.
///
/// Those of names and values are found one after the other, each with the earlier ones blanked out.
pub(super) fn all_errors(text: &str, parse: impl Fn(&str) -> Option<Error>) -> Vec<Error> {
    let (_, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return errors.into_iter().take(ERRORS_MAX).collect();
    }
    let (mut left, mut errors) = (text.to_owned(), Vec::<Error>::new());
    while let Some(error) = parse(&left) {
        let start = error.span().map(|span| span.start);
        let is_same =
            |last: &Error| last.span() == error.span() && last.message() == error.message();
        // Blanking out does not help, such as where something is missing.
        if errors.last().is_some_and(is_same) {
            break;
        }
        errors.push(error);
        let Some(start) = start.filter(|_| errors.len() < ERRORS_MAX) else {
            break;
        };
        let cut = statement(&left, start);
        let ends = left[cut.clone()].matches('\n').count();
        let blank = " ".repeat(cut.len() - ends) + &"\n".repeat(ends);
        left.replace_range(cut, &blank);
        // A value of several lines, of which only the first was cut.
        if DeTable::parse(&left).is_err() {
            break;
        }
    }
    errors.sort_by_key(|error| error.span().map(|span| span.start));
    errors
}

/// Returns the line at a place of a text, from 1, and its content.
pub(super) fn line_of(text: &str, start: usize) -> (u32, &str) {
    let before = text.get(..start).unwrap_or_default();
    let index = before.matches('\n').count();
    let written = text.lines().nth(index).unwrap_or_default().trim();
    (1 + index as u32, written)
}

/// Returns the line at a place, or the whole table whose heading is there.
fn statement(text: &str, start: usize) -> Range<usize> {
    let from = text[..start].rfind('\n').map_or(0, |end| end + 1);
    let end_of_line = |at: usize| text[at..].find('\n').map_or(text.len(), |end| at + end);
    let mut to = end_of_line(start);
    if text[from..to].trim_start().starts_with('[') {
        while to < text.len() {
            let next = to + 1;
            if text[next..]
                .trim_start_matches([' ', '\t'])
                .starts_with('[')
            {
                break;
            }
            to = end_of_line(next);
        }
    }
    from..to
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_the_lines_of_their_keys() {
        let text = "listen = \"a\"\n\n[connection.\"A\"]\nfield.x = \"1\"\n\"map.t.to\" = \"i\"\n\
                    [connection.B.field]\ny = \"2\"\n";
        let lines = parameter_lines(text);
        let line = |connection: &str, name: &str| {
            let key = (connection.to_owned(), name.to_owned());
            lines.get(&key).copied()
        };
        assert_eq!(line("A", ""), Some(3));
        assert_eq!(line("A", "field.x"), Some(4));
        assert_eq!(line("A", "map.t.to"), Some(5));
        assert_eq!(line("B", "field.y"), Some(7));
        assert_eq!(line("A", "other"), None);
    }

    #[test]
    fn all_errors_of_names_and_values_are_found() {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        #[expect(dead_code, reason = "only parsed")]
        struct File {
            a: Option<u8>,
            b: Option<u8>,
            t: Option<BTreeMap<String, u8>>,
        }
        let parse = |text: &str| toml::from_str::<File>(text).err();
        let lines = |text: &str| {
            let errors = all_errors(text, parse);
            let starts = errors.iter().map(|error| error.span().unwrap().start);
            starts
                .map(|start| line_of(text, start).0)
                .collect::<Vec<_>>()
        };
        let text = "a = 1\nb = \"ü\"\nc = 2\n\n[u]\nx = 1\ny = 2\n[t]\nz = true\n";
        assert_eq!(lines(text), [2, 3, 5, 9]);
        let syntax = lines("a = \nb = 1\nc = = 2\n");
        assert!(syntax.contains(&1) && syntax.contains(&3), "{syntax:?}");
        assert!(all_errors("a = 1\n", parse).is_empty());
    }
}
