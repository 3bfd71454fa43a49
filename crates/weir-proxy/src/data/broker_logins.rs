//! Logins of pairs at brokers with credentials of the proxy. They begin between two requests, when
//! nothing is in flight; further requests wait.

use std::fmt::Display;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_net::limited;
use weir_net::log::Truncated;
use weir_net::stream::SendQueue;

use super::broker_session::BrokerLoginStage;
use super::login_pool::{LoginTask, LoginWork};
use super::loop_state::{LoopState, PairCloseReason};
use super::pair::{ConnectionPair, Upstream};
use crate::broker_login::{
    BrokerLoginOutcome, DelegatedLogin, DelegationTokens, LoginStep, RESPONSE_BYTES_MAX,
    StepOutcome,
};
use crate::wire::frame_total;

/// Brokers refuse a repeated login within a second of the last one.
const INTERVAL_MIN: Duration = Duration::from_millis(1_010);

impl LoopState {
    /// Returns `true` if a login at the broker must come before the next request.
    pub(super) fn holds_requests(&self, pair: &ConnectionPair) -> bool {
        let Some(session) = &pair.broker_session else {
            return false;
        };
        match session.stage {
            BrokerLoginStage::New => pair.login.is_none(),
            BrokerLoginStage::Done(Some(at_ms)) => {
                let is_due = self.now_ms() >= at_ms;
                is_due && pair.login.as_ref().is_none_or(|gate| gate.is_logged_in())
            }
            _ => false,
        }
    }

    /// Requires a login at the broker, unless a request is partly forwarded.
    pub(super) fn require_broker_login(&self, pair: &mut ConnectionPair) {
        if pair.requests.is_mid_body() {
            return;
        }
        let Some(session) = &mut pair.broker_session else {
            return;
        };
        let is_repeated = matches!(session.stage, BrokerLoginStage::Done(_));
        session.stage = BrokerLoginStage::Due(is_repeated);
        let identity = pair.cluster.config.broker_identity.as_ref();
        let certified = pair.certified.as_ref().filter(|_| !is_repeated);
        if let (Some(identity), Some(principal)) = (identity, certified) {
            match identity.of_principal(principal) {
                Some(credential) => session.choose(credential),
                None => session.credential = None,
            }
        }
    }

    /// Continues a login of the client at the broker.
    pub(super) fn continue_at_broker(&self, pair: &mut ConnectionPair) {
        let credential = pair.login.as_mut().and_then(|gate| gate.take_credential());
        let (Some(credential), Some(session)) = (credential, &mut pair.broker_session) else {
            return;
        };
        session.choose(credential);
        session.stage = BrokerLoginStage::Due(false);
    }

    /// Begins a required login once the responses to earlier requests have come.
    pub(super) fn begin_broker_login(
        &mut self,
        pair: &mut ConnectionPair,
    ) -> Result<(), PairCloseReason> {
        let Some(session) = &mut pair.broker_session else {
            return Ok(());
        };
        let BrokerLoginStage::Due(is_repeated) = session.stage else {
            return Ok(());
        };
        if !pair.in_flight.is_empty() || !pair.responses.is_between() || !pair.produce.is_idle() {
            return Ok(());
        }
        if is_repeated {
            let identity = pair.cluster.config.broker_identity.as_ref();
            let principal = pair.login.as_ref().map(|gate| gate.principal());
            let principal = principal.unwrap_or(pair.certified.as_ref());
            let current = identity.and_then(|identity| match principal {
                Some(principal) => identity.of_principal(principal),
                None => identity.fixed(),
            });
            // Its certificate stays, because the connection does.
            session.credential = current;
        }
        let Some(credential) = session.credential.clone() else {
            return self.broker_login_failed(pair, &"no credential belongs to the principal");
        };
        if std::mem::take(&mut session.is_replaced) {
            self.drop_upstream(pair);
        }
        if credential.method.is_none() && credential.tokens.is_none() {
            return self.logged_in_at_broker(pair, None);
        }
        match pair.upstream {
            Upstream::None => self.connect(pair),
            Upstream::Resolving(_) | Upstream::Connecting(..) => Ok(()),
            Upstream::Open(..) => {
                let host = pair.broker_host.clone().unwrap_or_default();
                let work = match &credential.tokens {
                    None => LoginWork::Broker(LoginStep::Begin(credential, host)),
                    Some(tokens) => match delegated_login(pair, tokens, host) {
                        Some(login) => LoginWork::Delegated(Box::new(login)),
                        None => return self.broker_login_failed(pair, &"no table [default]"),
                    },
                };
                self.submit_step(pair, work)
            }
        }
    }

    fn submit_step(
        &mut self,
        pair: &mut ConnectionPair,
        work: LoginWork,
    ) -> Result<(), PairCloseReason> {
        let until_ms = self.now_ms() + self.generation.limits.connect_timeout_ms;
        if let Some(session) = &mut pair.broker_session {
            session.stage = BrokerLoginStage::Working(until_ms);
        }
        self.arm(pair, until_ms);
        let task = LoginTask {
            pair: pair.id,
            work,
            reply: self.sender.clone(),
        };
        match self.submit_login(task) {
            true => Ok(()),
            false => self.broker_login_failed(pair, &"too many logins at once"),
        }
    }

    /// Continues with the result of a step.
    pub(super) fn broker_login_stepped(
        &mut self,
        pair: &mut ConnectionPair,
        outcome: StepOutcome,
    ) -> Result<(), PairCloseReason> {
        let Some(session) = &mut pair.broker_session else {
            return Ok(());
        };
        // Otherwise it has failed meanwhile.
        let BrokerLoginStage::Working(until_ms) = session.stage else {
            return Ok(());
        };
        match outcome {
            StepOutcome::Send(dialogue, frame) => {
                session.stage = BrokerLoginStage::Waiting(dialogue, until_ms);
                pair.produce.queue.push_copy(&[IoSlice::new(&frame)], 0);
                Ok(())
            }
            StepOutcome::Complete(lifetime) => {
                if let Some(identity) = &pair.cluster.config.broker_identity {
                    identity.count(BrokerLoginOutcome::Accepted);
                }
                self.logged_in_at_broker(pair, lifetime)
            }
            StepOutcome::Failed(error) => {
                if error.is_refusal() {
                    session.stage = BrokerLoginStage::Refused;
                }
                self.broker_login_failed(pair, &error)
            }
        }
    }

    fn logged_in_at_broker(
        &mut self,
        pair: &mut ConnectionPair,
        lifetime: Option<Duration>,
    ) -> Result<(), PairCloseReason> {
        let now_ms = self.now_ms();
        // At 80 %, so that a request that takes long does not use up the rest.
        let renew_ms = lifetime.map(|lifetime| {
            let after = (lifetime / 5).saturating_mul(4).max(INTERVAL_MIN);
            now_ms.saturating_add(after.as_millis() as u64)
        });
        if let Some(session) = &mut pair.broker_session {
            session.stage = BrokerLoginStage::Done(renew_ms);
        }
        let response = pair.login.as_mut().and_then(|gate| {
            gate.set_now(now_ms);
            gate.broker_decided(true)
        });
        self.respond(pair, response)
    }

    /// Rejects the login of the client with which that at the broker began, or closes the pair.
    fn broker_login_failed(
        &mut self,
        pair: &mut ConnectionPair,
        error: &dyn Display,
    ) -> Result<(), PairCloseReason> {
        if self.repeats_with_new_token(pair) {
            return self.begin_broker_login(pair);
        }
        let cluster = &pair.cluster.config;
        if let Some(identity) = &cluster.broker_identity {
            identity.count(BrokerLoginOutcome::Failed);
        }
        let session = pair.broker_session.as_ref();
        let credential = session.and_then(|session| session.credential.as_ref());
        let credential = credential.map_or("none", |credential| &credential.name);
        let (client, cluster, broker) = (pair.peer, &cluster.name, pair.broker);
        let text = "login at the broker failed";
        let error = error.to_string();
        limited!(
            warn, "broker login failed", %client, cluster, ?broker, credential,
            error = %Truncated(&error), "{text}"
        );
        let now_ms = self.now_ms();
        let gate = pair.login.as_mut().filter(|gate| gate.waits_for_broker());
        let Some(gate) = gate else {
            return Err(PairCloseReason::NoBroker(format!("login failed: {error}")));
        };
        gate.set_now(now_ms);
        let response = gate.broker_decided(false);
        if let Some(session) = &mut pair.broker_session {
            session.stage = BrokerLoginStage::New;
        }
        self.drop_upstream(pair);
        pair.produce.queue = SendQueue::default();
        self.respond(pair, response)
    }

    /// Prepares another attempt on a new connection if the broker refused a token that it may not
    /// know yet. It delays its response, so that attempts are some time apart. Nothing is in
    /// flight.
    fn repeats_with_new_token(&mut self, pair: &mut ConnectionPair) -> bool {
        let Some(session) = &mut pair.broker_session else {
            return false;
        };
        let credential = session.credential.as_ref();
        let tokens = credential.and_then(|credential| credential.tokens.as_ref());
        let is_refused = matches!(session.stage, BrokerLoginStage::Refused);
        if !is_refused || tokens.is_none_or(|tokens| !tokens.is_new(Instant::now())) {
            return false;
        }
        session.stage = BrokerLoginStage::Due(false);
        session.input.clear();
        self.drop_upstream(pair);
        pair.produce.queue = SendQueue::default();
        true
    }

    /// Reads the response of a login.
    pub(super) fn read_broker_login(
        &mut self,
        pair: &mut ConnectionPair,
        budget: &mut u32,
    ) -> Result<bool, PairCloseReason> {
        let is_waiting = |pair: &ConnectionPair| {
            let session = pair.broker_session.as_ref();
            session.is_some_and(|one| matches!(one.stage, BrokerLoginStage::Waiting(..)))
        };
        let Some(upstream) = pair.upstream.open() else {
            return Ok(false);
        };
        if !upstream.readable || upstream.ended || *budget == 0 || !is_waiting(pair) {
            return Ok(false);
        }
        *budget -= 1;
        let mut buffer = std::mem::take(&mut self.buffer);
        let limit = RESPONSE_BYTES_MAX.min(buffer.len());
        let Some(upstream) = pair.upstream.open() else {
            return Ok(false);
        };
        let input = upstream.stream.read(&mut buffer[..limit], &mut self.tls);
        let outcome = match input {
            Err(error) => self.broker_login_failed(pair, &error).map(|()| false),
            Ok(input) => {
                self.note_read(pair, input, false);
                if input.ended && input.plain == 0 {
                    let text = "closed by the broker: check that its listener requires a login";
                    self.broker_login_failed(pair, &text).map(|()| false)
                } else {
                    let taken = self.take_login_response(pair, &buffer[..input.plain]);
                    taken.map(|()| input.wire + input.plain > 0)
                }
            }
        };
        self.buffer = buffer;
        outcome
    }

    fn take_login_response(
        &mut self,
        pair: &mut ConnectionPair,
        input: &[u8],
    ) -> Result<(), PairCloseReason> {
        let Some(session) = &mut pair.broker_session else {
            return Ok(());
        };
        session.input.extend_from_slice(input);
        let total = match frame_total(&session.input, RESPONSE_BYTES_MAX) {
            Ok(Some(total)) if session.input.len() >= total => total,
            Ok(_) => return Ok(()),
            Err(error) => return self.broker_login_failed(pair, &error),
        };
        let frame = std::mem::take(&mut session.input);
        if frame.len() > total {
            return self.broker_login_failed(pair, &"more than one response to a login request");
        }
        let stage = std::mem::replace(&mut session.stage, BrokerLoginStage::New);
        let BrokerLoginStage::Waiting(dialogue, _) = stage else {
            return Ok(());
        };
        let step = LoginStep::Continue(dialogue, frame);
        self.submit_step(pair, LoginWork::Broker(step))
    }

    /// Ends a login that takes too long. Returns the time of the next check.
    pub(super) fn check_broker_login(
        &mut self,
        pair: &mut ConnectionPair,
    ) -> Result<u64, PairCloseReason> {
        let session = pair.broker_session.as_ref();
        let until_ms = match session.map(|session| &session.stage) {
            Some(BrokerLoginStage::Working(until_ms) | BrokerLoginStage::Waiting(_, until_ms)) => {
                *until_ms
            }
            _ => return Ok(u64::MAX),
        };
        if self.now_ms() < until_ms {
            return Ok(until_ms);
        }
        self.broker_login_failed(pair, &"no response in time")?;
        Ok(u64::MAX)
    }
}

/// Returns the work of a login with a token; `None` if no credential may create one.
fn delegated_login(
    pair: &ConnectionPair,
    tokens: &Arc<DelegationTokens>,
    host: Arc<str>,
) -> Option<DelegatedLogin> {
    let cluster = &pair.cluster;
    let config = &cluster.config;
    let mut brokers = config.upstream.clone();
    brokers.extend(cluster.broker_registry.upstreams());
    Some(DelegatedLogin {
        tokens: Arc::clone(tokens),
        creator: config.broker_identity.as_ref()?.fixed()?,
        host,
        brokers,
        tls: config.upstream_tls.clone(),
        sends_proxy_header: config.sends_proxy_header,
    })
}
