//! Credentials of containers and instances, from endpoints that only they can reach.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use super::super::error::TokenError;
use super::environment::Environment;
use super::keys::AwsCredentials;
use crate::http::{self, HttpRequest, HttpResponse};
use crate::stores::{Roots, read_file};

/// Returns the credentials of a container (ECS, EKS), or `None` outside one.
pub(super) fn container(environment: &Environment) -> Result<Option<AwsCredentials>, TokenError> {
    let relative = environment.variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    let full = environment.variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    let url = match (relative, full) {
        (Some(path), _) => format!("http://{CONTAINER_HOST}{path}"),
        (None, Some(url)) if is_local(&url) => url,
        (None, Some(_)) => {
            return Err(TokenError::Variable {
                name: "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                reason: "is neither an https: URL nor an address of this machine",
            });
        }
        (None, None) => return Ok(None),
    };
    let authorization = authorization(environment)?;
    let headers = authorization
        .as_deref()
        .map(|token| ("authorization", token));
    let headers: Vec<_> = headers.into_iter().collect();
    let response = get(CONTAINER, "GET", &url, &headers)?;
    AwsCredentials::parse(CONTAINER, &response.body).map(Some)
}

/// Returns `true` for URLs to which a token may be sent: encrypted, or of this machine.
fn is_local(url: &str) -> bool {
    if url.starts_with("https://") {
        return true;
    }
    let Some(rest) = url.strip_prefix("http://") else {
        return false;
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next(),
        None => authority.split(':').next(),
    };
    let host = host.unwrap_or_default();
    let address: Option<IpAddr> = host.parse().ok();
    let is_loopback = address.is_some_and(|address| address.is_loopback());
    is_loopback || host == "localhost" || CONTAINER_HOSTS.contains(&host)
}

fn authorization(environment: &Environment) -> Result<Option<String>, TokenError> {
    let Some(path) = environment.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") else {
        return Ok(environment.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN"));
    };
    let bytes = read_file(Path::new(&path)).map_err(|error| TokenError::File { path, error })?;
    Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned()))
}

/// Returns the credentials of an EC2 instance (version 2 of its metadata service).
pub(super) fn instance(environment: &Environment) -> Result<AwsCredentials, TokenError> {
    let disabled = environment.variable("AWS_EC2_METADATA_DISABLED");
    if disabled.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        let tried = "variables, profile and container; the metadata service is disabled";
        let tried = tried.to_owned();
        return Err(TokenError::NoCredentials { tried });
    }
    let endpoint = environment.variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    let endpoint = endpoint
        .as_deref()
        .unwrap_or(INSTANCE_ENDPOINT)
        .trim_end_matches('/');
    let token_url = format!("{endpoint}/latest/api/token");
    let token = get(INSTANCE, "PUT", &token_url, &[(TTL_HEADER, "21600")]);
    // Outside EC2 the address does not respond: no source is left.
    let token = token.map_err(|error| match error {
        TokenError::Http { error, .. } => TokenError::NoCredentials {
            tried: format!("variables, profile, container and instance metadata: {error}"),
        },
        other => other,
    })?;
    let token = String::from_utf8_lossy(&token.body).trim().to_owned();
    let headers = [(TOKEN_HEADER, token.as_str())];
    let roles_url = format!("{endpoint}/latest/meta-data/iam/security-credentials/");
    let roles = get(INSTANCE, "GET", &roles_url, &headers)?;
    let roles = String::from_utf8_lossy(&roles.body).into_owned();
    let role = roles.lines().next().unwrap_or_default().trim();
    let allowed = |it: char| it.is_ascii_alphanumeric() || "+=,.@_-".contains(it);
    if role.is_empty() || !role.chars().all(allowed) {
        return Err(TokenError::Response {
            service: INSTANCE,
            reason: "it does not name a role",
        });
    }
    let credentials = get(INSTANCE, "GET", &format!("{roles_url}{role}"), &headers)?;
    AwsCredentials::parse(INSTANCE, &credentials.body)
}

fn get(
    service: &'static str,
    method: &'static str,
    url: &str,
    headers: &[(&str, &str)],
) -> Result<HttpResponse, TokenError> {
    let request = HttpRequest {
        method,
        url,
        headers,
        body: (method == "PUT").then_some(&[]),
        timeout: TIMEOUT,
        proxy: false,
    };
    let response = http::send(&request, &Roots::System);
    let response = response.map_err(|error| TokenError::Http { service, error })?;
    match response.status {
        200 => Ok(response),
        status => Err(TokenError::Rejected {
            service,
            status,
            detail: String::new(),
        }),
    }
}

const CONTAINER: &str = "container credentials";
const CONTAINER_HOST: &str = "169.254.170.2";
const CONTAINER_HOSTS: [&str; 3] = [CONTAINER_HOST, "169.254.170.23", "fd00:ec2::23"];
const INSTANCE: &str = "instance metadata";
const INSTANCE_ENDPOINT: &str = "http://169.254.169.254";
const TTL_HEADER: &str = "x-aws-ec2-metadata-token-ttl-seconds";
const TOKEN_HEADER: &str = "x-aws-ec2-metadata-token";
/// The services are on the same host, so a longer wait means that there is none.
const TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_sent_to_this_machine_or_encrypted_only() {
        for url in [
            "https://example.com/x",
            "http://127.0.0.1:80/x",
            "http://localhost/x",
            "http://[::1]:8080/x",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
        ] {
            assert!(is_local(url), "{url}");
        }
        for url in [
            "http://example.com/x",
            "http://127.0.0.1.example.com/",
            "ftp://localhost/",
        ] {
            assert!(!is_local(url), "{url}");
        }
    }
}
