//! Bodies of calls.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use weir_net::admin::ApiCall;
use weir_tlcp::codes::SessionCode;

use super::api_error::ApiError;
use crate::shard::SessionAction;

/// Longest message to a client, in bytes.
const MESSAGE_BYTES_MAX: usize = 200;

/// Sessions to end, and what their clients receive.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DisconnectBody {
    pub(super) issuer: Option<String>,
    pub(super) user: Option<String>,
    pub(super) code: Option<i32>,
    pub(super) message: Option<String>,
}

impl DisconnectBody {
    /// Checks code and message. With 48 an SDK connects again at once, with others it stops.
    pub(super) fn action(self, call: &ApiCall<'_>) -> Result<SessionAction, ApiError> {
        let code = self.code.unwrap_or(SessionCode::DESTROYED_BY_SERVER.code());
        let usable = [SessionCode::DESTROYED_BY_SERVER, SessionCode::EXPIRED];
        if code > 0 && !usable.iter().any(|one| one.code() == code) {
            return Err(ApiError::Code);
        }
        let message = self
            .message
            .unwrap_or_else(|| "closed by an operator".to_owned());
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(ApiError::Message(MESSAGE_BYTES_MAX));
        }
        Ok(SessionAction::End {
            code,
            message,
            address: call.peer.ip().to_canonical().to_string(),
        })
    }
}

pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::Body(error.to_string()))
}
