//! From properties to settings.

use std::collections::BTreeMap;

use super::error::SettingsError;
use super::names::{self, PropertyKind};
use super::security::Security;
use super::values::{Values, unknown};
use super::{encryption, login};

/// Bootstrap servers, encryption and login, other properties.
pub(super) type Parts = (String, Security, Vec<(String, String)>);

/// Reads all properties. Of a repeated property the last value counts.
pub(super) fn settings(
    bootstrap_servers: Option<&str>,
    properties: &[(String, String)],
) -> Result<Parts, SettingsError> {
    let mut own = BTreeMap::new();
    let mut others: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in properties {
        let (name, value) = (name.trim(), value.as_str());
        match names::classify(name, value.trim())? {
            PropertyKind::Own if is_text(name) => drop(own.insert(name, value)),
            PropertyKind::Own => drop(own.insert(name, value.trim())),
            PropertyKind::Client(translated) => {
                let value = names::convert(name, value.trim())?;
                others.insert(translated.to_owned(), value);
            }
            PropertyKind::Other => drop(others.insert(name.to_owned(), value.to_owned())),
            PropertyKind::Ignored => {
                tracing::debug!(name, "property of the Java client has no effect");
            }
        }
    }
    let values = Values(own);
    let servers = bootstrap_servers.filter(|servers| !servers.is_empty());
    let given = values.first(&["bootstrap.servers", "metadata.broker.list"]);
    let servers = servers.or_else(|| given.map(|(_, servers)| servers));
    let servers = servers.ok_or(SettingsError::NoServers)?;
    let security = security(&values, servers)?;
    let others = others.into_iter().collect();
    Ok((servers.to_owned(), security, others))
}

fn security(values: &Values<'_>, servers: &str) -> Result<Security, SettingsError> {
    let protocol = values.get("security.protocol").unwrap_or("PLAINTEXT");
    let (tls, sasl) = match protocol.to_ascii_uppercase().as_str() {
        "PLAINTEXT" => (false, false),
        "SSL" => (true, false),
        "SASL_PLAINTEXT" => (false, true),
        "SASL_SSL" => (true, true),
        _ => {
            let possible = "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL";
            return Err(unknown("security.protocol", protocol, possible));
        }
    };
    unused(values, tls, sasl)?;
    Ok(Security {
        tls: tls.then(|| encryption::read(values)).transpose()?,
        sasl: sasl.then(|| login::read(values, servers)).transpose()?,
    })
}

/// Reports properties that have no effect. Without `security.protocol` they are an error, because a
/// connection without encryption or login was probably not intended.
fn unused(values: &Values<'_>, tls: bool, sasl: bool) -> Result<(), SettingsError> {
    let explicit = values.get("security.protocol").is_some();
    for name in values.names() {
        let protocols = match name {
            name if !tls && names::is_encryption(name) => "SSL or SASL_SSL",
            name if !sasl && names::is_login(name) => "SASL_SSL or SASL_PLAINTEXT",
            _ => continue,
        };
        if !explicit {
            return Err(SettingsError::NotUsed {
                property: name.to_owned(),
                protocols,
            });
        }
        tracing::warn!(name, "property has no effect with this security.protocol");
    }
    Ok(())
}

/// Returns `true` for values whose blanks at the edges count.
fn is_text(name: &str) -> bool {
    name.ends_with("password") || name == "sasl.username" || name.ends_with("client.secret")
}
