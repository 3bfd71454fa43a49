//! One step of a login at a broker: a request, made from the response to the last one. It may take
//! milliseconds for the keys of SCRAM, or wait for a token, so it is no work for an event loop.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use weir_sasl::client::{LoginDialogue, LoginError, LoginProgress};
use weir_wire::frame::SIZE_BYTES;
use weir_wire::header::read_response_v0;

use super::credentials::Credential;

/// Longest response of a login, in bytes.
pub(crate) const RESPONSE_BYTES_MAX: usize = 64 << 10;
const CLIENT_ID: &str = "weir-proxy";
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
    Failed(Box<LoginError>),
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
        outcome.unwrap_or_else(|error| StepOutcome::Failed(Box::new(error)))
    }
}

fn begin(credential: &Credential, host: &str) -> Result<StepOutcome, LoginError> {
    let Some(method) = &credential.method else {
        return Ok(StepOutcome::Complete(None));
    };
    let exchange = method.begin(host)?;
    send(Box::new(LoginDialogue::without_versions(exchange)))
}

fn advance(mut dialogue: Box<LoginDialogue>, frame: &[u8]) -> Result<StepOutcome, LoginError> {
    let (_, body) = read_response_v0(frame.get(SIZE_BYTES..).unwrap_or_default())?;
    // The draw only spreads a time that the proxy does not use.
    match dialogue.read(body, Instant::now(), 0)? {
        LoginProgress::Continue => send(dialogue),
        LoginProgress::Complete(session) => Ok(StepOutcome::Complete(session.lifetime())),
    }
}

fn send(mut dialogue: Box<LoginDialogue>) -> Result<StepOutcome, LoginError> {
    let mut frame = BytesMut::new();
    dialogue.write(&mut frame, CORRELATION_ID, CLIENT_ID)?;
    Ok(StepOutcome::Send(dialogue, frame.into()))
}
