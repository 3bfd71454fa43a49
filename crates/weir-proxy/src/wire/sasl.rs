//! SASL tokens without a header: version 0 of the handshake is followed by them until the client is known.

use weir_kafka::wire::WireError;

use super::headers::{self, HeaderPeek};
use super::{SIZE_BYTES, StreamError, frame_total};

/// What the next frame of a client may be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SaslState {
    /// A request.
    #[default]
    None,
    /// The only token, as PLAIN has it. Its first byte may be that of a request.
    One,
    /// A token, or the first request behind the last of them: the number of an API begins with a zero,
    /// and no token of SCRAM, Kerberos or OAUTHBEARER does.
    More,
}

impl SaslState {
    /// What follows a handshake of version 0, given its whole frame.
    pub(super) fn after(handshake: &[u8]) -> Result<Self, WireError> {
        Ok(match headers::mechanism(handshake)? {
            b"PLAIN" => Self::One,
            _ => Self::More,
        })
    }

    /// The length of the token that `frame` begins with, prefix included; `Known(None)`: a request.
    pub(super) fn next(
        &mut self,
        frame: &[u8],
        limit: usize,
    ) -> Result<HeaderPeek<Option<usize>>, StreamError> {
        if *self == Self::None {
            return Ok(HeaderPeek::Known(None));
        }
        let Some(total) = frame_total(frame, limit).map_err(StreamError::Client)? else {
            return Ok(HeaderPeek::More(SIZE_BYTES));
        };
        let is_token = match (*self, frame.get(SIZE_BYTES)) {
            (Self::One, _) => {
                *self = Self::None;
                true
            }
            // Kerberos has an empty one.
            _ if total == SIZE_BYTES => true,
            (_, None) => return Ok(HeaderPeek::More(SIZE_BYTES + 1)),
            (_, Some(0)) => {
                *self = Self::None;
                false
            }
            (_, Some(_)) => true,
        };
        Ok(HeaderPeek::Known(is_token.then_some(total)))
    }
}
