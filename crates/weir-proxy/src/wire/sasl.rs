//! Raw SASL tokens. After SaslHandshake v0, clients send tokens without request headers until
//! authentication completes.

use weir_wire::WireError;

use super::headers::{self, HeaderPeek};
use super::{SIZE_BYTES, StreamError, frame_total};

/// The kind of the client's next frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SaslState {
    #[default]
    None,
    /// The only token of PLAIN. Its first byte may look like that of a request.
    SingleToken,
    /// A token, or the first request after the last token. The API key of a request begins with a
    /// zero byte, and no token of SCRAM, Kerberos or OAUTHBEARER does.
    TokenOrRequest,
}

impl SaslState {
    /// Returns the state after a SaslHandshake v0 frame.
    pub(super) fn after(handshake: &[u8]) -> Result<Self, WireError> {
        Ok(match headers::mechanism(handshake)? {
            b"PLAIN" => Self::SingleToken,
            _ => Self::TokenOrRequest,
        })
    }

    /// Returns the length of the token at the start of `frame`, including the size prefix, or
    /// `None` for a request.
    pub(super) fn next(
        &mut self,
        frame: &[u8],
        limit: usize,
    ) -> Result<HeaderPeek<Option<usize>>, StreamError> {
        if *self == Self::None {
            return Ok(HeaderPeek::Complete(None));
        }
        let Some(total) = frame_total(frame, limit).map_err(StreamError::Client)? else {
            return Ok(HeaderPeek::Incomplete(SIZE_BYTES));
        };
        let is_token = match (*self, frame.get(SIZE_BYTES)) {
            (Self::SingleToken, _) => {
                *self = Self::None;
                true
            }
            // Kerberos sends an empty token.
            _ if total == SIZE_BYTES => true,
            (_, None) => return Ok(HeaderPeek::Incomplete(SIZE_BYTES + 1)),
            (_, Some(0)) => {
                *self = Self::None;
                false
            }
            (_, Some(_)) => true,
        };
        Ok(HeaderPeek::Complete(is_token.then_some(total)))
    }
}
