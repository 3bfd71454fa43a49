//! Identity of a client: issuer and user, with what sessions need of its token.

use std::sync::Arc;

/// Longest user name, in bytes.
pub const USER_BYTES_MAX: usize = 256;
/// Longest tenant name and token ID, in bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// How a client was identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AuthMethod {
    /// A token.
    Jwt,
    /// A client certificate.
    Certificate,
    /// A remote adapter.
    Adapter,
    /// Nothing.
    Anonymous,
}

impl AuthMethod {
    /// Returns the value of the claim `weir.auth`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jwt => "jwt",
            Self::Certificate => "certificate",
            Self::Adapter => "adapter",
            Self::Anonymous => "anonymous",
        }
    }
}

/// Issuer, user and validity of a client. All texts share one allocation, because every session has
/// an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserIdentity {
    issuer: Arc<str>,
    /// User, tenant and token ID, one after the other.
    text: Box<str>,
    user_len: u16,
    tenant_len: Option<u16>,
    has_token_id: bool,
    method: AuthMethod,
    expires_ms: u64,
    issued_ms: Option<u64>,
}

/// Texts and times of an identity.
#[derive(Debug, Clone, Copy, Default)]
pub struct IdentityParts<'a> {
    /// User name.
    pub user: &'a str,
    /// Tenant, for limits.
    pub tenant: Option<&'a str>,
    /// Token ID (`jti`).
    pub token_id: Option<&'a str>,
    /// End of validity, Unix time in milliseconds.
    pub expires_ms: Option<u64>,
    /// Time of issue (`iat`), Unix time in milliseconds.
    pub issued_ms: Option<u64>,
}

impl UserIdentity {
    /// Creates an identity. Returns `None` if a text is too long.
    pub fn new(issuer: Arc<str>, method: AuthMethod, parts: IdentityParts<'_>) -> Option<Self> {
        let optional = [parts.tenant, parts.token_id];
        let mut optional = optional.into_iter().flatten();
        if parts.user.len() > USER_BYTES_MAX || optional.any(|text| text.len() > TEXT_BYTES_MAX) {
            return None;
        }
        let tenant = parts.tenant.unwrap_or_default();
        let token_id = parts.token_id.unwrap_or_default();
        Some(Self {
            issuer,
            text: [parts.user, tenant, token_id].concat().into(),
            user_len: parts.user.len() as u16,
            tenant_len: parts.tenant.map(|tenant| tenant.len() as u16),
            has_token_id: parts.token_id.is_some(),
            method,
            expires_ms: parts.expires_ms.unwrap_or(u64::MAX),
            issued_ms: parts.issued_ms,
        })
    }

    /// Returns the identity of all clients without one.
    pub fn anonymous() -> Self {
        Self {
            issuer: Arc::from(""),
            text: "".into(),
            user_len: 0,
            tenant_len: None,
            has_token_id: false,
            method: AuthMethod::Anonymous,
            expires_ms: u64::MAX,
            issued_ms: None,
        }
    }

    /// Returns `true` if both are the same user of the same issuer. Anonymous clients are not.
    pub fn is_same_user(&self, other: &Self) -> bool {
        self.method != AuthMethod::Anonymous
            && self.method == other.method
            && self.issuer == other.issuer
            && self.user() == other.user()
    }

    /// Returns `true` if a connection with the credentials of `client` must not use a session of
    /// this one. The certificate of a connection says nothing about a session that a token or an
    /// adapter has opened.
    pub fn excludes(&self, client: &Self) -> bool {
        let is_extra = client.method == AuthMethod::Certificate
            && matches!(self.method, AuthMethod::Jwt | AuthMethod::Adapter);
        !is_extra && !self.is_same_user(client)
    }

    /// Returns the issuer; empty for anonymous clients.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the user name; empty for anonymous clients.
    pub fn user(&self) -> &str {
        &self.text[..usize::from(self.user_len)]
    }

    /// Returns the tenant.
    pub fn tenant(&self) -> Option<&str> {
        let start = usize::from(self.user_len);
        let len = usize::from(self.tenant_len?);
        Some(&self.text[start..start + len])
    }

    /// Returns the token ID (`jti`).
    pub fn token_id(&self) -> Option<&str> {
        let start = usize::from(self.user_len) + usize::from(self.tenant_len.unwrap_or(0));
        self.has_token_id.then(|| &self.text[start..])
    }

    /// Returns how the client was identified.
    pub fn method(&self) -> AuthMethod {
        self.method
    }

    /// Returns the end of validity, Unix time in milliseconds; `u64::MAX` without an end.
    pub fn expires_ms(&self) -> u64 {
        self.expires_ms
    }

    /// Returns the time of issue, Unix time in milliseconds.
    pub fn issued_ms(&self) -> Option<u64> {
        self.issued_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(issuer: &str, user: &str) -> UserIdentity {
        let parts = IdentityParts {
            user,
            tenant: Some("acme"),
            token_id: Some("t-1"),
            ..IdentityParts::default()
        };
        UserIdentity::new(Arc::from(issuer), AuthMethod::Jwt, parts).unwrap()
    }

    #[test]
    fn texts_share_one_allocation() {
        let anna = identity("https://a", "anna");
        assert_eq!((anna.issuer(), anna.user()), ("https://a", "anna"));
        assert_eq!(
            (anna.tenant(), anna.token_id()),
            (Some("acme"), Some("t-1"))
        );
        assert!(
            size_of::<UserIdentity>() <= 72,
            "{}",
            size_of::<UserIdentity>()
        );
        let parts = IdentityParts {
            user: "x",
            ..IdentityParts::default()
        };
        let plain = UserIdentity::new(Arc::from("i"), AuthMethod::Adapter, parts).unwrap();
        assert_eq!((plain.tenant(), plain.token_id()), (None, None));
    }

    #[test]
    fn users_of_two_issuers_differ() {
        let anna = identity("https://a", "anna");
        assert!(anna.is_same_user(&identity("https://a", "anna")));
        assert!(!anna.is_same_user(&identity("https://b", "anna")));
        assert!(!anna.is_same_user(&identity("https://a", "bob")));
        let anonymous = UserIdentity::anonymous();
        assert!(!anonymous.is_same_user(&UserIdentity::anonymous()));
    }

    #[test]
    fn certificate_excludes_only_sessions_of_certificates() {
        let certified = |user| {
            let parts = IdentityParts {
                user,
                ..IdentityParts::default()
            };
            let issuer = Arc::from("certificate");
            UserIdentity::new(issuer, AuthMethod::Certificate, parts).unwrap()
        };
        let token = identity("https://a", "anna");
        assert!(!token.excludes(&certified("bob")), "next to the token");
        assert!(token.excludes(&identity("https://a", "bob")));
        assert!(certified("anna").excludes(&certified("bob")));
        assert!(!certified("anna").excludes(&certified("anna")));
        assert!(certified("anna").excludes(&token));
        assert!(UserIdentity::anonymous().excludes(&certified("anna")));
    }

    #[test]
    fn long_texts_are_rejected() {
        let (user, tenant) = ("u".repeat(257), "t".repeat(1025));
        for (user, tenant) in [(&*user, "t"), ("u", &*tenant)] {
            let parts = IdentityParts {
                user,
                tenant: Some(tenant),
                ..IdentityParts::default()
            };
            assert_eq!(
                UserIdentity::new(Arc::from("i"), AuthMethod::Jwt, parts),
                None
            );
        }
    }
}
