//! Rules and claims from texts.

use serde::Deserialize;
use serde_json::{Value, json};
use weir_identity::Claims;
use weir_identity::config::{ItemRule, RawAuthorize, RawSessionRule, SessionRule};

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    authorize: Vec<RawAuthorize>,
    #[serde(default)]
    session_rule: Vec<RawSessionRule>,
}

/// Parses `[[authorize]]` sections.
pub(crate) fn item_rules(text: &str) -> Result<Vec<ItemRule>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    ItemRule::parse_all(&file.authorize).map_err(|error| error.to_string())
}

/// Parses `[[session_rule]]` sections.
pub(crate) fn session_rules(text: &str) -> Result<Vec<SessionRule>, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    SessionRule::parse_all(&file.session_rule).map_err(|error| error.to_string())
}

/// Returns the claims of a token with these members.
pub(crate) fn claims(members: Value) -> Claims {
    match members {
        Value::Object(members) => Claims::of_token(members),
        other => panic!("{other} is not an object"),
    }
}

/// Worked examples of rules.
pub(crate) const EXAMPLES: &str = r#"
[[authorize]]
name = "own orders"
items = ["orders-[account={claims.accounts},region={claims.region}]"]
modes = ["MERGE", "COMMAND"]

[[authorize]]
name = "traders"
items = ["quote-[symbol=*]"]
when = { roles = "trader" }

[[authorize]]
name = "delayed quotes"
items = ["quote-[symbol=*]"]
when = { plan = ["free", "trial"] }
fields = ["symbol", "last"]
max_frequency = 0.2
snapshot = false

[[authorize]]
name = "tenant news"
items = ["news"]
where = "VALUE.tenant = {claims.tenant}"

[[authorize]]
name = "embargo"
effect = "deny"
items = ["quote-[symbol=ACME]"]

[[authorize]]
name = "public"
items = ["status"]
"#;

/// Returns the claims of a trader.
pub(crate) fn anna() -> Claims {
    claims(
        json!({"sub": "anna", "accounts": ["A1", "A2"], "region": "EU", "roles": ["trader"],
        "tenant": "acme"}),
    )
}

/// Returns the claims of a user with a free plan.
pub(crate) fn bob() -> Claims {
    claims(json!({"sub": "bob", "plan": "free", "tenant": "zeta"}))
}
