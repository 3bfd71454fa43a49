//! Settings with which clients connect to a lab, correct and deliberately wrong ones.

use super::files::{ClientCertificate, SecurityFiles, StorePaths};
use super::mode::LabSecurity;

/// Format of the stores in the settings of a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StoreFormat {
    /// PEM files without passwords.
    #[default]
    Pem,
    /// Java key stores.
    Jks,
    /// PKCS #12 stores.
    Pkcs12,
}

impl StoreFormat {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Pem, Self::Jks, Self::Pkcs12];

    /// Returns Kafka's name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pem => "PEM",
            Self::Jks => "JKS",
            Self::Pkcs12 => "PKCS12",
        }
    }

    fn of(self, store: &StorePaths) -> String {
        let path = match self {
            Self::Pem => store.pem(),
            Self::Jks => store.jks(),
            Self::Pkcs12 => store.pkcs12(),
        };
        path.display().to_string()
    }
}

/// A deliberate mistake in the settings of a client, which must prevent the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientFault {
    /// Wrong password of the user, or wrong client secret.
    WrongPassword,
    /// The client trusts another authority than that of the brokers.
    OtherAuthority,
    /// The brokers' certificate is for another host.
    OtherHost,
    /// The brokers' certificate is expired.
    ExpiredServer,
    /// The client's certificate is expired.
    ExpiredClient,
    /// The client's certificate is from an authority that the brokers do not trust.
    OtherClientAuthority,
    /// The client has no certificate.
    NoClientCertificate,
    /// The client connects without TLS to a listener that requires it.
    NoEncryption,
    /// Wrong password of a JKS or PKCS #12 store.
    WrongStorePassword,
}

impl ClientFault {
    /// All mistakes.
    pub const ALL: [Self; 9] = [
        Self::WrongPassword,
        Self::OtherAuthority,
        Self::OtherHost,
        Self::ExpiredServer,
        Self::ExpiredClient,
        Self::OtherClientAuthority,
        Self::NoClientCertificate,
        Self::NoEncryption,
        Self::WrongStorePassword,
    ];

    /// Returns `true` if a client of this mode can make the mistake.
    fn exists(self, security: LabSecurity, format: StoreFormat) -> bool {
        match self {
            Self::WrongPassword => security.uses_sasl(),
            Self::ExpiredClient | Self::OtherClientAuthority | Self::NoClientCertificate => {
                security == LabSecurity::Mtls
            }
            Self::WrongStorePassword => security.uses_tls() && format != StoreFormat::Pem,
            _ => security.uses_tls(),
        }
    }
}

/// Choice of settings for a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientSettings {
    /// Format of trust store and key store.
    pub format: StoreFormat,
    /// Deliberate mistake.
    pub fault: Option<ClientFault>,
    /// `true` for SASL without TLS, which needs `LabOptions::test_listeners`.
    pub is_unencrypted: bool,
}

/// Addresses of a secured lab.
#[derive(Debug)]
pub(crate) struct ClientAddresses {
    pub(crate) bootstrap: String,
    /// Listeners for tests: with an expired certificate, for another host, without encryption.
    pub(crate) expired: Option<String>,
    pub(crate) other_host: Option<String>,
    pub(crate) unencrypted: Option<String>,
    pub(crate) token_endpoint: Option<String>,
}

/// Returns Kafka's properties for a client, or `None` if the mode or the lab has no such settings.
pub(crate) fn client_properties(
    security: LabSecurity,
    addresses: &ClientAddresses,
    files: Option<&SecurityFiles>,
    settings: ClientSettings,
) -> Option<Vec<(String, String)>> {
    let ClientSettings {
        format,
        fault,
        is_unencrypted,
    } = settings;
    if fault.is_some_and(|fault| !fault.exists(security, format)) {
        return None;
    }
    let bootstrap = match fault {
        Some(ClientFault::ExpiredServer) => addresses.expired.clone()?,
        Some(ClientFault::OtherHost) => addresses.other_host.clone()?,
        _ if is_unencrypted => addresses.unencrypted.clone()?,
        _ => addresses.bootstrap.clone(),
    };
    let mut client = ClientProperties {
        list: Vec::new(),
        settings,
    };
    client.add("bootstrap.servers", bootstrap);
    let Some(files) = files.filter(|_| security.uses_tls()) else {
        return Some(client.list);
    };
    let has_tls = !is_unencrypted && fault != Some(ClientFault::NoEncryption);
    let protocol = match (has_tls, security.uses_sasl()) {
        (true, true) => "SASL_SSL",
        (true, false) => "SSL",
        (false, true) => "SASL_PLAINTEXT",
        (false, false) => "PLAINTEXT",
    };
    client.add("security.protocol", protocol);
    if has_tls {
        client.add_tls(security, files);
    }
    client.add_sasl(security, files, addresses.token_endpoint.as_deref());
    Some(client.list)
}

struct ClientProperties {
    list: Vec<(String, String)>,
    settings: ClientSettings,
}

impl ClientProperties {
    fn add(&mut self, key: &str, value: impl Into<String>) {
        self.list.push((key.to_owned(), value.into()));
    }

    fn add_tls(&mut self, security: LabSecurity, files: &SecurityFiles) {
        let fault = self.settings.fault;
        let trust = match fault {
            Some(ClientFault::OtherAuthority) => files.other_authority(),
            _ => files.authority(),
        };
        self.add_store("ssl.truststore", &trust, files);
        if security != LabSecurity::Mtls || fault == Some(ClientFault::NoClientCertificate) {
            return;
        }
        let certificate = match fault {
            Some(ClientFault::ExpiredClient) => ClientCertificate::Expired,
            Some(ClientFault::OtherClientAuthority) => ClientCertificate::OtherAuthority,
            _ => ClientCertificate::Valid,
        };
        self.add_store("ssl.keystore", &files.client(certificate), files);
        if self.settings.format != StoreFormat::Pem {
            self.add("ssl.key.password", files.store_password());
        }
    }

    fn add_store(&mut self, prefix: &str, store: &StorePaths, files: &SecurityFiles) {
        let format = self.settings.format;
        self.add(&format!("{prefix}.type"), format.name());
        self.add(&format!("{prefix}.location"), format.of(store));
        if format != StoreFormat::Pem {
            let password = match self.settings.fault {
                Some(ClientFault::WrongStorePassword) => WRONG_PASSWORD,
                _ => files.store_password(),
            };
            self.add(&format!("{prefix}.password"), password);
        }
    }

    fn add_sasl(&mut self, security: LabSecurity, files: &SecurityFiles, endpoint: Option<&str>) {
        let password = match self.settings.fault {
            Some(ClientFault::WrongPassword) => WRONG_PASSWORD,
            _ => files.user_password(),
        };
        let user = files.user();
        let login = |module: &str| {
            format!("{MODULES}.{module} required username=\"{user}\" password=\"{password}\";")
        };
        match security {
            LabSecurity::Plaintext | LabSecurity::Tls | LabSecurity::Mtls => {}
            LabSecurity::SaslPlain => {
                self.add("sasl.mechanism", "PLAIN");
                self.add("sasl.jaas.config", login("plain.PlainLoginModule"));
            }
            LabSecurity::Scram => {
                self.add("sasl.mechanism", "SCRAM-SHA-512");
                self.add("sasl.jaas.config", login("scram.ScramLoginModule"));
            }
            LabSecurity::Oauth => {
                let module = format!("{MODULES}.oauthbearer");
                self.add("sasl.mechanism", "OAUTHBEARER");
                self.add(
                    "sasl.oauthbearer.token.endpoint.url",
                    endpoint.unwrap_or_default(),
                );
                self.add(
                    "sasl.login.callback.handler.class",
                    format!("{module}.OAuthBearerLoginCallbackHandler"),
                );
                self.add(
                    "sasl.jaas.config",
                    format!(
                        "{module}.OAuthBearerLoginModule required clientId=\"{user}\" \
                         clientSecret=\"{password}\" scope=\"kafka\";"
                    ),
                );
            }
        }
    }
}

/// Returns the text of a properties file. The values are escaped as Java reads them.
pub(crate) fn properties_text(properties: &[(String, String)]) -> String {
    let line = |(key, value): &(String, String)| format!("{key}={}\n", value.replace('\\', "\\\\"));
    properties.iter().map(line).collect()
}

const MODULES: &str = "org.apache.kafka.common.security";
const WRONG_PASSWORD: &str = "not-the-password";
