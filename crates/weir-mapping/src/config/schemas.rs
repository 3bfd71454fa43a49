//! Schemas of keys and values: the formats that the parameters describe, schema files, and the
//! schema registry.

use std::fmt;
use std::sync::{Arc, OnceLock};

use strum::EnumString;
use weir_formats::json::NumberForm;

use super::cluster::{self, ClusterProperties};
use super::parameter_table::{
    AZURE, BASIC_LOGIN, CONFLUENT, Group, JSON_CHECK, REGISTRY, REGISTRY_ENCRYPTION,
    REGISTRY_KEY_STORE, REGISTRY_TLS,
};
use super::parameters::ConnectionParameters;
use super::source::Parameter;
use crate::error::Problem;
use crate::evaluator::Evaluator;
use crate::payload::PartConfig;
use crate::record_part::{KeyAndValue, RecordPart};
use crate::schema::{
    DocumentFormat, DocumentKind, Framing, Schema, SchemaError, SchemaKind, SchemaSource,
    SchemaTable,
};

const URL: &str = "schema.registry.url";
const PROVIDER: &str = "schema.registry.provider";
const USERNAME: &str = "schema.registry.confluent.basic.authentication.username";
const PASSWORD: &str = "schema.registry.confluent.basic.authentication.password";
const TENANT: &str = "schema.registry.azure.tenant.id";
const CLIENT: &str = "schema.registry.azure.client.id";
const CLIENT_SECRET: &str = "schema.registry.azure.client.secret";
const TRUST_STORE: &str = "schema.registry.confluent.encryption.truststore.path";
const TRUST_STORE_PASSWORD: &str = "schema.registry.confluent.encryption.truststore.password";
const KEY_STORE_PATH: &str = "schema.registry.confluent.encryption.keystore.path";

/// Product that serves the schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumString)]
#[strum(serialize_all = "UPPERCASE")]
pub(super) enum RegistryProvider {
    /// The REST interface of Confluent, which other registries offer too.
    #[default]
    Confluent,
    /// Azure Event Hubs.
    Azure,
}

/// Schema registry of a connection. Its `Debug` form contains no secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryConfig {
    /// Base URL.
    pub url: String,
    /// Login.
    pub login: RegistryLogin,
    /// Encryption as `ssl.*` properties of Kafka's Java clients, with passwords in plain text.
    /// Empty without encryption.
    pub properties: Vec<(String, String)>,
}

/// Login to a schema registry.
#[derive(Clone, PartialEq, Eq)]
pub enum RegistryLogin {
    /// Confluent, without login.
    None,
    /// Confluent, with HTTP basic authentication.
    Basic {
        /// User name.
        username: String,
        /// Password.
        password: String,
    },
    /// Azure, with the credentials of an application.
    Azure {
        /// Tenant of the application.
        tenant_id: String,
        /// Application.
        client_id: String,
        /// Its secret.
        client_secret: String,
    },
}

impl fmt::Debug for RegistryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryConfig")
            .field("url", &self.url)
            .field("login", &self.login)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RegistryLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Basic { .. } => "Basic(***)",
            Self::Azure { .. } => "Azure(***)",
        })
    }
}

impl RegistryConfig {
    /// Reads the registry of a connection whose parameters are valid.
    pub(super) fn of(parameters: &ConnectionParameters, config_file: &str) -> Option<Self> {
        if !parameters.is_on(REGISTRY) {
            return None;
        }
        let text = |name: &str| parameters.get(name).unwrap_or_default().to_owned();
        let login = if parameters.is_on(AZURE) {
            RegistryLogin::Azure {
                tenant_id: text(TENANT),
                client_id: text(CLIENT),
                client_secret: text(CLIENT_SECRET),
            }
        } else if parameters.is_on(BASIC_LOGIN) {
            RegistryLogin::Basic {
                username: text(USERNAME),
                password: text(PASSWORD),
            }
        } else {
            RegistryLogin::None
        };
        let encryption = parameters.is_on(REGISTRY_TLS).then(|| {
            ClusterProperties::encryption(REGISTRY_ENCRYPTION, parameters, config_file).to_vec()
        });
        Some(Self {
            url: text(URL),
            login,
            properties: encryption.unwrap_or_default(),
        })
    }
}

/// A schema file that a configuration names. The owner of the configuration reads it.
#[derive(Debug, Clone)]
pub struct SchemaFile {
    /// Parameter with the resolved path.
    pub parameter: Parameter,
    kind: SchemaKind,
    message_type: Option<String>,
    format: Arc<DocumentFormat>,
}

impl SchemaFile {
    /// Sets the schema from the bytes of the file, before the first record.
    ///
    /// # Errors
    /// The bytes are not a schema of the configured type.
    pub fn load(&self, bytes: &[u8]) -> Result<(), SchemaError> {
        let schema = Schema::from_file(self.kind, bytes, self.message_type.as_deref())?;
        self.format.set_file_schema(&schema)
    }
}

/// Returns the schema files of a connection.
pub(super) fn files(
    parameters: &ConnectionParameters,
    parts: &KeyAndValue<PartConfig>,
    config_file: &str,
) -> Vec<SchemaFile> {
    let files = [RecordPart::Key, RecordPart::Value]
        .into_iter()
        .filter_map(|part| {
            let PartConfig { format, .. } = parts.of(part);
            let SchemaSource::File(_) = format.schema else {
                return None;
            };
            let name = name(part, "schema.path");
            let written = parameters.written(&name)?;
            Some(SchemaFile {
                parameter: cluster::resolved(written, config_file),
                kind: match format.kind {
                    DocumentKind::Json => SchemaKind::Json,
                    DocumentKind::Avro => SchemaKind::Avro,
                    DocumentKind::Protobuf => SchemaKind::Protobuf,
                },
                message_type: message_type(part, parameters).map(str::to_owned),
                format: Arc::clone(format),
            })
        });
    files.collect()
}

/// Returns the format of the documents of a part. A local schema has precedence over the registry.
pub(super) fn format(
    part: RecordPart,
    evaluator: Evaluator,
    parameters: &ConnectionParameters,
    table: &Arc<SchemaTable>,
) -> DocumentFormat {
    let kind = match evaluator {
        Evaluator::Avro => DocumentKind::Avro,
        Evaluator::Protobuf => DocumentKind::Protobuf,
        _ => DocumentKind::Json,
    };
    let provider: RegistryProvider = parameters.parsed(PROVIDER).unwrap_or_default();
    let framing = match (provider, kind) {
        (RegistryProvider::Azure, DocumentKind::Json) => Framing::AzureJson,
        (RegistryProvider::Azure, _) => Framing::AzureAvro,
        (RegistryProvider::Confluent, kind) => Framing::Confluent {
            has_indexes: kind == DocumentKind::Protobuf,
        },
    };
    let schema = if uses_file(part, evaluator, parameters) {
        SchemaSource::File(OnceLock::new())
    } else if evaluator.is_document() && uses_registry(part, parameters) {
        SchemaSource::Registry(framing, Arc::clone(table))
    } else {
        SchemaSource::None
    };
    // Azure's decoder for JSON is not configured for exact decimals.
    let is_exact = matches!(schema, SchemaSource::Registry(Framing::Confluent { .. }, _));
    DocumentFormat {
        kind,
        numbers: if is_exact {
            NumberForm::Exact
        } else {
            NumberForm::Double
        },
        check: parameters.parsed(JSON_CHECK).unwrap_or_default(),
        schema,
    }
}

fn name(part: RecordPart, rest: &str) -> String {
    format!("record.{part}.evaluator.{rest}")
}

fn message_type(part: RecordPart, parameters: &ConnectionParameters) -> Option<&str> {
    parameters.get(&name(part, "protobuf.message.type"))
}

fn has_path(part: RecordPart, parameters: &ConnectionParameters) -> bool {
    parameters.get(&name(part, "schema.path")).is_some()
}

fn uses_file(part: RecordPart, evaluator: Evaluator, parameters: &ConnectionParameters) -> bool {
    let is_complete = evaluator != Evaluator::Protobuf || message_type(part, parameters).is_some();
    evaluator.is_document() && has_path(part, parameters) && is_complete
}

fn uses_registry(part: RecordPart, parameters: &ConnectionParameters) -> bool {
    parameters
        .parsed(&name(part, "schema.registry.enable"))
        .unwrap_or(false)
}

/// Returns a problem for each parameter of schemas and registry that is missing.
pub(super) fn missing(parameters: &ConnectionParameters) -> Vec<Problem> {
    let mut missing = Vec::new();
    for part in [RecordPart::Key, RecordPart::Value] {
        missing.extend(missing_schema(part, parameters));
    }
    let required: &[(&Group, &str, &str)] = &[
        (REGISTRY, URL, "write the URL of the schema registry"),
        (
            BASIC_LOGIN,
            USERNAME,
            "write the user name at the schema registry",
        ),
        (
            BASIC_LOGIN,
            PASSWORD,
            "write the password at the schema registry",
        ),
        (AZURE, TENANT, "write the tenant of the application"),
        (AZURE, CLIENT, "write the id of the application"),
        (AZURE, CLIENT_SECRET, "write the secret of the application"),
        (
            REGISTRY_KEY_STORE,
            KEY_STORE_PATH,
            "name the key store with the client certificate",
        ),
    ];
    let is_missing =
        |group: &Group, name: &str| parameters.is_on(group) && parameters.get(name).is_none();
    for (group, name, remedy) in required {
        if is_missing(group, name) {
            missing.push(Problem::missing_parameter(name, remedy));
        }
    }
    if parameters.get(TRUST_STORE).is_some() && is_missing(REGISTRY_TLS, TRUST_STORE_PASSWORD) {
        let remedy = "write the password of the trust store";
        missing.push(Problem::missing_parameter(TRUST_STORE_PASSWORD, remedy));
    }
    missing
}

/// Returns the problem of a part that has no usable source of schemas.
fn missing_schema(part: RecordPart, parameters: &ConnectionParameters) -> Option<Problem> {
    let type_name = name(part, "type");
    let evaluator: Evaluator = parameters.parsed(&type_name)?;
    if !matches!(evaluator, Evaluator::Avro | Evaluator::Protobuf) {
        return None;
    }
    if uses_registry(part, parameters) {
        let is_refused = evaluator == Evaluator::Protobuf && !parameters.is_on(CONFLUENT);
        return is_refused.then(|| {
            Problem(format!(
                "[{PROVIDER}] = \"AZURE\" does not support PROTOBUF, the type of the record \
                 {part}; use AVRO or JSON, or a descriptor file without the registry"
            ))
        });
    }
    if uses_file(part, evaluator, parameters) {
        return None;
    }
    let message_type = name(part, "protobuf.message.type");
    if has_path(part, parameters) {
        let remedy = "write the full name of the message type in the descriptor file";
        return Some(Problem::missing_parameter(&message_type, remedy));
    }
    Some(Problem(format!(
        "[{type_name}] = \"{evaluator}\" needs a schema: specify a valid file path for [{}] or \
         set [{}] to true",
        name(part, "schema.path"),
        name(part, "schema.registry.enable")
    )))
}
