//! `allowed_origins`: which web pages may connect. Clients that are no browsers send no origin and are
//! not concerned.

use std::net::{IpAddr, Ipv6Addr};

/// Which origins may connect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Origins {
    /// The host that the request is for, whatever the ports.
    #[default]
    SameHost,
    Listed(Vec<OriginPattern>),
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OriginPattern {
    /// The whole origin.
    Exact(String),
    /// `https://*.example.com`: what stands before and after the star.
    Below(String, String),
}

impl Origins {
    /// From `allowed_origins` as written; `*` allows any, nothing the same host.
    ///
    /// # Errors
    /// The first that cannot be an origin, with the remedy.
    pub(crate) fn parse(written: &[String]) -> Result<Self, String> {
        if written.iter().any(|one| one == "*") {
            return Ok(Self::Any);
        }
        if written.is_empty() {
            return Ok(Self::SameHost);
        }
        let patterns: Result<_, _> = written.iter().map(|one| pattern(one)).collect();
        patterns.map(Self::Listed)
    }

    /// Whether a page of this origin may connect to `host`, the header of its request. Browsers write
    /// origins in lower case and without the scheme's own port.
    pub(crate) fn allow(&self, origin: &str, host: Option<&str>) -> bool {
        let patterns = match self {
            Self::Any => return true,
            Self::SameHost => return host.is_some_and(|host| is_same_host(origin, host)),
            Self::Listed(patterns) => patterns,
        };
        let fits = |pattern: &OriginPattern| match pattern {
            OriginPattern::Exact(exact) => origin.eq_ignore_ascii_case(exact),
            OriginPattern::Below(before, after) => {
                let origin = origin.to_ascii_lowercase();
                let middle = origin
                    .strip_prefix(before.as_str())
                    .and_then(|rest| rest.strip_suffix(after.as_str()));
                middle.is_some_and(is_host)
            }
        };
        patterns.iter().any(fits)
    }
}

/// Returns `true` if an origin's host is the one of a `Host` header, ports ignored. All names of
/// this machine itself are one host.
fn is_same_host(origin: &str, host: &str) -> bool {
    let Some(written) = origin.split_once("://").and_then(|(_, rest)| host_of(rest)) else {
        return false;
    };
    let is_local = |name: &str| {
        let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
        name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|one| one.is_loopback())
    };
    host_of(host).is_some_and(|host| {
        written.eq_ignore_ascii_case(host) || (is_local(written) && is_local(host))
    })
}

/// The host of `host` or `host:port`; `None` if it is neither.
fn host_of(text: &str) -> Option<&str> {
    let (host, port) = match text.find(']') {
        Some(end) => text.split_at(end + 1),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_port = port.is_empty()
        || (port.starts_with(':') && port[1..].bytes().all(|byte| byte.is_ascii_digit()));
    let address = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let is_address = address.is_some_and(|one| one.parse::<Ipv6Addr>().is_ok());
    (is_port && (is_address || is_host(host))).then_some(host)
}

/// `scheme://host`, `scheme://host:port`, `scheme://*.host`, or `null`, the origin of local files.
fn pattern(written: &str) -> Result<OriginPattern, String> {
    let lower = written.to_ascii_lowercase();
    if lower == "null" {
        return Ok(OriginPattern::Exact(lower));
    }
    let refuse = || {
        Err(format!(
            "allowed_origins: \"{written}\": write https://example.com, https://*.example.com, \
             with :port if there is one and no path, or *"
        ))
    };
    let Some((scheme, rest)) = lower.split_once("://") else {
        return refuse();
    };
    let host = rest.strip_prefix("*.").unwrap_or(rest);
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        if port.bytes().all(|byte| byte.is_ascii_digit()) {
            name
        } else {
            host
        }
    });
    let bracketed = name.starts_with('[') && name.ends_with(']') && !name.contains(['/', '*']);
    if scheme.is_empty() || !(is_host(name) || bracketed) {
        return refuse();
    }
    Ok(match rest.strip_prefix('*') {
        Some(after) => OriginPattern::Below(format!("{scheme}://"), after.to_owned()),
        None => OriginPattern::Exact(lower),
    })
}

fn is_host(text: &str) -> bool {
    let part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !text.is_empty() && text.bytes().all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(written: &[&str]) -> Origins {
        let written: Vec<_> = written.iter().map(|one| (*one).to_owned()).collect();
        Origins::parse(&written).unwrap()
    }

    #[test]
    fn pages_are_let_in_by_their_origin() {
        let some = origins(&[
            "https://app.example.com",
            "http://localhost:3000",
            "https://*.weir.dev",
        ]);
        for yes in [
            "https://app.example.com",
            "HTTPS://App.example.com",
            "http://localhost:3000",
            "https://a.weir.dev",
            "https://a.b.weir.dev",
        ] {
            assert!(some.allow(yes, None), "{yes}");
        }
        for no in [
            "http://app.example.com",
            "https://app.example.com:444",
            "https://app.example.com.evil.org",
            "http://localhost",
            "https://weir.dev",
            "https://evil/.weir.dev",
            "https://evil.org#.weir.dev",
            "null",
            "",
        ] {
            assert!(!some.allow(no, Some("evil.org")), "{no}");
        }
        assert!(origins(&["null"]).allow("null", None));
        for any in [&["*"][..], &["https://a.b", "*"]] {
            assert!(origins(any).allow("https://whoever", None));
        }
    }

    #[test]
    fn without_a_list_pages_of_the_same_host_may_connect() {
        let same = Origins::parse(&[]).unwrap();
        for (origin, host) in [
            ("https://app.example.com", "app.example.com"),
            ("http://app.example.com:3000", "APP.example.com:8080"),
            ("http://localhost:3000", "127.0.0.1:8080"),
            ("http://127.0.0.1", "localhost"),
            ("http://[::1]:1", "localhost:8080"),
            ("https://[2001:db8::1]", "[2001:db8::1]:8443"),
            ("http://10.0.0.1:80", "10.0.0.1"),
        ] {
            assert!(same.allow(origin, Some(host)), "{origin} to {host}");
        }
        for (origin, host) in [
            ("https://evil.org", "app.example.com"),
            ("https://app.example.com.evil.org", "app.example.com"),
            ("https://sub.app.example.com", "app.example.com"),
            ("https://evil.org:80@app.example.com", "app.example.com"),
            ("https://app.example.com/x", "app.example.com"),
            ("http://localhost", "app.example.com"),
            ("http://rebound.evil.org", "127.0.0.1:8080"),
            ("null", "null"),
            ("null", "app.example.com"),
            ("", ""),
            ("app.example.com", "app.example.com"),
            ("https://", ""),
            ("https://[app]", "[app]"),
        ] {
            assert!(!same.allow(origin, Some(host)), "{origin} to {host}");
        }
        assert!(!same.allow("https://a.b", None), "a request without a host");
    }

    #[test]
    fn what_is_no_origin_is_refused() {
        for wrong in [
            "example.com",
            "https://",
            "https://a/",
            "https://a/b",
            "https://*",
            "https://a*.b",
            "://a",
        ] {
            let error = Origins::parse(&[wrong.to_owned()]).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
        assert!(Origins::parse(&["https://[::1]:8080".to_owned()]).is_ok());
    }
}
