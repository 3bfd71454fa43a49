//! Translation of encryption and login to librdkafka's properties. Certificates and keys are passed
//! in memory.

use super::ciphers;
use super::error::SettingsError;
use super::security::{KerberosSettings, Login, SaslSettings, Security, TlsSettings, TlsVersion};
use crate::stores::{Roots, pem};

/// Names and values.
type Properties = Vec<(&'static str, String)>;

impl Security {
    /// Returns encryption and login under librdkafka's names, including passwords and keys.
    ///
    /// # Errors
    /// librdkafka cannot do what the settings require.
    pub fn librdkafka_properties(&self) -> Result<Vec<(&'static str, String)>, SettingsError> {
        let protocol = match (&self.tls, &self.sasl) {
            (None, None) => return Ok(Vec::new()),
            (Some(_), None) => "ssl",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        let mut found = vec![("security.protocol", protocol.to_owned())];
        if let Some(tls) = &self.tls {
            encryption(tls, &mut found)?;
        }
        if let Some(sasl) = &self.sasl {
            login(sasl, &mut found)?;
        }
        Ok(found)
    }
}

fn encryption(tls: &TlsSettings, found: &mut Properties) -> Result<(), SettingsError> {
    match &tls.roots {
        // librdkafka links the system's OpenSSL, which knows where the authorities are.
        Roots::System => {}
        Roots::Certificates(list) => {
            let texts = list.iter().map(|it| pem::encode("CERTIFICATE", it));
            found.push(("ssl.ca.pem", texts.collect()));
        }
    }
    if let Some(identity) = &tls.identity {
        let chain = identity.chain.iter();
        let chain = chain.map(|it| pem::encode("CERTIFICATE", it));
        found.push(("ssl.certificate.pem", chain.collect()));
        found.push(("ssl.key.pem", pem::encode_key(&identity.key)));
    }
    let algorithm = if tls.verify_hostname { "https" } else { "none" };
    found.push((
        "ssl.endpoint.identification.algorithm",
        algorithm.to_owned(),
    ));
    found.push(("enable.ssl.certificate.verification", "true".to_owned()));
    if let Some(list) = cipher_list(tls)? {
        found.push(("ssl.cipher.suites", list));
    }
    Ok(())
}

/// Returns OpenSSL's list of cipher suites of TLS 1.2. librdkafka cannot select versions or suites
/// of TLS 1.3.
fn cipher_list(tls: &TlsSettings) -> Result<Option<String>, SettingsError> {
    let names = tls.cipher_suites.iter();
    let suites: Vec<_> = names.filter_map(|name| ciphers::find(name)).collect();
    let with = |version| {
        let suites = suites.iter().filter(move |suite| suite.version == version);
        suites.map(|suite| suite.openssl)
    };
    let enabled = |version: TlsVersion| {
        tls.protocols.contains(&version) && (suites.is_empty() || with(version).next().is_some())
    };
    let (v1_2, v1_3) = (enabled(TlsVersion::V1_2), enabled(TlsVersion::V1_3));
    if !v1_3 {
        return Err(SettingsError::OnlyTls12);
    }
    let chosen = with(TlsVersion::V1_3).count();
    if chosen != 0 && chosen != ciphers::TLS13_COUNT {
        return Err(SettingsError::SomeTls13Suites);
    }
    Ok(match (v1_2, suites.is_empty()) {
        (true, true) => None,
        (true, false) => Some(with(TlsVersion::V1_2).collect::<Vec<_>>().join(":")),
        (false, _) => Some(NO_TLS12_SUITE.to_owned()),
    })
}

fn login(sasl: &SaslSettings, found: &mut Properties) -> Result<(), SettingsError> {
    match sasl {
        SaslSettings::Plain(login) => password(found, "PLAIN", login),
        SaslSettings::Scram(hash, login) => password(found, hash.mechanism(), login),
        SaslSettings::OAuthBearer(source) => {
            if source.has_extensions() {
                return Err(SettingsError::TokenExtensions);
            }
            found.push(("sasl.mechanism", "OAUTHBEARER".to_owned()));
        }
        SaslSettings::AwsMskIam(_) => {
            // Brokers of Amazon MSK accept a signed request as a token of this mechanism.
            found.push(("sasl.mechanism", "OAUTHBEARER".to_owned()));
        }
        SaslSettings::Kerberos(kerberos) => gssapi(kerberos, found),
    }
    Ok(())
}

fn password(found: &mut Properties, mechanism: &str, login: &Login) {
    found.extend([
        ("sasl.mechanism", mechanism.to_owned()),
        ("sasl.username", login.username.clone()),
        ("sasl.password", login.password.reveal().to_owned()),
    ]);
}

fn gssapi(kerberos: &KerberosSettings, found: &mut Properties) {
    found.push(("sasl.mechanism", "GSSAPI".to_owned()));
    found.push(("sasl.kerberos.service.name", kerberos.service_name.clone()));
    if let Some(principal) = &kerberos.principal {
        found.push(("sasl.kerberos.principal", principal.clone()));
    }
    match &kerberos.keytab {
        Some(keytab) => {
            found.push(("sasl.kerberos.keytab", keytab.clone()));
            found.push(("sasl.kerberos.kinit.cmd", KINIT.to_owned()));
        }
        // Without a key tab the ticket cache is used as it is; librdkafka must not run kinit.
        None => found.push(("sasl.kerberos.min.time.before.relogin", "0".to_owned())),
    }
}

/// Command that gets a ticket, every minute. librdkafka's own one waits for a silent KDC without a
/// limit and first tries to renew the ticket, which fails with a message unless it is renewable.
const KINIT: &str = "timeout 10 kinit -k -t \"%{sasl.kerberos.keytab}\" %{sasl.kerberos.principal}";

/// A suite that OpenSSL knows but does not offer without a pre-shared key. So no suite of TLS 1.2
/// is offered.
const NO_TLS12_SUITE: &str = "PSK-AES128-GCM-SHA256";
