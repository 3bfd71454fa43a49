//! Requests of one login: ApiVersions, SaslHandshake, and SaslAuthenticate as often as the
//! mechanism requires. A repeated login on the same connection begins with SaslHandshake.

use std::fmt;
use std::time::Instant;

use bytes::BytesMut;

use super::error::{LoginError, peer_text};
use super::exchange::SaslExchange;
use super::session::LoginSession;
use weir_wire::EncodeError;
use weir_wire::header::write_request;
use weir_wire::login as wire;

/// Login in progress.
pub struct LoginDialogue {
    exchange: SaslExchange,
    next: LoginRequest,
    authenticate_version: i16,
}

impl fmt::Debug for LoginDialogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its messages contain passwords and tokens.
        f.write_str("LoginDialogue")
    }
}

/// Request that is due, or whose response is.
enum LoginRequest {
    Versions,
    Handshake,
    Authenticate(Vec<u8>),
}

/// Result of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginProgress {
    /// Another request is due.
    Continue,
    /// The broker accepted the login.
    Complete(LoginSession),
}

impl LoginDialogue {
    /// Begins a login; `previous` is the session of the same connection that ends.
    pub fn new(exchange: SaslExchange, previous: Option<&LoginSession>) -> Self {
        Self {
            exchange,
            next: match previous {
                None => LoginRequest::Versions,
                Some(_) => LoginRequest::Handshake,
            },
            authenticate_version: previous.map_or(0, |it| it.authenticate_version),
        }
    }

    /// Begins a login without ApiVersions, which a broker accepts only once before a login, and
    /// which another part of the connection may have sent. Needs Kafka 2.2.
    pub fn without_versions(exchange: SaslExchange) -> Self {
        Self {
            exchange,
            next: LoginRequest::Handshake,
            authenticate_version: wire::LIFETIME_VERSION,
        }
    }

    /// Appends the request that is due to `out`.
    pub fn write(
        &mut self,
        out: &mut BytesMut,
        correlation_id: i32,
        client_id: &str,
    ) -> Result<(), EncodeError> {
        match &mut self.next {
            LoginRequest::Versions => {
                let (version, body) = (wire::VERSIONS_VERSION, wire::versions());
                write_request(out, version, correlation_id, client_id, &body)
            }
            LoginRequest::Handshake => {
                let body = wire::handshake(self.exchange.mechanism());
                write_request(
                    out,
                    wire::HANDSHAKE_VERSION,
                    correlation_id,
                    client_id,
                    &body,
                )
            }
            LoginRequest::Authenticate(token) => {
                let body = wire::authenticate(std::mem::take(token));
                let version = self.authenticate_version;
                write_request(out, version, correlation_id, client_id, &body)
            }
        }
    }

    /// Reads the response to the last request; `frame` starts after the correlation id. `draw` is
    /// a random number.
    pub fn read(
        &mut self,
        frame: &[u8],
        now: Instant,
        draw: u8,
    ) -> Result<LoginProgress, LoginError> {
        self.next = match self.next {
            LoginRequest::Versions => {
                self.authenticate_version = read_versions(frame)?;
                LoginRequest::Handshake
            }
            LoginRequest::Handshake => {
                self.read_handshake(frame)?;
                LoginRequest::Authenticate(self.exchange.take_first())
            }
            LoginRequest::Authenticate(_) => match self.read_authenticate(frame)? {
                (Some(token), _) => LoginRequest::Authenticate(token),
                (None, lifetime_ms) => {
                    let version = self.authenticate_version;
                    let session = LoginSession::new(version, lifetime_ms, now, draw);
                    return Ok(LoginProgress::Complete(session));
                }
            },
        };
        Ok(LoginProgress::Continue)
    }

    fn read_handshake(&self, frame: &[u8]) -> Result<(), LoginError> {
        let response = wire::read_handshake(frame)?;
        match response.error {
            0 => Ok(()),
            UNSUPPORTED_SASL_MECHANISM => Err(LoginError::UnsupportedMechanism {
                mechanism: self.exchange.mechanism(),
                offered: response.mechanisms,
            }),
            ILLEGAL_SASL_STATE => Err(LoginError::SaslNotEnabled),
            code => Err(failed("SaslHandshake", code, "")),
        }
    }

    /// Returns the client's next message, if any, and the lifetime of the session.
    fn read_authenticate(&mut self, frame: &[u8]) -> Result<(Option<Vec<u8>>, i64), LoginError> {
        let response = wire::read_authenticate(frame, self.authenticate_version)?;
        let message = response.message.unwrap_or_default();
        match response.error {
            0 => {}
            SASL_AUTHENTICATION_FAILED => return Err(self.exchange.rejected(message)),
            code => return Err(failed("SaslAuthenticate", code, message)),
        }
        let token = self.exchange.respond(response.token)?;
        Ok((token, response.lifetime_ms))
    }
}

/// Returns the version of SaslAuthenticate to use.
fn read_versions(frame: &[u8]) -> Result<i16, LoginError> {
    let versions = wire::read_versions(frame)?;
    if versions.error != 0 {
        return Err(failed("ApiVersions", versions.error, ""));
    }
    let latest = versions.authenticate.filter(|latest| *latest >= 0);
    let latest = latest.ok_or(LoginError::BrokerTooOld)?;
    Ok(latest.min(wire::AUTHENTICATE_VERSION_MAX))
}

fn failed(request: &'static str, code: i16, message: &str) -> LoginError {
    LoginError::KafkaError {
        request,
        code,
        message: peer_text(message),
    }
}

const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
const ILLEGAL_SASL_STATE: i16 = 34;
const SASL_AUTHENTICATION_FAILED: i16 = 58;

#[cfg(test)]
mod tests;
