//! Security modes of a lab.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::LabError;

/// How clients connect to the brokers of a lab.
///
/// SASL is always used inside TLS. Brokers and controllers talk to each other over unencrypted
/// listeners of the loopback interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabSecurity {
    /// Neither encryption nor authentication.
    #[default]
    Plaintext,
    /// TLS; clients are anonymous.
    Tls,
    /// TLS with certificates of clients.
    Mtls,
    /// SASL PLAIN inside TLS.
    SaslPlain,
    /// SASL SCRAM-SHA-256 and SCRAM-SHA-512 inside TLS.
    Scram,
    /// SASL OAUTHBEARER inside TLS, with signed tokens from a token endpoint.
    Oauth,
}

impl LabSecurity {
    /// All modes.
    pub const ALL: [Self; 6] = [
        Self::Plaintext,
        Self::Tls,
        Self::Mtls,
        Self::SaslPlain,
        Self::Scram,
        Self::Oauth,
    ];

    /// Returns the name of the mode on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "plaintext",
            Self::Tls => "tls",
            Self::Mtls => "mtls",
            Self::SaslPlain => "sasl-plain",
            Self::Scram => "scram",
            Self::Oauth => "oauth",
        }
    }

    /// Returns `true` if clients connect with TLS.
    pub fn uses_tls(self) -> bool {
        self != Self::Plaintext
    }

    /// Returns `true` if clients authenticate with SASL.
    pub fn uses_sasl(self) -> bool {
        matches!(self, Self::SaslPlain | Self::Scram | Self::Oauth)
    }
}

impl fmt::Display for LabSecurity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LabSecurity {
    type Err = LabError;

    fn from_str(name: &str) -> Result<Self, LabError> {
        let mut all = Self::ALL.into_iter();
        all.find(|mode| mode.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            LabError::option("security", &name, &format!("must be one of {names}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_serialized_alike() {
        for mode in LabSecurity::ALL {
            assert_eq!(mode.name().parse::<LabSecurity>().unwrap(), mode);
            let json = serde_json::to_string(&mode).unwrap();
            assert_eq!(json, format!("\"{mode}\""));
        }
        let error = "ssl".parse::<LabSecurity>().unwrap_err().to_string();
        assert!(
            error.starts_with("security \"ssl\": must be one of plaintext, tls"),
            "{error}"
        );
    }
}
