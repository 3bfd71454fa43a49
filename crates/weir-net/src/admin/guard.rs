//! Access checks of admin pages (host, method, token), and the security headers of responses.

use std::net::IpAddr;

use super::token::{SessionsToken, equals_constant_time};
use crate::http1::{HttpRequest, Response};

/// Content security policy: only resources of the page's own host, no inline code, no framing.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                              connect-src 'self'; img-src data:; base-uri 'none'; \
                              form-action 'none'; frame-ancestors 'none'";

/// Header that a request must have to change anything.
const COMMAND_HEADER: &str = "weir-command";

#[derive(Debug)]
pub(super) struct AccessRules {
    pub(super) token: Option<String>,
    pub(super) hosts: Vec<String>,
    pub(super) sessions_token: Option<SessionsToken>,
}

/// Access of a request to session administration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionsAccess {
    Granted,
    /// The token is wrong or absent.
    Denied,
    /// Session administration is not available.
    Absent,
}

impl AccessRules {
    /// Returns the error response to a request without access, `None` if it has access.
    pub(super) fn reject(&self, request: &HttpRequest<'_>, is_public: bool) -> Option<Response> {
        if let Some(response) = self.reject_host(request) {
            return Some(response);
        }
        // A page of another site can send a POST request, but not with this header.
        let is_command = request.method == "POST" && request.header(COMMAND_HEADER).is_some();
        if request.method != "GET" && !is_command {
            return Some(Response::text(405, "use GET\n").with_header("Allow", "GET"));
        }
        if !is_public && !self.has_token(request) {
            let text = "send the admin token as bearer token\n";
            return Some(Response::text(401, text).with_header("WWW-Authenticate", "Bearer"));
        }
        None
    }

    /// Returns the error response to a request for a host that is not served.
    pub(super) fn reject_host(&self, request: &HttpRequest<'_>) -> Option<Response> {
        // In a DNS rebinding attack the browser sends the name of a foreign site that resolves to
        // this address.
        let host = request.header("host")?;
        let text = "host not served here: use an IP address, localhost or a name in admin.hosts\n";
        (!self.is_served_host(host)).then(|| Response::text(421, text))
    }

    /// Returns the access of a request to session administration, which has its own token.
    pub(super) fn sessions_access(&self, request: &HttpRequest<'_>) -> SessionsAccess {
        let Some(token) = &self.sessions_token else {
            return SessionsAccess::Absent;
        };
        match bearer(request).is_some_and(|given| token.is(given)) {
            true => SessionsAccess::Granted,
            false => SessionsAccess::Denied,
        }
    }

    /// Returns `true` if `host` is an IP address, localhost or a configured name. The port is not
    /// checked because a request by DNS rebinding has the right one.
    fn is_served_host(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let bare = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        if bare.unwrap_or(name).parse::<IpAddr>().is_ok() || host.parse::<IpAddr>().is_ok() {
            return true;
        }
        let name = name.strip_suffix('.').unwrap_or(name);
        let own = std::iter::once("localhost").chain(self.hosts.iter().map(String::as_str));
        own.into_iter().any(|own| name.eq_ignore_ascii_case(own))
    }

    pub(super) fn has_token(&self, request: &HttpRequest<'_>) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        let is_token = |given: &str| equals_constant_time(given.as_bytes(), token.as_bytes());
        bearer(request).is_some_and(is_token)
    }
}

/// Returns the token that a request carries.
fn bearer<'a>(request: &HttpRequest<'a>) -> Option<&'a str> {
    request.header("authorization")?.strip_prefix("Bearer ")
}

/// Adds headers that keep a browser from executing, framing or storing the page.
///
/// A page may have its own content policy, such as for connections to another port.
pub(super) fn with_security_headers(response: Response) -> Response {
    const POLICY: &str = "Content-Security-Policy";
    let has_policy = response.headers.iter().any(|(name, _)| *name == POLICY);
    let response = match has_policy {
        true => response,
        false => response.with_header(POLICY, CONTENT_POLICY),
    };
    response
        .with_header("X-Content-Type-Options", "nosniff")
        .with_header("X-Frame-Options", "DENY")
        .with_header("Referrer-Policy", "no-referrer")
        .with_header("Cache-Control", "no-store")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::{ParseLimits, Parsed, parse_request};

    fn status(rules: &AccessRules, request: &str, is_public: bool) -> u16 {
        let limits = ParseLimits {
            head_bytes: 1_000,
            body_bytes: 1_000,
        };
        let peer = ([127, 0, 0, 1], 1).into();
        match parse_request(request.as_bytes(), limits, peer) {
            Ok(Parsed::Complete(request, _)) => rules
                .reject(&request, is_public)
                .map_or(200, |it| it.status),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn host_must_be_address_localhost_or_configured_name() {
        let rules = AccessRules {
            token: None,
            hosts: vec!["gw.example".to_owned()],
            sessions_token: None,
        };
        for (host, served) in [
            ("127.0.0.1:8090", true),
            ("10.1.2.3", true),
            ("[::1]:8090", true),
            ("[fe80::1]", true),
            ("localhost:1", true),
            ("LocalHost.", true),
            ("gw.example:8090", true),
            ("GW.example", true),
            ("evil.example", false),
            ("gw.example.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("localhost:80@evil.example", false),
            ("", false),
        ] {
            let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let expected = if served { 200 } else { 421 };
            assert_eq!(status(&rules, &request, false), expected, "{host}");
        }
    }

    #[test]
    fn token_is_required_except_for_public_pages() {
        let rules = AccessRules {
            token: Some("s3cret".to_owned()),
            hosts: Vec::new(),
            sessions_token: None,
        };
        let get = |line: &str| format!("GET / HTTP/1.1\r\nHost: localhost\r\n{line}\r\n");
        for (line, expected) in [
            ("Authorization: Bearer s3cret\r\n", 200),
            ("Authorization: Bearer s3cre\r\n", 401),
            ("Authorization: Bearer s3cre7\r\n", 401),
            ("Authorization: Basic s3cret\r\n", 401),
            ("", 401),
        ] {
            assert_eq!(status(&rules, &get(line), false), expected, "{line}");
        }
        assert_eq!(status(&rules, &get(""), true), 200);
        let post = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(status(&rules, post, true), 405);
    }
}
