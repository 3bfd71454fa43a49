//! Client properties as a user gave them, under Kafka's names.

use std::fmt;
use std::path::Path;

use weir_kafka::KafkaSettings;

use crate::error::Result;

/// Properties under Kafka's names, each once, without `bootstrap.servers`. `Debug` shows no values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientProperties {
    servers: Option<String>,
    list: Vec<(String, String)>,
}

impl fmt::Debug for ClientProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl ClientProperties {
    /// Returns the properties of a list; the last value of each name counts.
    pub fn new(given: Vec<(String, String)>) -> Self {
        let mut all = Self::default();
        for (name, value) in given {
            if name == SERVERS {
                all.servers = Some(value);
                continue;
            }
            all.list.retain(|(known, _)| *known != name);
            all.list.push((name, value));
        }
        all
    }

    /// Removes and returns the value of `bootstrap.servers`.
    pub fn take_servers(&mut self) -> Option<String> {
        self.servers.take()
    }

    /// Returns `true` if there is no property.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the names of the properties, which may be shown.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|(name, _)| name.as_str())
    }

    /// Returns names and values. The caller must not print values.
    pub fn list(&self) -> &[(String, String)] {
        &self.list
    }

    /// Returns the settings of a cluster with these properties.
    ///
    /// # Errors
    /// A property is invalid, or a file it names cannot be read.
    pub fn settings(&self, bootstrap_servers: &str) -> Result<KafkaSettings> {
        Ok(KafkaSettings::from_properties(
            Some(bootstrap_servers),
            &self.list,
        )?)
    }

    /// Returns the text of a properties file with the servers. Paths are absolute, because a child
    /// process may have another working directory.
    pub(super) fn to_text(&self, bootstrap_servers: &str) -> String {
        let servers = (SERVERS.to_owned(), bootstrap_servers.to_owned());
        let mut text = String::new();
        for (name, value) in std::iter::once(&servers).chain(&self.list) {
            let value = match name.ends_with(".location") {
                true => absolute(value),
                false => value.clone(),
            };
            escape(name, true, &mut text);
            text.push('=');
            escape(&value, false, &mut text);
            text.push('\n');
        }
        text
    }
}

/// Returns `true` if the value of a property must not be shown.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_PARTS.iter().any(|part| name.contains(part))
}

/// Returns the command line of this process without the values of secret properties.
pub fn command_line() -> Vec<String> {
    hide_secrets(std::env::args())
}

fn hide_secrets(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut is_value = false;
    let words = words.map(|word| {
        let (prefix, property) = match word.strip_prefix("--kafka-property=") {
            Some(property) => ("--kafka-property=", property),
            None if is_value => ("", word.as_str()),
            None => {
                is_value = word == "--kafka-property";
                return word;
            }
        };
        is_value = false;
        match property.split_once('=') {
            Some((name, _)) if is_secret(name) => format!("{prefix}{name}=***"),
            _ => word,
        }
    });
    words.collect()
}

fn absolute(path: &str) -> String {
    match std::path::absolute(Path::new(path)) {
        Ok(path) => path.display().to_string(),
        Err(_) => path.to_owned(),
    }
}

/// Appends a name or value with the escapes of `java.util.Properties`.
fn escape(text: &str, is_name: bool, out: &mut String) {
    for (at, character) in text.chars().enumerate() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{c}' => out.push_str("\\f"),
            // A blank at the start of a value would be skipped.
            ' ' if is_name || at == 0 => out.push_str("\\ "),
            '=' | ':' | '#' | '!' => out.extend(['\\', character]),
            _ => out.push(character),
        }
    }
}

const SERVERS: &str = "bootstrap.servers";
/// Parts of the names of secret properties, in lower case.
const SECRET_PARTS: [&str; 8] = [
    "password",
    "secret",
    "token",
    "jaas",
    "credential",
    "passphrase",
    ".pem",
    "keystore.key",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(list: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = list
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.collect()
    }

    #[test]
    fn last_value_counts_and_servers_are_apart() {
        let given = [
            ("a", "1"),
            ("bootstrap.servers", "h:1"),
            ("b", "2"),
            ("a", "3"),
        ];
        let mut all = ClientProperties::new(owned(&given));
        assert_eq!(all.take_servers().as_deref(), Some("h:1"));
        assert_eq!(all.list(), owned(&[("b", "2"), ("a", "3")]));
        assert!(!format!("{all:?}").contains('3'));
    }

    #[test]
    fn secrets_are_hidden_in_command_lines() {
        let words = [
            "weir",
            "load",
            "--kafka-property",
            "sasl.password=x",
            "--kafka-property=acks=all",
            "--kafka-property=ssl.key.password=y",
            "--topic",
            "sasl.password=t",
        ];
        let hidden = hide_secrets(words.iter().map(|word| (*word).to_owned()));
        let expected = [
            "weir",
            "load",
            "--kafka-property",
            "sasl.password=***",
            "--kafka-property=acks=all",
            "--kafka-property=ssl.key.password=***",
            "--topic",
            "sasl.password=t",
        ];
        assert_eq!(hidden, expected);
        assert!(is_secret("sasl.jaas.config") && is_secret("ssl.truststore.password"));
        assert!(!is_secret("sasl.mechanism") && !is_secret("sasl.username"));
    }

    #[test]
    fn text_escapes_special_characters_of_java_properties() {
        let all = ClientProperties::new(owned(&[("k y", " a\\b=c\n")]));
        assert_eq!(
            all.to_text("h:1"),
            "bootstrap.servers=h\\:1\nk\\ y=\\ a\\\\b\\=c\\n\n"
        );
        let located = ClientProperties::new(owned(&[("ssl.ca.location", "ca.pem")]));
        let text = located.to_text("h:1");
        assert!(text.contains("ssl.ca.location=/"), "{text}");
    }
}
