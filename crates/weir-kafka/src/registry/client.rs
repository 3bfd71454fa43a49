//! Requests to a schema registry; each call blocks.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use weir_security::{Login, Roots, Secret, StoreFiles, TlsSettings, TlsVersion};

use super::azure::AzureTokens;
use super::error::RegistryError;
use super::http::{Headers, HttpClient, SuccessfulResponse};
use super::id::RegistryId;
use super::response::{
    RawReference, RawSchema, RegisteredSchema, SchemaText, SubjectVersion, parse_schema,
    parse_subject,
};
use crate::secure::client_config;

/// Maximum number of schemas that one schema refers to, directly or not.
const REFERENCES_MAX: usize = 100;
const AZURE_AUTHORITY: &str = "https://login.microsoftonline.com";
const AZURE_VERSION: &str = "2023-07-01";
const ACCEPT: &str = "application/vnd.schemaregistry.v1+json, application/json";

/// How to reach a registry.
#[derive(Debug, Clone)]
pub struct RegistrySettings {
    /// Base URL, `http` or `https`, without user name and password.
    pub url: String,
    /// Interface and login.
    pub login: RegistryLogin,
    /// Encryption of `https` URLs; `None`: certificates that this machine trusts.
    pub tls: Option<TlsSettings>,
    /// Limit of a whole request.
    pub request_timeout: Duration,
}

/// Interface of a registry, with the login.
#[derive(Debug, Clone)]
pub enum RegistryLogin {
    /// Confluent without login.
    None,
    /// Confluent with HTTP basic authentication.
    Basic(Login),
    /// Azure Event Hubs.
    Azure {
        /// URL of the identity provider; `None`: that of the public cloud.
        authority: Option<String>,
        /// Tenant of the application.
        tenant_id: String,
        /// Application.
        client_id: String,
        /// Secret of the application.
        client_secret: Secret,
    },
}

/// Client of one registry, used by several threads.
#[derive(Debug, Clone)]
pub struct RegistryClient {
    /// Base URL without a slash at its end.
    url: Arc<str>,
    http: HttpClient,
    access: Access,
}

#[derive(Debug, Clone)]
enum Access {
    /// Confluent, with the value of the header `Authorization`.
    Confluent(Option<Secret>),
    Azure(Arc<AzureTokens>),
}

impl RegistryClient {
    /// Prepares a client. Does not connect.
    ///
    /// # Errors
    /// The URL or the encryption cannot be used.
    pub fn new(settings: &RegistrySettings) -> Result<Self, RegistryError> {
        let url = checked_url(&settings.url)?;
        let is_azure = matches!(settings.login, RegistryLogin::Azure { .. });
        let tls = match (&settings.tls, url.starts_with("https://") || is_azure) {
            (_, false) => None,
            (Some(tls), true) => Some(tls.clone()),
            (None, true) => Some(system_tls()),
        };
        let tls = tls.as_ref().map(client_config).transpose();
        let tls = tls.map_err(|error| RegistryError::Encryption(error.to_string()))?;
        let access = match &settings.login {
            RegistryLogin::None => Access::Confluent(None),
            RegistryLogin::Basic(Login { username, password }) => {
                let login = BASE64_STANDARD.encode(format!("{username}:{}", password.reveal()));
                Access::Confluent(Some(Secret::new(format!("Basic {login}"))))
            }
            RegistryLogin::Azure {
                authority,
                tenant_id,
                client_id,
                client_secret,
            } => {
                let authority = authority.as_deref().unwrap_or(AZURE_AUTHORITY);
                let tokens = AzureTokens::new(authority, tenant_id, client_id, client_secret);
                Access::Azure(Arc::new(tokens))
            }
        };
        Ok(Self {
            url: url.into(),
            http: HttpClient::new(tls, settings.request_timeout),
            access,
        })
    }

    /// Returns the base URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Fetches a schema and everything that it refers to.
    ///
    /// # Errors
    /// The registry does not return them.
    pub fn schema(&self, id: &RegistryId) -> Result<RegisteredSchema, RegistryError> {
        let path = match id {
            RegistryId::Number(number) => format!("/schemas/ids/{number}"),
            RegistryId::Guid(guid) => format!("/schemas/guids/{}", encoded(guid)),
            RegistryId::Name(name) => return self.azure_schema(name),
        };
        let schema = self.raw_schema(&path)?;
        let mut references = References {
            client: self,
            id,
            seen: HashSet::new(),
            fetched: Vec::new(),
        };
        references.add_all(schema.references())?;
        Ok(RegisteredSchema {
            kind: schema.kind().to_owned(),
            references: references.fetched,
            text: schema.schema,
        })
    }

    /// Returns the newest version of a subject.
    ///
    /// # Errors
    /// The registry does not return one.
    pub fn newest_version(&self, subject: &str) -> Result<SubjectVersion, RegistryError> {
        let path = format!("/subjects/{}/versions/latest", encoded(subject));
        let response = self.get(&path)?;
        parse_subject(&response.body).map_err(|error| self.invalid(&path, error.to_string()))
    }

    /// Checks that the registry responds and accepts the login.
    ///
    /// # Errors
    /// It does not.
    pub fn check(&self) -> Result<(), RegistryError> {
        match &self.access {
            Access::Confluent(_) => self.get("/subjects").map(drop),
            // There is no request that needs no schema or group, so only the login is checked.
            Access::Azure(tokens) => tokens.token(&self.http).map(drop),
        }
    }

    /// Returns `true` for Azure, which has no subjects.
    pub fn is_azure(&self) -> bool {
        matches!(self.access, Access::Azure(_))
    }

    fn raw_schema(&self, path: &str) -> Result<RawSchema, RegistryError> {
        let response = self.get(path)?;
        parse_schema(&response.body).map_err(|error| self.invalid(path, error.to_string()))
    }

    fn azure_schema(&self, id: &str) -> Result<RegisteredSchema, RegistryError> {
        let id = encoded(id);
        let path = format!("/$schemaGroups/$schemas/{id}?api-version={AZURE_VERSION}");
        let response = self.get(&path)?;
        let kind = match response.content_type.rsplit_once("serialization=") {
            Some((_, kind)) => kind.trim_matches('"').to_uppercase(),
            None => return Err(self.invalid(&path, "no serialization in its type".to_owned())),
        };
        let text = String::from_utf8(response.body);
        let text = text.map_err(|_| self.invalid(&path, "not UTF-8".to_owned()))?;
        Ok(RegisteredSchema {
            kind,
            text,
            references: Vec::new(),
        })
    }

    fn get(&self, path: &str) -> Result<SuccessfulResponse, RegistryError> {
        self.exchange(path, None)
    }

    /// Sends a request: with a body, which is JSON, a POST, else a GET.
    fn exchange(
        &self,
        path: &str,
        body: Option<&[u8]>,
    ) -> Result<SuccessfulResponse, RegistryError> {
        let url = format!("{}{path}", self.url);
        let send = |headers: Headers<'_>| match body {
            None => self.http.get(&url, headers),
            Some(body) => self.http.post_json(&url, headers, body),
        };
        match &self.access {
            Access::Confluent(None) => send(&[("accept", ACCEPT)]),
            Access::Confluent(Some(login)) => {
                send(&[("accept", ACCEPT), ("authorization", login.reveal())])
            }
            Access::Azure(tokens) => {
                let token = tokens.token(&self.http)?;
                let bearer = format!("Bearer {}", token.reveal());
                let response = send(&[("authorization", &bearer)]);
                if let Err(RegistryError::Login { .. }) = response {
                    tokens.forget();
                }
                response
            }
        }
    }

    fn invalid(&self, path: &str, reason: String) -> RegistryError {
        let url = format!("{}{path}", self.url);
        RegistryError::Response { url, reason }
    }
}

/// Collects the references of a schema, depth first.
struct References<'a> {
    client: &'a RegistryClient,
    id: &'a RegistryId,
    seen: HashSet<(String, i32)>,
    fetched: Vec<SchemaText>,
}

impl References<'_> {
    /// The number of references bounds the depth of the recursion.
    fn add_all(&mut self, references: &[RawReference]) -> Result<(), RegistryError> {
        for reference in references {
            let key = (reference.subject.clone(), reference.version);
            if !self.seen.insert(key) {
                continue;
            }
            if self.seen.len() > REFERENCES_MAX {
                return Err(RegistryError::References {
                    id: self.id.to_string(),
                    max: REFERENCES_MAX,
                });
            }
            let subject = encoded(&reference.subject);
            let path = format!("/subjects/{subject}/versions/{}", reference.version);
            let schema = self.client.raw_schema(&path)?;
            self.add_all(schema.references())?;
            self.fetched.push(SchemaText {
                name: reference.name.clone(),
                text: schema.schema,
            });
        }
        Ok(())
    }
}

/// Returns the URL without a slash at its end.
fn checked_url(url: &str) -> Result<&str, RegistryError> {
    let invalid = |shown: &str, reason| {
        Err(RegistryError::Url {
            url: shown.to_owned(),
            reason,
        })
    };
    let Some(rest) = ["http://", "https://"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme))
    else {
        return invalid(url, "begin it with http:// or https://");
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if let Some((_, host)) = authority.rsplit_once('@') {
        let reason = "write user name and password as parameters, not in the URL";
        return invalid(host, reason);
    }
    if rest.contains(['?', '#']) {
        return invalid(url, "remove everything from ? or # on");
    }
    Ok(url.trim_end_matches('/'))
}

/// Encodes a path segment.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn system_tls() -> TlsSettings {
    TlsSettings {
        roots: Roots::System,
        identity: None,
        verify_hostname: true,
        protocols: vec![TlsVersion::V1_2, TlsVersion::V1_3],
        cipher_suites: Vec::new(),
        files: StoreFiles::default(),
    }
}

mod register;
#[cfg(test)]
mod tests;
