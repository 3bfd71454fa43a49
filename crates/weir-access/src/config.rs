//! The sections `[auth]`, `[[authorize]]` and `[[session_rule]]` of `gateway.toml`, and the key
//! files that they name.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;
use weir_identity::config::{
    AuthConfig, AuthConfigError, ItemRule, RawAuth, RawAuthorize, RawSessionRule, RuleConfigError,
    SessionRule,
};
use weir_security::StoreError;

use crate::key_source::{KeyFileError, KeySource};

/// Identities of clients and their rights.
#[derive(Debug)]
pub struct AccessConfig {
    /// How clients are identified. Without `[auth]` all are anonymous.
    pub auth: AuthConfig,
    /// Rules on items; without any, all items are allowed.
    pub item_rules: Vec<ItemRule>,
    /// Limits of sessions.
    pub session_rules: Vec<SessionRule>,
    /// Source of the keys of each issuer.
    pub keys: Vec<KeySource>,
}

/// The sections as written.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawAccess {
    /// `[auth]`.
    pub auth: Option<Spanned<RawAuth>>,
    /// `[[authorize]]`.
    pub authorize: Vec<Spanned<RawAuthorize>>,
    /// `[[session_rule]]`.
    pub session_rule: Vec<Spanned<RawSessionRule>>,
}

/// Error in the sections, with its position in the file if it is known.
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct AccessError {
    /// Byte range of the section in the file.
    pub span: Option<Range<usize>>,
    kind: AccessErrorKind,
}

#[derive(Debug, thiserror::Error)]
enum AccessErrorKind {
    #[error("auth: {0}")]
    Auth(#[from] AuthConfigError),
    #[error("auth: issuer \"{issuer}\": {error}")]
    KeyFile { issuer: String, error: KeyFileError },
    #[error("auth: issuer \"{issuer}\": ca_file: {error}")]
    Authorities { issuer: String, error: StoreError },
    #[error("authorize: {0}")]
    Authorize(RuleConfigError),
    #[error("session_rule: {0}")]
    SessionRule(RuleConfigError),
}

impl AccessConfig {
    /// Checks the sections and reads key files; relative paths start at `dir`. Returns `None` if no
    /// section is present.
    pub fn new(raw: RawAccess, dir: &Path) -> Result<Option<Self>, AccessError> {
        let RawAccess {
            auth,
            authorize,
            session_rule,
        } = raw;
        if auth.is_none() && authorize.is_empty() && session_rule.is_empty() {
            return Ok(None);
        }
        let span = auth.as_ref().map(Spanned::span);
        let in_auth = |kind| AccessError {
            span: span.clone(),
            kind,
        };
        let has_auth = auth.is_some();
        let raw_auth = auth.map(Spanned::into_inner).unwrap_or_default();
        let mut auth = AuthConfig::new(&raw_auth).map_err(|error| in_auth(error.into()))?;
        // Without [auth], all clients are anonymous and none is rejected.
        auth.anonymous |= !has_auth;
        if !has_auth {
            auth.sources.clear();
        }
        let sources = auth.issuers.iter().map(|issuer| {
            let name = || issuer.issuer.to_string();
            let roots = KeySource::roots(issuer, dir).map_err(|error| {
                let issuer = name();
                in_auth(AccessErrorKind::Authorities { issuer, error })
            })?;
            KeySource::open(issuer, roots, dir).map_err(|error| {
                let issuer = name();
                in_auth(AccessErrorKind::KeyFile { issuer, error })
            })
        });
        Ok(Some(Self {
            keys: sources.collect::<Result<_, _>>()?,
            item_rules: rules(authorize, ItemRule::parse_all, AccessErrorKind::Authorize)?,
            session_rules: rules(
                session_rule,
                SessionRule::parse_all,
                AccessErrorKind::SessionRule,
            )?,
            auth,
        }))
    }
}

/// Parses rules together. An error gets the span of the first rule with which it occurs.
fn rules<R, T>(
    raw: Vec<Spanned<R>>,
    parse: impl Fn(&[R]) -> Result<Vec<T>, RuleConfigError>,
    kind: impl Fn(RuleConfigError) -> AccessErrorKind,
) -> Result<Vec<T>, AccessError> {
    let spans: Vec<_> = raw.iter().map(Spanned::span).collect();
    let raw: Vec<R> = raw.into_iter().map(Spanned::into_inner).collect();
    parse(&raw).map_err(|error| {
        let failing_count = (1..=raw.len()).find(|count| parse(&raw[..*count]).is_err());
        AccessError {
            span: failing_count.and_then(|count| spans.get(count - 1).cloned()),
            kind: kind(error),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> (Option<u32>, String) {
        let raw: RawAccess = toml::from_str(text).expect("valid TOML");
        let error = AccessConfig::new(raw, Path::new("/nowhere")).expect_err("an error");
        let start = error.span.clone().map(|span| span.start);
        let line = start.map(|start| 1 + text[..start].matches('\n').count() as u32);
        (line, error.to_string())
    }

    #[test]
    fn errors_have_line_and_remedy() {
        let auth = "[auth]\n[[auth.issuer]]\nissuer=\"https://a\"\naudience=\"w\"\n";
        let rule = "[[authorize]]\nname=\"one\"\nitems=[\"x\"]\n";
        let rows = [
            (
                "\n[auth]\nsources=[\"magic\"]".to_owned(),
                2,
                "write password, header",
            ),
            (
                format!("{auth}jwks_file=\"keys.json\""),
                1,
                "/nowhere/keys.json: cannot read",
            ),
            (format!("{auth}jwks_url=\"http://a/keys\""), 1, "use HTTPS"),
            (
                format!("{auth}ca_file=\"ca.pem\"\nkeys=\"discovery\""),
                1,
                "ca_file: cannot",
            ),
            (
                format!(
                    "{auth}keys=\"discovery\"\n[auth.revocations]\ntopic=\"\"\nconnection=\"c\""
                ),
                1,
                "connection and topic must not be empty",
            ),
            (
                format!("{rule}[[authorize]]\nname=\"one\"\nitems=[\"y\"]"),
                4,
                "two rules",
            ),
            (
                format!("{rule}where=\"VALUE.t\""),
                1,
                "there is no \" = {\"",
            ),
            (
                format!("{rule}[[session_rule]]\nname=\"s\""),
                4,
                "sets no limit",
            ),
            (
                format!("{rule}[[session_rule]]\nname=\"s\"\nend_oldest=true"),
                4,
                "end_oldest needs max_sessions",
            ),
        ];
        for (text, line, remedy) in rows {
            let (found, message) = error(&text);
            assert_eq!(found, Some(line), "{message}");
            assert!(message.contains(remedy), "{message}");
        }
    }

    #[test]
    fn missing_sections_restrict_no_client() {
        let none = AccessConfig::new(RawAccess::default(), Path::new("."));
        assert!(none.expect("valid").is_none());
        let raw = toml::from_str("[[authorize]]\nname=\"r\"\nitems=[\"x\"]").expect("TOML");
        let rules = AccessConfig::new(raw, Path::new("."))
            .expect("valid")
            .expect("rules");
        assert!(rules.auth.anonymous && rules.auth.sources.is_empty());
    }
}
