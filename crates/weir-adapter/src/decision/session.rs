//! Decisions about users and sessions.

use std::fmt;
use std::time::Duration;

use weir_identity::ari::{AdapterReply, AdapterRequest, ExceptionKind, Parameter};

use super::refusal::ClientRefusal;
use crate::outcome::{AdapterFailure, AdapterOutcome};

/// Name of the number of a request, which is the same in all requests for one new session.
const REQUEST_ID: &str = "REQUEST_ID";

/// A client that wants a session.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientInfo {
    /// `LS_user`.
    pub user: Option<String>,
    /// `LS_password`.
    pub password: Option<String>,
    /// On ports that ask for client certificates: the subject of the client's, if it has one.
    pub principal: Option<Option<String>>,
    /// Headers of the request, or of the WebSocket's handshake.
    pub headers: Vec<(String, String)>,
    /// Number of the request.
    pub request_id: String,
}

/// Never prints the password.
impl fmt::Debug for ClientInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientInfo")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// An accepted user.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UserDecision {
    /// Bandwidth limit in kbit/s.
    pub bandwidth_max_kbps: Option<f64>,
    /// The adapter wants to know of subscriptions.
    pub wants_tables: bool,
}

/// Decision about a session of an accepted user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionDecision {
    /// The session begins.
    Accepted {
        /// Longest duration.
        time_to_live: Option<Duration>,
    },
    /// Another session must end first; then ask again for a new session ID. If that is not
    /// possible, the session is refused.
    Conflict {
        /// ID of the other session.
        session: String,
        /// ClientRefusal.
        refusal: ClientRefusal,
    },
}

impl ClientInfo {
    /// Returns the request about the user.
    pub fn notify_user(&self) -> AdapterRequest {
        let (user, password) = (self.user.clone(), self.password.clone());
        let mut headers = joined(&self.headers);
        headers.push(Parameter::new(REQUEST_ID, &self.request_id));
        match &self.principal {
            None => AdapterRequest::NotifyUser {
                user,
                password,
                headers,
            },
            Some(principal) => AdapterRequest::NotifyUserWithPrincipal {
                user,
                password,
                principal: principal.clone(),
                headers,
            },
        }
    }

    /// Returns the request about a session.
    pub fn notify_new_session(&self, session: &str, context: &[Parameter]) -> AdapterRequest {
        let mut context = context.to_vec();
        context.push(Parameter::new(REQUEST_ID, &self.request_id));
        AdapterRequest::NotifyNewSession {
            user: self.user.clone(),
            session: session.to_owned(),
            context,
        }
    }
}

/// Returns headers with lower-case names, repeated ones joined.
fn joined(headers: &[(String, String)]) -> Vec<Parameter> {
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, value) in headers {
        let name = name.to_ascii_lowercase();
        match found.iter_mut().find(|(other, _)| *other == name) {
            Some((_, values)) => {
                values.push(',');
                values.push_str(value);
            }
            None => found.push((name, value.clone())),
        }
    }
    let found = found.into_iter();
    found
        .map(|(name, value)| Parameter::new(name, value))
        .collect()
}

/// Returns the decision about a user.
pub fn user_decision(outcome: &AdapterOutcome) -> Result<UserDecision, ClientRefusal> {
    match outcome {
        Ok(AdapterReply::User {
            bandwidth_max_kbps,
            wants_tables,
        }) => Ok(UserDecision {
            bandwidth_max_kbps: Some(*bandwidth_max_kbps).filter(|kbps| *kbps > 0.0),
            wants_tables: *wants_tables,
        }),
        Ok(_) => Err(ClientRefusal::of_session(&AdapterFailure::Down)),
        Err(failure) => Err(ClientRefusal::of_session(failure)),
    }
}

/// Returns the decision about a session.
pub fn session_decision(outcome: &AdapterOutcome) -> Result<SessionDecision, ClientRefusal> {
    match outcome {
        Ok(AdapterReply::Session { time_to_live_s }) => {
            let seconds = time_to_live_s.and_then(|seconds| u64::try_from(seconds).ok());
            let time_to_live = seconds.filter(|seconds| *seconds > 0);
            Ok(SessionDecision::Accepted {
                time_to_live: time_to_live.map(Duration::from_secs),
            })
        }
        Ok(_) => Err(ClientRefusal::of_session(&AdapterFailure::Down)),
        Err(failure) => {
            let refusal = ClientRefusal::of_session(failure);
            if let AdapterFailure::Exception(exception) = failure {
                if let ExceptionKind::ConflictingSession { session, .. } = &exception.kind {
                    let session = session.clone();
                    return Ok(SessionDecision::Conflict { session, refusal });
                }
            }
            Err(refusal)
        }
    }
}
