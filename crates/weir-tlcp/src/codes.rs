//! The two code catalogues of TLCP: session codes (`CONERR`, `END`) and control codes (`REQERR`,
//! `ERROR`, `MSGFAIL`). The tag of the line selects the catalogue.

use std::fmt;

macro_rules! code_table {
    ($(#[$doc:meta])* $name:ident { $($constant:ident = $code:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name {
            code: i32,
            text: &'static str,
        }

        impl $name {
            $(
                #[doc = concat!("`", $code, "`: ", $text, ".")]
                pub const $constant: Self = Self { code: $code, text: $text };
            )*

            /// All entries of the catalogue.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];

            /// Returns the entry with this number, the first one if several share it. For other
            /// numbers, such as application codes (0 and below), the text is generic.
            pub fn from_code(code: i32) -> Self {
                let known = Self::ALL.iter().find(|entry| entry.code == code);
                known.copied().unwrap_or(Self { code, text: "Application error" })
            }

            /// Returns the number of the code.
            pub const fn code(self) -> i32 {
                self.code
            }

            /// Returns the default message of the code.
            pub const fn text(self) -> &'static str {
                self.text
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} ({})", self.code, self.text)
            }
        }
    };
}

code_table! {
    /// A code of `CONERR` or `END`.
    ///
    /// For overload use [`Self::OVERLOADED`] or [`Self::RETRY_LATER`]: official SDKs retry after
    /// these two, but not after 7 to 10.
    SessionCode {
        USER_REFUSED = 1, "User or password refused";
        ADAPTER_SET_UNKNOWN = 2, "Adapter set unknown";
        INCOMPATIBLE_SESSION = 3, "Session was made with an incompatible protocol version";
        RECOVERY_UNAVAILABLE = 4, "Recovery point no longer available";
        OVERLOADED = 5, "Server overloaded";
        RETRY_LATER = 6, "Credentials cannot be checked right now";
        LICENSED_SESSIONS_REACHED = 7, "Licensed maximum of sessions reached";
        CONFIGURED_SESSIONS_REACHED = 8, "Configured maximum of sessions reached";
        CONFIGURED_LOAD_REACHED = 9, "Configured maximum load reached";
        SESSIONS_BLOCKED = 10, "New sessions temporarily blocked";
        STREAMING_UNAVAILABLE = 11, "Streaming not available";
        SESSION_NOT_FOUND = 20, "Session not found";
        WRONG_SERVER = 21, "Session belongs to another server";
        DESTROYED_BY_CLIENT = 31, "Session closed by the client";
        DESTROYED_BY_SERVER = 32, "Session closed by the server";
        UNEXPECTED_ERROR_ACTIVE = 33, "Unexpected server error";
        UNEXPECTED_ERROR_ACTIVE_2 = 34, "Unexpected server error";
        SAME_USER_ELSEWHERE = 35, "Another session was opened by the same user";
        REBOUND_ELSEWHERE = 40, "Session was rebound elsewhere";
        EXPIRED_UNLISTED = 41, "Session expired";
        EXPIRED = 48, "Maximum session age reached";
        CLIENT_VERSION_UNSUPPORTED = 60, "Client version not supported";
        COMBO_CONTROL_FAILED = 64, "Control part of the request failed";
        BAD_VALUE = 65, "Syntax error";
        ADAPTER_EXCEPTION = 66, "Adapter error";
        MALFORMED = 67, "Malformed request";
        UNEXPECTED_ERROR = 68, "Unexpected server error";
        STREAM_ALREADY_OPEN = 69, "Another stream is open on this WebSocket";
        PORT_FORBIDDEN = 70, "Session creation not allowed on this port";
        CLIENT_TYPE_UNSUPPORTED = 71, "Client type not supported";
    }
}

code_table! {
    /// A code of `REQERR`, `ERROR` or `MSGFAIL`.
    ///
    /// SDKs end the whole session on `REQERR` 11, 65 and 67. Errors that concern a single
    /// subscription should use 15 to 25 or 68.
    ControlCode {
        MESSAGE_LIMIT = -4, "Too many messages";
        MESSAGE_TOO_LONG = -3, "Message too long";
        REFUSED = -1, "Refused by the gateway's configuration";
        UNSUPPORTED = 0, "Unsupported function";
        INCOMPATIBLE_SESSION = 3, "Session was made with an incompatible protocol version";
        WRONG_SERVER = 11, "Session belongs to another server";
        UNFILTERED = 13, "Subscription is unfiltered";
        NO_KEY_FIELD = 15, "Schema has no key field";
        NO_COMMAND_FIELD = 16, "Schema has no command field";
        BAD_DATA_ADAPTER = 17, "Data adapter unknown";
        SUBSCRIPTION_NOT_FOUND = 19, "Subscription not found";
        SESSION_NOT_FOUND = 20, "Session not found";
        BAD_GROUP = 21, "Bad item group";
        BAD_GROUP_FOR_SCHEMA = 22, "Bad item group for this field schema";
        BAD_SCHEMA = 23, "Bad field schema";
        MODE_NOT_ALLOWED = 24, "Mode not allowed";
        BAD_SELECTOR = 25, "Bad selector";
        UNFILTERED_BY_FREQUENCY = 26, "Unfiltered not allowed: frequency limit";
        UNFILTERED_BY_FILTER = 27, "Unfiltered not allowed: items are filtered";
        UNFILTERED_BY_LICENCE = 28, "Unfiltered not allowed: licence";
        RAW_BY_LICENCE = 29, "Mode RAW not allowed: licence";
        SUBSCRIPTIONS_BY_LICENCE = 30, "Subscriptions not allowed: licence";
        PROG_TOO_LOW = 32, "Message number too low";
        PROG_USED = 33, "Message number already used";
        MESSAGE_FAILED = 34, "Message could not be processed";
        MESSAGE_ADAPTER_EXCEPTION = 35, "Adapter error while processing the message";
        MESSAGE_TIMED_OUT = 38, "Message skipped by timeout";
        MESSAGES_TIMED_OUT = 39, "Messages skipped by timeout";
        MPN_UNAVAILABLE = 40, "MPN module not available";
        BAD_VALUE = 65, "Syntax error";
        ADAPTER_EXCEPTION = 66, "Adapter error";
        MALFORMED = 67, "Malformed request";
        UNEXPECTED_ERROR = 68, "Unexpected server error";
        SUBSCRIPTION_ID_IN_USE = 68, "Subscription id already in use";
        TOO_MANY_SUBSCRIPTIONS = 68, "Too many subscriptions in this session";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_code_finds_entries() {
        assert_eq!(SessionCode::from_code(48), SessionCode::EXPIRED);
        assert_eq!(ControlCode::from_code(68), ControlCode::UNEXPECTED_ERROR);
        assert_eq!(ControlCode::from_code(-7).code(), -7);
        assert_eq!(ControlCode::SUBSCRIPTION_ID_IN_USE.code(), 68);
    }

    #[test]
    fn session_codes_are_unique_with_plain_texts() {
        for (at, entry) in SessionCode::ALL.iter().enumerate() {
            assert!(
                SessionCode::ALL[..at]
                    .iter()
                    .all(|other| other.code != entry.code)
            );
        }
        let texts = SessionCode::ALL.iter().map(|entry| entry.text);
        for text in texts.chain(ControlCode::ALL.iter().map(|entry| entry.text)) {
            assert!(
                text.bytes()
                    .all(|byte| byte >= b' ' && byte != b',' && byte != b'%'),
                "{text}"
            );
        }
    }
}
