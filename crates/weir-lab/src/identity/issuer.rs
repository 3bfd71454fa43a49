//! One issuer of the OpenID provider: its tokens, keys and faults.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::control::ControlPort;
use crate::error::Result;

/// An issuer with its own port, keys, users and faults.
#[derive(Debug)]
pub struct Issuer<'a> {
    control: &'a ControlPort,
    created: Created,
}

/// Response of the provider to a new issuer.
#[derive(Debug, Deserialize)]
struct Created {
    id: usize,
    url: String,
    key: String,
}

/// Claims of an access token to request.
#[derive(Debug, Clone)]
pub struct TokenClaims<'a> {
    /// Claim `sub`.
    pub user: &'a str,
    /// Claim `aud`.
    pub audience: &'a str,
    /// Seconds until `exp`.
    pub lifetime_s: u64,
    /// Further claims.
    pub more: Map<String, Value>,
}

/// Faults of an issuer. They affect discovery, key set and token endpoint alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IssuerFault {
    /// It works.
    None,
    /// Its port is closed: connections are refused.
    Refused,
    /// It responds with this HTTP status only.
    Status(u16),
    /// It responds after this time.
    Slow(Duration),
}

/// Requests that an issuer has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct IssuerRequests {
    /// Requests for the discovery document.
    pub discovery: u64,
    /// Requests for the key set.
    pub keys: u64,
    /// Requests for tokens.
    pub tokens: u64,
}

impl<'a> Issuer<'a> {
    /// Adds an issuer with one key for this algorithm.
    pub(super) fn create(control: &'a ControlPort, algorithm: &str) -> Result<Self> {
        let created = control.request("/issuer", &json!({ "algorithm": algorithm }))?;
        Ok(Self { control, created })
    }

    /// Returns the claim `iss`, which is the URL of the issuer.
    pub fn url(&self) -> &str {
        &self.created.url
    }

    /// Returns the ID of its first key.
    pub fn first_key(&self) -> &str {
        &self.created.key
    }

    /// Requests an access token from the token endpoint, with the client credentials grant.
    pub fn token(&self, claims: &TokenClaims<'_>) -> Result<String> {
        #[derive(Deserialize)]
        struct Issued {
            token: String,
        }
        let issued: Issued = self.request(
            "/token",
            json!({
                "user": claims.user, "audience": claims.audience, "lifetime_s": claims.lifetime_s,
                "claims": claims.more,
            }),
        )?;
        Ok(issued.token)
    }

    /// Publishes a new key, which does not sign yet, and returns its ID.
    pub fn add_key(&self, algorithm: &str) -> Result<String> {
        #[derive(Deserialize)]
        struct Added {
            key: String,
        }
        let added: Added = self.request("/key", json!({ "algorithm": algorithm }))?;
        Ok(added.key)
    }

    /// Signs the next tokens with this key.
    pub fn sign_with(&self, key: &str) -> Result<()> {
        self.change("/sign", json!({ "key": key }))
    }

    /// Stops publishing a key that does not sign.
    pub fn withdraw_key(&self, key: &str) -> Result<()> {
        self.change("/withdraw", json!({ "key": key }))
    }

    /// Sets or ends a fault.
    pub fn set_fault(&self, fault: IssuerFault) -> Result<()> {
        let body = match fault {
            IssuerFault::None => json!({"fault": "none"}),
            IssuerFault::Refused => json!({"fault": "refused"}),
            IssuerFault::Status(status) => json!({"fault": "status", "status": status}),
            IssuerFault::Slow(delay) => {
                let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                json!({"fault": "slow", "delay_ms": delay_ms})
            }
        };
        self.change("/fault", body)
    }

    /// Returns the number of requests so far. Refused connections are not counted.
    pub fn requests(&self) -> Result<IssuerRequests> {
        self.request("/requests", json!({}))
    }

    fn change(&self, path: &str, body: Value) -> Result<()> {
        let _: Map<String, Value> = self.request(path, body)?;
        Ok(())
    }

    fn request<T: serde::de::DeserializeOwned>(&self, path: &str, mut body: Value) -> Result<T> {
        body["id"] = self.created.id.into();
        self.control.request(path, &body)
    }
}
