//! AWS Security Token Service: temporary credentials of a role.

use std::path::Path;
use std::time::{Duration, SystemTime};

use roxmltree::Document;

use super::super::encode::{form, timestamp};
use super::super::error::{TokenError, peer_text};
use super::environment::Environment;
use super::keys::{AwsCredentials, expiration};
use super::options::domain;
use super::signature::{Scope, SignedRequest, sha256_hex};
use crate::http::{self, HttpRequest};
use crate::stores::{Roots, read_file};

/// A role to assume.
pub(super) struct AssumedRole<'a> {
    pub(super) arn: &'a str,
    pub(super) session_name: Option<&'a str>,
    pub(super) external_id: Option<&'a str>,
}

/// Returns the credentials of a role, requested with those of `base`.
pub(super) fn assume_role(
    role: &AssumedRole<'_>,
    base: &AwsCredentials,
    region: &str,
    environment: &Environment,
) -> Result<AwsCredentials, TokenError> {
    let mut fields = vec![
        ("Action", "AssumeRole"),
        ("Version", VERSION),
        ("RoleArn", role.arn),
        ("RoleSessionName", role.session_name.unwrap_or(SESSION_NAME)),
    ];
    if let Some(id) = role.external_id {
        fields.push(("ExternalId", id));
    }
    let body = form(&fields);
    let (url, host) = endpoint(region, environment);
    let scope = Scope {
        time: timestamp(SystemTime::now())?,
        region,
        service: "sts",
    };
    let date = scope.date_time();
    let mut headers = vec![
        ("content-type", FORM),
        ("host", &*host),
        ("x-amz-date", &*date),
    ];
    if let Some(token) = &base.session_token {
        headers.push(("x-amz-security-token", token.reveal()));
    }
    let request = SignedRequest {
        method: "POST",
        path: "/",
        query: &[],
        headers: &headers,
        payload_hash: &sha256_hex(body.as_bytes()),
    };
    let authorization = request.authorization(base, &scope);
    headers.retain(|(name, _)| *name != "host"); // the HTTP client sends it
    headers.push(("authorization", &authorization));
    send(&url, &headers, &body)
}

/// Returns the credentials of the role and the web identity in the environment, as in EKS.
pub(super) fn web_identity(
    region: &str,
    environment: &Environment,
) -> Result<AwsCredentials, TokenError> {
    let file = environment.required("AWS_WEB_IDENTITY_TOKEN_FILE")?;
    let arn = environment.required("AWS_ROLE_ARN")?;
    let session = environment.variable("AWS_ROLE_SESSION_NAME");
    assume_with_token(&arn, &file, session.as_deref(), region, environment)
}

/// Returns the credentials of a role, requested with the web identity in a file.
pub(super) fn assume_with_token(
    arn: &str,
    file: &str,
    session_name: Option<&str>,
    region: &str,
    environment: &Environment,
) -> Result<AwsCredentials, TokenError> {
    let bytes = read_file(Path::new(file)).map_err(|error| TokenError::File {
        path: file.to_owned(),
        error,
    })?;
    let token = String::from_utf8_lossy(&bytes);
    let body = form(&[
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", VERSION),
        ("RoleArn", arn),
        ("RoleSessionName", session_name.unwrap_or(SESSION_NAME)),
        ("WebIdentityToken", token.trim()),
    ]);
    let (url, _) = endpoint(region, environment);
    send(&url, &[("content-type", FORM)], &body)
}

/// Returns URL and host of the service.
fn endpoint(region: &str, environment: &Environment) -> (String, String) {
    let chosen = environment.variable("AWS_ENDPOINT_URL_STS");
    let url = chosen.unwrap_or_else(|| format!("https://sts.{region}.{}", domain(region)));
    let host = url.split_once("://").map_or(&*url, |(_, host)| host);
    let host = host.split('/').next().unwrap_or_default().to_owned();
    (format!("{}/", url.trim_end_matches('/')), host)
}

fn send(url: &str, headers: &[(&str, &str)], body: &str) -> Result<AwsCredentials, TokenError> {
    let request = HttpRequest {
        method: "POST",
        url,
        headers,
        body: Some(body.as_bytes()),
        timeout: TIMEOUT,
        proxy: true,
    };
    let response = http::send(&request, &Roots::System);
    let service = SERVICE;
    let response = response.map_err(|error| TokenError::Http { service, error })?;
    if response.status != 200 {
        let text = std::str::from_utf8(&response.body).unwrap_or_default();
        let code = element(text, "Code").zip(element(text, "Message"));
        return Err(TokenError::Rejected {
            service,
            status: response.status,
            detail: code.map_or_else(String::new, |(code, message)| {
                format!(" ({})", peer_text(&format!("{code}: {message}")))
            }),
        });
    }
    parse(&response.body).map_err(|reason| TokenError::Response { service, reason })
}

/// Parses a response with the element `Credentials`.
pub(super) fn parse(body: &[u8]) -> Result<AwsCredentials, &'static str> {
    let text = std::str::from_utf8(body).map_err(|_| "it is not UTF-8")?;
    let get = |name: &str| element(text, name).ok_or("it contains no credentials");
    let expires = expiration(&get("Expiration")?)?;
    let (id, secret) = (get("AccessKeyId")?, get("SecretAccessKey")?);
    let token = Some(get("SessionToken")?);
    let credentials = AwsCredentials::new(id, secret, token, Some(expires));
    credentials.ok_or("a key contains characters that it cannot have")
}

fn element(xml: &str, name: &str) -> Option<String> {
    let document = Document::parse(xml).ok()?;
    let mut nodes = document.descendants();
    // The names are in a namespace of the service's version.
    let found = nodes.find(|node| node.tag_name().name() == name)?;
    Some(found.text()?.trim().to_owned())
}

const SERVICE: &str = "AWS STS";
const VERSION: &str = "2011-06-15";
const SESSION_NAME: &str = "weir";
const FORM: &str = "application/x-www-form-urlencoded";
const TIMEOUT: Duration = Duration::from_secs(10);
