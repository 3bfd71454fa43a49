//! Checks the order of the requests of one connection's logins, as a broker does: ApiVersions and a
//! handshake, then tokens. A repeated login (re-authentication, KIP-368) begins with a handshake.

use weir_wire::WireError;

use super::requests::{self, API_VERSIONS, AUTHENTICATE, HANDSHAKE, LoginBody, ReplyTo};
use super::scram::ScramServer;
use super::{Check, ExchangeStep, FailureReason, Mechanism, bearer, plain};
use crate::users::Users;

/// Error text of all failed logins. Only the server's log contains the reason.
const FAILED: &str = "Authentication failed";
const LOGGED_IN: &str = "SaslAuthenticate request received after successful authentication";
const UNSUPPORTED_MECHANISM: i16 = 33;
const ILLEGAL_STATE: i16 = 34;
const AUTHENTICATION_FAILED: i16 = 58;
/// Minimum time between two repeated logins, in milliseconds.
const INTERVAL_MIN_MS: u64 = 1_000;

/// Configuration and state of the server that a login needs.
#[derive(Debug, Clone, Copy)]
pub struct LoginEnv<'a> {
    /// Offered mechanisms.
    pub mechanisms: &'a [Mechanism],
    /// Users of PLAIN and SCRAM.
    pub users: &'a Users,
    /// New random text for SCRAM, printable and without a comma.
    pub nonce: &'a str,
    /// Current time in milliseconds.
    pub now_ms: u64,
}

/// Role of a request during a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Not part of the login, but allowed now.
    Other,
    /// Part of the login: pass the whole frame to [`ServerLogin::request`].
    Login,
    /// Not allowed now: like a broker, close the connection.
    Violation,
}

/// Result of a request or token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginResponse {
    /// Response; the login continues.
    Send(Vec<u8>),
    /// The caller checks these credentials, then accepts or rejects the login.
    Check(Check),
    /// The client is this user; the caller accepts or rejects the login.
    User(String),
    /// The login failed. The response, if any, is sent after a delay, then the connection is
    /// closed.
    Failed {
        /// Response.
        frame: Option<Vec<u8>>,
        /// Reason for metrics and logs.
        reason: FailureReason,
    },
}

/// Logins of one connection.
#[derive(Debug)]
pub struct ServerLogin {
    state: LoginStage,
    /// Mechanism and times of the last login.
    session: Option<Session>,
    mechanism: Option<Mechanism>,
    is_raw: bool,
}

#[derive(Debug, Clone, Copy)]
struct Session {
    mechanism: Mechanism,
    has_lifetime: bool,
    /// Start of the last repeated login, in milliseconds.
    repeated_ms: Option<u64>,
}

#[derive(Debug)]
enum LoginStage {
    /// Expects ApiVersions or a handshake.
    Start,
    /// Expects a handshake after ApiVersions.
    Handshake,
    /// Expects the first message of the mechanism.
    First(Mechanism),
    /// Expects the last message of SCRAM.
    Proof(Box<ScramServer>),
    /// Expects the acknowledgement of a rejected token.
    Rejected,
    /// Repeated login with another mechanism; its first message fails.
    OtherMechanism,
    /// Waits for the caller's decision; then sends a response of this form with this token.
    Decision(ReplyTo, Vec<u8>),
    LoggedIn,
    Failed,
}

impl Default for ServerLogin {
    fn default() -> Self {
        Self {
            state: LoginStage::Start,
            session: None,
            mechanism: None,
            is_raw: false,
        }
    }
}

impl ServerLogin {
    /// Returns `true` if the next frame is a token without a request header.
    pub fn expects_raw_token(&self) -> bool {
        self.is_raw
            && matches!(
                self.state,
                LoginStage::First(_) | LoginStage::Proof(_) | LoginStage::Rejected
            )
    }

    /// Returns `true` if a login was accepted and none is being repeated.
    pub fn is_logged_in(&self) -> bool {
        matches!(self.state, LoginStage::LoggedIn)
    }

    /// Returns `true` while the login waits for the caller's decision.
    pub fn is_waiting(&self) -> bool {
        matches!(self.state, LoginStage::Decision(..))
    }

    /// Returns `true` after a failure.
    pub fn has_failed(&self) -> bool {
        matches!(self.state, LoginStage::Failed)
    }

    /// Returns `true` if a login was accepted earlier on this connection.
    pub fn is_repeated(&self) -> bool {
        self.session.is_some()
    }

    /// Returns the mechanism of the current login.
    pub fn mechanism(&self) -> Option<Mechanism> {
        self.mechanism
    }

    /// Returns the role of the next request, which has this API key. `is_supported` is `false` for
    /// an unsupported version of ApiVersions, which clients repeat with an older one.
    pub fn admit(&mut self, key: i16, is_supported: bool) -> Admission {
        match (&self.state, key) {
            (LoginStage::Failed | LoginStage::Decision(..), _) => Admission::Violation,
            (_, HANDSHAKE | AUTHENTICATE) => Admission::Login,
            (LoginStage::LoggedIn, _) => Admission::Other,
            (LoginStage::Start, API_VERSIONS) => {
                if is_supported {
                    self.state = LoginStage::Handshake;
                }
                Admission::Other
            }
            _ => Admission::Violation,
        }
    }

    /// Processes a whole request of a login, with its size prefix.
    ///
    /// # Errors
    /// The request is malformed. The connection must then be closed.
    pub fn request(
        &mut self,
        frame: &[u8],
        env: &LoginEnv<'_>,
    ) -> Result<LoginResponse, WireError> {
        let Some(request) = requests::read(frame)? else {
            return Ok(self.fail(None, FailureReason::Order));
        };
        Ok(match (request.body, request.to) {
            (LoginBody::Handshake(name), ReplyTo::Handshake { correlation_id }) => {
                self.handshake(name, correlation_id, requests::is_raw(frame), env)
            }
            (LoginBody::Authenticate(message), to) => self.authenticate(message, to, env),
            (LoginBody::Handshake(_), _) => self.fail(None, FailureReason::Order),
        })
    }

    /// Processes a token without a request header.
    pub fn raw_token(&mut self, message: &[u8], env: &LoginEnv<'_>) -> LoginResponse {
        self.message(message, ReplyTo::Raw, env)
    }

    fn handshake(
        &mut self,
        name: &str,
        correlation_id: i32,
        is_raw: bool,
        env: &LoginEnv<'_>,
    ) -> LoginResponse {
        let to = ReplyTo::Handshake { correlation_id };
        match &self.state {
            LoginStage::Start | LoginStage::Handshake => {}
            LoginStage::LoggedIn => {
                if !self.may_repeat(env.now_ms) || is_raw {
                    // Like a broker, keeps the connection open.
                    let frame = requests::handshake(correlation_id, ILLEGAL_STATE, &[]);
                    return LoginResponse::Send(frame);
                }
            }
            _ => {
                let frame = requests::error(to, ILLEGAL_STATE, "");
                return self.fail(frame, FailureReason::Order);
            }
        }
        let names: Vec<_> = env.mechanisms.iter().map(|one| one.name()).collect();
        let offered = Mechanism::find(name).filter(|one| env.mechanisms.contains(one));
        let Some(mechanism) = offered else {
            let frame = requests::handshake(correlation_id, UNSUPPORTED_MECHANISM, &names);
            return self.fail(Some(frame), FailureReason::Mechanism);
        };
        let is_other = self.session.is_some_and(|last| last.mechanism != mechanism);
        if let Some(session) = &mut self.session {
            session.repeated_ms = Some(env.now_ms);
        }
        self.mechanism = Some(mechanism);
        self.is_raw = is_raw;
        self.state = match is_other {
            true => LoginStage::OtherMechanism,
            false => LoginStage::First(mechanism),
        };
        LoginResponse::Send(requests::handshake(correlation_id, 0, &names))
    }

    fn may_repeat(&self, now_ms: u64) -> bool {
        self.session.is_some_and(|session| {
            let last_ms = session.repeated_ms;
            let is_due = last_ms.is_none_or(|at_ms| now_ms >= at_ms + INTERVAL_MIN_MS);
            session.has_lifetime && is_due
        })
    }

    fn authenticate(&mut self, message: &[u8], to: ReplyTo, env: &LoginEnv<'_>) -> LoginResponse {
        match &self.state {
            LoginStage::LoggedIn => {
                let frame = requests::error(to, ILLEGAL_STATE, LOGGED_IN);
                LoginResponse::Send(frame.unwrap_or_default())
            }
            LoginStage::Start | LoginStage::Handshake => self.fail(None, FailureReason::Order),
            _ if self.is_raw => self.fail(None, FailureReason::Order),
            _ => self.message(message, to, env),
        }
    }

    fn message(&mut self, message: &[u8], to: ReplyTo, env: &LoginEnv<'_>) -> LoginResponse {
        let step = match std::mem::replace(&mut self.state, LoginStage::Failed) {
            LoginStage::First(Mechanism::Plain) => plain::respond(message),
            LoginStage::First(Mechanism::OAuthBearer) => bearer::respond(message),
            LoginStage::First(Mechanism::Scram(hash)) => {
                match ScramServer::begin(hash, message, env.users, env.nonce) {
                    Some((scram, challenge)) => {
                        self.state = LoginStage::Proof(Box::new(scram));
                        ExchangeStep::Challenge(challenge)
                    }
                    None => ExchangeStep::Failed(FailureReason::Malformed),
                }
            }
            LoginStage::Proof(scram) => scram.finish(message),
            LoginStage::Rejected => ExchangeStep::Failed(FailureReason::Credentials),
            LoginStage::OtherMechanism => ExchangeStep::Failed(FailureReason::Changed),
            _ => ExchangeStep::Failed(FailureReason::Order),
        };
        match step {
            ExchangeStep::Challenge(challenge) => {
                LoginResponse::Send(requests::token(to, &challenge, 0))
            }
            ExchangeStep::Check(check) => {
                self.state = LoginStage::Decision(to, Vec::new());
                LoginResponse::Check(check)
            }
            ExchangeStep::User(user, last) => {
                self.state = LoginStage::Decision(to, last);
                LoginResponse::User(user)
            }
            ExchangeStep::Failed(reason) => {
                self.fail(requests::error(to, AUTHENTICATION_FAILED, FAILED), reason)
            }
        }
    }

    /// Accepts the login. With `lifetime_ms`, the client must repeat it within that time. Returns
    /// the response.
    pub fn accept(&mut self, lifetime_ms: Option<u64>) -> Vec<u8> {
        let LoginStage::Decision(to, last) =
            std::mem::replace(&mut self.state, LoginStage::LoggedIn)
        else {
            return Vec::new();
        };
        if let Some(mechanism) = self.mechanism {
            self.session = Some(Session {
                mechanism,
                has_lifetime: lifetime_ms.is_some(),
                repeated_ms: self.session.and_then(|session| session.repeated_ms),
            });
        }
        // At least 1, as in a broker, because 0 means no lifetime.
        let lifetime_ms = lifetime_ms.map_or(0, |ms| i64::try_from(ms.max(1)).unwrap_or(i64::MAX));
        requests::token(to, &last, lifetime_ms)
    }

    /// Rejects the login. OAUTHBEARER clients first get a response that they acknowledge.
    pub fn reject(&mut self, reason: FailureReason) -> LoginResponse {
        let LoginStage::Decision(to, _) = std::mem::replace(&mut self.state, LoginStage::Failed)
        else {
            return self.fail(None, FailureReason::Order);
        };
        if self.mechanism == Some(Mechanism::OAuthBearer) {
            self.state = LoginStage::Rejected;
            return LoginResponse::Send(requests::token(to, bearer::REJECTION, 0));
        }
        self.fail(requests::error(to, AUTHENTICATION_FAILED, FAILED), reason)
    }

    fn fail(&mut self, frame: Option<Vec<u8>>, reason: FailureReason) -> LoginResponse {
        self.state = LoginStage::Failed;
        LoginResponse::Failed { frame, reason }
    }
}

#[cfg(test)]
mod tests;
