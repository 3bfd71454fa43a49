//! Headers and address of a client, from the head of its request or WebSocket handshake.

use std::fmt;
use std::net::SocketAddr;

use weir_identity::ari::Parameter;

/// Headers that concern one connection only. With them, each attempt of a client would differ.
const CONNECTION_HEADERS: [&str; 9] = [
    "connection",
    "content-length",
    "keep-alive",
    "sec-websocket-extensions",
    "sec-websocket-key",
    "sec-websocket-protocol",
    "sec-websocket-version",
    "transfer-encoding",
    "upgrade",
];

/// Headers and address of a client, and the name in its certificate.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientHead {
    peer: SocketAddr,
    headers: Vec<(String, String)>,
    principal: Option<String>,
}

/// Never prints headers, which may contain credentials.
impl fmt::Debug for ClientHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientHead").field(&self.peer).finish()
    }
}

impl ClientHead {
    /// Takes the headers that an adapter gets.
    pub fn new<'a>(peer: SocketAddr, headers: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let concerns_client = |(name, _): &(&str, &str)| {
            let mut others = CONNECTION_HEADERS.iter();
            !others.any(|other| other.eq_ignore_ascii_case(name))
        };
        let headers = headers.filter(concerns_client);
        Self {
            peer,
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            principal: None,
        }
    }

    /// Adds the name in the client's certificate.
    #[must_use]
    pub fn with_principal(self, principal: Option<String>) -> Self {
        Self { principal, ..self }
    }

    /// Returns the name in the client's certificate, if it has one.
    pub fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    /// Returns the headers.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// Returns the context of a new session.
    pub fn context(&self) -> Vec<Parameter> {
        let mut context = vec![
            Parameter::new("REMOTE_IP", self.peer.ip().to_string()),
            Parameter::new("REMOTE_PORT", self.peer.port().to_string()),
        ];
        for (key, header) in [
            ("USER_AGENT", "user-agent"),
            ("FORWARDING_INFO", "x-forwarded-for"),
        ] {
            let mut headers = self.headers.iter();
            if let Some((_, value)) = headers.find(|(name, _)| name.eq_ignore_ascii_case(header)) {
                context.push(Parameter::new(key, value));
            }
        }
        context
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_has_headers_of_client_only() {
        let headers = [
            ("User-Agent", "sdk"),
            ("Sec-WebSocket-Key", "random"),
            ("X-Forwarded-For", "10.0.0.9"),
            ("Cookie", "a=b"),
        ];
        let head = ClientHead::new(([10, 0, 0, 7], 81).into(), headers.into_iter());
        let names: Vec<_> = head.headers().iter().map(|one| one.0.as_str()).collect();
        assert_eq!(names, ["User-Agent", "X-Forwarded-For", "Cookie"]);
        let context = head.context();
        let context: Vec<_> = context
            .iter()
            .map(|one| (&*one.name, one.value.as_deref().unwrap_or_default()))
            .collect();
        let expected = [
            ("REMOTE_IP", "10.0.0.7"),
            ("REMOTE_PORT", "81"),
            ("USER_AGENT", "sdk"),
            ("FORWARDING_INFO", "10.0.0.9"),
        ];
        assert_eq!(context, expected);
        assert!(!format!("{head:?}").contains("a=b"));
    }
}
