//! Sample of a topic: the common form of some records, and a configuration that fits them.

use std::fmt::{self, Write as _};

use serde_json::Value;

use crate::item_name::is_prefix;

/// Fields that a configuration lists at most.
const FIELDS_MAX: usize = 50;
/// Characters of an example at most.
const EXAMPLE_CHARS_MAX: usize = 40;
/// Keys that a sample remembers.
const KEYS_MAX: usize = 8;
/// Bytes of a registry's header: a zero and the number of the schema.
const FRAME_BYTES: usize = 5;

/// Form of the keys of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyForm {
    /// Records have no keys, or keys that no item name can contain.
    None,
    /// Texts.
    Text,
    /// Numbers of four bytes.
    Integer,
    /// Numbers of eight bytes.
    Long,
}

/// Form of the values of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueForm {
    /// JSON objects.
    Json,
    /// Other texts, or no records.
    Text,
    /// Bytes with the header of a schema registry.
    Framed {
        /// Number of the schema.
        schema: u32,
    },
    /// Bytes that are not UTF-8.
    Binary,
}

/// A member of JSON values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledField {
    /// Name of the member.
    pub name: String,
    /// Its types in JSON, such as `number` or `number or null`.
    pub types: Vec<&'static str>,
    /// One of its values, shortened.
    pub example: String,
}

/// Common form of the sampled records of one topic.
#[derive(Debug)]
pub struct TopicSample {
    topic: String,
    records: usize,
    keys: Counts,
    key_examples: Vec<String>,
    json: usize,
    text: usize,
    binary: usize,
    /// Number of the schema of the first framed value, if all are framed.
    schema: Option<u32>,
    fields: Vec<SampledField>,
}

/// Numbers of keys by form.
#[derive(Debug, Default)]
struct Counts {
    nameable: usize,
    unnameable: usize,
    integers: usize,
    longs: usize,
}

impl TopicSample {
    /// Creates the sample of a topic, without records.
    pub fn new(topic: &str) -> Self {
        Self {
            topic: topic.to_owned(),
            records: 0,
            keys: Counts::default(),
            key_examples: Vec::new(),
            json: 0,
            text: 0,
            binary: 0,
            schema: None,
            fields: Vec::new(),
        }
    }

    /// Adds a record.
    pub fn add(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.records += 1;
        if let Some(key) = key {
            self.add_key(key);
        }
        if let Some(value) = value {
            self.add_value(value);
        }
    }

    fn add_key(&mut self, key: &[u8]) {
        let text = std::str::from_utf8(key).ok();
        let is_text = text.is_some_and(|text| !text.contains(char::is_control));
        match (key.len(), is_text) {
            (4, false) => self.keys.integers += 1,
            (8, false) => self.keys.longs += 1,
            _ => {}
        }
        match text.filter(|text| is_text && is_item_value(text)) {
            Some(text) => {
                self.keys.nameable += 1;
                let is_new = !self.key_examples.iter().any(|known| known == text);
                if is_new && self.key_examples.len() < KEYS_MAX {
                    self.key_examples.push(text.to_owned());
                }
            }
            None => self.keys.unnameable += 1,
        }
    }

    fn add_value(&mut self, value: &[u8]) {
        if let Ok(Value::Object(members)) = serde_json::from_slice(value) {
            self.json += 1;
            members
                .iter()
                .for_each(|(name, value)| self.add_field(name, value));
        } else if std::str::from_utf8(value).is_ok_and(|text| !text.starts_with('\0')) {
            self.text += 1;
        } else {
            self.binary += 1;
            if let ([0, id @ ..], true) = (value, value.len() > FRAME_BYTES) {
                let id = id.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
                self.schema = self.schema.or(id);
            }
        }
    }

    fn add_field(&mut self, name: &str, value: &Value) {
        let kind = json_type(value);
        if let Some(known) = self.fields.iter_mut().find(|field| field.name == name) {
            if !known.types.contains(&kind) {
                known.types.push(kind);
            }
            return;
        }
        if self.fields.len() < FIELDS_MAX {
            self.fields.push(SampledField {
                name: name.to_owned(),
                types: vec![kind],
                example: example(value),
            });
        }
    }

    /// Returns the topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Returns the number of records.
    pub fn records(&self) -> usize {
        self.records
    }

    /// Returns the form of most keys.
    pub fn keys(&self) -> KeyForm {
        let Counts {
            nameable,
            unnameable,
            integers,
            longs,
        } = self.keys;
        let all = nameable + unnameable;
        match all {
            // A topic without records will have keys, as most topics.
            0 if self.records == 0 => KeyForm::Text,
            _ if longs > 0 && longs == unnameable && 2 * longs > all => KeyForm::Long,
            _ if integers > 0 && integers == unnameable && 2 * integers > all => KeyForm::Integer,
            _ if nameable > unnameable => KeyForm::Text,
            _ => KeyForm::None,
        }
    }

    /// Returns the form of all values; text if they differ.
    pub fn values(&self) -> ValueForm {
        match (self.json, self.text, self.binary, self.schema) {
            (1.., 0, 0, _) => ValueForm::Json,
            (0, 0, 1.., Some(schema)) => ValueForm::Framed { schema },
            (_, _, 1.., _) => ValueForm::Binary,
            _ => ValueForm::Text,
        }
    }

    /// Returns the members of JSON values, at most 50. Those of one record are sorted by name.
    pub fn fields(&self) -> &[SampledField] {
        &self.fields
    }

    /// Returns names of fields that clients can subscribe to.
    pub fn field_names(&self) -> Vec<&str> {
        match self.values() {
            ValueForm::Json => self
                .fields
                .iter()
                .map(|field| field.name.as_str())
                .collect(),
            _ => vec!["key", "value"],
        }
    }

    /// Returns item names that clients can subscribe to: those of sampled keys, then that of all
    /// records.
    pub fn items(&self) -> Vec<String> {
        let prefix = self.prefix();
        let keys = self
            .key_examples
            .iter()
            .filter(|_| self.keys() == KeyForm::Text);
        let items = keys.map(|key| format!("{prefix}-[key={key}]"));
        items.chain([prefix.clone()]).collect()
    }

    /// Returns the number of sampled records whose keys no item name can contain.
    pub fn unnameable(&self) -> usize {
        match self.keys() {
            KeyForm::Text => self.keys.unnameable,
            _ => 0,
        }
    }

    /// Returns the topic with the characters that item names may have.
    fn prefix(&self) -> String {
        let allowed = |c: char| match is_prefix(c.encode_utf8(&mut [0; 4])) {
            true => c,
            false => '_',
        };
        self.topic.chars().map(allowed).collect()
    }

    /// Returns the section of a connection that delivers the topic, for `gateway.toml`.
    ///
    /// Clients subscribe to `PREFIX-[key=KEY]`, or to `PREFIX` for all records.
    pub fn connection(&self, name: &str, bootstrap_servers: &str) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut out, name, bootstrap_servers);
        out
    }

    fn write(&self, out: &mut String, name: &str, servers: &str) -> fmt::Result {
        let (topic, prefix) = (&self.topic, self.prefix());
        writeln!(out, "[connection.{}]", quoted(name))?;
        writeln!(out, "bootstrap.servers = {}", quoted(servers))?;
        writeln!(
            out,
            "record.consume.from = \"EARLIEST\"   # or \"LATEST\": only records written from now on"
        )?;
        let key_type = match self.keys() {
            KeyForm::Integer => "INTEGER",
            KeyForm::Long => "LONG",
            KeyForm::Text | KeyForm::None => "STRING",
        };
        writeln!(out, "record.key.evaluator.type = \"{key_type}\"")?;
        let value_type = match self.values() {
            ValueForm::Json => "JSON",
            _ => "STRING",
        };
        writeln!(out, "record.value.evaluator.type = \"{value_type}\"\n")?;
        let map = quoted(&format!("map.{topic}.to"));
        if self.keys() == KeyForm::None {
            writeln!(out, "# Item {prefix}: all records.\n{map} = \"{prefix}\"\n")?;
        } else {
            writeln!(
                out,
                "# Item {prefix}-[key=KEY]: the records with this key. Item {prefix}: all.\n\
                 item-template.{prefix} = \"{prefix}-#{{key=KEY}}\"\n\
                 {map} = \"item-template.{prefix}, {prefix}\"\n"
            )?;
        }
        self.write_fields(out)
    }

    fn write_fields(&self, out: &mut String) -> fmt::Result {
        if self.values() != ValueForm::Json {
            return writeln!(
                out,
                "field.key = \"#{{KEY}}\"\nfield.value = \"#{{VALUE}}\""
            );
        }
        writeln!(
            out,
            "# Every member of the value is a field. Found in {} records:",
            self.records
        )?;
        let width = self
            .fields
            .iter()
            .map(|field| escaped(&field.name).chars().count());
        let width = width.max().unwrap_or(0);
        for field in &self.fields {
            let (name, types) = (escaped(&field.name), field.types.join(" or "));
            writeln!(out, "#   {name:width$}  {types}, such as {}", field.example)?;
        }
        writeln!(
            out,
            "# To expose only some, replace this line by lines such as\n\
             #   field.NAME = \"#{{VALUE.NAME}}\"\n\
             \"field.*\" = \"#{{VALUE.*}}\""
        )
    }
}

/// Returns `true` if an item name can contain the value of a parameter.
fn is_item_value(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c == ',' || c.is_whitespace())
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn example(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(EXAMPLE_CHARS_MAX) {
        None => text,
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

fn escaped(text: &str) -> String {
    text.escape_debug().to_string()
}

/// Returns a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(records: &[(Option<&[u8]>, &[u8])]) -> TopicSample {
        let mut sample = TopicSample::new("eu.orders");
        for (key, value) in records {
            sample.add(*key, Some(value));
        }
        sample
    }

    #[test]
    fn json_objects_with_keys() {
        let sample = sample(&[
            (Some(b"7"), br#"{"id": 7, "note": null, "tags": ["a"]}"#),
            (Some(b"8"), br#"{"id": "8", "price": 1.5}"#),
            (Some(b"a b"), br#"{"id": 9}"#),
        ]);
        assert_eq!(sample.keys(), KeyForm::Text);
        assert_eq!(sample.values(), ValueForm::Json);
        assert_eq!(sample.unnameable(), 1);
        assert_eq!(
            sample.items(),
            ["eu_orders-[key=7]", "eu_orders-[key=8]", "eu_orders"]
        );
        assert_eq!(sample.field_names(), ["id", "note", "tags", "price"]);
        let text = sample.connection("DEFAULT", "localhost:9092");
        assert!(
            text.contains("#   id     number or text, such as 7\n"),
            "{text}"
        );
        assert!(text.contains("item-template.eu_orders = \"eu_orders-#{key=KEY}\"\n"));
        assert!(text.contains("\"map.eu.orders.to\" = \"item-template.eu_orders, eu_orders\"\n"));
    }

    #[test]
    fn other_forms() {
        let none = sample(&[(None, b"a"), (None, b"{\"b\": 1}")]);
        assert_eq!(
            (none.keys(), none.values()),
            (KeyForm::None, ValueForm::Text)
        );
        assert_eq!(none.items(), ["eu_orders"]);
        let text = none.connection("a.b", "h:1");
        assert!(text.starts_with("[connection.\"a.b\"]\n"), "{text}");
        assert!(
            text.contains("\"map.eu.orders.to\" = \"eu_orders\"\n"),
            "{text}"
        );
        let framed = sample(&[(Some(&[0, 0, 0, 1]), &[0, 0, 0, 0, 9, 2, 200])]);
        assert_eq!(framed.keys(), KeyForm::Integer);
        assert_eq!(framed.values(), ValueForm::Framed { schema: 9 });
        let binary = sample(&[(Some(&[0, 0, 0, 0, 0, 0, 0, 1]), &[200, 1])]);
        assert_eq!(
            (binary.keys(), binary.values()),
            (KeyForm::Long, ValueForm::Binary)
        );
        let empty = TopicSample::new("t");
        assert_eq!(
            (empty.keys(), empty.values()),
            (KeyForm::Text, ValueForm::Text)
        );
    }

    #[test]
    fn examples_are_short_and_comments_stay_on_their_line() {
        let long = format!("{{\"a\\nb\": \"{}\\n\"}}", "x".repeat(100));
        let text = sample(&[(None, long.as_bytes())]).connection("DEFAULT", "h:1\"\n");
        assert!(text.contains("#   a\\nb  text, such as \"xxx"), "{text}");
        assert!(
            text.contains("bootstrap.servers = \"h:1\\\"\\u000A\"\n"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.len() < 100), "{text}");
    }
}
