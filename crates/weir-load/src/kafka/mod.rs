//! Options of commands that connect to Kafka, and the client properties they give.

mod client_file;
mod properties;

use std::fmt;
use std::path::PathBuf;

use clap::Args;
use weir_kafka::KafkaSettings;

use crate::error::Result;
use crate::units::parse_key_value;

pub use client_file::ClientFile;
pub use properties::{ClientProperties, command_line, is_secret};

/// Servers and client properties of a cluster.
#[derive(Debug, Clone, Default, Args)]
pub struct KafkaArgs {
    /// Kafka bootstrap servers [default: from --kafka-config, else localhost:9092]
    #[arg(long, value_name = "HOST:PORT")]
    pub bootstrap: Option<String>,
    /// Client properties.
    #[command(flatten)]
    pub client: KafkaPropertyArgs,
}

/// Client properties of a cluster.
#[derive(Clone, Default, Args)]
pub struct KafkaPropertyArgs {
    /// Java-style file of Kafka client properties: encryption, login and others
    ///
    /// The names are those of Kafka's Java client, such as security.protocol or sasl.jaas.config;
    /// librdkafka's are accepted too. Values may contain ${env:NAME} and ${file:PATH}. The file may
    /// contain bootstrap.servers.
    #[arg(long, value_name = "FILE")]
    pub kafka_config: Option<PathBuf>,
    /// Kafka client property, instead of that in --kafka-config; repeatable
    ///
    /// Other users of the machine can read command lines: write a password as
    /// sasl.password=${env:NAME} or put it into --kafka-config.
    #[arg(long = "kafka-property", value_name = "KEY=VALUE", value_parser = parse_key_value)]
    pub kafka_properties: Vec<(String, String)>,
}

impl fmt::Debug for KafkaPropertyArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.kafka_properties.iter().map(|(name, _)| name);
        f.debug_struct("KafkaPropertyArgs")
            .field("kafka_config", &self.kafka_config)
            .field("kafka_properties", &names.collect::<Vec<_>>())
            .finish()
    }
}

impl KafkaArgs {
    /// Returns the arguments for servers without other properties.
    pub fn of_servers(bootstrap_servers: &str) -> Self {
        Self {
            bootstrap: Some(bootstrap_servers.to_owned()),
            client: KafkaPropertyArgs::default(),
        }
    }

    /// Returns the settings of the cluster, by default one on this machine without encryption.
    ///
    /// # Errors
    /// A file cannot be read, or a property is invalid.
    pub fn settings(&self) -> Result<KafkaSettings> {
        let (servers, properties) = self.read()?;
        properties.settings(servers.as_deref().unwrap_or(DEFAULT_SERVERS))
    }

    /// Returns the servers, for messages about a cluster whose settings were read before.
    pub fn servers(&self) -> String {
        let given = self.read().ok().and_then(|(servers, _)| servers);
        given.unwrap_or_else(|| DEFAULT_SERVERS.to_owned())
    }

    /// Returns the servers, if any are given, and the other client properties.
    ///
    /// # Errors
    /// The file of --kafka-config cannot be read, or an expansion fails.
    pub fn read(&self) -> Result<(Option<String>, ClientProperties)> {
        let mut properties = self.client.read()?;
        let servers = properties.take_servers();
        Ok((self.bootstrap.clone().or(servers), properties))
    }
}

impl KafkaPropertyArgs {
    /// Returns the properties of the command line that do not concern the connection.
    pub fn without_connection(&self) -> Vec<(String, String)> {
        let given = self.kafka_properties.iter();
        let others = given.filter(|(name, _)| {
            !CONNECTION.iter().any(|prefix| name.starts_with(prefix)) && !is_secret(name)
        });
        others.cloned().collect()
    }

    /// Returns the properties of the file and the command line. Warns about secrets in the latter.
    ///
    /// # Errors
    /// The file of --kafka-config cannot be read, or an expansion fails.
    pub fn read(&self) -> Result<ClientProperties> {
        let mut all = match &self.kafka_config {
            Some(path) => KafkaSettings::read_properties(path)?,
            None => Vec::new(),
        };
        for (name, value) in &self.kafka_properties {
            if is_secret(name) && !value.starts_with("${") {
                tracing::warn!(
                    "--kafka-property {name}: other users can read its value in process lists; \
                     write {name}=${{env:NAME}} or use --kafka-config"
                );
            }
            all.push((name.clone(), KafkaSettings::expand_variables(name, value)?));
        }
        Ok(ClientProperties::new(all))
    }
}

/// Starts of the names of properties that concern the connection.
const CONNECTION: [&str; 6] = [
    "bootstrap.",
    "security.",
    "ssl.",
    "sasl.",
    "client.",
    "aws.",
];
const DEFAULT_SERVERS: &str = "localhost:9092";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_wins_over_property_and_default() {
        let mut args = KafkaArgs::default();
        assert_eq!(args.settings().unwrap().bootstrap_servers, "localhost:9092");
        let servers = ("bootstrap.servers".to_owned(), "a:1".to_owned());
        args.client.kafka_properties = vec![servers];
        assert_eq!(args.settings().unwrap().bootstrap_servers, "a:1");
        args.bootstrap = Some("b:2".to_owned());
        assert_eq!(args.settings().unwrap().bootstrap_servers, "b:2");
    }

    #[test]
    fn debug_shows_no_values() {
        let secret = ("sasl.password".to_owned(), "s3cret".to_owned());
        let args = KafkaPropertyArgs {
            kafka_properties: vec![secret],
            ..KafkaPropertyArgs::default()
        };
        let text = format!("{args:?}");
        assert!(
            text.contains("sasl.password") && !text.contains("s3cret"),
            "{text}"
        );
    }
}
