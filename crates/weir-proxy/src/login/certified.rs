//! `[cluster.certificate_principals]`: principals of clients with certificates.

use serde::Deserialize;
use weir_identity::{MappingError, Principal, SubjectMapping};
use weir_net::tls::{CertificateNames, certificate_subject};

/// Table `certificate_principals` of a cluster.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCertificatePrincipals {
    /// Name in the certificate to which the rules apply, by default the subject.
    #[serde(default)]
    name: CertificateName,
    /// Rules as in Kafka's `ssl.principal.mapping.rules`, by default DEFAULT.
    rules: Option<Vec<String>>,
}

/// Name in a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum CertificateName {
    /// The whole subject (RFC 2253).
    #[default]
    Subject,
    /// The first DNS name of the alternative names.
    Dns,
    /// The first email address of the alternative names.
    Email,
    /// The first URI of the alternative names.
    Uri,
}

/// Principals that cannot be configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificatePrincipalsError {
    #[error("clients show no certificates: set client_ca in [cluster.tls]")]
    NoCertificates,
    #[error("rules: {0}")]
    Rules(#[from] MappingError),
}

/// Principals of verified certificates.
#[derive(Debug)]
pub(crate) struct CertificatePrincipals {
    name: CertificateName,
    rules: SubjectMapping,
}

impl RawCertificatePrincipals {
    pub(crate) fn build(
        self,
        has_client_ca: bool,
    ) -> Result<CertificatePrincipals, CertificatePrincipalsError> {
        if !has_client_ca {
            return Err(CertificatePrincipalsError::NoCertificates);
        }
        let rules = self.rules.map(|rules| SubjectMapping::parse(&rules));
        Ok(CertificatePrincipals {
            name: self.name,
            rules: rules.transpose()?.unwrap_or_default(),
        })
    }
}

impl CertificatePrincipals {
    /// Returns the principal of a certificate in DER form; `None` if it has no such name, or if no
    /// rule matches.
    pub(crate) fn of(&self, certificate: &[u8]) -> Option<Principal> {
        let first = |names: Vec<String>| names.into_iter().next();
        let names = || CertificateNames::parse(certificate);
        let name = match self.name {
            CertificateName::Subject => certificate_subject(certificate)?,
            CertificateName::Dns => first(names()?.dns)?,
            CertificateName::Email => first(names()?.emails)?,
            CertificateName::Uri => first(names()?.uris)?,
        };
        Principal::user(&self.rules.name(&name)?)
    }
}
