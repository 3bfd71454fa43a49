//! Checks of schema registries: reachable, login accepted, subjects of the mapped topics.

use serde::{Serialize, Serializer};
use weir_gateway::GatewayConfig;
use weir_gateway::schemas::ConnectionRegistry;
use weir_kafka::registry::RegistryError;
use weir_mapping::ConnectionConfig;

use crate::exit::Exit;

/// Findings about the registry of one connection.
#[derive(Serialize)]
pub(super) struct RegistryFindings {
    connection: String,
    url: String,
    subjects: Vec<SubjectFinding>,
    #[serde(serialize_with = "serialize_error")]
    pub(super) error: Option<(Exit, String)>,
}

/// A subject that a mapped topic has under the usual naming.
#[derive(Serialize)]
struct SubjectFinding {
    name: String,
    /// Schema id, version and type, or the reason why there is none.
    schema: String,
    found: bool,
}

/// Asks each registry of the configuration.
pub(super) fn check(config: &GatewayConfig) -> Vec<RegistryFindings> {
    let connections = config.connections.iter().zip(&config.registries);
    let checked = connections
        .filter_map(|(connection, registry)| Some(findings(connection, registry.as_ref()?)));
    checked.collect()
}

fn findings(connection: &ConnectionConfig, registry: &ConnectionRegistry) -> RegistryFindings {
    let client = &registry.client;
    let mut findings = RegistryFindings {
        connection: connection.name.clone(),
        url: client.url().to_owned(),
        subjects: Vec::new(),
        error: None,
    };
    if let Err(error) = client.check() {
        findings.error = Some((exit(&error), error.to_string()));
        return findings;
    }
    if client.is_azure() {
        return findings;
    }
    for topic in connection.mapping.topics() {
        for part in connection.mapping.registered_parts() {
            let name = format!("{topic}-{part}");
            let (schema, found) = match client.newest_version(&name) {
                Ok(version) => {
                    let (id, kind) = (version.id, version.kind);
                    (
                        format!("schema {id}, version {}, {kind}", version.version),
                        true,
                    )
                }
                Err(error) if error.is_not_found() => {
                    let text = "not found; records may name schemas of other subjects";
                    (text.to_owned(), false)
                }
                Err(error) => {
                    findings.error = Some((exit(&error), error.to_string()));
                    return findings;
                }
            };
            findings.subjects.push(SubjectFinding {
                name,
                schema,
                found,
            });
        }
    }
    findings
}

/// Returns the exit code: a rejected login is an error of the configuration.
fn exit(error: &RegistryError) -> Exit {
    match error {
        RegistryError::Login { .. } => Exit::Usage,
        _ => Exit::Unreachable,
    }
}

impl RegistryFindings {
    pub(super) fn print(&self) {
        println!(
            "\nschema registry of connection {}: {}",
            self.connection, self.url
        );
        for SubjectFinding { name, schema, .. } in &self.subjects {
            println!("  subject {name}: {schema}");
        }
        match &self.error {
            Some((_, error)) => println!("  error: {error}"),
            None => println!("  reachable, login accepted"),
        }
    }
}

fn serialize_error<S: Serializer>(
    error: &Option<(Exit, String)>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    error.as_ref().map(|(_, text)| text).serialize(serializer)
}
