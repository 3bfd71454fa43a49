//! Clients that are identified by the certificates of their connections.

use std::sync::Arc;

use serde_json::Value;
use weir_identity::token::{IdentifiedClient, TokenError};
use weir_identity::{AuthMethod, ClaimPath, Claims, IdentityParts, ReservedClaims, UserIdentity};
use weir_net::tls::CertificateNames;

/// Issuer of all identities from certificates.
const ISSUER: &str = "certificate";
/// Claim with the end of the certificate in Unix seconds, like `exp` of a token.
const NOT_AFTER: &str = "not_after";

/// Returns the client with a verified certificate. Its user name is the first common name, or
/// without one the first email address, DNS name or URI.
pub(crate) fn certified_client(
    names: &CertificateNames,
    tenant_claim: Option<&ClaimPath>,
) -> Result<IdentifiedClient, TokenError> {
    let mut claims = Claims::default();
    set_names(&mut claims, names);
    let kinds = [&names.common, &names.emails, &names.dns, &names.uris];
    let user = kinds.into_iter().flatten().find(|name| !name.is_empty());
    let user = user.ok_or(TokenError::User)?;
    let tenant = tenant_claim.and_then(|path| claims.get(path).and_then(Value::as_str));
    let tenant = tenant.filter(|tenant| !tenant.is_empty());
    let parts = IdentityParts {
        user,
        tenant,
        expires_ms: Some(end_s(names).saturating_mul(1_000)),
        ..IdentityParts::default()
    };
    let identity = UserIdentity::new(Arc::from(ISSUER), AuthMethod::Certificate, parts);
    let identity = identity.ok_or(TokenError::User)?;
    claims.set_identity(&identity);
    Ok(IdentifiedClient {
        identity: Arc::new(identity),
        claims,
    })
}

/// Returns the client with a token, and the names in the certificate of its connection as claims.
pub(crate) fn with_names(client: &IdentifiedClient, names: &CertificateNames) -> IdentifiedClient {
    let mut client = client.clone();
    set_names(&mut client.claims, names);
    client
}

/// Returns the end of the certificate with these claims, Unix time in milliseconds.
pub(crate) fn certificate_end_ms(names: &Value) -> Option<u64> {
    let end_s = names.get(NOT_AFTER)?.as_u64()?;
    Some(end_s.saturating_mul(1_000))
}

fn end_s(names: &CertificateNames) -> u64 {
    u64::try_from(names.not_after_unix_s).unwrap_or(0)
}

/// Sets the claims `tls.*`.
fn set_names(claims: &mut Claims, names: &CertificateNames) {
    claims.set_own(ReservedClaims::Tls, NOT_AFTER, end_s(names).into());
    for (name, values) in [
        ("cn", &names.common),
        ("o", &names.organizations),
        ("ou", &names.units),
        ("dns", &names.dns),
        ("email", &names.emails),
        ("uri", &names.uris),
    ] {
        match values.as_slice() {
            [] => {}
            [one] => claims.set_own(ReservedClaims::Tls, name, one.as_str().into()),
            many => claims.set_own(ReservedClaims::Tls, name, many.to_vec().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::authenticator::{AccessTime, Authenticator};
    use crate::config::{AccessConfig, RawAccess};

    fn names(common: &[&str], dns: &[&str]) -> CertificateNames {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        CertificateNames {
            common: owned(common),
            dns: owned(dns),
            organizations: owned(&["acme"]),
            not_after_unix_s: 7,
            ..CertificateNames::default()
        }
    }

    fn texts(client: &IdentifiedClient, path: &str) -> Vec<String> {
        let found = client.claims.texts(&ClaimPath::parse(path).unwrap());
        let found = found.unwrap().into_iter();
        found.map(|text| text.into_owned()).collect()
    }

    #[test]
    fn names_become_user_tenant_and_claims() {
        let tenant = ClaimPath::parse("tls.o").unwrap();
        let client = certified_client(&names(&["anna"], &["a", "b"]), Some(&tenant)).unwrap();
        let identity = &client.identity;
        assert_eq!((identity.issuer(), identity.user()), (ISSUER, "anna"));
        assert_eq!(
            (identity.tenant(), identity.expires_ms()),
            (Some("acme"), 7_000)
        );
        assert_eq!(texts(&client, "tls.cn"), ["anna"]);
        assert_eq!(texts(&client, "tls.dns"), ["a", "b"]);
        assert_eq!(texts(&client, "weir.auth"), ["certificate"]);
        assert_eq!(texts(&client, "weir.user"), ["anna"]);
    }

    #[test]
    fn user_is_common_name_before_others() {
        let user =
            |names| Ok::<_, TokenError>(certified_client(&names, None)?.identity.user().to_owned());
        assert_eq!(user(names(&["anna"], &["a"])).as_deref(), Ok("anna"));
        assert_eq!(user(names(&[], &["a"])).as_deref(), Ok("a"));
        assert_eq!(user(names(&[], &[])), Err(TokenError::User));
        assert_eq!(user(CertificateNames::default()), Err(TokenError::User));
        let long = "x".repeat(257);
        assert_eq!(user(names(&[&long], &[])), Err(TokenError::User));
    }

    /// A client with a token has the names of its certificate until the first of both ends.
    #[test]
    fn session_of_a_token_ends_with_the_certificate() {
        let raw: RawAccess = toml::from_str("[auth]\nanonymous = true\n").unwrap();
        let config = AccessConfig::new(raw, Path::new(".")).unwrap().unwrap();
        let auth = Authenticator::new(config, &["feed"]);
        let now = AccessTime {
            unix_ms: 1_000,
            loop_ms: 50,
        };
        let end_of = |not_after_unix_s, expires_ms| {
            let parts = IdentityParts {
                user: "anna",
                expires_ms: Some(expires_ms),
                ..IdentityParts::default()
            };
            let identity = UserIdentity::new("i".into(), AuthMethod::Jwt, parts).unwrap();
            let token = IdentifiedClient {
                identity: Arc::new(identity),
                claims: Claims::default(),
            };
            let names = CertificateNames {
                not_after_unix_s,
                ..names(&["desk"], &[])
            };
            let client = with_names(&token, &names);
            assert_eq!(client.identity.user(), "anna");
            assert_eq!(texts(&client, "tls.cn"), ["desk"]);
            auth.access(&client, now, 0).unwrap().access.end_ms()
        };
        assert_eq!(end_of(7, 1_000_000), 6_050);
        assert!(end_of(1_000_000, 7_000) < 100_000);
    }
}
