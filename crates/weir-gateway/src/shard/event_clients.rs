//! Clients without an SDK: server-sent events at `/sse`, and what they share with `/ws`.
//!
//! Such a client has a session as any other, with one subscription per item. The number of a
//! subscription is the slot of its item, so that all such subscribers of an item with the same
//! fields and mode are in one frame class and share their bytes.

use std::borrow::Cow;

use weir_fanout::SessionKey;
use weir_fanout::events::{
    EventForm, EventLimits, EventNotice, EventRequest, parse_query, push_notice,
};
use weir_ingest::KafkaConnection;
use weir_mapping::CanonicalItem;
use weir_net::http1::{HttpRequest, Response};
use weir_net::server::{ConnId, RequestOutcome};
use weir_tlcp::codes::{ControlCode, SessionCode};
use weir_tlcp::request::{
    Add, Control, ControlOp, CreateSession, Diffs, Frequency, Mode, Snapshot, StreamOptions,
    TimeToLive,
};

use super::clients::Clients;
use super::context::ShardContext;
use super::http_responses::{preflight, response_of, with_cors};
use super::resolve::{DEFAULT_ADAPTER, ResolvedItems, only_mode};
use super::responses::{MessageOutcome, RequestTransport, ResponseBatch};
use super::state::Shard;
use super::wire::Wire;
use crate::error::SubscriptionError;

/// Path of server-sent events.
pub(super) const SSE_PATH: &str = "/sse";
/// Maximum length of the name of an item or a field, before it is decoded.
const NAME_BYTES_MAX: usize = 1_000;
/// Bounds of the time after which a browser connects again. It differs by client, so that those of
/// a gateway that has ended do not come back at once.
const RETRY_MS: std::ops::Range<u32> = 1_000..4_000;

/// Handles a request for server-sent events.
pub(super) fn respond(
    shard: &mut Shard,
    wire: &mut impl Wire,
    conn: ConnId,
    request: &HttpRequest<'_>,
) -> RequestOutcome {
    let origin = request.header("origin");
    let refuse = |status, text: String| {
        let response = Response::text(status, text + "\n");
        RequestOutcome::Respond(with_cors(response, origin))
    };
    match request.method {
        "GET" if !request.accepts_chunks => {
            return refuse(400, "streams require HTTP/1.1".to_owned());
        }
        "GET" => {}
        "OPTIONS" => {
            let response = preflight(request, "GET");
            return RequestOutcome::Respond(with_cors(response, origin));
        }
        _ => {
            let response = Response::text(405, "use GET\n").with_header("Allow", "GET");
            return RequestOutcome::Respond(with_cors(response, origin));
        }
    }
    let shared = &shard.clients.shared;
    let mut wanted = match parse_query(request.query, limits(shared)) {
        Ok(wanted) => wanted,
        Err(fault) => return refuse(400, fault.to_string()),
    };
    // A browser that connects again sends the newer one of both.
    if let Some(id) = request.header("last-event-id") {
        wanted.set_after(id);
    }
    let create = session_request(&wanted, shared);
    // The connection may have had requests of an SDK before.
    shard.dialects.remove(conn);
    shard.note_credentials(wire, conn, request, true);
    let transport = RequestTransport::ServerSent {
        origin: origin.map(Box::from),
        after: wanted.after.map(Box::from),
    };
    let mut responses = ResponseBatch::on(conn, transport, Vec::new());
    match shard.create(wire, &create, &mut responses) {
        MessageOutcome::Respond => RequestOutcome::Respond(response_of(responses)),
        _ => RequestOutcome::Defer,
    }
}

/// Returns the limits of what one request may name.
pub(super) fn limits(shared: &ShardContext) -> EventLimits {
    let limits = &shared.limits;
    EventLimits {
        items: limits.subscriptions_per_session,
        fields: limits.fields_per_subscription,
        name_bytes: NAME_BYTES_MAX,
    }
}

/// Returns the request of an SDK that wants the same.
pub(super) fn session_request(
    wanted: &EventRequest,
    shared: &ShardContext,
) -> CreateSession<'static> {
    let adapter = adapter_name(wanted.adapter.as_deref(), shared);
    let mut connections = shared.connections.iter();
    let connection = connections.find(|one| one.config.name == adapter);
    let schema = match connection.filter(|_| wanted.fields.is_empty()) {
        Some(connection) => all_fields(connection, shared),
        None => join(wanted.fields.iter().map(String::as_str)),
    };
    let own = connection.and_then(|connection| only_mode(connection));
    let mode = wanted.mode.or(own).unwrap_or(Mode::Merge);
    let add = |(index, item): (usize, &String)| Control {
        session: None,
        request_id: None,
        ack: false,
        cause: None,
        op: ControlOp::Add(Add {
            sub_id: index as u32 + 1,
            group: item.clone().into(),
            schema: schema.clone().into(),
            mode,
            data_adapter: Some(adapter.to_owned().into()),
            selector: None,
            requested_buffer_size: None,
            requested_max_frequency: wanted
                .max_frequency
                .map_or(Frequency::Unlimited, Frequency::PerSecond),
            snapshot: match wanted.snapshot && mode != Mode::Raw {
                true => Snapshot::Yes,
                false => Snapshot::No,
            },
        }),
    };
    CreateSession {
        version: None,
        cid: Some(Cow::Borrowed("events")),
        adapter_set: shared.set_id.clone().into(),
        user: None,
        password: None,
        requested_max_bandwidth: None,
        supported_diffs: Diffs::NONE,
        ttl: TimeToLive::Unknown,
        old_session: None,
        cause: None,
        stream: StreamOptions {
            polling: None,
            content_length: None,
            keepalive_ms: None,
            inactivity_ms: None,
            send_sync: false,
            reduce_head: true,
        },
        controls: wanted.items.iter().enumerate().map(add).collect(),
    }
}

/// Returns the name of the Kafka connection that a request means.
pub(super) fn adapter_name<'a>(wanted: Option<&'a str>, shared: &'a ShardContext) -> &'a str {
    match (wanted, &shared.connections[..]) {
        (Some(adapter), _) => adapter,
        (None, [only]) => &only.config.name,
        (None, _) => DEFAULT_ADAPTER,
    }
}

/// Returns the fields of a client that names none: those of the configuration, and those found in
/// records of a connection that takes any field.
fn all_fields(connection: &KafkaConnection, shared: &ShardContext) -> String {
    let config = &connection.config;
    let found = shared
        .example_fields
        .get(&config.name)
        .into_iter()
        .flatten();
    let configured = || config.mapping.fields();
    let found = found.map(String::as_str);
    join(configured().chain(found.filter(|name| configured().all(|one| one != *name))))
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(" ")
}

/// Returns the first lines of a stream.
pub(super) fn first_lines(form: EventForm) -> Vec<u8> {
    if form == EventForm::Json {
        return notice(form, EventNotice::Open);
    }
    let retry_ms = rand::random_range(RETRY_MS);
    format!("retry: {retry_ms}\n\n").into_bytes()
}

/// Returns an event that is not about an item.
pub(super) fn notice(form: EventForm, notice: EventNotice<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    push_notice(&mut line, form, notice);
    line
}

impl Clients {
    /// Returns `true` if the client of a session gets events.
    pub(super) fn has_events(&mut self, key: SessionKey) -> bool {
        self.sessions
            .get_mut(key)
            .is_some_and(|entry| entry.event_form.is_some())
    }

    /// Reports to a client of events that an item is refused after the start of the stream, which
    /// ends a stream of server-sent events. Returns `false` if the client gets TLCP lines.
    pub(super) fn refuse_event_item(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        item: &str,
        refusal: &SubscriptionError,
    ) -> bool {
        let form = self
            .sessions
            .get_mut(key)
            .and_then(|entry| entry.event_form);
        match form {
            None => return false,
            Some(EventForm::ServerSent) => {
                let code = SessionCode::from_code(refusal.code.code());
                self.end_session(wire, key, code, &refusal.message, false);
            }
            Some(EventForm::Json) => {
                let (code, text) = (refusal.code.code(), refusal.message.as_str());
                self.send_notice(wire, key, EventNotice::Refused(item, code, text));
            }
        }
        true
    }

    /// Confirms an item to a client of events. Returns `false` if the client gets TLCP lines.
    pub(super) fn confirm_event_item(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        item: &str,
    ) -> bool {
        let form = self
            .sessions
            .get_mut(key)
            .and_then(|entry| entry.event_form);
        if form == Some(EventForm::Json) {
            // Events have the canonical name.
            let canonical = CanonicalItem::parse(item).ok();
            let name = canonical.as_ref().map_or(item, |item| item.as_str());
            self.send_notice(wire, key, EventNotice::Subscribed(name));
        }
        form.is_some()
    }

    /// Sends an event without values to a client that gets JSON.
    pub(super) fn send_notice(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        about: EventNotice<'_>,
    ) {
        let document = notice(EventForm::Json, about);
        self.write_control_lines(wire, key, &document);
    }

    /// Returns a request for one item under the number that subscriptions for events have.
    pub(super) fn number_events<'a>(
        &mut self,
        key: SessionKey,
        add: &Add<'a>,
        resolved: &ResolvedItems,
    ) -> Result<Add<'a>, SubscriptionError> {
        let refuse = |code, message| Err(SubscriptionError { code, message });
        let [Some(item)] = &resolved.items[..] else {
            let message = format!("no topic has an item \"{}\"", add.group);
            return refuse(ControlCode::BAD_GROUP, message);
        };
        let sub_id = self.items.slot_for(item) + 1;
        let entry = self.sessions.get_mut(key);
        if entry.is_some_and(|entry| entry.core.subscription(sub_id).is_some()) {
            let message = format!("item \"{}\" is subscribed already", item.1);
            return refuse(ControlCode::SUBSCRIPTION_ID_IN_USE, message);
        }
        Ok(Add {
            sub_id,
            ..add.clone()
        })
    }
}
