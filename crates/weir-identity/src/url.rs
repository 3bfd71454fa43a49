//! URLs from which keys may be fetched.

// An address is data here; this crate has no sockets.
use core::net::IpAddr;
use std::fmt;

use thiserror::Error;

/// Longest URL, in bytes.
const BYTES_MAX: usize = 2048;

/// Absolute URL with HTTPS, or with HTTP on the loopback interface. It has no user information and
/// no fragment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SafeUrl(Box<str>);

/// Reason why a URL is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe the variants
pub enum UrlError {
    #[error("URL has more than 2048 bytes")]
    TooLong,
    #[error("not an absolute URL of visible ASCII characters; write https://HOST/PATH")]
    Malformed,
    #[error("URL uses HTTP to another host than the loopback interface; use HTTPS")]
    Insecure,
    #[error("URL contains user information")]
    UserInfo,
    #[error("URL contains a fragment")]
    Fragment,
}

impl SafeUrl {
    /// Parses a URL.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        let is_plain = text
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&b));
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Malformed)?;
        if !is_plain {
            return Err(UrlError::Malformed);
        }
        if text.contains('#') {
            return Err(UrlError::Fragment);
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let authority = &rest[..end];
        if authority.contains('@') {
            return Err(UrlError::UserInfo);
        }
        let host = host(authority).ok_or(UrlError::Malformed)?;
        match scheme {
            "https" => Ok(Self(text.into())),
            "http" if is_loopback(host) => Ok(Self(text.into())),
            "http" => Err(UrlError::Insecure),
            _ => Err(UrlError::Malformed),
        }
    }

    /// Returns `true` if the URL uses HTTPS, `false` for HTTP on the loopback interface.
    pub(crate) fn is_https(&self) -> bool {
        self.0.starts_with("https://")
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the URL with a path appended; a slash at its end is left out.
    pub(crate) fn join(&self, path: &str) -> Self {
        let base = self.0.strip_suffix('/').unwrap_or(&self.0);
        Self(format!("{base}{path}").into())
    }
}

impl fmt::Display for SafeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the host of `HOST[:PORT]`.
fn host(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (
                host,
                if port.is_empty() {
                    None
                } else {
                    Some(port.strip_prefix(':')?)
                },
            )
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    (!host.is_empty() && is_port).then_some(host)
}

fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn https_and_loopback_are_accepted() {
        for url in [
            "https://id.example.com",
            "https://id.example.com:8443/a/b?c=d",
            "http://127.0.0.1:80/x",
            "http://[::1]:8080",
            "http://localhost/k",
        ] {
            assert_eq!(SafeUrl::parse(url).unwrap().as_str(), url);
        }
        let joined = SafeUrl::parse("https://a.b/").unwrap().join("/c");
        assert_eq!(joined.as_str(), "https://a.b/c");
    }

    #[test]
    fn other_urls_are_rejected() {
        let rows = [
            ("http://id.example.com/", UrlError::Insecure),
            ("http://127.0.0.1.example.com/", UrlError::Insecure),
            ("http://localhost.example.com/", UrlError::Insecure),
            (
                "http://169.254.169.254/latest/meta-data",
                UrlError::Insecure,
            ),
            ("https://user@id.example.com/", UrlError::UserInfo),
            ("http://localhost:80@evil.example/", UrlError::UserInfo),
            ("https://a/#b", UrlError::Fragment),
            ("https:///path", UrlError::Malformed),
            ("https://a:70000/", UrlError::Malformed),
            ("https://a b/", UrlError::Malformed),
            ("https://a\\@b/", UrlError::Malformed),
            ("file:///etc/passwd", UrlError::Malformed),
            ("HTTPS://a/", UrlError::Malformed),
            ("id.example.com", UrlError::Malformed),
            ("", UrlError::Malformed),
        ];
        for (url, error) in rows {
            assert_eq!(SafeUrl::parse(url), Err(error), "{url}");
        }
        let long = format!("https://a/{}", "b".repeat(BYTES_MAX));
        assert_eq!(SafeUrl::parse(&long), Err(UrlError::TooLong));
    }
}
