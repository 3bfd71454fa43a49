//! Logins of pairs: credentials that are checked elsewhere, delayed failures, deadlines.

use std::sync::Arc;

use weir_sasl::server::Check;

use super::login_pool::{LoginTask, LoginWork};
use super::loop_state::{LoopState, PairCloseReason};
use super::pair::ConnectionPair;
use crate::login::CheckOutcome;
use crate::wire::{InFlightRequest, StreamError};

impl LoopState {
    /// Hands credentials to the login threads, and sets the timer of a failed login.
    pub(super) fn after_requests(
        &mut self,
        pair: &mut ConnectionPair,
    ) -> Result<(), PairCloseReason> {
        let Some(gate) = &mut pair.login else {
            return Ok(());
        };
        let mut response = None;
        if let Some(check) = gate.take_task() {
            let task = LoginTask {
                pair: pair.id,
                work: LoginWork::Check(gate.logins().clone(), check),
                reply: self.sender.clone(),
            };
            if !self.submit_login(task) {
                let gate = pair.login.as_mut();
                response = gate.and_then(|gate| gate.overloaded());
            }
        }
        self.continue_at_broker(pair);
        self.respond(pair, response)
    }

    /// Queues a task for the login threads. Returns `false` if too many wait.
    pub(super) fn submit_login(&self, task: LoginTask) -> bool {
        let pool = self.generation.logins.as_ref();
        pool.is_some_and(|pool| pool.submit(task))
    }

    /// Takes the principal of the client's certificate, once.
    pub(super) fn certify(&self, pair: &mut ConnectionPair) -> Result<(), PairCloseReason> {
        let Some(principals) = &pair.cluster.config.certificates else {
            return Ok(());
        };
        if pair.certified.is_none() {
            let certificate = pair.downstream.stream.client_certificate();
            let principal = certificate.and_then(|certificate| principals.of(certificate));
            let principal = principal.ok_or(StreamError::NoPrincipal)?;
            pair.certified = Some(Arc::new(principal));
        }
        Ok(())
    }

    /// Continues a login with the result of a check.
    pub(super) fn login_checked(
        &mut self,
        pair: &mut ConnectionPair,
        check: Check,
        outcome: CheckOutcome,
    ) -> Result<(), PairCloseReason> {
        let now_ms = self.now_ms();
        let response = pair.login.as_mut().and_then(|gate| {
            gate.set_now(now_ms);
            gate.checked(check, outcome)
        });
        if let Some(at_ms) = pair
            .login
            .as_mut()
            .and_then(|gate| gate.repeat_check(now_ms))
        {
            self.arm(pair, at_ms);
        }
        self.continue_at_broker(pair);
        self.respond(pair, response)
    }

    /// Sends the response of a failed login whose delay is over. Returns the time of the next
    /// check.
    pub(super) fn check_login(
        &mut self,
        pair: &mut ConnectionPair,
    ) -> Result<u64, PairCloseReason> {
        let now_ms = self.now_ms();
        let Some(gate) = &mut pair.login else {
            return Ok(u64::MAX);
        };
        let response = gate.take_failure(now_ms);
        if let Some((key, code)) = gate.failure_error().filter(|_| response.is_some()) {
            pair.in_flight.count_error(key, code);
        }
        let next_ms = gate.failure_ms().unwrap_or(u64::MAX);
        let repeat_ms = gate.repeat_check(now_ms).unwrap_or(u64::MAX);
        let deadline_ms = gate.deadline_ms(pair.since_ms).unwrap_or(u64::MAX);
        if now_ms >= deadline_ms && !gate.is_closing() {
            return Err(PairCloseReason::Timeout("login timeout"));
        }
        self.respond(pair, response)?;
        self.after_requests(pair)?;
        Ok(next_ms.min(repeat_ms).min(deadline_ms.max(now_ms + 1)))
    }

    /// Reads and drops what a client sends after its login has failed, until it closes.
    pub(super) fn discard_requests(
        &mut self,
        pair: &mut ConnectionPair,
        budget: &mut u32,
    ) -> Result<bool, PairCloseReason> {
        if !pair.downstream.readable || pair.downstream.ended || *budget == 0 {
            return Ok(false);
        }
        *budget -= 1;
        let mut buffer = std::mem::take(&mut self.buffer);
        let input = pair.downstream.stream.read(&mut buffer, &mut self.tls);
        self.buffer = buffer;
        let input = input.map_err(PairCloseReason::Client)?;
        self.note_read(pair, input, true);
        Ok(input.wire + input.plain > 0)
    }

    /// Adds a response of the proxy itself, and sends it unless others come before it.
    pub(super) fn respond(
        &mut self,
        pair: &mut ConnectionPair,
        response: Option<Vec<u8>>,
    ) -> Result<(), PairCloseReason> {
        if let Some(at_ms) = pair.login.as_ref().and_then(|gate| gate.failure_ms()) {
            // What the client has sent after it is not needed.
            pair.requests.take_backlog();
            self.arm(pair, at_ms);
        }
        let Some(frame) = response else {
            return Ok(());
        };
        pair.in_flight.push(InFlightRequest::ready(frame));
        self.segments.clear();
        if pair.fetch.delayed.is_none() {
            pair.responses
                .push_ready(&mut pair.in_flight, &mut self.segments);
        }
        self.send_down(pair, &[])
    }
}
