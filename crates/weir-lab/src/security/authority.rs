//! A certificate authority for tests and labs.

use std::fmt;

use aws_lc_rs::digest::{self, SHA256};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;

use super::der::{self, Extension, Statement};
use super::pem;
use crate::error::{LabError, Result};

/// A certificate authority with an ECDSA P-256 key.
pub struct Authority {
    name: String,
    certificate_pem: String,
    certificate_der: Vec<u8>,
    key: Key,
}

/// Purpose of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateUsage {
    /// Server authentication.
    Server,
    /// Client authentication.
    Client,
}

/// Properties of a certificate to issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificateRequest<'a> {
    /// Common name of the subject.
    pub name: &'a str,
    /// DNS names and IP addresses of the subject.
    pub hosts: &'a [&'a str],
    /// Purpose of the certificate.
    pub usage: CertificateUsage,
    /// `true` for a certificate that was valid only in the past.
    pub is_expired: bool,
}

/// A certificate with its private key, as PEM and as DER.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// Certificate as PEM.
    pub certificate_pem: String,
    /// Certificate as DER.
    pub certificate_der: Vec<u8>,
    /// Unencrypted PKCS #8 key as PEM.
    pub key_pem: String,
    /// Unencrypted PKCS #8 key as DER.
    pub key_der: Vec<u8>,
}

impl Authority {
    /// Creates an authority with a new key.
    pub fn new(name: &str) -> Result<Self> {
        Self::with_key(name, Key::generate()?)
    }

    /// Creates an authority with the key of an earlier one. Its certificates verify with the
    /// earlier authority's certificate if the name is the same.
    pub fn from_key(name: &str, key_pem: &str) -> Result<Self> {
        let key = PrivatePkcs8KeyDer::from_pem_slice(key_pem.as_bytes()).map_err(failed)?;
        Self::with_key(name, Key::read(key.secret_pkcs8_der().to_vec())?)
    }

    fn with_key(name: &str, key: Key) -> Result<Self> {
        let extensions = [
            der::authority(),
            der::key_usage(true),
            der::subject_key(&key.id()),
        ];
        let statement = Statement {
            serial: &key.serial(),
            issuer: name,
            subject: name,
            years: validity(false),
            public_key_info: &key.public_key_info(),
            extensions: &extensions,
        };
        let certificate_der = key.sign(&statement)?;
        Ok(Self {
            name: name.to_owned(),
            certificate_pem: pem::encode(CERTIFICATE, &certificate_der),
            certificate_der,
            key,
        })
    }

    /// Returns the certificate of the authority as PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Returns the certificate of the authority as DER.
    pub fn certificate_der(&self) -> &[u8] {
        &self.certificate_der
    }

    pub(super) fn key_pem(&self) -> String {
        pem::encode(PRIVATE_KEY, &self.key.der)
    }

    /// Issues a certificate with a new key.
    pub fn issue(&self, request: &CertificateRequest<'_>) -> Result<IssuedCertificate> {
        let key = Key::generate()?;
        let purpose = match request.usage {
            CertificateUsage::Server => der::SERVER_AUTH,
            CertificateUsage::Client => der::CLIENT_AUTH,
        };
        let mut extensions: Vec<Extension> = vec![der::authority_key(&self.key.id())];
        if !request.hosts.is_empty() {
            let names = der::subject_names(request.hosts);
            let reason = || format!("{:?} are not all names or addresses", request.hosts);
            extensions.push(names.ok_or_else(|| LabError::Certificate(reason()))?);
        }
        extensions.push(der::key_usage(false));
        extensions.push(der::extended_key_usage(purpose));
        let statement = Statement {
            serial: &key.serial(),
            issuer: &self.name,
            subject: request.name,
            years: validity(request.is_expired),
            public_key_info: &key.public_key_info(),
            extensions: &extensions,
        };
        let certificate_der = self.key.sign(&statement)?;
        Ok(IssuedCertificate {
            certificate_pem: pem::encode(CERTIFICATE, &certificate_der),
            certificate_der,
            key_pem: pem::encode(PRIVATE_KEY, &key.der),
            key_der: key.der,
        })
    }
}

/// An ECDSA key.
struct Key {
    pair: EcdsaKeyPair,
    /// PKCS #8.
    der: Vec<u8>,
}

impl Key {
    fn generate() -> Result<Self> {
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let der = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new());
        Self::read(der.map_err(failed)?.as_ref().to_vec())
    }

    fn read(der: Vec<u8>) -> Result<Self> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der);
        let pair = pair.map_err(failed)?;
        Ok(Self { pair, der })
    }

    fn public_key_info(&self) -> Vec<u8> {
        der::public_key_info(self.pair.public_key().as_ref())
    }

    /// Returns the name of the key in extensions.
    fn id(&self) -> Vec<u8> {
        digest::digest(&SHA256, &self.public_key_info()).as_ref()[..ID_BYTES].to_vec()
    }

    /// Returns a positive serial number. A key has one certificate, so no two are equal.
    fn serial(&self) -> Vec<u8> {
        let mut serial = self.id();
        serial[0] = serial[0] & 0x3f | 0x40;
        serial
    }

    fn sign(&self, statement: &Statement<'_>) -> Result<Vec<u8>> {
        let statement = statement.to_der();
        let signature = self.pair.sign(&SystemRandom::new(), &statement);
        Ok(der::certificate(
            &statement,
            signature.map_err(failed)?.as_ref(),
        ))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl fmt::Debug for IssuedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("IssuedCertificate");
        debug.field("certificate_pem", &self.certificate_pem);
        debug.finish_non_exhaustive()
    }
}

/// Returns the first and last year of a validity that is fixed, and long enough for every lab.
fn validity(is_expired: bool) -> (u16, u16) {
    match is_expired {
        true => (2001, 2002),
        false => (2020, 2060),
    }
}

fn failed(error: impl fmt::Display) -> LabError {
    LabError::Certificate(error.to_string())
}

/// SHA-256 shortened to what a serial number may have.
const ID_BYTES: usize = 20;
const CERTIFICATE: &str = "CERTIFICATE";
const PRIVATE_KEY: &str = "PRIVATE KEY";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls_pki_types::{ServerName, UnixTime};

    use super::*;

    const REQUEST: CertificateRequest<'_> = CertificateRequest {
        name: "server",
        hosts: &["127.0.0.1", "localhost"],
        usage: CertificateUsage::Server,
        is_expired: false,
    };

    fn verify(trusted: &Authority, issued: &IssuedCertificate, host: &'static str) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.certificate_der().into()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
        let verifier = verifier.build().unwrap();
        let certificate = issued.certificate_der.as_slice().into();
        let name = ServerName::try_from(host).unwrap();
        let verified = verifier.verify_server_cert(&certificate, &[], &name, &[], UnixTime::now());
        verified.is_ok()
    }

    #[test]
    fn certificates_verify_for_their_hosts() {
        let authority = Authority::new("test").unwrap();
        let issued = authority.issue(&REQUEST).unwrap();
        for host in REQUEST.hosts {
            assert!(verify(&authority, &issued, host), "{host}");
        }
        assert!(!verify(&authority, &issued, "other"));
        let other = Authority::new("test").unwrap();
        assert!(!verify(&other, &issued, "localhost"));
        let restored = Authority::from_key("test", &authority.key_pem()).unwrap();
        let renewed = restored.issue(&REQUEST).unwrap();
        assert!(verify(&authority, &renewed, "localhost"));
    }

    #[test]
    fn expired_and_client_certificates_do_not_verify_as_servers() {
        let authority = Authority::new("test").unwrap();
        let expired = CertificateRequest {
            is_expired: true,
            ..REQUEST
        };
        let client = CertificateRequest {
            usage: CertificateUsage::Client,
            ..REQUEST
        };
        for request in [expired, client] {
            let issued = authority.issue(&request).unwrap();
            assert!(!verify(&authority, &issued, "localhost"), "{request:?}");
        }
    }

    #[test]
    fn debug_shows_no_key() {
        let authority = Authority::new("test").unwrap();
        let issued = authority.issue(&REQUEST).unwrap();
        let text = format!("{authority:?} {issued:?}");
        assert!(!text.contains("PRIVATE KEY"), "{text}");
        assert!(issued.key_pem.contains("PRIVATE KEY"));
    }

    #[test]
    fn restored_authority_has_the_same_key() {
        let authority = Authority::new("test").unwrap();
        let restored = Authority::from_key("test", &authority.key_pem()).unwrap();
        assert_eq!(restored.key_pem(), authority.key_pem());
        Authority::from_key("test", "no key").unwrap_err();
    }

    #[test]
    fn invalid_host_name_is_rejected() {
        let authority = Authority::new("test").unwrap();
        let request = CertificateRequest {
            hosts: &["ü"],
            ..REQUEST
        };
        let error = authority.issue(&request).unwrap_err();
        assert!(matches!(error, LabError::Certificate(_)), "{error}");
    }
}
