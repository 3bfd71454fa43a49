//! Settings of a connection's Kafka client: the connector's parameters, then `[kafka]` of
//! `gateway.toml`, then the command line.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use weir_kafka::{
    IngestConfig, KafkaIngest, KafkaSettings, PauseScope, ReaderChoice, SelectedReader,
    SettingsError, SourceError, StartFrom, TopicPattern,
};
use weir_mapping::{ConnectionConfig, ConsumeFrom};

/// Kafka client properties. `Debug` shows no values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ClientProperties(pub Vec<(String, String)>);

impl fmt::Debug for ClientProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

/// Client properties that concern the connections to brokers. Others are those of a reader.
const CONNECTION_PROPERTIES: &[&str] = &[
    "broker.",
    "client.dns.",
    "connections.",
    "debug",
    "metadata.",
    "reconnect.",
    "retry.",
    "socket.",
    "topic.metadata.",
];

/// `[kafka]`: client properties of all connections, and of single ones.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct KafkaTable {
    /// Java-style properties file.
    config: Option<PathBuf>,
    /// Client properties; they take precedence over the file.
    #[cfg_attr(feature = "schema", schemars(schema_with = "properties_schema"))]
    properties: toml::Table,
    /// By name; they take precedence.
    connection: BTreeMap<String, ConnectionTable>,
    /// Client that reads.
    pub reader: ReaderChoice,
}

/// A table of `[kafka.connection]` whose connection does not exist.
#[derive(Debug, thiserror::Error)]
#[error("kafka.connection.{name}: no such connection; connections: {known}")]
pub struct UnknownConnection {
    name: String,
    known: String,
}

/// `[kafka.connection.NAME]`: client properties of one connection.
#[derive(Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
struct ConnectionTable {
    /// Java-style properties file.
    config: Option<PathBuf>,
    /// Client properties; they take precedence over the file.
    #[cfg_attr(feature = "schema", schemars(schema_with = "properties_schema"))]
    properties: toml::Table,
}

/// Returns the schema of client properties; names with dots are nested tables.
#[cfg(feature = "schema")]
fn properties_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object"})
}

impl KafkaTable {
    /// Returns the properties of all connections.
    pub fn read(&self, dir: &Path) -> Result<Vec<(String, String)>, SettingsError> {
        read_properties(self.config.as_deref(), &self.properties, dir)
    }

    /// Returns the properties that only this connection has.
    pub fn read_of(
        &self,
        connection: &str,
        dir: &Path,
    ) -> Result<Vec<(String, String)>, SettingsError> {
        self.connection.get(connection).map_or_else(
            || Ok(Vec::new()),
            |own| read_properties(own.config.as_deref(), &own.properties, dir),
        )
    }

    /// Checks that all connections with a table exist.
    pub fn check_names(&self, connections: &[&str]) -> Result<(), UnknownConnection> {
        let mut names = self.connection.keys();
        match names.find(|name| !connections.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(UnknownConnection {
                name: name.clone(),
                known: connections.join(", "),
            }),
        }
    }
}

/// Returns the properties of a file, relative to `dir`, and those of a table.
fn read_properties(
    file: Option<&Path>,
    table: &toml::Table,
    dir: &Path,
) -> Result<Vec<(String, String)>, SettingsError> {
    let mut all = match file {
        Some(path) => KafkaSettings::read_properties(&dir.join(path))?,
        None => Vec::new(),
    };
    let mut given = Vec::new();
    flatten("", table, &mut given);
    for (name, value) in given {
        let value = KafkaSettings::expand_variables(&name, &value)?;
        all.push((name, value));
    }
    Ok(all)
}

/// Appends the properties of a table; names of nested tables are joined by dots.
fn flatten(prefix: &str, table: &toml::Table, out: &mut Vec<(String, String)>) {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        match value {
            toml::Value::Table(inner) => flatten(&format!("{name}."), inner, out),
            toml::Value::String(text) => out.push((name, text.clone())),
            other => out.push((name, other.to_string())),
        }
    }
}

/// Settings of a connection's Kafka client.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Servers, encryption, login and client properties.
    pub kafka: KafkaSettings,
    /// Maximum number of records per poll.
    pub poll_records: usize,
    /// Client that reads; meaningless for a disabled connection.
    pub reader: SelectedReader,
}

/// Reason why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Client(#[from] SourceError),
    #[error("{POLL_RECORDS} = \"{0}\": use a whole number from 1 to {POLL_RECORDS_MAX}")]
    PollRecords(String),
}

impl Cluster {
    /// Returns the settings of a producer for the same brokers.
    pub fn producer_settings(&self) -> KafkaSettings {
        let concerns = |name: &str| {
            CONNECTION_PROPERTIES
                .iter()
                .any(|one| name.starts_with(one))
        };
        let properties = self.kafka.properties.iter();
        KafkaSettings {
            bootstrap_servers: self.kafka.bootstrap_servers.clone(),
            security: Arc::clone(&self.kafka.security),
            properties: properties.filter(|it| concerns(&it.0)).cloned().collect(),
        }
    }

    /// Combines the parameters of a connection with properties that replace them, and checks the
    /// result. Servers and group are always those of the connection.
    pub fn of(
        connection: &ConnectionConfig,
        overrides: &[(String, String)],
        reader: ReaderChoice,
    ) -> Result<Self, ClusterError> {
        let mut properties = connection.kafka_properties();
        for (name, value) in overrides {
            properties.retain(|(known, _)| known != name);
            properties.push((name.clone(), value.clone()));
        }
        let mut poll_records = POLL_RECORDS_DEFAULT;
        let mut others = Vec::with_capacity(properties.len());
        for (name, value) in properties {
            match name.as_str() {
                POLL_RECORDS => poll_records = poll_count(&value)?,
                OF_CONNECTION | GROUP => {}
                _ => others.push((name, value)),
            }
        }
        let mut cluster = Self {
            kafka: KafkaSettings::from_properties(Some(&connection.bootstrap()), &others)?,
            poll_records,
            reader: SelectedReader::default(),
        };
        if connection.enabled {
            cluster.reader = KafkaIngest::select(&ingest_config(connection, &cluster), reader)?;
        }
        Ok(cluster)
    }
}

/// Returns the configuration of a connection's reader.
pub(crate) fn ingest_config(config: &ConnectionConfig, cluster: &Cluster) -> IngestConfig {
    let (from, hold) = match (config.consume_from, &config.group_id) {
        // The first subscriber must get the whole topic, so reading starts with it.
        (ConsumeFrom::Earliest, _) => (StartFrom::Earliest, PauseScope::All),
        (ConsumeFrom::Latest, Some(_)) => (StartFrom::Latest, PauseScope::Committed),
        (ConsumeFrom::Latest, None) => (StartFrom::Latest, PauseScope::Nothing),
    };
    let (topics, pattern) = match config.mapping.has_patterns() {
        true => {
            let mapping = Arc::clone(&config.mapping);
            let matches = move |topic: &str| mapping.maps_topic(topic);
            (Vec::new(), Some(TopicPattern::new(matches)))
        }
        false => (config.mapping.topics().map(str::to_owned).collect(), None),
    };
    IngestConfig {
        kafka: cluster.kafka.clone(),
        client_id: format!("weir-gateway-{}", config.name),
        group_id: config.group_id.clone(),
        topics,
        from,
        pattern,
        pause: hold,
        reader: cluster.reader.kind,
    }
}

/// Returns the number of records per poll. More than the maximum has no use: a poll returns what is
/// there.
fn poll_count(value: &str) -> Result<usize, ClusterError> {
    let count = value
        .trim()
        .parse::<usize>()
        .ok()
        .filter(|count| *count > 0);
    let count = count.ok_or_else(|| ClusterError::PollRecords(value.to_owned()))?;
    Ok(count.min(POLL_RECORDS_MAX))
}

const POLL_RECORDS: &str = "max.poll.records";
const POLL_RECORDS_DEFAULT: usize = 500;
/// Records of a poll are kept until all are mapped, so the number bounds memory.
const POLL_RECORDS_MAX: usize = 100_000;
const OF_CONNECTION: &str = "bootstrap.servers";
const GROUP: &str = "group.id";

#[cfg(test)]
mod tests {
    use weir_mapping::{ConfigSource, Parameter, ParseOptions};

    use super::*;

    fn connection(extra: &[(&str, &str)]) -> ConnectionConfig {
        let base = [
            ("bootstrap.servers", "a:1"),
            ("map.t.to", "item"),
            ("field.v", "#{VALUE}"),
        ];
        let parameters = base.iter().chain(extra).map(|(name, value)| Parameter {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
            line: None,
        });
        let source = ConfigSource {
            file: "a.xml",
            options: ParseOptions::default(),
        };
        let parsed =
            ConnectionConfig::from_parameters("c", parameters, &source, None, &mut Vec::new());
        parsed.expect("valid parameters")
    }

    fn owned(list: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = list
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.collect()
    }

    fn cluster_of(connection: &ConnectionConfig, overrides: &[(String, String)]) -> Cluster {
        Cluster::of(connection, overrides, ReaderChoice::default()).expect("valid")
    }

    #[test]
    fn connection_without_parameters_reads_uncommitted_records() {
        let cluster = cluster_of(&connection(&[]), &[]);
        assert_eq!(cluster.kafka.bootstrap_servers, "a:1");
        assert_eq!(
            cluster.kafka.property("isolation.level"),
            Some("read_uncommitted")
        );
        assert_eq!(cluster.poll_records, 500);
    }

    #[test]
    fn overrides_replace_parameters_but_not_the_servers() {
        let connection = connection(&[
            ("record.consume.with.max.poll.records", "7"),
            ("consumer.fetch.min.bytes", "2"),
        ]);
        let cluster = cluster_of(&connection, &[]);
        assert_eq!(cluster.poll_records, 7);
        assert_eq!(cluster.kafka.property("fetch.min.bytes"), Some("2"));
        let given = owned(&[("fetch.min.bytes", "3"), ("bootstrap.servers", "b:2")]);
        let cluster = cluster_of(&connection, &given);
        assert_eq!(cluster.kafka.property("fetch.min.bytes"), Some("3"));
        assert_eq!(cluster.kafka.bootstrap_servers, "a:1");
    }

    /// Every consumer setting of the connector, as a parameter, and as the client gets it.
    #[test]
    fn consumer_parameters_reach_the_client() {
        for (parameter, value, property) in [
            ("consumer.fetch.min.bytes", "17", "fetch.min.bytes"),
            ("consumer.fetch.max.bytes", "1048576", "fetch.max.bytes"),
            ("consumer.fetch.max.wait.ms", "123", "fetch.wait.max.ms"),
            (
                "consumer.reconnect.backoff.ms",
                "70",
                "reconnect.backoff.ms",
            ),
            (
                "consumer.reconnect.backoff.max.ms",
                "7000",
                "reconnect.backoff.max.ms",
            ),
            ("consumer.client.id", "dashboard", "client.id"),
            ("consumer.client.rack", "zone-a", "client.rack"),
            (
                "consumer.isolation.level",
                "read_committed",
                "isolation.level",
            ),
        ] {
            let connection = connection(&[(parameter, value)]);
            let cluster = cluster_of(&connection, &[]);
            let config = ingest_config(&connection, &cluster);
            let found = KafkaIngest::client_property(&config, property).expect(parameter);
            assert_eq!(found, value, "{parameter}");
        }
        let connection = connection(&[("record.consume.with.max.poll.records", "9")]);
        let cluster = cluster_of(&connection, &[]);
        assert_eq!(cluster.poll_records, 9);
    }

    #[test]
    fn snapshots_read_whole_topics_without_a_group() {
        let connection = connection(&[
            ("item.snapshot.enabled.mode", "MERGE"),
            ("group.id", "g"),
            ("record.consume.from", "LATEST"),
        ]);
        let cluster = cluster_of(&connection, &[]);
        let config = ingest_config(&connection, &cluster);
        assert_eq!((config.group_id, config.from), (None, StartFrom::Earliest));
    }

    #[test]
    fn properties_of_one_connection_take_precedence() {
        let table: KafkaTable = toml::from_str(
            "properties = { \"client.rack\" = \"a\", \"fetch.min.bytes\" = 1 }\n\
             [connection.c]\nproperties = { client.rack = \"b\" }",
        )
        .expect("a table");
        let dir = Path::new("");
        let mut overrides = table.read(dir).expect("valid");
        overrides.extend(table.read_of("c", dir).expect("valid"));
        let cluster = cluster_of(&connection(&[]), &overrides);
        assert_eq!(cluster.kafka.property("client.rack"), Some("b"));
        assert_eq!(cluster.kafka.property("fetch.min.bytes"), Some("1"));
        assert!(table.read_of("other", dir).expect("valid").is_empty());
        assert!(table.check_names(&["c", "d"]).is_ok());
        let error = table.check_names(&["d"]).expect_err("unknown").to_string();
        assert_eq!(
            error,
            "kafka.connection.c: no such connection; connections: d"
        );
        let typo = toml::from_str::<KafkaTable>("[connection.c]\nproperty = {}");
        assert!(typo.is_err(), "an unknown key");
    }

    #[test]
    fn unusable_properties_are_rejected_at_the_start() {
        for (name, value, expected) in [
            ("no.such.property", "1", "no.such.property"),
            ("fetch.min.bytes", "many", "fetch.min.bytes"),
            ("enable.auto.commit", "true", "cannot be set"),
            ("max.poll.records", "0", "use a whole number"),
        ] {
            for reader in [
                ReaderChoice::Auto,
                ReaderChoice::Librdkafka,
                ReaderChoice::Lean,
            ] {
                let error = Cluster::of(&connection(&[]), &owned(&[(name, value)]), reader);
                let error = error.expect_err(name).to_string();
                assert!(error.contains(expected), "{error}");
            }
        }
    }
}
