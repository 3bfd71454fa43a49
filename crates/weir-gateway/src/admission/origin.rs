//! `allowed_origins`: the web pages that may connect. Clients other than browsers send no origin
//! and are not restricted.

use std::net::{IpAddr, Ipv6Addr};

use serde::Deserialize;

#[derive(Debug, thiserror::Error)]
#[error(
    "allowed_origins: \"{0}\": write https://example.com, https://*.example.com, with :port if \
     there is one and no path, or *"
)]
pub(crate) struct InvalidOrigin(String);

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub(crate) enum Origins {
    /// The host of the request, on any port.
    #[default]
    SameHost,
    Listed(Vec<OriginPattern>),
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OriginPattern {
    Exact(String),
    /// `https://*.example.com`: the text before and after the asterisk.
    Below(String, String),
    /// The pages of the admin port.
    Admin(AdminPages),
}

/// Origin of the pages of the admin port: on the host of the request, by its address, as localhost
/// or by a name of `admin.hosts`. Other names could be those of a page that leads here by DNS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminPages {
    pub(crate) scheme: &'static str,
    pub(crate) port: u16,
    pub(crate) hosts: Vec<String>,
}

impl TryFrom<Vec<String>> for Origins {
    type Error = InvalidOrigin;

    /// Parses `allowed_origins`; `*` allows any origin, an empty list the same host.
    fn try_from(written: Vec<String>) -> Result<Self, InvalidOrigin> {
        if written.iter().any(|one| one == "*") {
            return Ok(Self::Any);
        }
        if written.is_empty() {
            return Ok(Self::SameHost);
        }
        let patterns: Result<_, _> = written.iter().map(|one| pattern(one)).collect();
        patterns.map(Self::Listed)
    }
}

impl Origins {
    /// Lets the pages of the admin port connect, where only listed pages may.
    pub(crate) fn add(&mut self, pages: AdminPages) {
        if let Self::Listed(patterns) = self {
            patterns.push(OriginPattern::Admin(pages));
        }
    }

    /// Returns `true` if a page of this origin may connect to `host`, the `Host` header of its
    /// request. Browsers write origins in lower case and without the default port.
    pub(crate) fn allow(&self, origin: &str, host: Option<&str>) -> bool {
        let patterns = match self {
            Self::Any => return true,
            Self::SameHost => return host.is_some_and(|host| is_same_host(origin, host)),
            Self::Listed(patterns) => patterns,
        };
        let fits = |pattern: &OriginPattern| match pattern {
            OriginPattern::Exact(exact) => origin.eq_ignore_ascii_case(exact),
            OriginPattern::Admin(pages) => host.is_some_and(|host| pages.serve(origin, host)),
            OriginPattern::Below(before, after) => {
                let origin = origin.to_ascii_lowercase();
                let rest = origin.strip_prefix(before.as_str());
                rest.and_then(|rest| rest.strip_suffix(after.as_str()))
                    .is_some_and(is_host)
            }
        };
        patterns.iter().any(fits)
    }
}

impl AdminPages {
    fn serve(&self, origin: &str, host: &str) -> bool {
        let Some((scheme, rest)) = origin.split_once("://") else {
            return false;
        };
        let Some(name) = host_of(rest) else {
            return false;
        };
        // Browsers leave out the default port.
        let is_default =
            (self.scheme, self.port) == ("http", 80) || (self.scheme, self.port) == ("https", 443);
        let port = match is_default {
            true => String::new(),
            false => format!(":{}", self.port),
        };
        let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
        let is_known = |known: &str| name.eq_ignore_ascii_case(known);
        let is_own = address.is_ok()
            || is_known("localhost")
            || self.hosts.iter().any(|known| is_known(known));
        scheme == self.scheme && rest[name.len()..] == port && is_own && is_same_host(origin, host)
    }
}

/// Returns `true` if an origin's host equals that of a `Host` header, ignoring ports. All names of
/// the local machine are equal.
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

/// Returns the host of `host` or `host:port`; `None` for other texts.
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

/// Parses `scheme://host`, `scheme://host:port`, `scheme://*.host`, or `null`, the origin of local
/// files.
fn pattern(written: &str) -> Result<OriginPattern, InvalidOrigin> {
    let lower = written.to_ascii_lowercase();
    if lower == "null" {
        return Ok(OriginPattern::Exact(lower));
    }
    let refuse = || Err(InvalidOrigin(written.to_owned()));
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

    #[test]
    fn admin_pages_are_served_on_own_host_only() {
        let mut listed = origins(&["null"]);
        listed.add(AdminPages {
            scheme: "http",
            port: 8090,
            hosts: vec!["gw.example".to_owned()],
        });
        for (origin, host, is_allowed) in [
            ("null", "127.0.0.1:8080", true),
            ("http://127.0.0.1:8090", "127.0.0.1:8080", true),
            ("http://localhost:8090", "127.0.0.1:8080", true),
            ("http://10.0.0.5:8090", "10.0.0.5:8080", true),
            ("http://[fd00::5]:8090", "[fd00::5]:8080", true),
            ("http://gw.example:8090", "gw.example:8080", true),
            // Another machine, port, scheme, or a name that leads here.
            ("http://10.0.0.6:8090", "10.0.0.5:8080", false),
            ("http://127.0.0.1:8000", "127.0.0.1:8080", false),
            ("http://127.0.0.1", "127.0.0.1:8080", false),
            ("https://127.0.0.1:8090", "127.0.0.1:8080", false),
            ("http://evil.example:8090", "evil.example:8080", false),
        ] {
            assert_eq!(
                listed.allow(origin, Some(host)),
                is_allowed,
                "{origin} {host}"
            );
        }
        let mut any = origins(&["https://*.example.com"]);
        any.add(AdminPages {
            scheme: "https",
            port: 443,
            hosts: Vec::new(),
        });
        assert!(any.allow("https://127.0.0.1", Some("127.0.0.1:8443")));
        assert!(!any.allow("https://127.0.0.1", None));
    }

    fn origins(written: &[&str]) -> Origins {
        let written: Vec<_> = written.iter().map(|one| (*one).to_owned()).collect();
        Origins::try_from(written).unwrap()
    }

    #[test]
    fn origin_allowlist_is_enforced() {
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
            assert!(origins(any).allow("https://any.example", None));
        }
    }

    #[test]
    fn empty_list_allows_same_host() {
        let same = Origins::try_from(Vec::new()).unwrap();
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
        assert!(!same.allow("https://a.b", None), "request without a host");
    }

    #[test]
    fn invalid_origins_are_rejected() {
        for wrong in [
            "example.com",
            "https://",
            "https://a/",
            "https://a/b",
            "https://*",
            "https://a*.b",
            "://a",
        ] {
            let error = Origins::try_from(vec![wrong.to_owned()])
                .unwrap_err()
                .to_string();
            assert!(error.contains(wrong), "{error}");
        }
        assert!(Origins::try_from(vec!["https://[::1]:8080".to_owned()]).is_ok());
    }
}
