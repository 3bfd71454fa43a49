//! Codes that clients get. Those above 0 are codes of TLCP, the others the adapter's own.

use weir_identity::ari::{AdapterMethod, ExceptionKind};

use crate::config::UnavailablePolicy;
use crate::outcome::AdapterFailure;

const USER_REJECTED: i32 = 1;
const RETRY_LATER: i32 = 6;
const ITEMS: i32 = 21;
const ITEMS_OF_SCHEMA: i32 = 22;
const SCHEMA: i32 = 23;
pub(super) const MODE: i32 = 24;
pub(super) const UNFILTERED_LIMITED: i32 = 26;
pub(super) const UNFILTERED_SOURCE: i32 = 27;
const MESSAGE_FAILED: i32 = 34;
const MESSAGE_ERROR: i32 = 35;
const ADAPTER_ERROR: i32 = 66;
const UNAVAILABLE: i32 = 68;

/// Refusal of a request: `CONERR`, `REQERR` or `MSGFAIL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRefusal {
    /// Code.
    pub code: i32,
    /// Text for the client.
    pub text: String,
}

/// Refusal of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionRefusal {
    /// `REQERR`: the client drops the subscription.
    Reject(ClientRefusal),
    /// The session ends with a code on which the client creates a new one.
    EndSession,
}

impl ClientRefusal {
    pub(super) fn new(code: i32, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { code, text }
    }

    /// Returns the refusal of a session.
    pub(super) fn of_session(failure: &AdapterFailure) -> Self {
        let AdapterFailure::Exception(exception) = failure else {
            return match failure.is_transient() {
                true => Self::new(RETRY_LATER, "the gateway is busy, try again later"),
                false => Self::new(ADAPTER_ERROR, ADAPTER_ERROR_TEXT),
            };
        };
        match &exception.kind {
            ExceptionKind::Access => Self::new(USER_REJECTED, "user or password rejected"),
            ExceptionKind::Unavailable => {
                Self::new(RETRY_LATER, "the gateway is busy, try again later")
            }
            ExceptionKind::Credits { code, user_message }
            | ExceptionKind::ConflictingSession {
                code, user_message, ..
            } => Self::own(*code, user_message.as_deref()),
            _ => Self::new(ADAPTER_ERROR, ADAPTER_ERROR_TEXT),
        }
    }

    /// Returns a refusal with a code of the adapter. The text has no line ends.
    fn own(code: i32, user_message: Option<&str>) -> Self {
        let text = user_message.unwrap_or_default();
        Self::new(code, text.replace(['\r', '\n'], " "))
    }
}

impl SubscriptionRefusal {
    pub(super) fn reject(code: i32, text: impl Into<String>) -> Self {
        Self::Reject(ClientRefusal::new(code, text))
    }

    /// Returns the refusal after a failed request of a method.
    pub(super) fn of(
        method: AdapterMethod,
        failure: &AdapterFailure,
        unavailable: UnavailablePolicy,
    ) -> Self {
        let AdapterFailure::Exception(exception) = failure else {
            return match (failure.is_transient(), unavailable) {
                (true, UnavailablePolicy::EndSession) => Self::EndSession,
                (true, UnavailablePolicy::Reject) => Self::reject(
                    UNAVAILABLE,
                    "subscriptions are not possible, try again later",
                ),
                (false, _) => Self::reject(ADAPTER_ERROR, ADAPTER_ERROR_TEXT),
            };
        };
        match (&exception.kind, method) {
            (ExceptionKind::Items, AdapterMethod::GetSchema) => {
                Self::reject(ITEMS_OF_SCHEMA, "items do not fit the field schema")
            }
            (ExceptionKind::Items, _) => Self::reject(ITEMS, "unknown item group"),
            (ExceptionKind::Schema, _) => Self::reject(SCHEMA, "unknown field schema"),
            (ExceptionKind::Credits { code, user_message }, _) => {
                Self::Reject(ClientRefusal::own(*code, user_message.as_deref()))
            }
            _ => Self::reject(ADAPTER_ERROR, ADAPTER_ERROR_TEXT),
        }
    }

    /// Returns the refusal of a group without items.
    pub(super) fn no_items() -> Self {
        Self::reject(ITEMS, "the item group is empty")
    }
}

/// Returns the refusal of a message.
pub fn message_refusal(failure: &AdapterFailure) -> ClientRefusal {
    let text = "the message was not processed";
    match failure {
        AdapterFailure::Exception(exception) => match &exception.kind {
            ExceptionKind::Credits { code, user_message } => {
                ClientRefusal::own(*code, user_message.as_deref())
            }
            ExceptionKind::Notification => ClientRefusal::new(MESSAGE_FAILED, text),
            _ => ClientRefusal::new(MESSAGE_ERROR, text),
        },
        failure if failure.is_transient() => ClientRefusal::new(MESSAGE_FAILED, text),
        _ => ClientRefusal::new(MESSAGE_ERROR, text),
    }
}

/// Text sent to clients. Exception texts may contain details that clients must not see.
const ADAPTER_ERROR_TEXT: &str = "internal error";
