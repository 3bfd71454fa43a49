//! Rules and claims from texts.

use serde::Deserialize;
use serde_json::Value;
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
