//! Login: mechanism and credentials, from individual properties or from a JAAS line.

use super::error::SettingsError;
use super::jaas::JaasLine;
use super::security::{KerberosSettings, Login, SaslSettings, ScramHash};
use super::values::{Values, file, unknown};
use crate::secret::Secret;
use crate::stores::{self, Roots, StoreFormat, StorePasswords};
use crate::tokens::{AwsCredentialSource, AwsOptions, TokenEndpoint, TokenSource};

/// Reads the properties of a login. `servers` are the bootstrap servers; the host names of Amazon
/// MSK contain the region.
pub(super) fn read(values: &Values<'_>, servers: &str) -> Result<SaslSettings, SettingsError> {
    let mechanism = values.only(&["sasl.mechanism", "sasl.mechanisms"])?;
    // Kafka's default.
    let mechanism = mechanism.map_or("GSSAPI", |(_, mechanism)| mechanism);
    let mechanism = mechanism.to_ascii_uppercase();
    let line = values
        .get("sasl.jaas.config")
        .map(JaasLine::parse)
        .transpose();
    let line = line.map_err(SettingsError::Jaas)?;
    if !MECHANISMS.contains(&mechanism.as_str()) {
        let possible = MECHANISMS.join(", ");
        return Err(unknown("sasl.mechanism", &mechanism, &possible));
    }
    if let Some(line) = &line {
        line.check_mechanism(&mechanism)
            .map_err(SettingsError::Jaas)?;
    }
    check_callback_handlers(values)?;
    let line = line.as_ref();
    match mechanism.as_str() {
        "PLAIN" => Ok(SaslSettings::Plain(login(values, line)?)),
        "SCRAM-SHA-256" => scram(ScramHash::Sha256, values, line),
        "SCRAM-SHA-512" => scram(ScramHash::Sha512, values, line),
        "OAUTHBEARER" => Ok(SaslSettings::OAuthBearer(token_source(values, line)?)),
        "AWS_MSK_IAM" => Ok(SaslSettings::AwsMskIam(msk_iam(values, line, servers)?)),
        _ => Ok(SaslSettings::Kerberos(kerberos(values, line)?)),
    }
}

/// Rejects callback handlers, except those of Kafka and Amazon whose function Weir has itself.
fn check_callback_handlers(values: &Values<'_>) -> Result<(), SettingsError> {
    for name in [
        "sasl.login.callback.handler.class",
        "sasl.client.callback.handler.class",
    ] {
        let class = values
            .get(name)
            .unwrap_or("OAuthBearerLoginCallbackHandler");
        let known = [
            "OAuthBearerLoginCallbackHandler",
            "IAMClientCallbackHandler",
        ];
        if !known
            .iter()
            .any(|known| class.rsplit('.').next() == Some(known))
        {
            return Err(SettingsError::Unsupported {
                property: format!("{name} = {class}"),
                remedy: "it names a Java class; set the properties of the mechanism instead",
            });
        }
    }
    Ok(())
}

fn scram(
    hash: ScramHash,
    values: &Values<'_>,
    line: Option<&JaasLine>,
) -> Result<SaslSettings, SettingsError> {
    Ok(SaslSettings::Scram(hash, login(values, line)?))
}

fn login(values: &Values<'_>, line: Option<&JaasLine>) -> Result<Login, SettingsError> {
    let (username, password) = match line {
        Some(line) => {
            if let Some((other, _)) = values.first(&["sasl.username", "sasl.password"]) {
                let one = "sasl.jaas.config";
                return Err(SettingsError::Contradiction { one, other });
            }
            if line.is_true("tokenauth") {
                return Err(SettingsError::Unsupported {
                    property: "sasl.jaas.config option tokenauth".to_owned(),
                    remedy: "delegation tokens are not supported; use a user name and password",
                });
            }
            let known = line.check_options(&["username", "password"], &["tokenauth"]);
            known.map_err(SettingsError::Jaas)?;
            let username = line.option("username").map(|it| it.reveal().to_owned());
            (username, line.option("password").cloned())
        }
        None => {
            let username = values.get("sasl.username").map(str::to_owned);
            (username, values.secret("sasl.password"))
        }
    };
    let missing = |property| SettingsError::Missing {
        property,
        reason: "the mechanism needs a user name and a password; set both, or sasl.jaas.config"
            .to_owned(),
    };
    let username = username.filter(|it| !it.is_empty());
    let login = Login {
        username: username.ok_or_else(|| missing("sasl.username"))?,
        password: password.ok_or_else(|| missing("sasl.password"))?,
    };
    // PLAIN uses this character as the separator, and SCRAM does not allow it.
    if login.username.contains('\0') || login.password.reveal().contains('\0') {
        return Err(SettingsError::Unsupported {
            property: "a NUL character in user name or password".to_owned(),
            remedy: "remove it",
        });
    }
    Ok(login)
}

fn token_source(
    values: &Values<'_>,
    line: Option<&JaasLine>,
) -> Result<TokenSource, SettingsError> {
    if let Some(line) = line {
        if line.with_prefix("unsecuredLogin").next().is_some() {
            return Err(SettingsError::Unsupported {
                property: "sasl.jaas.config option unsecuredLogin...".to_owned(),
                remedy: "unsecured tokens are not made; set sasl.oauthbearer.token or \
                         sasl.oauthbearer.token.endpoint.url",
            });
        }
        let known = ["clientId", "clientSecret", "scope", "extension_*", "ssl.*"];
        line.check_options(&known, &[])
            .map_err(SettingsError::Jaas)?;
    }
    check_token_method(values)?;
    let extensions = extensions(values, line)?;
    let source = values.only(&[
        "sasl.oauthbearer.token",
        "sasl.oauthbearer.token.endpoint.url",
    ])?;
    let Some((property, value)) = source else {
        return Err(SettingsError::Missing {
            property: "sasl.oauthbearer.token.endpoint.url",
            reason: "the mechanism OAUTHBEARER needs a token: name an endpoint (https://...), a \
                     file (file:///...), or set sasl.oauthbearer.token"
                .to_owned(),
        });
    };
    if property == "sasl.oauthbearer.token" {
        return Ok(TokenSource::fixed(Secret::new(value.trim()), extensions));
    }
    if let Some(path) = value.strip_prefix("file:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return Ok(TokenSource::file(path, extensions));
    }
    if !value.starts_with("https://") && !value.starts_with("http://") {
        return Err(unknown(
            property,
            value,
            "a URL with https:, http: or file:",
        ));
    }
    let endpoint = endpoint(value, values, line)?;
    Ok(TokenSource::endpoint(endpoint, extensions))
}

fn check_token_method(values: &Values<'_>) -> Result<(), SettingsError> {
    for (name, possible) in [
        ("sasl.oauthbearer.method", ["default", "oidc"]),
        (
            "sasl.oauthbearer.grant.type",
            ["client_credentials", "client_credentials"],
        ),
    ] {
        let value = values.get(name).unwrap_or(possible[0]);
        if !possible.contains(&value) {
            return Err(unknown(name, value, &possible.join(" or ")));
        }
    }
    Ok(())
}

fn endpoint(
    url: &str,
    values: &Values<'_>,
    line: Option<&JaasLine>,
) -> Result<TokenEndpoint, SettingsError> {
    let option = |name: &str| line.and_then(|line| line.option(name)).cloned();
    let ids = [
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.id",
    ];
    let secrets = [
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.secret",
    ];
    let (id, secret) = (values.only(&ids)?, values.only(&secrets)?);
    let scope = values.get("sasl.oauthbearer.scope").map(str::to_owned);
    let id = id.map(|(_, id)| id.to_owned());
    let id = id.or_else(|| option("clientId").map(|it| it.reveal().to_owned()));
    let secret = secret.map(|(_, secret)| Secret::new(secret));
    let missing = |property| SettingsError::Missing {
        property,
        reason: "the token endpoint needs a client id and a client secret; set both, or clientId \
                 and clientSecret in sasl.jaas.config"
            .to_owned(),
    };
    Ok(TokenEndpoint {
        url: url.to_owned(),
        client_id: id.ok_or_else(|| missing(ids[0]))?,
        client_secret: secret
            .or_else(|| option("clientSecret"))
            .ok_or_else(|| missing(secrets[0]))?,
        scope: scope.or_else(|| option("scope").map(|it| it.reveal().to_owned())),
        urlencode: values.flag("sasl.oauthbearer.header.urlencode")?,
        roots: endpoint_roots(values, line)?,
    })
}

/// Returns the certificate authorities of the token endpoint: librdkafka's `https.ca.*`, otherwise
/// the `ssl.truststore.*` options of the JAAS line, otherwise those of the system.
fn endpoint_roots(values: &Values<'_>, line: Option<&JaasLine>) -> Result<Roots, SettingsError> {
    let option = |name: &str| line.and_then(|line| line.option(name)).map(Secret::reveal);
    let passwords = StorePasswords {
        store: option("ssl.truststore.password"),
        key: None,
        property: "ssl.truststore.password",
    };
    let in_jaas = option("ssl.truststore.location").map(|path| ("ssl.truststore.location", path));
    let source = values
        .only(&["https.ca.location", "https.ca.pem"])?
        .or(in_jaas);
    let (bytes, format, property, value) = match source {
        None | Some(("https.ca.location", "probe")) => return Ok(Roots::System),
        Some(("https.ca.pem", text)) => {
            let (bytes, pem) = (text.as_bytes().to_vec(), Some(StoreFormat::Pem));
            (bytes, pem, "https.ca.pem", "")
        }
        Some((property, path)) => (file(property, path)?, None, property, path),
    };
    let certificates = stores::read_trusted(&bytes, format, passwords);
    let certificates = certificates.map_err(|error| match value {
        "" => SettingsError::Inline {
            property,
            error: Box::new(error),
        },
        path => SettingsError::File {
            property,
            path: path.to_owned(),
            error: Box::new(error),
        },
    })?;
    Ok(Roots::Certificates(certificates))
}

/// Returns SASL extensions: librdkafka's `NAME=VALUE,...` and the JAAS options `extension_NAME`.
fn extensions(
    values: &Values<'_>,
    line: Option<&JaasLine>,
) -> Result<Vec<(String, String)>, SettingsError> {
    const NAME: &str = "sasl.oauthbearer.extensions";
    const POSSIBLE: &str = "names of letters with values of printable ASCII";
    let list = values.get(NAME).unwrap_or_default().split(',');
    let mut extensions = Vec::new();
    for pair in list.map(str::trim).filter(|it| !it.is_empty()) {
        let pair = pair
            .split_once('=')
            .ok_or_else(|| unknown(NAME, pair, POSSIBLE))?;
        extensions.push((pair.0.trim().to_owned(), pair.1.trim().to_owned()));
    }
    for (name, value) in line
        .into_iter()
        .flat_map(|line| line.with_prefix("extension_"))
    {
        extensions.push((name.to_owned(), value.reveal().to_owned()));
    }
    for (name, value) in &extensions {
        let letters = !name.is_empty() && name.bytes().all(|it| it.is_ascii_alphabetic());
        let printable = value
            .bytes()
            .all(|it| matches!(it, b' '..=b'~' | b'\t' | b'\r' | b'\n'));
        if !letters || !printable || name == "auth" {
            return Err(unknown(NAME, name, POSSIBLE));
        }
    }
    Ok(extensions)
}

fn msk_iam(
    values: &Values<'_>,
    line: Option<&JaasLine>,
    servers: &str,
) -> Result<AwsCredentialSource, SettingsError> {
    if let Some(line) = line {
        let known = [
            "awsProfileName",
            "awsRoleArn",
            "awsRoleSessionName",
            "awsRoleExternalId",
            "awsStsRegion",
        ];
        let ignored = ["awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs"];
        line.check_options(&known, &ignored)
            .map_err(SettingsError::Jaas)?;
    }
    let option = |property: &str, name: &str| {
        let in_jaas = line.and_then(|line| line.option(name));
        let in_jaas = in_jaas.map(|it| it.reveal().to_owned());
        values.get(property).map(str::to_owned).or(in_jaas)
    };
    let options = AwsOptions {
        profile: option("aws.profile.name", "awsProfileName"),
        role_arn: option("aws.role.arn", "awsRoleArn"),
        role_session_name: option("aws.role.session.name", "awsRoleSessionName"),
        role_external_id: option("aws.role.external.id", "awsRoleExternalId"),
        sts_region: option("aws.sts.region", "awsStsRegion"),
        region: values.get("aws.region").map(str::to_owned),
    };
    AwsCredentialSource::new(options, servers).ok_or_else(|| SettingsError::Missing {
        property: "aws.region",
        reason: format!(
            "the region of the cluster does not follow from \"{servers}\" or AWS_REGION; set it"
        ),
    })
}

fn kerberos(
    values: &Values<'_>,
    line: Option<&JaasLine>,
) -> Result<KerberosSettings, SettingsError> {
    let mut settings = KerberosSettings {
        service_name: values
            .get("sasl.kerberos.service.name")
            .unwrap_or_default()
            .to_owned(),
        principal: values.get("sasl.kerberos.principal").map(str::to_owned),
        keytab: values.get("sasl.kerberos.keytab").map(str::to_owned),
    };
    let mut ticket_cache = values.flag("sasl.kerberos.use.ticket.cache")?;
    if let Some(line) = line {
        let known = [
            "keyTab",
            "principal",
            "serviceName",
            "useKeyTab",
            "useTicketCache",
        ];
        let ignored = [
            "storeKey",
            "doNotPrompt",
            "debug",
            "renewTGT",
            "refreshKrb5Config",
            "isInitiator",
            "useFirstPass",
            "tryFirstPass",
            "storePass",
            "clearPass",
            "ticketCache",
        ];
        line.check_options(&known, &ignored)
            .map_err(SettingsError::Jaas)?;
        let option = |name: &str| line.option(name).map(|it| it.reveal().to_owned());
        ticket_cache |= line.is_true("useTicketCache") && !line.is_true("useKeyTab");
        settings.principal = settings.principal.or_else(|| option("principal"));
        settings.keytab = settings.keytab.or_else(|| option("keyTab"));
        if settings.service_name.is_empty() {
            settings.service_name = option("serviceName").unwrap_or_default();
        }
    }
    if settings.service_name.is_empty() {
        return Err(SettingsError::Missing {
            property: "sasl.kerberos.service.name",
            reason: "the mechanism GSSAPI needs the name of the brokers' service, usually kafka"
                .to_owned(),
        });
    }
    if ticket_cache {
        settings.keytab = None;
    }
    check_kerberos(&settings)?;
    Ok(settings)
}

/// Rejects values with characters that a shell interprets, because librdkafka puts them into the
/// shell command `kinit`. Also checks that a key tab is readable and has a principal.
fn check_kerberos(settings: &KerberosSettings) -> Result<(), SettingsError> {
    let principal = settings.principal.as_deref();
    if settings.keytab.is_some() && principal.is_none() {
        return Err(SettingsError::Missing {
            property: "sasl.kerberos.principal",
            reason: "a key tab needs the principal whose key it contains".to_owned(),
        });
    }
    let safe = |it: char| it.is_ascii_alphanumeric() || "._-/@".contains(it);
    for (name, text) in [
        ("sasl.kerberos.principal", principal.unwrap_or_default()),
        ("sasl.kerberos.service.name", &settings.service_name),
    ] {
        if !text.chars().all(safe) {
            return Err(unknown(name, text, "letters, digits and . _ - / @"));
        }
    }
    let Some(keytab) = &settings.keytab else {
        return Ok(());
    };
    if keytab.contains(['"', '$', '`', '\\', '\n', '\r', '%']) {
        let possible = "a path without quotation marks, $, `, \\ and %";
        return Err(unknown("sasl.kerberos.keytab", keytab, possible));
    }
    file("sasl.kerberos.keytab", keytab).map(drop)
}

const MECHANISMS: [&str; 6] = [
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER",
    "AWS_MSK_IAM",
    "GSSAPI",
];
