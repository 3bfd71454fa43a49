//! Files with the certificates, key stores, trust stores and passwords of a lab.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rand::distr::{Alphanumeric, SampleString as _};
use serde::{Deserialize, Serialize};

use super::authority::{Authority, CertificateRequest, CertificateUsage, IssuedCertificate};
use crate::disk::{self, write_private};
use crate::error::{LabError, Result};
use crate::java::JavaPrograms;
use crate::operation::Operation;

/// Certificates, key stores, trust stores and passwords of a lab, in a directory that only this
/// user can read.
#[derive(Clone, PartialEq, Eq)]
pub struct SecurityFiles {
    dir: PathBuf,
    secrets: Secrets,
}

/// Client certificate of a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificate {
    /// Valid certificate of the authority that the brokers trust.
    Valid,
    /// Expired certificate of that authority.
    Expired,
    /// Certificate of an authority that the brokers do not trust.
    OtherAuthority,
}

/// Paths of a key store (certificate and private key) or a trust store (certificates) in all
/// formats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorePaths {
    dir: PathBuf,
    name: &'static str,
}

impl StorePaths {
    /// Returns the PEM file: the certificate, in a key store followed by the unencrypted key.
    pub fn pem(&self) -> PathBuf {
        self.with("pem")
    }

    /// Returns the PEM file with the certificate only. Only key stores have it.
    pub fn certificate(&self) -> PathBuf {
        self.with("crt")
    }

    /// Returns the PEM file with the unencrypted key. Only key stores have it.
    pub fn key(&self) -> PathBuf {
        self.with("key")
    }

    /// Returns the JKS store. Its password is [`SecurityFiles::store_password`].
    pub fn jks(&self) -> PathBuf {
        self.with("jks")
    }

    /// Returns the PKCS #12 store. Its password is [`SecurityFiles::store_password`].
    pub fn pkcs12(&self) -> PathBuf {
        self.with("p12")
    }

    fn with(&self, extension: &str) -> PathBuf {
        self.dir.join(format!("{}.{extension}", self.name))
    }
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Secrets {
    store_password: String,
    user_password: String,
}

impl SecurityFiles {
    /// Creates all files in `dir` for servers on `host`, and replaces existing ones.
    ///
    /// Creates the keys that sign tokens only if `with_tokens`: they take most of the time.
    pub(crate) fn create(
        dir: &Path,
        host: Ipv4Addr,
        with_tokens: bool,
        java: &JavaPrograms,
        operation: &Operation<'_>,
    ) -> Result<Self> {
        disk::remove(dir)?;
        DirBuilder::new()
            .mode(0o700)
            .create(dir)
            .map_err(|error| LabError::file(dir, error))?;
        let files = Self {
            dir: dir.to_owned(),
            secrets: Secrets {
                store_password: random_password(),
                user_password: random_password(),
            },
        };
        let text = serde_json::to_string(&files.secrets)
            .map_err(|error| LabError::io("write secrets", error.into()))?;
        write_private(&dir.join(SECRETS), &text)?;
        files.write_certificates(host)?;
        java.run(
            "Stores",
            &files.store_commands(with_tokens),
            "writing key stores",
            operation,
        )?;
        Ok(files)
    }

    /// Opens the files that [`Self::create`] wrote to `dir`.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(SECRETS);
        let text = fs::read_to_string(&path)
            .map_err(|error| LabError::io(format!("read {}", path.display()), error))?;
        // The parser's message could quote a secret.
        let secrets = serde_json::from_str(&text)
            .map_err(|_| LabError::BadState(path, "it does not contain the secrets".to_owned()))?;
        Ok(Self {
            dir: dir.to_owned(),
            secrets,
        })
    }

    /// Returns the directory of the files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the trust store with the authority of the brokers.
    pub fn authority(&self) -> StorePaths {
        self.store(CA)
    }

    /// Returns the trust store with an authority that issued none of the brokers' certificates.
    pub fn other_authority(&self) -> StorePaths {
        self.store(OTHER_CA)
    }

    /// Returns the key store of a client.
    pub fn client(&self, certificate: ClientCertificate) -> StorePaths {
        self.store(match certificate {
            ClientCertificate::Valid => "client",
            ClientCertificate::Expired => "client-expired",
            ClientCertificate::OtherAuthority => "client-other-ca",
        })
    }

    /// Returns the key store of the brokers and of HTTPS servers.
    pub fn server(&self) -> StorePaths {
        self.store("server")
    }

    /// Returns the key store with an expired certificate of a server.
    pub fn server_expired(&self) -> StorePaths {
        self.store("server-expired")
    }

    /// Returns the key store with a server certificate for another host.
    pub fn server_other_host(&self) -> StorePaths {
        self.store("server-other-host")
    }

    /// Returns the password of all JKS and PKCS #12 stores and of their keys.
    pub fn store_password(&self) -> &str {
        &self.secrets.store_password
    }

    /// Returns the name of the SASL user, which is also the client id at the token endpoint.
    pub fn user(&self) -> &'static str {
        "weir"
    }

    /// Returns the password of that user, which is also the client secret at the token endpoint.
    pub fn user_password(&self) -> &str {
        &self.secrets.user_password
    }

    /// Returns the file with all passwords, as JSON.
    pub fn secrets_file(&self) -> PathBuf {
        self.dir.join(SECRETS)
    }

    /// Returns the JSON Web Key Set that verifies tokens.
    pub fn key_set(&self) -> PathBuf {
        Self::key_set_in(&self.dir)
    }

    pub(crate) fn key_set_in(dir: &Path) -> PathBuf {
        dir.join("jwks.json")
    }

    pub(crate) fn token_key(&self) -> PathBuf {
        self.dir.join("token.key")
    }

    pub(crate) fn other_token_key(&self) -> PathBuf {
        self.dir.join("token-other.key")
    }

    fn store(&self, name: &'static str) -> StorePaths {
        let dir = self.dir.clone();
        StorePaths { dir, name }
    }

    fn write_certificates(&self, host: Ipv4Addr) -> Result<()> {
        let authority = Authority::new(AUTHORITY_NAME)?;
        let other = Authority::new("Weir lab other authority")?;
        write_private(&self.dir.join("ca.key"), &authority.key_pem())?;
        for (store, authority) in [(CA, &authority), (OTHER_CA, &other)] {
            write_private(&self.store(store).pem(), authority.certificate_pem())?;
        }
        self.write_identity(&self.server(), &issue_server(&authority, host, false)?)?;
        self.write_identity(
            &self.server_expired(),
            &issue_server(&authority, host, true)?,
        )?;
        let other_host = authority.issue(&CertificateRequest {
            name: "broker",
            hosts: &[OTHER_HOST],
            usage: CertificateUsage::Server,
            is_expired: false,
        })?;
        self.write_identity(&self.server_other_host(), &other_host)?;
        for (certificate, authority, is_expired) in [
            (ClientCertificate::Valid, &authority, false),
            (ClientCertificate::Expired, &authority, true),
            (ClientCertificate::OtherAuthority, &other, false),
        ] {
            let issued = authority.issue(&CertificateRequest {
                name: self.user(),
                hosts: &[],
                usage: CertificateUsage::Client,
                is_expired,
            })?;
            self.write_identity(&self.client(certificate), &issued)?;
        }
        Ok(())
    }

    /// Replaces the server's certificate and key in the PEM files. Other formats do not change.
    ///
    /// Brokers use it after a reload (see [`super::reload_arguments`]) or a restart.
    pub(crate) fn renew_server(&self, host: Ipv4Addr) -> Result<()> {
        let path = self.dir.join("ca.key");
        let key = fs::read_to_string(&path)
            .map_err(|error| LabError::io(format!("read {}", path.display()), error))?;
        let authority = Authority::from_key(AUTHORITY_NAME, &key)?;
        self.write_identity(&self.server(), &issue_server(&authority, host, false)?)
    }

    fn write_identity(&self, store: &StorePaths, issued: &IssuedCertificate) -> Result<()> {
        let both = format!("{}{}", issued.certificate_pem, issued.key_pem);
        write_private(&store.certificate(), &issued.certificate_pem)?;
        write_private(&store.key(), &issued.key_pem)?;
        write_private(&store.pem(), &both)
    }

    /// Returns the input of the Java program `Stores`: commands, one per line.
    fn store_commands(&self, with_tokens: bool) -> String {
        let mut commands = format!("password\t{}\n", self.store_password());
        for trust in [self.authority(), self.other_authority()] {
            let pem = trust.pem();
            for (name, file) in [("JKS", trust.jks()), ("PKCS12", trust.pkcs12())] {
                commands += &format!("trust\t{name}\t{}\t{}\n", file.display(), pem.display());
            }
        }
        let clients = [
            ClientCertificate::Valid,
            ClientCertificate::Expired,
            ClientCertificate::OtherAuthority,
        ];
        let clients = clients.map(|certificate| self.client(certificate));
        for store in clients.into_iter().chain([self.server()]) {
            let (certificate, key) = (store.certificate(), store.key());
            let (certificate, key) = (certificate.display(), key.display());
            for (name, file) in [("JKS", store.jks()), ("PKCS12", store.pkcs12())] {
                commands += &format!("key\t{name}\t{}\t{certificate}\t{key}\n", file.display());
            }
        }
        let other_set = self.dir.join("jwks-other.json");
        let keys = [
            (self.token_key(), self.key_set()),
            (self.other_token_key(), other_set),
        ];
        for (key, set) in keys.into_iter().filter(|_| with_tokens) {
            commands += &format!("rsa\t{}\t{}\tlab\n", key.display(), set.display());
        }
        commands
    }
}

impl fmt::Debug for SecurityFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SecurityFiles");
        debug.field("dir", &self.dir).finish_non_exhaustive()
    }
}

fn issue_server(
    authority: &Authority,
    host: Ipv4Addr,
    is_expired: bool,
) -> Result<IssuedCertificate> {
    authority.issue(&CertificateRequest {
        name: "broker",
        hosts: &[&host.to_string(), "localhost"],
        usage: CertificateUsage::Server,
        is_expired,
    })
}

fn random_password() -> String {
    Alphanumeric.sample_string(&mut rand::rng(), 24)
}

const SECRETS: &str = "secrets.json";
const CA: &str = "ca";
const OTHER_CA: &str = "other-ca";
const AUTHORITY_NAME: &str = "Weir lab authority";
/// Host name in the server certificate that does not match the brokers.
pub(super) const OTHER_HOST: &str = "other-host.example";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let files = SecurityFiles {
            dir: "/lab".into(),
            secrets: Secrets {
                store_password: "hidden-1".to_owned(),
                user_password: "hidden-2".to_owned(),
            },
        };
        let text = format!("{files:?}");
        assert!(!text.contains("hidden"), "{text}");
    }

    #[test]
    fn invalid_secrets_are_not_quoted() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(SECRETS), "{\"store_password\":\"hidden\"}").unwrap();
        let error = SecurityFiles::open(dir.path()).unwrap_err().to_string();
        assert!(!error.contains("hidden"), "{error}");
    }
}
