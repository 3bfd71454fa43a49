//! Credentials of requests and connections. They are never logged and shown by no `Debug`.

use std::fmt;

use weir_identity::config::TokenSource;
use weir_net::http1::HttpRequest;
use weir_net::tls::CertificateNames;

/// Credentials in the head of an HTTP request or of a WebSocket handshake.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConnectionCredentials {
    /// Token of the header `Authorization`.
    bearer: Option<Box<str>>,
    /// Values of the configured cookies, in the order of the sources.
    cookies: Vec<(Box<str>, Box<str>)>,
    /// Names in the certificate of the connection.
    names: Option<CertificateNames>,
}

impl ConnectionCredentials {
    /// Takes the credentials that one of the sources names. Returns `None` if there are none.
    pub(crate) fn of(
        request: &HttpRequest<'_>,
        names: impl FnOnce() -> Option<CertificateNames>,
        sources: &[TokenSource],
    ) -> Option<Self> {
        let mut found = Self::default();
        if sources.contains(&TokenSource::Certificate) {
            found.names = names();
        }
        for source in sources {
            match source {
                TokenSource::Header => found.bearer = bearer(request).map(Into::into),
                TokenSource::Cookie(name) => {
                    let value = cookie(request, name);
                    found
                        .cookies
                        .extend(value.map(|value| (name.clone(), value.into())));
                }
                TokenSource::Password | TokenSource::Certificate => {}
            }
        }
        (found != Self::default()).then_some(found)
    }
}

impl fmt::Debug for ConnectionCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionCredentials(***)")
    }
}

/// Returns the token of `Authorization: Bearer TOKEN` (RFC 6750, 2.1).
fn bearer<'a>(request: &HttpRequest<'a>) -> Option<&'a str> {
    let (scheme, token) = request.header("authorization")?.split_once(' ')?;
    let token = token.trim_start();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Returns the value of a cookie (RFC 6265, 5.4), the first one of this name.
fn cookie<'a>(request: &HttpRequest<'a>, name: &str) -> Option<&'a str> {
    let pairs = request.header("cookie")?.split(';');
    let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(own, _)| *own == name)?;
    let value = value.trim_matches('"');
    (!value.is_empty()).then_some(value)
}

/// One credential of a client.
#[derive(Clone, Copy)]
pub(crate) enum Credential<'a> {
    Token(&'a str),
    Certificate(&'a CertificateNames),
}

/// Credentials of a request that creates a session.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    /// `LS_user`.
    pub user: Option<&'a str>,
    /// `LS_password`.
    pub password: Option<&'a str>,
    /// Credentials of the connection: headers and cookies.
    pub connection: Option<&'a ConnectionCredentials>,
}

impl<'a> Credentials<'a> {
    /// Returns the first source that is present, with what it contains.
    pub(crate) fn find<'s>(
        &self,
        sources: &'s [TokenSource],
    ) -> Option<(&'s TokenSource, Credential<'a>)> {
        let mut sources = sources.iter();
        sources.find_map(|source| Some((source, self.of(source)?)))
    }

    /// Returns the names in the certificate of the connection.
    pub(crate) fn names(&self) -> Option<&'a CertificateNames> {
        self.connection?.names.as_ref()
    }

    fn of(&self, source: &TokenSource) -> Option<Credential<'a>> {
        let token = match source {
            // SDKs without a password send an empty one.
            TokenSource::Password => self.password.filter(|password| !password.is_empty()),
            TokenSource::Header => self.connection?.bearer.as_deref(),
            TokenSource::Cookie(name) => {
                let mut cookies = self.connection?.cookies.iter();
                let found = cookies.find(|(own, _)| own == name);
                found.map(|(_, value)| &**value)
            }
            TokenSource::Certificate => {
                let names = self.connection?.names.as_ref()?;
                return Some(Credential::Certificate(names));
            }
        };
        token.map(Credential::Token)
    }
}
