//! Subscriptions that wait for the adapter. The client gets the response after the decision.

use weir_adapter::decision::{
    AdapterLimits, RequestedSubscription, SubscriptionFlow, SubscriptionProgress,
    SubscriptionRefusal,
};
use weir_adapter::{AdapterOutcome, WhileDown};
use weir_fanout::SessionKey;
use weir_identity::ari::{AdapterMethod, AdapterRequest, TableInfo};
use weir_tlcp::codes::{ControlCode, SessionCode};
use weir_tlcp::request::{Add, Control, ControlOp, Request, ToBoundedStatic as _};
use weir_tlcp::server::{write_error, write_reqerr};

use super::limits::{requested, restrict};
use super::state::{PendingAdd, ResponseReceiver};
use crate::adapter::AdapterCall;
use crate::admission::AdmissionLimit;
use crate::error::SubscriptionError;
use crate::shard::clients::{Clients, TEXT_PER_ITEM};
use crate::shard::control_requests::acknowledge;
use crate::shard::resolve::{DEFAULT_ADAPTER, resolve};
use crate::shard::responses::{RequestTransport, ResponseBatch};
use crate::shard::state::Shard;
use crate::shard::wire::Wire;

impl Shard {
    /// Returns `true` if the response to a request has to wait, so that the request must be treated
    /// as that of another shard. Over a WebSocket responses need not be in order.
    pub(in crate::shard) fn is_deferred(
        &self,
        request: &Request<'_>,
        transport: &RequestTransport,
    ) -> bool {
        let is_add = |control: &Control<'_>| matches!(control.op, ControlOp::Add(_));
        self.clients.adapter.is_some()
            && *transport != RequestTransport::WebSocket
            && matches!(request, Request::Control(control) if is_add(control))
    }

    /// Asks the adapter about a subscription.
    pub(in crate::shard) fn ask_about_subscription(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        (control, add): (&Control<'_>, &Add<'_>),
        responses: &mut ResponseBatch,
    ) {
        if let Err(refusal) = self.clients.check_before_adapter(key, add) {
            if (self.clients).refuse_event_item(wire, key, &add.group, &refusal) {
                self.clients.counters.requests_refused += 1;
                return;
            }
            return self.refuse(control, &refusal, &mut responses.lines);
        }
        let Some(adapter) = &mut self.clients.adapter else {
            return;
        };
        let Some(session) = adapter.session(key) else {
            return;
        };
        let data_adapter = add.data_adapter.as_deref().unwrap_or(DEFAULT_ADAPTER);
        let (flow, requests) = SubscriptionFlow::begin(RequestedSubscription {
            user: session.user.clone(),
            session: session.id.clone(),
            window: add.sub_id as i32,
            group: add.group.to_string(),
            schema: add.schema.to_string(),
            data_adapter: Some(data_adapter.to_owned()),
            wants_tables: session.wants_tables,
            limits: requested(add),
            unavailable: adapter.access.unavailable,
        });
        let receiver = match &responses.place {
            Some(place) => ResponseReceiver::Forward(place.clone()),
            None => ResponseReceiver::Connection(responses.conn),
        };
        responses.is_deferred = true;
        let pending = PendingAdd {
            session: key,
            add: add.to_static(),
            request_id: control.request_id.as_deref().map(Box::from),
            ack: control.ack,
            receiver,
            flow,
            is_cancelled: false,
        };
        let number = adapter.next_number();
        adapter
            .adds_by_session
            .insert((key.to_bits(), add.sub_id), number);
        let progress = SubscriptionProgress::Send(requests.into());
        self.proceed_with(wire, number, pending, progress);
    }

    /// Continues with the outcome of a request about a subscription.
    pub(super) fn subscription_decided(
        &mut self,
        wire: &mut impl Wire,
        number: u64,
        method: AdapterMethod,
        outcome: AdapterOutcome,
    ) {
        let Some(adapter) = &mut self.clients.adapter else {
            return;
        };
        let Some(mut pending) = adapter.adds.remove(&number) else {
            return;
        };
        if method != AdapterMethod::NotifyNewTables {
            if pending.is_cancelled {
                return;
            }
            if adapter.session(pending.session).is_none() {
                let refusal = ControlCode::SESSION_NOT_FOUND.into();
                return self.refuse_add(wire, &pending, &refusal);
            }
        }
        let generation = adapter.access.port.metrics().generation();
        adapter.cache.begin(generation);
        let is_accepted = outcome.is_ok();
        let (cache, now_ms) = (&mut adapter.cache, wire.now_ms());
        let progress = pending.flow.receive(method, outcome, cache, now_ms);
        if method == AdapterMethod::NotifyNewTables && !is_accepted {
            let requests = adapter.sessions.end_table(pending.session.to_bits(), None);
            adapter.notify_all(requests);
        }
        self.proceed_with(wire, number, pending, progress);
    }

    /// Takes the next steps of a decision until it waits for the adapter, or is made.
    fn proceed_with(
        &mut self,
        wire: &mut impl Wire,
        number: u64,
        mut pending: PendingAdd,
        mut progress: SubscriptionProgress,
    ) {
        loop {
            progress = match progress {
                SubscriptionProgress::Wait => break,
                SubscriptionProgress::Send(requests) => {
                    match self
                        .clients
                        .send_about(wire, number, &mut pending, requests)
                    {
                        Some(next) => next,
                        None => break,
                    }
                }
                SubscriptionProgress::Named { items, fields } => {
                    match self
                        .clients
                        .admit_names(wire, &mut pending, &items, &fields)
                    {
                        Ok(next) => next,
                        Err(refusal) => return self.refuse_add(wire, &pending, &refusal),
                    }
                }
                SubscriptionProgress::Accepted(limits, table) => {
                    return self.accept_add(wire, &pending, &limits, table);
                }
                SubscriptionProgress::Refused(refusal) => {
                    return self.refuse_by_adapter(wire, &pending, refusal);
                }
            };
        }
        if let Some(adapter) = &mut self.clients.adapter {
            adapter.adds.insert(number, pending);
        }
    }

    /// Adds a subscription that the adapter has accepted.
    fn accept_add(
        &mut self,
        wire: &mut impl Wire,
        pending: &PendingAdd,
        limits: &AdapterLimits,
        table: Option<Box<TableInfo>>,
    ) {
        let key = pending.session;
        let mut add = pending.add.clone();
        restrict(&mut add, limits);
        let mut notifications = Vec::new();
        let (most, has_table) = (limits.frequency_max, table.is_some());
        let done = match (pending.is_cancelled, self.clients.has_adapter(key)) {
            (true, _) => None,
            (false, false) => Some(Err(ControlCode::SESSION_NOT_FOUND.into())),
            (false, true) => Some((self.clients).subscribe(key, &add, most, &mut notifications)),
        };
        let added = done.as_ref().and_then(|done| done.as_ref().ok().copied());
        if let Some(adapter) = &mut self.clients.adapter {
            let bits = key.to_bits();
            let (used, unused) = match added {
                Some(_) => (table, None),
                None => (None, table),
            };
            if has_table {
                let requests = adapter.sessions.end_table(bits, unused);
                adapter.notify_all(requests);
            }
            if let Some(sub_id) = added {
                adapter.sessions.subscribed(bits, sub_id, most, used);
            }
        }
        match done {
            None => {}
            Some(Err(refusal)) => self.refuse_add(wire, pending, &refusal),
            Some(Ok(_)) => {
                self.clients.forget_add(pending);
                self.respond_to_add(wire, pending, Ok(()));
                self.clients.notify(wire, key, &notifications);
                self.clients.catch_up(wire, key);
            }
        }
    }

    fn refuse_by_adapter(
        &mut self,
        wire: &mut impl Wire,
        pending: &PendingAdd,
        refusal: SubscriptionRefusal,
    ) {
        let key = pending.session;
        let refusal = match refusal {
            SubscriptionRefusal::Reject(refusal) => SubscriptionError {
                code: ControlCode::from_code(refusal.code),
                message: refusal.text,
            },
            SubscriptionRefusal::EndSession => {
                let text = "subscriptions are not possible, create a new session";
                (self.clients).end_session(wire, key, SessionCode::EXPIRED, text, false);
                ControlCode::SESSION_NOT_FOUND.into()
            }
        };
        if !pending.is_cancelled {
            self.clients
                .audit_adapter_refusal(key, &pending.add, refusal.code);
        }
        self.refuse_add(wire, pending, &refusal);
    }

    fn refuse_add(
        &mut self,
        wire: &mut impl Wire,
        pending: &PendingAdd,
        refusal: &SubscriptionError,
    ) {
        if !pending.is_cancelled {
            self.clients.forget_add(pending);
            self.clients.counters.requests_refused += 1;
            self.respond_to_add(wire, pending, Err(refusal));
        }
    }

    /// Cancels a subscription that waits for the adapter. Returns `false` if there is none.
    pub(in crate::shard) fn cancel_add(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        sub_id: u32,
    ) -> bool {
        let Some(adapter) = &mut self.clients.adapter else {
            return false;
        };
        let number = adapter.adds_by_session.remove(&(key.to_bits(), sub_id));
        let Some((number, mut pending)) =
            number.and_then(|number| Some((number, adapter.adds.remove(&number)?)))
        else {
            return false;
        };
        self.respond_to_add(wire, &pending, Ok(()));
        pending.is_cancelled = true;
        if let Some(adapter) = &mut self.clients.adapter {
            adapter.adds.insert(number, pending);
        }
        true
    }

    fn respond_to_add(
        &mut self,
        wire: &mut impl Wire,
        pending: &PendingAdd,
        done: Result<(), &SubscriptionError>,
    ) {
        let (key, item) = (pending.session, &pending.add.group);
        let is_event_client = match done {
            Ok(()) => self.clients.confirm_event_item(wire, key, item),
            Err(refusal) => (self.clients).refuse_event_item(wire, key, item, refusal),
        };
        if is_event_client {
            return;
        }
        let mut lines = Vec::new();
        let id = pending.request_id.as_deref();
        match (done, id) {
            (Ok(()), _) => acknowledge(id, pending.ack, &mut lines),
            (Err(refusal), Some(id)) => {
                write_reqerr(&mut lines, id, refusal.code, &refusal.message);
            }
            (Err(refusal), None) => {
                write_error(&mut lines, ControlCode::MALFORMED, &refusal.message);
            }
        }
        match &pending.receiver {
            ResponseReceiver::Forward(place) => self.respond_forwarded(wire, place, lines),
            ResponseReceiver::Connection(conn) => {
                let session = self.clients.sessions.get_mut(pending.session);
                let is_open = session.is_some() && wire.tag(*conn).is_some();
                if is_open && !lines.is_empty() && !wire.send_text(*conn, &lines) {
                    self.drop_slow_client(wire, *conn);
                }
            }
        }
    }
}

impl Clients {
    /// Checks what needs no adapter, and the number of subscriptions that wait.
    fn check_before_adapter(
        &mut self,
        key: SessionKey,
        add: &Add<'_>,
    ) -> Result<(), SubscriptionError> {
        let most = self.shared.limits.subscriptions_per_session;
        let (Some(entry), Some(adapter)) = (self.sessions.get_mut(key), &self.adapter) else {
            return Err(ControlCode::SESSION_NOT_FOUND.into());
        };
        if add.selector.is_some() {
            return Err(ControlCode::BAD_SELECTOR.into());
        }
        let bits = key.to_bits();
        let waiting = &adapter.adds_by_session;
        let is_waiting = waiting.contains_key(&(bits, add.sub_id));
        if is_waiting || entry.core.subscription(add.sub_id).is_some() {
            return Err(ControlCode::SUBSCRIPTION_ID_IN_USE.into());
        }
        let waiting = waiting.range((bits, 0)..=(bits, u32::MAX)).count();
        if entry.core.subscriptions().len() + waiting >= most {
            self.shared
                .admission
                .note(AdmissionLimit::SessionSubscriptions);
            return Err(ControlCode::TOO_MANY_SUBSCRIPTIONS.into());
        }
        Ok(())
    }

    /// Sends requests about a subscription. Returns the next step if that fails.
    fn send_about(
        &mut self,
        wire: &mut impl Wire,
        number: u64,
        pending: &mut PendingAdd,
        requests: Vec<AdapterRequest>,
    ) -> Option<SubscriptionProgress> {
        let adapter = self.adapter.as_mut()?;
        for request in requests {
            let method = request.method()?;
            if method == AdapterMethod::NotifyNewTables {
                adapter.sessions.begin_table(pending.session.to_bits());
            }
            let call = AdapterCall::Subscription(number, method);
            if let Err(failure) = adapter.request(request, call, WhileDown::Wait) {
                if method == AdapterMethod::NotifyNewTables {
                    let requests = adapter.sessions.end_table(pending.session.to_bits(), None);
                    adapter.notify_all(requests);
                }
                let cache = &mut adapter.cache;
                let next = pending
                    .flow
                    .receive(method, Err(failure), cache, wire.now_ms());
                return Some(next);
            }
        }
        None
    }

    /// Admits the names that the adapter has returned, as if the client had written them.
    fn admit_names(
        &mut self,
        wire: &mut impl Wire,
        pending: &mut PendingAdd,
        items: &[String],
        fields: &[String],
    ) -> Result<SubscriptionProgress, SubscriptionError> {
        let key = pending.session;
        pending.add.group = joined(items, ControlCode::BAD_GROUP)?.into();
        pending.add.schema = joined(fields, ControlCode::BAD_SCHEMA)?.into();
        let add = &pending.add;
        // Resolving names costs CPU time, even if they are refused.
        self.work.items += add.group.len() / TEXT_PER_ITEM;
        let resolved = resolve(add, &self.shared)?;
        self.check_subscription(key, &resolved.items, &add.schema)?;
        if let Err(refusal) = self.decide(key, add, &resolved) {
            self.audit_subscribe(key, add, &resolved, Some(refusal.code));
            return Err(refusal);
        }
        let names = resolved
            .canonical
            .iter()
            .map(|item| item.as_str().to_owned());
        let adapter = self.adapter.as_ref().ok_or(ControlCode::REFUSED)?;
        let (cache, now_ms) = (&adapter.cache, wire.now_ms());
        Ok(pending.flow.admit(names.collect(), cache, now_ms))
    }

    fn forget_add(&mut self, pending: &PendingAdd) {
        if let Some(adapter) = &mut self.adapter {
            let name = (pending.session.to_bits(), pending.add.sub_id);
            adapter.adds_by_session.remove(&name);
        }
    }
}

/// Returns names as a client writes them. A name with white space would be two.
fn joined(names: &[String], code: ControlCode) -> Result<String, SubscriptionError> {
    let is_name = |name: &String| {
        let is_white = |byte: u8| byte.is_ascii_whitespace() || byte == b'\x0b';
        !name.is_empty() && !name.bytes().any(is_white)
    };
    match names.iter().all(is_name) {
        true => Ok(names.join(" ")),
        false => Err(SubscriptionError {
            code,
            message: "the adapter has returned a name that is empty or has white space".to_owned(),
        }),
    }
}
