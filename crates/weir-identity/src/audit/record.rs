//! One line of the audit log. `docs/audit.schema.json` is derived from these types.

use std::fmt::Write;

use jiff::Timestamp;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::identity::{AuthMethod, UserIdentity};
use crate::revocation::RevocationKey;

/// Version of the format.
const VERSION: u32 = 1;
/// Most items that a record names.
const ITEMS_MAX: usize = 20;
/// Longest text of a client or token, in bytes.
const TEXT_BYTES_MAX: usize = 2_000;

/// Kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AuditEvent {
    /// A client asked for a session.
    Create,
    /// A client sent a new token for its session.
    Refresh,
    /// A client asked for a subscription.
    Subscribe,
    /// A client sent a message.
    Message,
    /// A subscription ended because its rule does not apply any more.
    GrantLost,
    /// A session ended with its token.
    Expire,
    /// Tokens were revoked.
    Revoke,
    /// An operator or adapter ended a session.
    Disconnect,
    /// A session ended.
    End,
    /// An operator used the admin interface.
    Admin,
    /// The configuration was read.
    Config,
}

/// Result of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// It was allowed.
    Allow,
    /// It was denied.
    Deny,
    /// It failed, for example because keys were not available.
    Error,
}

/// How a client was identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // as in `AuthMethod`
pub enum AuditAuth {
    Jwt,
    Certificate,
    Adapter,
    Anonymous,
}

impl From<AuthMethod> for AuditAuth {
    fn from(method: AuthMethod) -> Self {
        match method {
            AuthMethod::Jwt => Self::Jwt,
            AuthMethod::Certificate => Self::Certificate,
            AuthMethod::Adapter => Self::Adapter,
            AuthMethod::Anonymous => Self::Anonymous,
        }
    }
}

/// Line of Weir's audit log. It never contains a token, password, cookie or session ID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "Line of Weir's audit log"))]
#[serde(deny_unknown_fields)]
pub struct AuditRecord {
    /// Version of the format.
    #[cfg_attr(feature = "schema", schemars(extend("const" = VERSION)))]
    v: u32,
    /// Time, with milliseconds, in UTC.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    ts: String,
    /// Name of the gateway.
    gateway: String,
    /// Kind of event.
    event: AuditEvent,
    /// Result.
    outcome: AuditOutcome,
    /// Cause, as one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Code that the client received.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
    /// Random handle of the session; not its ID, which is a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// Issuer of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    /// User name.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// ID of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    jti: Option<String>,
    /// How the client was identified.
    #[serde(skip_serializing_if = "Option::is_none")]
    auth: Option<AuditAuth>,
    /// Address of the client or operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// Kafka connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<String>,
    /// Canonical item names, at most 20 of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 20)))]
    items: Option<Vec<String>>,
    /// Number of items, or of summarized rejections.
    #[serde(skip_serializing_if = "Option::is_none")]
    item_count: Option<u64>,
    /// Subscription mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    /// Rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// Operator or adapter that acted, if not the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<String>,
}

impl AuditRecord {
    /// Creates a record; `now_ms` is Unix time in milliseconds.
    pub fn new(gateway: &str, now_ms: u64, event: AuditEvent, outcome: AuditOutcome) -> Self {
        Self {
            v: VERSION,
            ts: timestamp(now_ms),
            gateway: gateway.to_owned(),
            event,
            outcome,
            reason: None,
            code: None,
            session: None,
            issuer: None,
            user: None,
            jti: None,
            auth: None,
            address: None,
            connection: None,
            items: None,
            item_count: None,
            mode: None,
            rule: None,
            actor: None,
        }
    }

    /// Adds the cause: one of a fixed set of words, never text of a client.
    pub fn reason(mut self, reason: &'static str) -> Self {
        self.reason = Some(reason.to_owned());
        self
    }

    /// Adds the code that the client received.
    pub fn code(mut self, code: i32) -> Self {
        self.code = Some(code);
        self
    }

    /// Adds the handle of the session.
    pub fn session(mut self, handle: &str) -> Self {
        self.session = shortened(handle);
        self
    }

    /// Adds issuer, user, token ID and how the client was identified.
    pub fn identity(mut self, identity: &UserIdentity) -> Self {
        self.issuer = shortened(identity.issuer()).filter(|issuer| !issuer.is_empty());
        self.user = shortened(identity.user()).filter(|user| !user.is_empty());
        self.jti = identity.token_id().and_then(shortened);
        self.auth = Some(identity.method().into());
        self
    }

    /// Adds whose tokens a revocation is about.
    pub fn revocation(mut self, key: &RevocationKey) -> Self {
        let (issuer, user, jti) = match key {
            RevocationKey::Token { issuer, jti } => (issuer, None, Some(jti)),
            RevocationKey::User { issuer, user } => (issuer, Some(user), None),
        };
        self.issuer = shortened(issuer);
        self.user = user.and_then(|user| shortened(user));
        self.jti = jti.and_then(|jti| shortened(jti));
        self
    }

    /// Adds the address of the client or operator.
    pub fn address(mut self, address: &str) -> Self {
        self.address = shortened(address);
        self
    }

    /// Adds what was subscribed: the first 20 items and their number.
    pub fn subscription<'a>(
        mut self,
        connection: &str,
        mode: &str,
        items: impl ExactSizeIterator<Item = &'a str>,
    ) -> Self {
        self.connection = shortened(connection);
        self.mode = shortened(mode);
        self.item_count = Some(items.len() as u64);
        self.items = Some(items.take(ITEMS_MAX).filter_map(shortened).collect());
        self
    }

    /// Adds a number of summarized rejections.
    pub fn count(mut self, count: u64) -> Self {
        self.item_count = Some(count);
        self
    }

    /// Adds the rule that decided.
    pub fn rule(mut self, name: &str) -> Self {
        self.rule = shortened(name);
        self
    }

    /// Adds the operator or adapter that acted, if not the client.
    pub fn actor(mut self, actor: &str) -> Self {
        self.actor = shortened(actor);
        self
    }

    /// Returns the event.
    pub fn event(&self) -> AuditEvent {
        self.event
    }

    /// Returns the address of the client or operator.
    pub fn address_text(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// Returns the result.
    pub fn outcome(&self) -> AuditOutcome {
        self.outcome
    }

    /// Appends the record as a line of ASCII JSON with a line end. All characters that a terminal
    /// could interpret are escaped.
    pub fn push_line(&self, out: &mut String) -> Result<(), serde_json::Error> {
        let text = serde_json::to_string(self)?;
        for c in text.chars() {
            if c.is_ascii() && c != '\x7f' {
                out.push(c);
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
        out.push('\n');
        Ok(())
    }
}

/// Returns the time with milliseconds, in UTC.
pub fn timestamp(now_ms: u64) -> String {
    let at = i64::try_from(now_ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok());
    format!("{:.3}", at.unwrap_or(Timestamp::MAX))
}

/// Returns a text of at most `TEXT_BYTES_MAX` bytes.
fn shortened(text: &str) -> Option<String> {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let dots = if end < text.len() { "..." } else { "" };
    Some(format!("{}{dots}", &text[..end]))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::identity::IdentityParts;

    fn line(record: &AuditRecord) -> String {
        let mut line = String::new();
        record.push_line(&mut line).unwrap();
        line
    }

    fn subscribe() -> AuditRecord {
        let event = AuditEvent::Subscribe;
        AuditRecord::new("gw", 1_800_000_000_007, event, AuditOutcome::Deny)
    }

    #[test]
    fn line_has_the_given_members() {
        let parts = IdentityParts {
            user: "anna",
            token_id: Some("t-1"),
            ..IdentityParts::default()
        };
        let identity = UserIdentity::new(Arc::from("https://id"), AuthMethod::Jwt, parts).unwrap();
        let record = subscribe()
            .identity(&identity)
            .code(-2)
            .reason("item")
            .subscription("feed", "MERGE", ["a", "b"].into_iter());
        let expected = concat!(
            r#"{"v":1,"ts":"2027-01-15T08:00:00.007Z","gateway":"gw","event":"subscribe","#,
            r#""outcome":"deny","reason":"item","code":-2,"issuer":"https://id","user":"anna","#,
            r#""jti":"t-1","auth":"jwt","connection":"feed","items":["a","b"],"item_count":2,"#,
            r#""mode":"MERGE"}"#,
            "\n"
        );
        assert_eq!(line(&record), expected);
        assert_eq!(
            serde_json::from_str::<AuditRecord>(expected).unwrap(),
            record
        );
    }

    #[test]
    fn control_characters_are_escaped() {
        let record = subscribe().rule("a\n\x1b[31m\x7f\u{85}\u{202e}\u{2028}é😀\"");
        let line = line(&record);
        let body = line.strip_suffix('\n').unwrap();
        assert!(
            body.bytes().all(|byte| (0x20..0x7f).contains(&byte)),
            "{body}"
        );
        assert_eq!(serde_json::from_str::<AuditRecord>(body).unwrap(), record);
    }

    #[test]
    fn size_is_bounded() {
        let long = "é".repeat(100_000);
        let items = vec![&*long; 10_000];
        let record = subscribe().subscription(&long, "RAW", items.into_iter());
        let line = line(
            &record
                .session(&long)
                .address(&long)
                .rule(&long)
                .actor(&long),
        );
        assert!(line.len() < 200_000, "{}", line.len());
        assert!(line.contains("\"item_count\":10000"));
    }

    #[test]
    fn anonymous_client_has_no_user() {
        let record = subscribe().identity(&UserIdentity::anonymous()).count(3);
        let line = line(&record);
        assert!(
            line.contains("\"auth\":\"anonymous\",\"item_count\":3}"),
            "{line}"
        );
    }
}
