//! `allowed_origins`: which web pages may connect. Clients that are no browsers send no origin and are
//! not concerned.

/// Patterns of origins; none: any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origins {
    patterns: Vec<Pattern>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    /// The whole origin.
    Exact(String),
    /// `https://*.example.com`: what stands before and after the star.
    Below(String, String),
}

impl Origins {
    /// From `allowed_origins` as written; `*` allows any.
    ///
    /// # Errors
    /// The first that cannot be an origin, with the remedy.
    pub(crate) fn parse(written: &[String]) -> Result<Self, String> {
        if written.iter().any(|one| one == "*") {
            return Ok(Self::default());
        }
        let patterns: Result<_, _> = written.iter().map(|one| pattern(one)).collect();
        Ok(Self {
            patterns: patterns?,
        })
    }

    /// Whether a page of this origin may connect. Browsers write origins in lower case and without the
    /// scheme's own port.
    pub(crate) fn allow(&self, origin: &str) -> bool {
        let fits = |pattern: &Pattern| match pattern {
            Pattern::Exact(exact) => origin.eq_ignore_ascii_case(exact),
            Pattern::Below(before, after) => {
                let origin = origin.to_ascii_lowercase();
                let middle = origin
                    .strip_prefix(before.as_str())
                    .and_then(|rest| rest.strip_suffix(after.as_str()));
                middle.is_some_and(is_host)
            }
        };
        self.patterns.is_empty() || self.patterns.iter().any(fits)
    }
}

/// `scheme://host`, `scheme://host:port`, `scheme://*.host`, or `null`, the origin of local files.
fn pattern(written: &str) -> Result<Pattern, String> {
    let lower = written.to_ascii_lowercase();
    if lower == "null" {
        return Ok(Pattern::Exact(lower));
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
        Some(after) => Pattern::Below(format!("{scheme}://"), after.to_owned()),
        None => Pattern::Exact(lower),
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
            assert!(some.allow(yes), "{yes}");
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
            assert!(!some.allow(no), "{no}");
        }
        assert!(origins(&["null"]).allow("null"));
        for any in [&[][..], &["*"], &["https://a.b", "*"]] {
            assert!(origins(any).allow("https://whoever"));
        }
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
