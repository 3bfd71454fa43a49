//! Login of one connection: decides which requests pass, and responds to those of the login.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_identity::Principal;
use weir_net::limited;
use weir_sasl::random::random_nonce;
use weir_sasl::server::{Admission, Check, FailureReason, LoginEnv, LoginReply, ServerLogin};
use weir_security::Secret;
use weir_wire::WireError;

use super::{ClusterLogins, LoginOutcome};
use crate::broker_login::{BrokerIdentity, BrokerLoginOutcome, Credential};

/// Action for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GateAction {
    /// The request is forwarded.
    Forward,
    /// The whole request goes to [`LoginGate::respond`].
    Respond,
    /// The connection is closed.
    Close,
}

/// Login of one connection, before its requests reach a broker.
#[derive(Debug)]
pub(crate) struct LoginGate {
    logins: Arc<ClusterLogins>,
    cluster: Arc<str>,
    client: SocketAddr,
    login: ServerLogin,
    principal: Option<Arc<Principal>>,
    /// Time at which the login expires, in milliseconds.
    expires_ms: Option<u64>,
    now_ms: u64,
    /// Password that a login thread checks, until it is taken.
    task: Option<(String, Secret)>,
    /// User of the password that is checked.
    user: Option<String>,
    /// Identity of the proxy at the brokers; `None`: the brokers require no login.
    brokers: Option<Arc<BrokerIdentity>>,
    /// Principal of a first login that continues at a broker.
    verified: Option<Principal>,
    /// Credential for that, until it is taken.
    credential: Option<Arc<Credential>>,
    failure: Option<Failure>,
}

/// A failed login whose response is delayed.
#[derive(Debug)]
struct Failure {
    /// Response; `None` once it is sent, or if there is none.
    frame: Option<Vec<u8>>,
    at_ms: u64,
    is_due: bool,
}

impl LoginGate {
    pub(crate) fn new(
        logins: Arc<ClusterLogins>,
        brokers: Option<Arc<BrokerIdentity>>,
        cluster: &str,
        client: SocketAddr,
    ) -> Self {
        Self {
            logins,
            brokers,
            cluster: cluster.into(),
            client,
            login: ServerLogin::default(),
            principal: None,
            expires_ms: None,
            now_ms: 0,
            task: None,
            user: None,
            verified: None,
            credential: None,
            failure: None,
        }
    }

    /// Uses users and credentials of a reloaded configuration from the next login on.
    pub(crate) fn reconfigure(
        &mut self,
        logins: Arc<ClusterLogins>,
        brokers: Option<Arc<BrokerIdentity>>,
    ) {
        self.logins = logins;
        self.brokers = brokers;
    }

    /// Returns the shared state of the cluster's logins.
    pub(crate) fn logins(&self) -> &Arc<ClusterLogins> {
        &self.logins
    }

    /// Returns the owner of the connection, once it is logged in.
    pub(crate) fn principal(&self) -> Option<&Arc<Principal>> {
        self.principal.as_ref()
    }

    /// Sets the time of the requests that follow.
    pub(crate) fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    pub(crate) fn expects_raw_token(&self) -> bool {
        self.login.expects_raw_token()
    }

    pub(crate) fn is_logged_in(&self) -> bool {
        self.login.is_logged_in()
    }

    /// Returns `true` while no request may be processed.
    pub(crate) fn pauses(&self) -> bool {
        self.login.is_waiting() || self.failure.is_some()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Returns `true` if the connection ends once the client has all responses.
    pub(crate) fn is_closing(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.is_due)
    }

    /// Decides about a request, of which everything has arrived unless the client is logged in.
    pub(crate) fn admit(&mut self, key: i16, is_supported: bool) -> GateAction {
        let is_expired = self.expires_ms.is_some_and(|at_ms| self.now_ms >= at_ms);
        match self.login.admit(key, is_supported) {
            Admission::Login => GateAction::Respond,
            Admission::Other if is_expired && self.login.is_logged_in() => {
                self.logins.count_expired();
                GateAction::Close
            }
            Admission::Other => GateAction::Forward,
            Admission::Violation => GateAction::Close,
        }
    }

    /// Processes a request of a login, or a raw token without its size. Returns the response,
    /// unless it comes later.
    pub(crate) fn respond(&mut self, frame: &[u8]) -> Result<Option<Vec<u8>>, WireError> {
        let is_raw = self.login.expects_raw_token();
        let users = self.logins.users();
        let logins = Arc::clone(&self.logins);
        let Ok(nonce) = random_nonce() else {
            return Ok(self.fail(None, "random"));
        };
        let env = LoginEnv {
            mechanisms: &logins.mechanisms,
            users: &users,
            nonce: &nonce,
            now_ms: self.now_ms,
        };
        let reply = match is_raw {
            true => self.login.raw_token(frame, &env),
            false => self.login.request(frame, &env)?,
        };
        Ok(self.reply(reply))
    }

    fn reply(&mut self, reply: LoginReply) -> Option<Vec<u8>> {
        match reply {
            LoginReply::Send(frame) => Some(frame),
            LoginReply::User(user) if self.is_limited() => self.reject(user, "limited"),
            LoginReply::User(user) => self.accept(user),
            LoginReply::Check(Check::Password { user, password }) => {
                if self.is_limited() {
                    return self.reject(user, "limited");
                }
                if self.logins.knows_password(&user, &password) {
                    return self.accept(user);
                }
                self.user = Some(user.clone());
                self.task = Some((user, password));
                None
            }
            // The configuration does not offer the mechanism.
            LoginReply::Check(Check::Token { .. }) => self.reject(String::new(), "mechanism"),
            LoginReply::Failed { frame, reason } => self.fail(frame, reason.as_str()),
        }
    }

    fn is_limited(&self) -> bool {
        !self.logins.admits(self.client.ip())
    }

    /// Returns the password to check, once.
    pub(crate) fn take_task(&mut self) -> Option<(String, Secret)> {
        self.task.take()
    }

    /// Continues with the result of a check. Returns the response, unless it comes later.
    pub(crate) fn checked(&mut self, is_right: bool) -> Option<Vec<u8>> {
        let user = self.user.take().unwrap_or_default();
        match is_right {
            true => self.accept(user),
            false => self.reject(user, FailureReason::Credentials.as_str()),
        }
    }

    /// Fails a login whose password cannot be checked now.
    pub(crate) fn overloaded(&mut self) -> Option<Vec<u8>> {
        let user = self.user.take().unwrap_or_default();
        self.reject(user, "overloaded")
    }

    fn accept(&mut self, user: String) -> Option<Vec<u8>> {
        let Some(principal) = Principal::user(&user) else {
            return self.reject(user, "user");
        };
        if self
            .principal
            .as_ref()
            .is_some_and(|old| !old.is_same(&principal))
        {
            return self.reject(user, FailureReason::Changed.as_str());
        }
        if let Some(brokers) = &self.brokers {
            let Some(credential) = brokers.of_principal(&principal) else {
                brokers.count(BrokerLoginOutcome::Unmapped);
                return self.reject(user, "mapping");
            };
            if self.principal.is_none() {
                self.credential = Some(credential);
                self.verified = Some(principal);
                return None;
            }
        }
        Some(self.complete(principal))
    }

    fn complete(&mut self, principal: Principal) -> Vec<u8> {
        let session_ms = self.logins.limits.session_ms;
        self.expires_ms = session_ms.map(|ms| self.now_ms.saturating_add(ms));
        let frame = self.login.accept(session_ms);
        let (mechanism, client, cluster) = (self.login.mechanism(), self.client, &*self.cluster);
        let address = client.ip();
        self.logins
            .count(mechanism, LoginOutcome::Accepted, address);
        limited!(debug, "login accepted", %client, cluster, %principal, "client logged in");
        self.principal.get_or_insert_with(|| Arc::new(principal));
        frame
    }

    /// Returns the credential with which the login continues at a broker, once.
    pub(crate) fn take_credential(&mut self) -> Option<Arc<Credential>> {
        self.credential.take()
    }

    /// Returns `true` while a login continues at a broker.
    pub(crate) fn waits_for_broker(&self) -> bool {
        self.verified.is_some()
    }

    /// Ends a login that a broker accepted or refused. Returns the response, unless it comes later.
    pub(crate) fn broker_decided(&mut self, is_accepted: bool) -> Option<Vec<u8>> {
        let principal = self.verified.take()?;
        match is_accepted {
            true => Some(self.complete(principal)),
            false => self.reject(principal.name().to_owned(), "broker"),
        }
    }

    fn reject(&mut self, user: String, reason: &'static str) -> Option<Vec<u8>> {
        self.user = Some(user);
        match self.login.reject(FailureReason::Credentials) {
            LoginReply::Failed { frame, .. } => self.fail(frame, reason),
            LoginReply::Send(frame) => Some(frame),
            LoginReply::Check(_) | LoginReply::User(_) => self.fail(None, reason),
        }
    }

    fn fail(&mut self, frame: Option<Vec<u8>>, reason: &'static str) -> Option<Vec<u8>> {
        let outcome = match reason {
            "limited" => LoginOutcome::Limited,
            "mapping" | "broker" => LoginOutcome::Refused,
            _ => LoginOutcome::Failed,
        };
        let mechanism = self.login.mechanism();
        let (client, cluster) = (self.client, &*self.cluster);
        self.logins.count(mechanism, outcome, client.ip());
        let user = self.user.take().unwrap_or_default();
        let mechanism = mechanism.map_or("none", |one| one.name());
        limited!(
            warn, "login failed", %client, cluster, mechanism, ?user, reason, "login failed"
        );
        self.failure = Some(Failure {
            frame,
            at_ms: self.now_ms + self.logins.limits.failed_delay_ms,
            is_due: false,
        });
        None
    }

    /// Returns the time at which a failed login is reported, in milliseconds.
    pub(crate) fn failure_ms(&self) -> Option<u64> {
        let waiting = self.failure.as_ref().filter(|failure| !failure.is_due);
        waiting.map(|failure| failure.at_ms)
    }

    /// Ends the delay of a failed login. Returns its response.
    pub(crate) fn take_failure(&mut self, now_ms: u64) -> Option<Vec<u8>> {
        let failure = self.failure.as_mut()?;
        if failure.is_due || now_ms < failure.at_ms {
            return None;
        }
        failure.is_due = true;
        failure.frame.take()
    }

    /// Returns the time by which the connection must be logged in, if it began at `since_ms`.
    pub(crate) fn deadline_ms(&self, since_ms: u64) -> Option<u64> {
        let timeout_ms = self.logins.limits.timeout_ms;
        match &self.failure {
            Some(failure) => Some(failure.at_ms + timeout_ms),
            None => (!self.login.is_repeated()).then(|| since_ms + timeout_ms),
        }
    }
}
