//! Kafka client properties of a connection: encryption, login and consumer settings under the names
//! of Kafka's Java clients.

use std::fmt;
use std::path::Path;

use super::parameter_table::{
    AUTHENTICATION, ENCRYPTION_PREFIX, Group, KERBEROS, KEY_STORE, KEY_TAB, LOGIN, MECHANISM, TLS,
};
use super::parameters::{ConnectionParameters, masked};
use super::source::Parameter;
use super::types::text_list;
use crate::error::Problem;

/// Java-named client properties. Their `Debug` form masks secrets.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ClusterProperties(Vec<(String, String)>);

impl fmt::Debug for ClusterProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self
            .0
            .iter()
            .map(|(name, value)| (name, masked(name, value)));
        f.debug_map().entries(shown).finish()
    }
}

/// Settings that have the same values in Kafka: parameter and property.
const CONSUMER: &[(&str, &str)] = &[
    ("consumer.fetch.min.bytes", "fetch.min.bytes"),
    ("consumer.fetch.max.bytes", "fetch.max.bytes"),
    ("consumer.fetch.max.wait.ms", "fetch.max.wait.ms"),
    ("consumer.reconnect.backoff.ms", "reconnect.backoff.ms"),
    (
        "consumer.reconnect.backoff.max.ms",
        "reconnect.backoff.max.ms",
    ),
    ("record.consume.with.max.poll.records", "max.poll.records"),
    ("consumer.client.id", "client.id"),
    ("consumer.client.rack", "client.rack"),
];
const CREDENTIALS: &[(&str, &str)] = &[
    ("authentication.username", "sasl.username"),
    ("authentication.password", "sasl.password"),
];
const ROLE: &[(&str, &str)] = &[
    ("authentication.iam.role.arn", "aws.role.arn"),
    (
        "authentication.iam.role.session.name",
        "aws.role.session.name",
    ),
    ("authentication.iam.sts.region", "aws.sts.region"),
];
const SERVICE: &str = "authentication.gssapi.kerberos.service.name";
const TICKET_CACHE: &str = "authentication.gssapi.ticket.cache.enable";
const PRINCIPAL: &str = "authentication.gssapi.principal";
const KEY_TAB_PATH: &str = "authentication.gssapi.key.tab.path";
const STORE_KEY: &str = "authentication.gssapi.store.key.enable";
const PROFILE: &str = "authentication.iam.credential.profile.name";
const KEY_STORE_PATH: &str = "encryption.keystore.path";

impl ClusterProperties {
    /// Reads the properties of a connection whose parameters are valid.
    pub(super) fn of(parameters: &ConnectionParameters, config_file: &str) -> Self {
        let mut properties = Vec::new();
        let protocol = match (parameters.is_on(TLS), parameters.is_on(AUTHENTICATION)) {
            (false, false) => "PLAINTEXT",
            (true, false) => "SSL",
            (false, true) => "SASL_PLAINTEXT",
            (true, true) => "SASL_SSL",
        };
        properties.push(("security.protocol".to_owned(), protocol.to_owned()));
        if parameters.is_on(TLS) {
            properties.extend(Self::encryption(ENCRYPTION_PREFIX, parameters, config_file).0);
        }
        let mut writer = PropertyWriter {
            parameters,
            directory: directory(config_file),
            properties,
        };
        if parameters.is_on(AUTHENTICATION) {
            writer.authentication();
        }
        writer.copy_all(CONSUMER);
        // The default of Kafka's Java consumer, which the connector does not change.
        let isolation = parameters.get("consumer.isolation.level");
        writer.put("isolation.level", isolation.unwrap_or("read_uncommitted"));
        Self(writer.properties)
    }

    /// Reads the `ssl.*` properties of the encryption parameters with a prefix.
    pub(super) fn encryption(
        prefix: &str,
        parameters: &ConnectionParameters,
        config_file: &str,
    ) -> Self {
        let mut writer = PropertyWriter {
            parameters,
            directory: directory(config_file),
            properties: Vec::new(),
        };
        writer.encryption(prefix);
        Self(writer.properties)
    }

    pub(super) fn to_vec(&self) -> Vec<(String, String)> {
        self.0.clone()
    }
}

/// Returns a problem for each required parameter of encryption and login that is missing.
pub(super) fn missing(parameters: &ConnectionParameters) -> Vec<Problem> {
    let uses_tickets = parameters.get(TICKET_CACHE) == Some("true");
    let mut required: Vec<(&Group, &str, &str)> = vec![
        (
            KEY_STORE,
            KEY_STORE_PATH,
            "name the key store with the client certificate",
        ),
        (
            LOGIN,
            CREDENTIALS[0].0,
            "write the user name of the mechanism",
        ),
        (
            LOGIN,
            CREDENTIALS[1].0,
            "write the password of the mechanism",
        ),
        (
            KERBEROS,
            SERVICE,
            "write the Kerberos service name of the brokers, such as kafka",
        ),
        (KEY_TAB, KEY_TAB_PATH, "name the key tab file"),
    ];
    if !uses_tickets {
        let remedy = "write the principal, or enable the ticket cache";
        required.push((KERBEROS, PRINCIPAL, remedy));
    }
    let is_missing =
        |one: &&(&Group, &str, &str)| parameters.is_on(one.0) && parameters.get(one.1).is_none();
    let missing = required.iter().filter(is_missing);
    missing
        .map(|(_, name, remedy)| Problem::missing_parameter(name, remedy))
        .collect()
}

/// Returns the files that the parameters name, with resolved paths.
pub(super) fn files(parameters: &ConnectionParameters, config_file: &str) -> Vec<Parameter> {
    let files = parameters.files();
    files.map(|file| resolved(file, config_file)).collect()
}

/// Returns a parameter that names a file, with its path resolved.
pub(super) fn resolved(file: &Parameter, config_file: &str) -> Parameter {
    Parameter {
        value: resolve(directory(config_file), &file.value),
        ..file.clone()
    }
}

fn directory(config_file: &str) -> &Path {
    Path::new(config_file)
        .parent()
        .unwrap_or_else(|| Path::new(""))
}

fn resolve(directory: &Path, path: &str) -> String {
    directory.join(path).display().to_string()
}

struct PropertyWriter<'a> {
    parameters: &'a ConnectionParameters,
    directory: &'a Path,
    properties: Vec<(String, String)>,
}

impl PropertyWriter<'_> {
    fn put(&mut self, name: &str, value: &str) {
        self.properties.push((name.to_owned(), value.to_owned()));
    }

    fn copy(&mut self, parameter: &str, property: &str) {
        if let Some(value) = self.parameters.get(parameter) {
            self.put(property, value);
        }
    }

    fn copy_all(&mut self, names: &[(&str, &str)]) {
        for (parameter, property) in names {
            self.copy(parameter, property);
        }
    }

    fn copy_list(&mut self, parameter: &str, property: &str, default: Option<&str>) {
        let list = self.parameters.get(parameter).and_then(text_list);
        let list = list.map(|list| list.join(","));
        if let Some(value) = list.as_deref().or(default) {
            self.put(property, value);
        }
    }

    fn copy_file(&mut self, parameter: &str, property: &str) {
        if let Some(path) = self.parameters.get(parameter) {
            self.put(property, &resolve(self.directory, path));
        }
    }

    /// Writes the `ssl.*` properties of the encryption parameters with a prefix.
    fn encryption(&mut self, prefix: &str) {
        let name = |rest: &str| format!("{prefix}{rest}");
        let is_on = |rest: &str| self.parameters.get(&name(rest)) == Some("true");
        let (verifies, has_key) = (
            is_on("hostname.verification.enable"),
            is_on("keystore.enable"),
        );
        // The connector, unlike Kafka, does not verify host names unless configured to.
        let verification = if verifies { "https" } else { "" };
        let protocol = self.parameters.get(&name("protocol")).unwrap_or("TLSv1.3");
        self.put("ssl.protocol", protocol);
        let (protocols, default) = ("ssl.enabled.protocols", "TLSv1.2,TLSv1.3");
        self.copy_list(&name("enabled.protocols"), protocols, Some(default));
        self.copy_list(&name("cipher.suites"), "ssl.cipher.suites", None);
        self.put("ssl.endpoint.identification.algorithm", verification);
        if self.parameters.get(&name("truststore.path")).is_some() {
            self.store(prefix, "truststore");
        }
        if has_key {
            self.store(prefix, "keystore");
            self.copy(&name("keystore.key.password"), "ssl.key.password");
        }
    }

    fn store(&mut self, prefix: &str, store: &str) {
        let parameter = |rest: &str| format!("{prefix}{store}.{rest}");
        let property = |rest: &str| format!("ssl.{store}.{rest}");
        self.copy_file(&parameter("path"), &property("location"));
        let kind = self.parameters.get(&parameter("type")).unwrap_or("JKS");
        self.put(&property("type"), kind);
        self.copy(&parameter("password"), &property("password"));
    }

    fn authentication(&mut self) {
        let mechanism = self.parameters.get(MECHANISM).unwrap_or("PLAIN");
        self.put("sasl.mechanism", mechanism);
        if self.parameters.is_on(LOGIN) {
            self.copy_all(CREDENTIALS);
        } else if self.parameters.is_on(KERBEROS) {
            self.kerberos();
        } else if self.parameters.get(PROFILE).is_some() {
            // With a profile the connector does not read the role.
            self.copy(PROFILE, "aws.profile.name");
        } else if self.parameters.get(ROLE[0].0).is_some() {
            self.copy_all(ROLE);
        }
    }

    /// With the ticket cache, the connector uses neither key tab nor principal.
    fn kerberos(&mut self) {
        self.copy(SERVICE, "sasl.kerberos.service.name");
        if self.parameters.get(TICKET_CACHE) == Some("true") {
            return self.put("sasl.kerberos.use.ticket.cache", "true");
        }
        if self.parameters.is_on(KEY_TAB) {
            self.copy_file(KEY_TAB_PATH, "sasl.kerberos.keytab");
        }
        self.copy(STORE_KEY, "sasl.kerberos.store.key");
        self.copy(PRINCIPAL, "sasl.kerberos.principal");
    }
}
