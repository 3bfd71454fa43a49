//! YAML text of JSON values, in block style.

use serde_json::Value;

/// Returns a value as a YAML document.
pub(super) fn text(value: &Value) -> String {
    let mut text = String::new();
    append(&mut text, value, 0);
    text
}

/// Appends a value whose lines are indented by `indent` blanks, with a line break at its end. The
/// first line is indented already.
fn append(text: &mut String, value: &Value, indent: usize) {
    let blanks = " ".repeat(indent);
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (at, (key, value)) in entries.iter().enumerate() {
                if at > 0 {
                    text.push_str(&blanks);
                }
                text.push_str(&scalar(key));
                text.push(':');
                append_member(text, value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push_str(&blanks);
                }
                text.push_str("- ");
                append(text, item, indent + 2);
            }
        }
        Value::String(string) => {
            text.push_str(&scalar(string));
            text.push('\n');
        }
        // Numbers, null, and empty lists and mappings are the same as in JSON.
        other => {
            text.push_str(&other.to_string());
            text.push('\n');
        }
    }
}

/// Appends the value of a mapping, on its own lines if it has members.
fn append_member(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(entries) if !entries.is_empty() => start_block(text, indent + 2),
        Value::Array(items) if !items.is_empty() => start_block(text, indent + 2),
        Value::String(string) if is_block(string) => {
            text.push_str(" |\n");
            for line in string.lines() {
                text.push_str(&format!("{}{line}\n", " ".repeat(indent + 2)));
            }
            return;
        }
        _ => text.push(' '),
    }
    append(text, value, indent + 2);
}

fn start_block(text: &mut String, indent: usize) {
    text.push('\n');
    text.push_str(&" ".repeat(indent));
}

/// Returns `true` if a text can be written line by line: it ends with one line break, its lines
/// have printable ASCII, and the first one and the empty ones need no indentation indicator.
fn is_block(text: &str) -> bool {
    let is_plain = |line: &str| {
        !line.is_empty()
            && line
                .bytes()
                .all(|byte| byte == b' ' || byte.is_ascii_graphic())
    };
    text.ends_with('\n') && !text.starts_with(' ') && text.split_terminator('\n').all(is_plain)
}

/// Returns a text without quotes if YAML reads it as the same text; otherwise as in JSON, which
/// YAML reads, too.
fn scalar(text: &str) -> String {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
    let starts = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/');
    let is_word = RESERVED.contains(&text.to_ascii_lowercase().as_str());
    match starts && !is_word && text.bytes().all(is_name) {
        true => text.to_owned(),
        false => Value::from(text).to_string(),
    }
}

/// Words that YAML 1.1 reads as something else than text.
const RESERVED: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
