//! Lines that an adapter sends: replies, its own requests, credentials and keepalives.

use std::fmt;

use super::error::AriError;
use super::reply::ReplyLine;
use super::request::{AdapterMethod, parameter};
use super::token_reader::TokenReader;
use super::token_writer::TokenWriter;
use super::version::{AriVersion, TextEncoding};

/// A line of an adapter.
#[derive(Debug, Clone)]
pub enum AdapterLine<'a> {
    /// The adapter is alive.
    KeepAlive,
    /// A reply.
    Reply(ReplyLine<'a>),
    /// A request or notification of the adapter, with its ID.
    Notification(&'a str, AdapterNotification),
}

/// A request or notification of an adapter.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names are those of the protocol
pub enum AdapterNotification {
    /// `RAC`: the first line.
    Credentials {
        user: Option<String>,
        password: Option<String>,
        enables_close: bool,
        sdk: Option<String>,
    },
    /// `FST`: a session must end. Without a cause the code is 32.
    ForceSessionEnd {
        session: String,
        cause: Option<(i32, Option<String>)>,
    },
    /// `FUS`: a subscription must end.
    ForceUnsubscription { session: String, window: i32 },
    /// `FAL`: the adapter failed.
    Failure { message: Option<String> },
}

/// Result of a request of the adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotificationResult {
    /// The session ends.
    SessionEnds,
    /// Returns `true` in the line if there was such a subscription.
    Unsubscribed(bool),
    /// The request failed.
    Failed(String),
}

impl<'a> AdapterLine<'a> {
    /// Parses a line. `version` is 1.9.1 before the versions are agreed.
    pub fn parse(line: &'a str, version: AriVersion) -> Result<Self, AriError> {
        if line == "KEEPALIVE" {
            return Ok(Self::KeepAlive);
        }
        let mut values = TokenReader::new(line, version.encoding());
        let id = values.token().map_err(|_| AriError::Line)?;
        let name = values.token().map_err(|_| AriError::Line)?;
        if let Some(method) = AdapterMethod::from_name(name) {
            return Ok(Self::Reply(ReplyLine { id, method, values }));
        }
        let notification = AdapterNotification::read(name, &mut values)?;
        values.finish()?;
        Ok(Self::Notification(id, notification))
    }
}

impl AdapterNotification {
    fn read(name: &str, values: &mut TokenReader<'_>) -> Result<Self, AriError> {
        match name {
            "RAC" => read_credentials(values),
            "FST" => Ok(Self::ForceSessionEnd {
                session: values.text()?,
                cause: match values.peek() {
                    Some("V") => {
                        values.void()?;
                        None
                    }
                    _ => Some((values.integer()?.min(0), values.optional_text()?)),
                },
            }),
            "FUS" => Ok(Self::ForceUnsubscription {
                session: values.text()?,
                window: values.integer()?,
            }),
            "FAL" => match values.token()? {
                "E" => Ok(Self::Failure {
                    message: values.bare_text()?,
                }),
                _ => Err(AriError::Type { expected: 'E' }),
            },
            _ => Err(AriError::UnknownMethod),
        }
    }

    /// Appends the line of a notification, as an adapter does.
    pub fn encode(&self, id: &str, out: &mut String) {
        match self {
            Self::Credentials {
                user,
                password,
                enables_close,
                sdk,
            } => {
                let mut line = TokenWriter::new(out, id, "RAC");
                let close = enables_close.then_some("true");
                let values = [
                    ("user", user.as_deref()),
                    ("password", password.as_deref()),
                    ("enableClosePacket", close),
                    ("SDK", sdk.as_deref()),
                ];
                for (name, value) in values {
                    if value.is_some() {
                        line.text(name);
                        line.optional_text(value);
                    }
                }
                line.finish();
            }
            Self::ForceSessionEnd { session, cause } => {
                let mut line = TokenWriter::new(out, id, "FST");
                line.text(session);
                match cause {
                    None => line.token("V"),
                    Some((code, message)) => {
                        line.integer(*code);
                        line.optional_text(message.as_deref());
                    }
                }
                line.finish();
            }
            Self::ForceUnsubscription { session, window } => {
                let mut line = TokenWriter::new(out, id, "FUS");
                line.text(session);
                line.integer(*window);
                line.finish();
            }
            Self::Failure { message } => {
                let mut line = TokenWriter::new(out, id, "FAL");
                line.token("E");
                line.bare_text(message.as_deref());
                line.finish();
            }
        }
    }

    /// Returns the result's line, if the adapter expects one.
    pub fn encode_result(&self, id: &str, result: &NotificationResult, out: &mut String) {
        let name = match self {
            Self::ForceSessionEnd { .. } => "FST",
            Self::ForceUnsubscription { .. } => "FUS",
            Self::Credentials { .. } | Self::Failure { .. } => return,
        };
        let mut line = TokenWriter::new(out, id, name);
        match result {
            NotificationResult::SessionEnds => line.token("V"),
            NotificationResult::Unsubscribed(done) => line.flag(*done),
            NotificationResult::Failed(message) => {
                line.token("E");
                line.bare_text(Some(message));
            }
        }
        line.finish();
    }
}

fn read_credentials(values: &mut TokenReader<'_>) -> Result<AdapterNotification, AriError> {
    values.set_encoding(TextEncoding::Form);
    let parameters = values.list(parameter)?;
    let value = |name: &str| {
        let found = parameters.iter().find(|one| one.name == name);
        found.and_then(|one| one.value.clone())
    };
    Ok(AdapterNotification::Credentials {
        user: value("user"),
        password: value("password"),
        enables_close: value("enableClosePacket").as_deref() == Some("true"),
        sdk: value("SDK"),
    })
}

/// Never prints the password.
impl fmt::Debug for AdapterNotification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Credentials { user, sdk, .. } => f
                .debug_struct("Credentials")
                .field("user", user)
                .field("sdk", sdk)
                .finish_non_exhaustive(),
            Self::ForceSessionEnd { cause, .. } => f
                .debug_struct("ForceSessionEnd")
                .field("cause", cause)
                .finish_non_exhaustive(),
            Self::ForceUnsubscription { window, .. } => f
                .debug_struct("ForceUnsubscription")
                .field("window", window)
                .finish_non_exhaustive(),
            Self::Failure { message } => f.debug_tuple("Failure").field(message).finish(),
        }
    }
}
