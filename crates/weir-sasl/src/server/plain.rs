//! PLAIN (RFC 4616), server side: one message `authzid NUL user NUL password`.

use weir_security::Secret;

use super::{Check, ExchangeStep, FailureReason};
use crate::users::NAME_BYTES_MAX;

/// Longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// Reads the client's message.
pub(super) fn respond(message: &[u8]) -> ExchangeStep {
    match parse(message) {
        Some((user, password)) => ExchangeStep::Check(Check::Password {
            user: user.to_owned(),
            password: Secret::new(password),
        }),
        None => ExchangeStep::Failed(FailureReason::Malformed),
    }
}

fn parse(message: &[u8]) -> Option<(&str, &str)> {
    let message = message.get(..message.len().min(MESSAGE_BYTES_MAX + 1))?;
    let text = std::str::from_utf8(message).ok()?;
    let mut parts = text.split('\0');
    let (authorized, user, password) = (parts.next()?, parts.next()?, parts.next()?);
    let is_valid = message.len() <= MESSAGE_BYTES_MAX
        && parts.next().is_none()
        && (1..=NAME_BYTES_MAX).contains(&user.len())
        && !password.is_empty()
        && (authorized.is_empty() || authorized == user);
    is_valid.then_some((user, password))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn user_and_password_are_split() {
        assert_eq!(parse(b"\0user\0pencil"), Some(("user", "pencil")));
        assert_eq!(parse(b"user\0user\0pencil"), Some(("user", "pencil")));
        let long = [b"\0user\0".as_slice(), &[b'p'; MESSAGE_BYTES_MAX]].concat();
        for wrong in [
            b"other\0user\0pencil".as_slice(),
            b"\0user",
            b"\0\0pencil",
            b"\0user\0",
            b"\0user\0pencil\0",
            b"\0\xff\0pencil",
            b"",
            &long,
        ] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn accepted_messages_have_both_parts(message in prop::collection::vec(0_u8..4, 0..12)) {
            if let Some((user, password)) = parse(&message) {
                prop_assert!(!user.is_empty() && !password.is_empty());
            }
        }
    }
}
