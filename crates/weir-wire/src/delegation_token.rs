//! CreateDelegationToken: a token with which its owner logs in, created by another principal.

use kafka_protocol::messages::CreateDelegationTokenRequest;
use kafka_protocol::protocol::StrBytes;

use super::WireError;
use super::reader::WireReader;

/// First version in which the owner may be another principal than the requester (Kafka 3.3).
pub const CREATE_VERSION: i16 = 3;

/// Response to CreateDelegationToken version 3. There is no `Debug`, because `hmac` is a secret.
pub struct CreatedToken<'a> {
    /// Error code of Kafka; 0 is success.
    pub error: i16,
    /// Time of creation, in milliseconds since 1970.
    pub issued_ms: i64,
    /// Time of expiry, in milliseconds since 1970.
    pub expires_ms: i64,
    /// User name of a login with the token.
    pub id: &'a str,
    /// Secret. Its Base64 form is the password of a login.
    pub hmac: &'a [u8],
}

/// Returns a request for a token of the principal `User:owner`, with the lifetime that the brokers
/// configure, and without other principals that may renew it.
pub fn create(owner: &str) -> CreateDelegationTokenRequest {
    let text = |text: &str| Some(StrBytes::from_string(text.to_owned()));
    CreateDelegationTokenRequest::default()
        .with_owner_principal_type(text("User"))
        .with_owner_principal_name(text(owner))
        .with_max_lifetime_ms(-1)
}

/// Reads a response, which starts after the correlation id.
pub fn read_created(body: &[u8]) -> Result<CreatedToken<'_>, WireError> {
    let mut reader = WireReader::new(body);
    reader.skip_tags("header tags")?;
    let error = reader.i16("error code")?;
    for what in [
        "type of the owner",
        "owner",
        "type of the requester",
        "requester",
    ] {
        reader.compact_string(what)?;
    }
    let (issued_ms, expires_ms) = (reader.i64("issue time")?, reader.i64("expiry time")?);
    reader.i64("latest expiry time")?;
    Ok(CreatedToken {
        error,
        issued_ms,
        expires_ms,
        id: reader.compact_string("token id")?,
        hmac: reader.compact_bytes("secret")?.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::CreateDelegationTokenResponse;
    use kafka_protocol::protocol::Encodable as _;

    use super::*;

    #[test]
    fn response_is_read() {
        let text = StrBytes::from_static_str;
        let response = CreateDelegationTokenResponse::default()
            .with_principal_type(text("User"))
            .with_principal_name(text("anna"))
            .with_token_requester_principal_type(text("User"))
            .with_token_requester_principal_name(text("weir"))
            .with_issue_timestamp_ms(1_000)
            .with_expiry_timestamp_ms(61_000)
            .with_max_timestamp_ms(99_000)
            .with_token_id(text("id-1"))
            .with_hmac(vec![1, 2, 3].into());
        let mut body = bytes::BytesMut::from(&[0_u8][..]);
        response.encode(&mut body, CREATE_VERSION).expect("valid");
        let read = read_created(&body).expect("readable");
        assert_eq!(
            (read.error, read.id, read.hmac),
            (0, "id-1", &[1, 2, 3][..])
        );
        assert_eq!((read.issued_ms, read.expires_ms), (1_000, 61_000));
        for length in 0..body.len() - 5 {
            assert!(read_created(&body[..length]).is_err(), "{length} bytes");
        }
    }
}
