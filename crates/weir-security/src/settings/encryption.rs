//! Encryption: trust and key stores, protocol versions and cipher suites.

use super::ciphers;
use super::error::SettingsError;
use super::security::{TlsSettings, TlsVersion};
use super::store_files::StoreFiles;
use super::values::{Values, file, unknown};
use crate::stores::{self, ClientIdentity, Roots, StoreError, StoreFormat, StorePasswords};

/// Reads the properties of encryption.
pub(super) fn read(values: &Values<'_>) -> Result<TlsSettings, SettingsError> {
    if values.get("enable.ssl.certificate.verification").is_some()
        && !values.flag("enable.ssl.certificate.verification")?
    {
        return Err(SettingsError::Unsupported {
            property: "enable.ssl.certificate.verification = false".to_owned(),
            remedy: "the server's certificate is always verified; set its CA certificate with \
                     ssl.truststore.location or ssl.ca.location",
        });
    }
    Ok(TlsSettings {
        roots: roots(values)?,
        identity: identity(values)?,
        verify_hostname: verify_hostname(values)?,
        protocols: protocols(values)?,
        cipher_suites: cipher_suites(values)?,
        files: StoreFiles::of(values),
    })
}

fn verify_hostname(values: &Values<'_>) -> Result<bool, SettingsError> {
    const NAME: &str = "ssl.endpoint.identification.algorithm";
    match values.raw(NAME).map(str::to_ascii_lowercase).as_deref() {
        None | Some("https") => Ok(true),
        Some("" | "none") => Ok(false),
        Some(_) => {
            let value = values.raw(NAME).unwrap_or_default();
            Err(unknown(
                NAME,
                value,
                "https, or nothing for no verification",
            ))
        }
    }
}

fn roots(values: &Values<'_>) -> Result<Roots, SettingsError> {
    let source = values.only(&[
        "ssl.truststore.location",
        "ssl.truststore.certificates",
        "ssl.ca.location",
        "ssl.ca.pem",
    ])?;
    let Some((property, value)) = source else {
        if values.get("ssl.truststore.password").is_some() {
            return Err(SettingsError::Missing {
                property: "ssl.truststore.location",
                reason: "ssl.truststore.password is set".to_owned(),
            });
        }
        return Ok(Roots::System);
    };
    let passwords = StorePasswords {
        store: values.get("ssl.truststore.password"),
        key: None,
        property: "ssl.truststore.password",
    };
    let certificates = match property {
        "ssl.ca.location" if value == "probe" => return Ok(Roots::System),
        "ssl.truststore.location" | "ssl.ca.location" => {
            let format = match property {
                "ssl.ca.location" => Some(StoreFormat::Pem),
                _ => format(values, "ssl.truststore.type")?,
            };
            let read = stores::read_trusted(&file(property, value)?, format, passwords);
            read.map_err(|error| in_file(property, value, error))?
        }
        _ => {
            let text = inline_pem(value);
            let read = stores::read_trusted(text.as_bytes(), Some(StoreFormat::Pem), passwords);
            read.map_err(|error| SettingsError::Inline {
                property,
                error: Box::new(error),
            })?
        }
    };
    Ok(Roots::Certificates(certificates))
}

fn identity(values: &Values<'_>) -> Result<Option<ClientIdentity>, SettingsError> {
    let source = values.only(&[
        "ssl.keystore.location",
        "ssl.keystore.certificate.chain",
        "ssl.certificate.location",
        "ssl.certificate.pem",
    ])?;
    let key = values.only(&["ssl.keystore.key", "ssl.key.location", "ssl.key.pem"])?;
    let passwords = StorePasswords {
        store: values.get("ssl.keystore.password"),
        key: values.get("ssl.key.password"),
        property: "ssl.keystore.password",
    };
    let Some((property, value)) = source else {
        return match key {
            None => Ok(None),
            Some((property, _)) => Err(SettingsError::Missing {
                property: "ssl.keystore.certificate.chain",
                reason: format!("{property} is set, but there is no certificate for this key"),
            }),
        };
    };
    if property == "ssl.keystore.location" {
        if let Some((other, _)) = key {
            let one = property;
            return Err(SettingsError::Contradiction { one, other });
        }
        let format = format(values, "ssl.keystore.type")?;
        let read = stores::read_identity(&file(property, value)?, format, passwords);
        return read
            .map(Some)
            .map_err(|error| in_file(property, value, error));
    }
    let Some((key_property, key)) = key else {
        return Err(SettingsError::Missing {
            property: "ssl.keystore.key",
            reason: format!("{property} needs a private key"),
        });
    };
    let read = |property: &'static str, value: &str| match property.ends_with(".location") {
        true => file(property, value),
        false => Ok(inline_pem(value).into_bytes()),
    };
    let (chain, key_text) = (read(property, value)?, read(key_property, key)?);
    let identity = stores::read_identity_pem(&chain, &key_text, passwords);
    identity.map(Some).map_err(|error| {
        let of_chain = matches!(
            error,
            StoreError::NoCertificate | StoreError::Expired { .. } | StoreError::NotYetValid { .. }
        );
        let (property, value) = match of_chain {
            true => (property, value),
            false => (key_property, key),
        };
        match property.ends_with(".location") {
            true => in_file(property, value, error),
            false => SettingsError::Inline {
                property,
                error: Box::new(error),
            },
        }
    })
}

/// Restores line ends in PEM text, which Java accepts in one line with `\n` or blanks instead.
fn inline_pem(value: &str) -> String {
    let text = value.replace("\\n", "\n");
    if text.trim().contains('\n') {
        return text;
    }
    let mut result = String::with_capacity(text.len() + 16);
    let mut rest = &*text;
    while let Some((_, body)) = rest.split_once("-----BEGIN ") {
        let Some((label, body)) = body.split_once("-----") else {
            break;
        };
        let Some((body, after)) = body.split_once("-----END ") else {
            break;
        };
        let lines = body.split_whitespace().collect::<Vec<_>>().join("\n");
        result.push_str(&format!(
            "-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"
        ));
        rest = after.split_once("-----").map_or("", |(_, after)| after);
    }
    result
}

fn format(values: &Values<'_>, name: &'static str) -> Result<Option<StoreFormat>, SettingsError> {
    let Some(value) = values.get(name) else {
        return Ok(None);
    };
    let format = value
        .parse()
        .map_err(|_| unknown(name, value, "JKS, PKCS12 or PEM"))?;
    Ok(Some(format))
}

fn protocols(values: &Values<'_>) -> Result<Vec<TlsVersion>, SettingsError> {
    const POSSIBLE: &str = "TLSv1.2 or TLSv1.3 (older versions are not supported)";
    let parse = |name: &str, text: &str| {
        let version: Result<TlsVersion, _> = text.parse();
        version.map_err(|_| unknown(name, text, POSSIBLE))
    };
    // As in Java, ssl.enabled.protocols decides; ssl.protocol is only checked.
    if let Some(text) = values.get("ssl.protocol").filter(|it| *it != "TLS") {
        parse("ssl.protocol", text)?;
    }
    let Some(list) = values.get("ssl.enabled.protocols") else {
        return Ok(vec![TlsVersion::V1_2, TlsVersion::V1_3]);
    };
    let versions = list.split(',').map(str::trim).filter(|it| !it.is_empty());
    let versions = versions.map(|text| parse("ssl.enabled.protocols", text));
    let mut versions = versions.collect::<Result<Vec<_>, _>>()?;
    versions.sort_unstable();
    versions.dedup();
    match versions.is_empty() {
        true => Err(unknown("ssl.enabled.protocols", list, POSSIBLE)),
        false => Ok(versions),
    }
}

fn cipher_suites(values: &Values<'_>) -> Result<Vec<String>, SettingsError> {
    const NAME: &str = "ssl.cipher.suites";
    let list = values.get(NAME).unwrap_or_default().split([',', ':']);
    let mut suites = Vec::new();
    for name in list.map(str::trim).filter(|it| !it.is_empty()) {
        let suite = ciphers::find(name);
        let suite = suite.ok_or_else(|| unknown(NAME, name, &ciphers::names()))?;
        suites.push(suite.name.to_owned());
    }
    suites.dedup();
    Ok(suites)
}

fn in_file(property: &'static str, path: &str, error: StoreError) -> SettingsError {
    SettingsError::File {
        property,
        path: path.to_owned(),
        error: Box::new(error),
    }
}
