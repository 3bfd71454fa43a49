//! Java-style properties files: comments, separators, continuation lines and escapes, and
//! `${env:NAME}` and `${file:PATH}` in values.

use std::path::Path;

use thiserror::Error;

use super::error::SettingsError;
use crate::stores::read_file;

/// Reads a file and replaces references in values.
pub(super) fn read(path: &Path) -> Result<Vec<(String, String)>, SettingsError> {
    let failed = |line, reason: String| SettingsError::PropertiesFile {
        path: path.display().to_string(),
        line,
        reason,
    };
    let bytes = read_file(path).map_err(|error| failed(None, error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| failed(None, "is not UTF-8".to_owned()))?;
    let entries = parse(&text).map_err(|(line, reason)| failed(Some(line), reason.to_owned()))?;
    let expanded = entries.into_iter().map(|(line, name, value)| {
        let expanded = expand(&value, path.parent());
        let value = expanded.map_err(|error| failed(Some(line), error.to_string()))?;
        Ok((name, value))
    });
    expanded.collect()
}

/// Replaces references in the value of one property. Relative paths start in the working directory.
pub(crate) fn expand_value(name: &str, value: &str) -> Result<String, SettingsError> {
    expand(value, None).map_err(|error| SettingsError::Reference {
        property: name.to_owned(),
        reason: error.to_string(),
    })
}

/// Line number, name and value of an entry.
pub(crate) type Line = (usize, String, String);

/// Parses the text of a file. Errors contain the number of the line.
pub(crate) fn parse(text: &str) -> Result<Vec<Line>, (usize, &'static str)> {
    let mut entries: Vec<Line> = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let line = line.trim_start_matches(BLANKS);
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = line.to_owned();
        while continues(&logical) {
            logical.pop();
            let Some((_, next)) = lines.next() else {
                break;
            };
            logical.push_str(next.trim_start_matches(BLANKS));
        }
        let (name, value) = split(&logical);
        let name = unescape(name).map_err(|reason| (number, reason))?;
        let value = unescape(value).map_err(|reason| (number, reason))?;
        if name.is_empty() {
            return Err((number, "has no property name before \"=\""));
        }
        if entries.iter().any(|(_, other, _)| *other == name) {
            return Err((number, "repeats a property: keep one of the lines"));
        }
        entries.push((number, name, value));
    }
    Ok(entries)
}

/// Returns `true` if a line ends with an odd number of backslashes.
fn continues(line: &str) -> bool {
    line.bytes().rev().take_while(|it| *it == b'\\').count() % 2 == 1
}

/// Splits at the first `=`, `:` or blank that is not escaped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|it: char| {
        let ends = !escaped && (it == '=' || it == ':' || BLANKS.contains(&it));
        escaped = it == '\\' && !escaped;
        ends
    });
    let (name, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(BLANKS);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (name, rest.trim_start_matches(BLANKS))
}

fn unescape(text: &str) -> Result<String, &'static str> {
    let mut result = String::with_capacity(text.len());
    // `\u` escapes are UTF-16 units, so two of them may form one character.
    let mut units: Vec<u16> = Vec::new();
    let mut rest = text.chars();
    while let Some(found) = rest.next() {
        let escape = if found == '\\' { rest.next() } else { None };
        if escape == Some('u') {
            let hex: String = rest.by_ref().take(4).collect();
            let digits = hex.len() == 4 && hex.bytes().all(|it| it.is_ascii_hexdigit());
            let unit = u16::from_str_radix(&hex, 16).ok().filter(|_| digits);
            units.push(unit.ok_or("has an invalid \\u escape: write four hexadecimal digits")?);
            continue;
        }
        push_units(&mut result, &mut units)?;
        result.push(match (found, escape) {
            ('\\', Some('n')) => '\n',
            ('\\', Some('t')) => '\t',
            ('\\', Some('r')) => '\r',
            ('\\', Some('f')) => '\u{c}',
            ('\\', Some(other)) => other,
            (found, _) => found,
        });
    }
    push_units(&mut result, &mut units)?;
    Ok(result)
}

fn push_units(result: &mut String, units: &mut Vec<u16>) -> Result<(), &'static str> {
    for unit in char::decode_utf16(units.drain(..)) {
        result.push(unit.map_err(|_| "has an invalid \\u escape: half of a character")?);
    }
    Ok(())
}

/// Reason why a reference in a value has no text.
#[derive(Debug, PartialEq, Error)]
enum ReferenceError {
    #[error("environment variable \"{0}\" is not set")]
    Variable(String),
    #[error("file \"{path}\" {reason}")]
    File { path: String, reason: String },
}

/// Replaces `${env:NAME}` and `${file:PATH}`. Relative paths start in the directory of the file.
fn expand(value: &str, directory: Option<&Path>) -> Result<String, ReferenceError> {
    let mut result = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(start) = rest.find("${") {
        result.push_str(&rest[..start]);
        let reference = &rest[start + 2..];
        let replaced = match reference.split_once('}') {
            Some((inner, after)) => reference_value(inner, directory)?.map(|it| (it, after)),
            None => None,
        };
        match replaced {
            Some((text, after)) => {
                result.push_str(&text);
                rest = after;
            }
            None => {
                // Any other text with these characters may be a password.
                result.push_str("${");
                rest = reference;
            }
        }
    }
    result.push_str(rest);
    Ok(result)
}

fn reference_value(
    reference: &str,
    directory: Option<&Path>,
) -> Result<Option<String>, ReferenceError> {
    if let Some(name) = reference.strip_prefix("env:") {
        return match std::env::var(name) {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(ReferenceError::Variable(name.to_owned())),
        };
    }
    let Some(path) = reference.strip_prefix("file:") else {
        return Ok(None);
    };
    let path = directory.map_or_else(|| path.into(), |directory| directory.join(path));
    let failed = |reason: &str| ReferenceError::File {
        path: path.display().to_string(),
        reason: reason.to_owned(),
    };
    let bytes = read_file(&path).map_err(|error| failed(&error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| failed("is not UTF-8"))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Some(text.strip_suffix('\r').unwrap_or(text).to_owned()))
}

const BLANKS: &[char] = &[' ', '\t', '\u{c}'];

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<(String, String)> {
        let parsed = parse(text).expect("valid").into_iter();
        parsed.map(|(_, name, value)| (name, value)).collect()
    }

    #[test]
    fn separators_comments_and_continuations_are_javas() {
        let text = concat!(
            "# comment\n! comment\n\n a = 1 \nb:2\nc 3\nd\\ e\\=f=x=y\n",
            "g=one, \\\n   two\\\\\nh\n",
            "i = \\u0041\\ud83d\\ude00\\n\\:\nj=\\ k\n",
        );
        let expected = [
            ("a", "1 "),
            ("b", "2"),
            ("c", "3"),
            ("d e=f", "x=y"),
            ("g", "one, two\\"),
            ("h", ""),
            ("i", "A😀\n:"),
            ("j", " k"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(entries(text), expected);
    }

    #[test]
    fn invalid_lines_are_reported_with_their_number() {
        let error = |text: &str| parse(text).expect_err(text);
        assert_eq!(error("a=1\n=2").0, 2);
        assert_eq!(error("a=1\n\na=2").0, 3);
        assert_eq!(error("a=\\u12").0, 1);
        assert_eq!(error("a=\\ud83d").0, 1);
        assert_eq!(error("a=\\u+123").0, 1);
    }

    #[test]
    fn references_are_replaced() {
        let path = std::env::var("PATH").expect("every test has a path");
        assert_eq!(expand("<${env:PATH}>", None), Ok(format!("<{path}>")));
        assert_eq!(expand("a${b}c${", None), Ok("a${b}c${".to_owned()));
        let missing = expand("${env:WEIR_NO_SUCH_VARIABLE}", None).expect_err("not set");
        assert_eq!(
            missing.to_string(),
            "environment variable \"WEIR_NO_SUCH_VARIABLE\" is not set"
        );
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("secret"), "pass word\n").expect("written");
        let file = directory.path().join("client.properties");
        std::fs::write(&file, "sasl.password=${file:secret}!\n").expect("written");
        let expected = ("sasl.password".to_owned(), "pass word!".to_owned());
        assert_eq!(read(&file), Ok(vec![expected]));
        let error = read(&directory.path().join("none")).expect_err("no file");
        assert!(
            error.to_string().contains("none\": cannot be read"),
            "{error}"
        );
    }
}
