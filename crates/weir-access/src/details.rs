//! Rights of a session as operators see them.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_identity::config::RuleEffect;

use crate::access::SessionAccess;
use crate::authenticator::Authenticator;

/// Rules that are listed, and their patterns, and values of a claim.
const RULES_MAX: usize = 100;
const PATTERNS_MAX: usize = 20;
const VALUES_MAX: usize = 20;

/// Rights of a session.
#[derive(Debug, Serialize)]
pub struct AccessDetails {
    /// Session rule that sets its limits.
    session_rule: Option<String>,
    /// Item rules that apply to its client; `None` without item rules, which allow everything.
    grants: Option<Vec<GrantedRule>>,
    /// Values of the claims in the patterns.
    claims: BTreeMap<String, Vec<String>>,
    /// `true` if there are more rules, patterns or values than listed.
    grants_truncated: bool,
}

#[derive(Debug, Serialize)]
struct GrantedRule {
    rule: String,
    effect: &'static str,
    items: Vec<String>,
    max_frequency: Option<f64>,
}

impl Authenticator {
    /// Returns the rights of a session.
    pub fn details(&self, access: &SessionAccess) -> AccessDetails {
        let session_rule = self.session_rule(access);
        let mut details = AccessDetails {
            session_rule: session_rule.map(|rule| rule.name.to_string()),
            grants: None,
            claims: BTreeMap::new(),
            grants_truncated: false,
        };
        let (Some(rules), Some(grants)) = (self.item_rules(), &access.grants) else {
            return details;
        };
        let mut granted = Vec::new();
        for rule in rules.granted(grants) {
            if granted.len() == RULES_MAX {
                details.grants_truncated = true;
                break;
            }
            details.grants_truncated |= rule.items.len() > PATTERNS_MAX;
            let items = rule.items.iter().take(PATTERNS_MAX);
            granted.push(GrantedRule {
                rule: rule.name.to_string(),
                effect: match rule.effect {
                    RuleEffect::Allow => "allow",
                    RuleEffect::Deny => "deny",
                },
                items: items.map(ToString::to_string).collect(),
                max_frequency: rule.frequency_max,
            });
        }
        details.grants = Some(granted);
        for (path, values) in rules.claim_values(grants).take(RULES_MAX) {
            details.grants_truncated |= values.len() > VALUES_MAX;
            let values = values.take(VALUES_MAX).map(str::to_owned);
            details.claims.insert(path.to_string(), values.collect());
        }
        details
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;
    use weir_identity::token::IdentifiedClient;
    use weir_identity::{AuthMethod, Claims, IdentityParts, UserIdentity};

    use super::*;
    use crate::authenticator::AccessTime;
    use crate::config::{AccessConfig, RawAccess};

    fn details(rules: &str, claims: serde_json::Value) -> serde_json::Value {
        let raw: RawAccess = toml::from_str(rules).unwrap();
        let config = AccessConfig::new(raw, Path::new(".")).unwrap().unwrap();
        let auth = Authenticator::new(config, &["feed"]);
        let serde_json::Value::Object(members) = claims else {
            panic!("no object");
        };
        let parts = IdentityParts::default();
        let client = IdentifiedClient {
            identity: UserIdentity::new("i".into(), AuthMethod::Jwt, parts)
                .unwrap()
                .into(),
            claims: Claims::of_token(members),
        };
        let now = AccessTime {
            unix_ms: 0,
            loop_ms: 0,
        };
        let admitted = auth.access(&client, now, 0).unwrap();
        serde_json::to_value(auth.details(&admitted.access)).unwrap()
    }

    const RULES: &str = r#"
        [[authorize]]
        name = "own"
        items = ["orders-[account={claims.accounts}]", "status"]
        [[authorize]]
        name = "traders"
        items = ["*"]
        when = { role = "trader" }
        [[authorize]]
        name = "embargo"
        effect = "deny"
        items = ["quote-[symbol=ACME]"]
        [[session_rule]]
        name = "small"
        max_subscriptions = 2
    "#;

    #[test]
    fn rules_of_the_client_are_shown_with_its_claims() {
        let shown = details(RULES, json!({ "accounts": ["A2", "A1"], "role": "clerk" }));
        assert_eq!(
            shown,
            json!({
                "session_rule": "small",
                "grants": [
                    { "rule": "own", "effect": "allow", "max_frequency": null,
                      "items": ["orders-[account={claims.accounts}]", "status"] },
                    { "rule": "embargo", "effect": "deny", "max_frequency": null,
                      "items": ["quote-[symbol=ACME]"] },
                ],
                "claims": { "accounts": ["A1", "A2"] },
                "grants_truncated": false,
            })
        );
        let open = details(
            "[[session_rule]]\nname=\"s\"\nmax_subscriptions=1",
            json!({}),
        );
        assert_eq!(
            (&open["grants"], &open["session_rule"]),
            (&json!(null), &json!("s"))
        );
    }

    #[test]
    fn long_lists_are_cut() {
        let values: Vec<_> = (100..200).map(|number| number.to_string()).collect();
        let shown = details(RULES, json!({ "accounts": values }));
        assert_eq!(
            shown["claims"]["accounts"].as_array().unwrap().len(),
            VALUES_MAX
        );
        assert_eq!(shown["grants_truncated"], true);
    }
}
