//! Messages of clients over `/ws`: JSON objects, whose length the connection limits.

use serde::Deserialize;
use weir_tlcp::request::Password;

use super::request::{EventLimits, EventRequest, RequestFault, mode};

/// A message of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientMessage {
    /// New subscriptions. The first message of a connection also logs the client in.
    Subscribe(ClientLogin, EventRequest),
    /// End of the subscriptions to items of a Kafka connection.
    Unsubscribe(Vec<String>, Option<String>),
}

/// Identity that a message names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientLogin {
    /// User name.
    pub user: Option<String>,
    /// Password, which can be a token.
    pub password: Option<Password<'static>>,
}

/// Why a message is refused.
#[derive(Debug, thiserror::Error)]
pub enum MessageFault {
    /// The message is not an object.
    #[error("a message is a JSON object")]
    NotObject,
    /// No item is named.
    #[error("name an item in \"items\"")]
    NoItem,
    /// The message has another form than those known.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// A limit is exceeded, or a value is invalid.
    #[error(transparent)]
    Request(#[from] RequestFault),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum Document {
    Subscribe {
        user: Option<String>,
        password: Option<String>,
        items: Vec<String>,
        #[serde(default)]
        fields: Vec<String>,
        mode: Option<String>,
        frequency: Option<f64>,
        snapshot: Option<bool>,
        adapter: Option<String>,
        after: Option<String>,
    },
    Unsubscribe {
        items: Vec<String>,
        adapter: Option<String>,
    },
}

impl ClientMessage {
    /// Returns the number of items that the message names.
    pub fn items(&self) -> usize {
        match self {
            Self::Subscribe(_, request) => request.items.len(),
            Self::Unsubscribe(items, _) => items.len(),
        }
    }
}

/// Reads a message.
pub fn parse_message(text: &str, limits: EventLimits) -> Result<ClientMessage, MessageFault> {
    // The derived reader also accepts the members of a document as an array.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(MessageFault::NotObject);
    }
    let message = match serde_json::from_str(text)? {
        Document::Subscribe {
            user,
            password,
            items,
            fields,
            mode: name,
            frequency,
            snapshot,
            adapter,
            after,
        } => {
            let mut request = EventRequest {
                snapshot: snapshot.unwrap_or(true),
                mode: name.as_deref().map(mode).transpose()?,
                ..requested(&items, adapter.as_deref(), limits)?
            };
            for field in &fields {
                request.add_field(field, limits)?;
            }
            if let Some(frequency) = frequency {
                request.set_frequency(frequency)?;
            }
            if let Some(after) = after {
                request.set_after(&after);
            }
            let password = password.map(Password::from);
            ClientMessage::Subscribe(ClientLogin { user, password }, request)
        }
        Document::Unsubscribe { items, adapter } => {
            let request = requested(&items, adapter.as_deref(), limits)?;
            ClientMessage::Unsubscribe(request.items, request.adapter)
        }
    };
    Ok(message)
}

/// Reads the members that all messages have.
fn requested(
    items: &[String],
    adapter: Option<&str>,
    limits: EventLimits,
) -> Result<EventRequest, MessageFault> {
    let mut request = EventRequest::default();
    for item in items {
        request.add_item(item, limits)?;
    }
    if let Some(adapter) = adapter {
        request.set_adapter(adapter, limits)?;
    }
    match request.items.is_empty() {
        true => Err(MessageFault::NoItem),
        false => Ok(request),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_tlcp::request::Mode;

    const LIMITS: EventLimits = EventLimits {
        items: 2,
        fields: 2,
        name_bytes: 8,
    };

    fn parse(text: &str) -> Result<ClientMessage, MessageFault> {
        parse_message(text, LIMITS)
    }

    #[test]
    fn messages_are_read() {
        let text = r#"{"type":"subscribe","items":["a","b","a"],"fields":["x"],"mode":"raw",
            "frequency":2,"snapshot":false,"adapter":"Data","user":"u","password":"p",
            "after":"AQ"}"#;
        let request = EventRequest {
            items: vec!["a".to_owned(), "b".to_owned()],
            fields: vec!["x".to_owned()],
            adapter: Some("Data".to_owned()),
            mode: Some(Mode::Raw),
            max_frequency: Some(2.0),
            snapshot: false,
            after: Some("AQ".to_owned()),
        };
        let login = ClientLogin {
            user: Some("u".to_owned()),
            password: Some("p".to_owned().into()),
        };
        let message = parse(text).expect("a message");
        assert!(!format!("{message:?}").contains("\"p\""), "{message:?}");
        assert_eq!(message, ClientMessage::Subscribe(login, request));
        let short = parse(r#" {"items":["a"],"type":"subscribe"}"#).expect("a message");
        let request = EventRequest {
            items: vec!["a".to_owned()],
            snapshot: true,
            ..EventRequest::default()
        };
        let login = ClientLogin::default();
        assert_eq!(short, ClientMessage::Subscribe(login, request));
        let end = parse(r#"{"type":"unsubscribe","items":["a"]}"#).expect("a message");
        assert_eq!(end, ClientMessage::Unsubscribe(vec!["a".to_owned()], None));
        assert_eq!(end.items(), 1);
    }

    #[test]
    fn refusals_say_why() {
        for (text, reason) in [
            ("", "JSON object"),
            ("{", "EOF while parsing"),
            ("[]", "JSON object"),
            (r#"["unsubscribe",["a"]]"#, "JSON object"),
            (r#"{"type":"x","items":["a"]}"#, "unknown variant"),
            (
                r#"{"type":"subscribe","items":["a"],"fild":1}"#,
                "unknown field `fild`",
            ),
            (r#"{"type":"subscribe"}"#, "missing field `items`"),
            (
                r#"{"type":"unsubscribe","items":["a"],"mode":"raw"}"#,
                "unknown field `mode`",
            ),
            (r#"{"type":"unsubscribe","items":[]}"#, "name an item"),
            (
                r#"{"type":"subscribe","items":["a","b","c"]}"#,
                "than 2 items",
            ),
            (
                r#"{"type":"subscribe","items":["123456789"]}"#,
                "longer than 8",
            ),
            (
                r#"{"type":"subscribe","items":["a"],"frequency":0}"#,
                "above 0",
            ),
            (
                r#"{"type":"subscribe","items":["a"],"mode":"x"}"#,
                "mode must",
            ),
        ] {
            let fault = parse(text).expect_err(text).to_string();
            assert!(fault.contains(reason), "{text}: {fault}");
        }
        let deep = format!("{{\"type\":{}", "[".repeat(100_000));
        assert!(parse(&deep).is_err(), "nesting is limited");
    }

    proptest! {
        #[test]
        fn messages_stay_within_limits(
            items in proptest::collection::vec(".{0,10}", 0..4),
            fields in proptest::collection::vec(".{0,10}", 0..4),
            cut in any::<proptest::sample::Index>(),
        ) {
            let document = serde_json::json!({
                "type": "subscribe", "items": items, "fields": fields,
            });
            let text = document.to_string();
            if let Ok(ClientMessage::Subscribe(_, request)) = parse(&text) {
                prop_assert!((1..=LIMITS.items).contains(&request.items.len()));
                prop_assert!(request.fields.len() <= LIMITS.fields);
                let mut names = request.items.iter().chain(&request.fields);
                prop_assert!(names.all(|name| (1..=LIMITS.name_bytes).contains(&name.len())));
            }
            if let Some(part) = text.get(..cut.index(text.len())) {
                prop_assert!(parse(part).is_err());
            }
        }
    }
}
