//! One step of a login at a broker: a request, made from the response to the last one. It may take
//! milliseconds for the keys of SCRAM, or wait for a token, so it is no work for an event loop.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use bytes::BytesMut;
use thiserror::Error;
use weir_sasl::client::{LoginDialogue, LoginError, LoginMethod, LoginProgress};
use weir_wire::frame::SIZE_BYTES;
use weir_wire::header::read_response_v0;

use super::credentials::Credential;
use crate::broker_connection::CLIENT_ID;

/// Longest response of a login, in bytes.
pub(crate) const RESPONSE_BYTES_MAX: usize = 64 << 10;
/// Each request is sent after the response to the last one.
const CORRELATION_ID: i32 = 0;

/// Work of one step.
pub(crate) enum LoginStep {
    /// The first request to the broker with this host name.
    Begin(Arc<Credential>, Arc<str>),
    /// The request after this response, a whole frame.
    Continue(Box<LoginDialogue>, Vec<u8>),
}

/// Result of one step.
pub(crate) enum StepOutcome {
    /// The next request, a whole frame.
    Send(Box<LoginDialogue>, Vec<u8>),
    /// The broker accepted the login for this time; `None`: it has no end.
    Complete(Option<Duration>),
    Failed(StepError),
}

/// Reason why a login failed.
#[derive(Debug, Error)]
pub(crate) enum StepError {
    #[error(transparent)]
    Login(Box<LoginError>),
    #[error("cannot create a delegation token at {broker}: {error}")]
    NoToken { broker: String, error: io::Error },
    #[error("the broker refused a delegation token with error {code}: {reason}")]
    TokenRefused { code: i16, reason: &'static str },
}

impl From<LoginError> for StepError {
    fn from(error: LoginError) -> Self {
        Self::Login(Box::new(error))
    }
}

impl StepError {
    /// Returns `true` if the broker refused the credential.
    pub(crate) fn is_refusal(&self) -> bool {
        let Self::Login(error) = self else {
            return false;
        };
        matches!(
            **error,
            LoginError::Rejected { .. } | LoginError::Scram { .. }
        )
    }

    /// Returns the error of a broker that creates no token.
    pub(super) fn token_refused(code: i16) -> Self {
        let reason = match code {
            35 => "creating tokens for others needs Kafka 3.3",
            61 => "set delegation.token.secret.key of the brokers",
            64 => "the proxy must log in, over TLS or SASL, and not with a token",
            65 => "the credential [default] needs CREATE_TOKENS on the principal",
            _ => "see the log of the broker",
        };
        Self::TokenRefused { code, reason }
    }
}

impl fmt::Debug for StepOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Requests contain passwords.
        f.write_str(match self {
            Self::Send(..) => "Send",
            Self::Complete(_) => "Complete",
            Self::Failed(_) => "Failed",
        })
    }
}

impl LoginStep {
    pub(crate) fn run(self) -> StepOutcome {
        let outcome = match self {
            Self::Begin(credential, host) => begin(&credential, &host),
            Self::Continue(dialogue, frame) => advance(dialogue, &frame),
        };
        outcome.unwrap_or_else(StepOutcome::Failed)
    }
}

fn begin(credential: &Credential, host: &str) -> Result<StepOutcome, StepError> {
    match &credential.method {
        Some(method) => begin_with(method, host),
        None => Ok(StepOutcome::Complete(None)),
    }
}

/// Returns the first request of a login at `host`.
pub(super) fn begin_with(method: &LoginMethod, host: &str) -> Result<StepOutcome, StepError> {
    let exchange = method.begin(host)?;
    send(Box::new(LoginDialogue::without_versions(exchange)))
}

fn advance(mut dialogue: Box<LoginDialogue>, frame: &[u8]) -> Result<StepOutcome, StepError> {
    let frame = frame.get(SIZE_BYTES..).unwrap_or_default();
    let (_, body) = read_response_v0(frame).map_err(LoginError::from)?;
    // The draw only spreads a time that the proxy does not use.
    match dialogue.read(body, Instant::now(), 0)? {
        LoginProgress::Continue => send(dialogue),
        LoginProgress::Complete(session) => Ok(StepOutcome::Complete(session.lifetime())),
    }
}

fn send(mut dialogue: Box<LoginDialogue>) -> Result<StepOutcome, StepError> {
    let mut frame = BytesMut::new();
    let written = dialogue.write(&mut frame, CORRELATION_ID, CLIENT_ID);
    written.map_err(LoginError::from)?;
    Ok(StepOutcome::Send(dialogue, frame.into()))
}
