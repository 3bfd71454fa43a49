//! Login of one connection: decides which requests pass, and responds to those of the login.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_identity::Principal;
use weir_net::limited;
use weir_sasl::random::random_nonce;
use weir_sasl::server::{
    Admission, Check, FailureReason, LoginEnv, LoginResponse, Mechanism, ServerLogin,
};
use weir_wire::WireError;

use super::{CheckOutcome, ClusterLogins, LoginOutcome};
use crate::broker_login::{BrokerIdentity, BrokerLoginOutcome, Credential};
use crate::versions::{SASL_AUTHENTICATE, SASL_HANDSHAKE};
use weir_rules::audit::{AuditDetails, AuditKind, ClusterAudit, client_id};

/// Longest wait for keys that are being fetched, and interval of checks meanwhile.
const KEYS_TIMEOUT_MS: u64 = 5_000;
const KEYS_INTERVAL_MS: u64 = 100;

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
    /// Revision of the users in which the user was found; `None`: not looked for yet.
    revision: Option<u64>,
    /// Time at which the login expires, in milliseconds.
    expires_ms: Option<u64>,
    /// Time at which the login that is under way began, in milliseconds.
    began_ms: Option<u64>,
    now_ms: u64,
    /// Credentials that a login thread checks, until they are taken.
    task: Option<Check>,
    /// Begin of the wait for keys, and time of the next check.
    retry: Option<KeyWait>,
    /// User of the credentials that are checked.
    user: Option<String>,
    /// Reason why the client's token was rejected, until it acknowledges that.
    rejected: Option<&'static str>,
    /// Identity of the proxy at the brokers; `None`: the brokers require no login.
    brokers: Option<Arc<BrokerIdentity>>,
    /// Principal of a first login that continues at a broker.
    verified: Option<VerifiedClient>,
    /// Credential for that, until it is taken.
    credential: Option<Arc<Credential>>,
    failure: Option<Failure>,
    audit: Option<Arc<ClusterAudit>>,
    /// `client.id` of the last request of a login, noted for the audit log.
    client_id: Option<Box<str>>,
}

/// A client whose credentials are right.
#[derive(Debug)]
struct VerifiedClient {
    principal: Principal,
    /// Time at which the credentials end, in milliseconds.
    ends_ms: Option<u64>,
}

/// Wait for keys that are being fetched.
#[derive(Debug)]
struct KeyWait {
    check: Check,
    since_ms: u64,
    at_ms: u64,
    is_due: bool,
}

/// A failed login whose response is delayed.
#[derive(Debug)]
struct Failure {
    /// API and error code of the response.
    error: (i16, i16),
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
            revision: None,
            expires_ms: None,
            began_ms: None,
            now_ms: 0,
            task: None,
            retry: None,
            user: None,
            rejected: None,
            verified: None,
            credential: None,
            failure: None,
            audit: None,
            client_id: None,
        }
    }

    /// Records logins.
    #[must_use]
    pub(crate) fn with_audit(mut self, audit: Option<Arc<ClusterAudit>>) -> Self {
        self.audit = audit;
        self
    }

    /// Uses users and credentials of a reloaded configuration from the next login on.
    pub(crate) fn reconfigure(
        &mut self,
        logins: Arc<ClusterLogins>,
        brokers: Option<Arc<BrokerIdentity>>,
    ) {
        self.logins = logins;
        self.revision = None;
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
            Admission::Other
                if self.login.is_logged_in() && (is_expired || self.is_user_removed()) =>
            {
                self.logins.count_expired();
                GateAction::Close
            }
            Admission::Other => GateAction::Forward,
            Admission::Violation => GateAction::Close,
        }
    }

    /// Returns `true` if the user is not in the file of users any more.
    fn is_user_removed(&mut self) -> bool {
        let revision = self.logins.revision();
        if self.revision == Some(revision) {
            return false;
        }
        let Some(principal) = &self.principal else {
            return false;
        };
        let users = self.logins.users();
        let is_known = match self.login.mechanism() {
            Some(Mechanism::Plain) => users.contains(principal.name(), None),
            Some(Mechanism::Scram(hash)) => users.contains(principal.name(), Some(hash)),
            _ => true,
        };
        if is_known {
            self.revision = Some(revision);
        }
        !is_known
    }

    /// Processes a request of a login, or a raw token without its size. Returns the response,
    /// unless it comes later.
    pub(crate) fn respond(&mut self, frame: &[u8]) -> Result<Option<Vec<u8>>, WireError> {
        self.began_ms.get_or_insert(self.now_ms);
        let is_raw = self.login.expects_raw_token();
        if self.audit.is_some() && !is_raw {
            self.client_id = frame.get(CLIENT_ID_AT..).and_then(client_id);
        }
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

    fn reply(&mut self, reply: LoginResponse) -> Option<Vec<u8>> {
        match reply {
            LoginResponse::Send(frame) => Some(frame),
            LoginResponse::User(user) if self.is_limited() => self.reject(user, "limited"),
            LoginResponse::User(user) => self.accept_user(user),
            LoginResponse::Check(check) => {
                let user = match &check {
                    Check::Password { user, .. } => user.clone(),
                    Check::Token { user, .. } => user.clone().unwrap_or_default(),
                };
                if self.is_limited() {
                    return self.reject(user, "limited");
                }
                if let Check::Password { user, password } = &check {
                    if self.logins.knows_password(user, password) {
                        return self.accept_user(user.clone());
                    }
                }
                self.user = Some(user);
                self.task = Some(check);
                None
            }
            LoginResponse::Failed { frame, reason } => {
                let reason = self.rejected.take().unwrap_or(reason.as_str());
                self.fail(frame, reason)
            }
        }
    }

    fn is_limited(&self) -> bool {
        !self.logins.admits(self.client.ip())
    }

    /// Returns the credentials to check, once.
    pub(crate) fn take_task(&mut self) -> Option<Check> {
        self.task.take()
    }

    /// Repeats a check that waited for keys. Returns the time of the next one.
    pub(crate) fn repeat_check(&mut self, now_ms: u64) -> Option<u64> {
        let wait = self.retry.as_mut()?;
        if wait.is_due || now_ms < wait.at_ms {
            return (!wait.is_due).then_some(wait.at_ms);
        }
        wait.is_due = true;
        self.task = Some(wait.check.clone());
        None
    }

    /// Continues with the result of a check. Returns the response, unless it comes later.
    pub(crate) fn checked(&mut self, check: Check, outcome: CheckOutcome) -> Option<Vec<u8>> {
        let now_ms = self.now_ms;
        let since_ms = self.retry.take().map_or(now_ms, |wait| wait.since_ms);
        if matches!(outcome, CheckOutcome::Pending) && now_ms < since_ms + KEYS_TIMEOUT_MS {
            self.retry = Some(KeyWait {
                check,
                since_ms,
                at_ms: now_ms + KEYS_INTERVAL_MS,
                is_due: false,
            });
            return None;
        }
        let user = self.user.take().unwrap_or_default();
        match outcome {
            CheckOutcome::Right(principal, lifetime_ms) => self.accept(VerifiedClient {
                principal: *principal,
                ends_ms: lifetime_ms.map(|ms| now_ms.saturating_add(ms)),
            }),
            CheckOutcome::Wrong(reason) => self.reject(user, reason),
            CheckOutcome::Pending => self.reject(user, "keys_unavailable"),
        }
    }

    /// Fails a login whose password cannot be checked now.
    pub(crate) fn overloaded(&mut self) -> Option<Vec<u8>> {
        let user = self.user.take().unwrap_or_default();
        self.reject(user, "overloaded")
    }

    fn accept_user(&mut self, user: String) -> Option<Vec<u8>> {
        match Principal::user(&user) {
            Some(principal) => self.accept(VerifiedClient {
                principal,
                ends_ms: None,
            }),
            None => self.reject(user, "user"),
        }
    }

    fn accept(&mut self, client: VerifiedClient) -> Option<Vec<u8>> {
        let user = || client.principal.name().to_owned();
        let old = self.principal.as_ref();
        if old.is_some_and(|old| !old.is_same(&client.principal)) {
            return self.reject(user(), FailureReason::Changed.as_str());
        }
        if let Some(brokers) = &self.brokers {
            let Some(credential) = brokers.of_principal(&client.principal) else {
                brokers.count(BrokerLoginOutcome::Unmapped);
                return self.reject(user(), "mapping");
            };
            if self.principal.is_none() {
                self.credential = Some(credential);
                self.verified = Some(client);
                return None;
            }
        }
        Some(self.complete(client))
    }

    fn complete(&mut self, client: VerifiedClient) -> Vec<u8> {
        let VerifiedClient { principal, ends_ms } = client;
        let left_ms = ends_ms.map(|ends_ms| ends_ms.saturating_sub(self.now_ms));
        let session_ms = self
            .logins
            .limits
            .session_ms
            .into_iter()
            .chain(left_ms)
            .min();
        self.expires_ms = session_ms.map(|ms| self.now_ms.saturating_add(ms));
        let frame = self.login.accept(session_ms);
        let (mechanism, client, cluster) = (self.login.mechanism(), self.client, &*self.cluster);
        let address = client.ip();
        let began_ms = self.began_ms.take().unwrap_or(self.now_ms);
        let took_ms = self.now_ms.saturating_sub(began_ms);
        self.logins.observe(mechanism, took_ms);
        self.logins
            .count(mechanism, LoginOutcome::Accepted, address);
        if let Some(audit) = &self.audit {
            let details = AuditDetails {
                client_id: self.client_id.clone(),
                mechanism: mechanism.map(Mechanism::name),
                ..AuditDetails::default()
            };
            let name = principal.to_string();
            audit.record(AuditKind::Login, client, Some(&name), details);
        }
        limited!(debug, "login accepted", %client, cluster, %principal, "client logged in");
        // Groups and claims may have changed.
        if self.principal.as_ref().is_none_or(|old| **old != principal) {
            self.principal = Some(Arc::new(principal));
        }
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
        let client = self.verified.take()?;
        match is_accepted {
            true => Some(self.complete(client)),
            false => self.reject(client.principal.name().to_owned(), "broker"),
        }
    }

    fn reject(&mut self, user: String, reason: &'static str) -> Option<Vec<u8>> {
        self.user = Some(user);
        match self.login.reject(FailureReason::Credentials) {
            LoginResponse::Failed { frame, .. } => self.fail(frame, reason),
            LoginResponse::Send(frame) => {
                self.rejected = Some(reason);
                Some(frame)
            }
            LoginResponse::Check(_) | LoginResponse::User(_) => self.fail(None, reason),
        }
    }

    fn fail(&mut self, frame: Option<Vec<u8>>, reason: &'static str) -> Option<Vec<u8>> {
        let outcome = match reason {
            "limited" => LoginOutcome::Limited,
            "mapping" | "broker" => LoginOutcome::Refused,
            _ => LoginOutcome::Failed,
        };
        let error = match reason {
            "mechanism" => (SASL_HANDSHAKE, UNSUPPORTED_MECHANISM),
            "order" => (SASL_AUTHENTICATE, ILLEGAL_STATE),
            _ => (SASL_AUTHENTICATE, AUTHENTICATION_FAILED),
        };
        let mechanism = self.login.mechanism();
        let (client, cluster) = (self.client, &*self.cluster);
        self.logins.count(mechanism, outcome, client.ip());
        let user = self.user.take().unwrap_or_default();
        if let Some(audit) = &self.audit {
            let details = AuditDetails {
                client_id: self.client_id.clone(),
                mechanism: mechanism.map(Mechanism::name),
                reason: Some(reason),
                error_code: frame.is_some().then_some(error.1),
                ..AuditDetails::default()
            };
            let name = Principal::user(&user).map(|user| user.to_string());
            audit.record(AuditKind::LoginFailed, client, name.as_deref(), details);
        }
        let mechanism = mechanism.map_or("none", |one| one.name());
        limited!(
            warn, "login failed", %client, cluster, mechanism, ?user, reason, "login failed"
        );
        self.failure = Some(Failure {
            error,
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

    /// Returns the API and the error code of the response to a failed login.
    pub(crate) fn failure_error(&self) -> Option<(i16, i16)> {
        let failure = self.failure.as_ref()?;
        Some(failure.error)
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

/// Position of the `client.id` in a request: after size, key, version and correlation id.
const CLIENT_ID_AT: usize = 12;
const UNSUPPORTED_MECHANISM: i16 = 33;
const ILLEGAL_STATE: i16 = 34;
const AUTHENTICATION_FAILED: i16 = 58;
