//! OAUTHBEARER (RFC 7628), server side: one message with a token. A rejection is a separate message
//! of the server, which the client acknowledges.

use weir_security::Secret;

use super::{Check, ExchangeStep, FailureReason};
use crate::users::NAME_BYTES_MAX;

/// Maximum length of the client's message.
const MESSAGE_BYTES_MAX: usize = 128 * 1_024;
/// Separator of the attributes.
const SEPARATOR: char = '\x01';
/// Message that rejects a token (RFC 7628, section 3.2.2).
pub(super) const REJECTION: &[u8] = br#"{"status":"invalid_token"}"#;

/// Handles the client's message. The caller must check the token of the result.
pub(super) fn respond(message: &[u8]) -> ExchangeStep {
    match parse(message) {
        Some((user, token)) => ExchangeStep::Check(Check::Token {
            user,
            token: Secret::new(token),
        }),
        None => ExchangeStep::Failed(FailureReason::Malformed),
    }
}

/// Returns the user that the client requests, if any, and the token. Ignores other attributes (SASL
/// extensions). Returns `None` for an invalid message.
fn parse(message: &[u8]) -> Option<(Option<String>, &str)> {
    if message.len() > MESSAGE_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(message).ok()?;
    // `n`: the client does not support channel binding.
    let (authorization_id, rest) = text.strip_prefix("n,")?.split_once(',')?;
    let user = match authorization_id {
        "" => None,
        _ => Some(decode_name(authorization_id.strip_prefix("a=")?)?),
    };
    let attributes = rest.strip_prefix(SEPARATOR)?;
    let attributes = attributes.strip_suffix("\x01\x01")?;
    let mut found = attributes.split(SEPARATOR).filter_map(|attribute| {
        let (name, value) = attribute.split_once('=')?;
        (name == "auth").then_some(value)
    });
    let credentials = found.next()?;
    let (scheme, token) = credentials.split_once(' ')?;
    let token = token.trim_start_matches(' ');
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let is_valid = found.next().is_none()
        && scheme.eq_ignore_ascii_case("bearer")
        && !token.is_empty()
        && token.bytes().all(is_token);
    is_valid.then_some((user, token))
}

/// Decodes the escapes of a name (RFC 5801, section 4). Returns `None` for other uses of `=`, and
/// for names that are empty or too long.
pub(super) fn decode_name(text: &str) -> Option<String> {
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('=') {
        name.push_str(plain);
        let (escape, character) = [("2C", ','), ("3D", '=')]
            .into_iter()
            .find(|(escape, _)| after.starts_with(escape))?;
        name.push(character);
        rest = &after[escape.len()..];
    }
    name.push_str(rest);
    let is_valid = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains('\0');
    is_valid.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_found_between_extensions() {
        let plain = parse(b"n,,\x01auth=Bearer abc.d-_\x01\x01");
        assert_eq!(plain, Some((None, "abc.d-_")));
        let full = parse(b"n,a=an=2Cna,\x01host=x\x01auth=bearer  abc\x01traceId=1=2\x01\x01");
        assert_eq!(full, Some((Some("an,na".to_owned()), "abc")));
    }

    #[test]
    fn invalid_messages_are_rejected() {
        let long = format!(
            "n,,\x01auth=Bearer {}\x01\x01",
            "x".repeat(MESSAGE_BYTES_MAX)
        );
        for wrong in [
            "",
            "y,,\x01auth=Bearer a\x01\x01",
            "n,b=x,\x01auth=Bearer a\x01\x01",
            "n,a=,\x01auth=Bearer a\x01\x01",
            "n,,auth=Bearer a\x01\x01",
            "n,,\x01auth=Bearer a\x01",
            "n,,\x01auth=Basic a\x01\x01",
            "n,,\x01auth=Bearer \x01\x01",
            "n,,\x01auth=Bearer a b\x01\x01",
            "n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01",
            "n,,\x01\x01",
            &long,
        ] {
            assert_eq!(
                parse(wrong.as_bytes()),
                None,
                "{}",
                &wrong[..wrong.len().min(40)]
            );
        }
    }

    #[test]
    fn names_are_unescaped() {
        assert_eq!(decode_name("a=3Db=2C").as_deref(), Some("a=b,"));
        for wrong in [
            "",
            "a=",
            "a=2c",
            "a=x",
            "\0",
            &"x".repeat(NAME_BYTES_MAX + 1),
        ] {
            assert_eq!(decode_name(wrong), None, "{wrong}");
        }
    }
}
