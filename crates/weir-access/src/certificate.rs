//! Clients that are identified by the certificates of their connections.

use std::sync::Arc;

use serde_json::Value;
use weir_identity::token::{TokenError, VerifiedToken};
use weir_identity::{AuthMethod, ClaimPath, Claims, IdentityParts, OwnClaims, UserIdentity};
use weir_net::tls::CertificateNames;

/// Issuer of all identities from certificates.
const ISSUER: &str = "certificate";

/// Returns the client with a verified certificate. Its user name is the first common name, or
/// without one the first email address, DNS name or URI.
pub(crate) fn certified_client(
    names: &CertificateNames,
    tenant_claim: Option<&ClaimPath>,
) -> Result<VerifiedToken, TokenError> {
    let mut claims = Claims::default();
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
            [one] => claims.set_own(OwnClaims::Tls, name, one.as_str().into()),
            many => claims.set_own(OwnClaims::Tls, name, many.to_vec().into()),
        }
    }
    let kinds = [&names.common, &names.emails, &names.dns, &names.uris];
    let user = kinds.into_iter().flatten().find(|name| !name.is_empty());
    let user = user.ok_or(TokenError::User)?;
    let tenant = tenant_claim.and_then(|path| claims.get(path).and_then(Value::as_str));
    let tenant = tenant.filter(|tenant| !tenant.is_empty());
    let expires_s = u64::try_from(names.not_after_unix_s).unwrap_or(0);
    let parts = IdentityParts {
        user,
        tenant,
        expires_ms: Some(expires_s.saturating_mul(1_000)),
        ..IdentityParts::default()
    };
    let identity = UserIdentity::new(Arc::from(ISSUER), AuthMethod::Certificate, parts);
    let identity = identity.ok_or(TokenError::User)?;
    claims.set_identity(&identity);
    Ok(VerifiedToken {
        identity: Arc::new(identity),
        claims,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn texts(client: &VerifiedToken, path: &str) -> Vec<String> {
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
}
