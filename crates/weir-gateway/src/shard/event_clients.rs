//! Clients without an SDK: server-sent events at `/sse`.
//!
//! Such a client has a session as any other, with one subscription per item. The number of a
//! subscription is the slot of its item, so that all such subscribers of an item with the same
//! fields and mode are in one frame class and share their bytes.

use std::borrow::Cow;

use weir_fanout::SessionKey;
use weir_fanout::events::{
    EventForm, EventLimits, EventNotice, EventRequest, parse_query, push_notice,
};
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
    let wanted = match parse_query(request.query, limits(shared)) {
        Ok(wanted) => wanted,
        Err(fault) => return refuse(400, fault.to_string()),
    };
    let create = session_request(&wanted, shared);
    // The connection may have had requests of an SDK before.
    shard.dialects.remove(conn);
    shard.note_credentials(wire, conn, request, true);
    let transport = RequestTransport::ServerSent {
        origin: origin.map(Box::from),
    };
    let mut responses = ResponseBatch::on(conn, transport, Vec::new());
    match shard.create(wire, &create, &mut responses) {
        MessageOutcome::Respond => RequestOutcome::Respond(response_of(responses)),
        _ => RequestOutcome::Defer,
    }
}

fn limits(shared: &ShardContext) -> EventLimits {
    let limits = &shared.limits;
    EventLimits {
        items: limits.subscriptions_per_session,
        fields: limits.fields_per_subscription,
        name_bytes: NAME_BYTES_MAX,
    }
}

/// Returns the request of an SDK that wants the same.
fn session_request(wanted: &EventRequest, shared: &ShardContext) -> CreateSession<'static> {
    let adapter = match (&wanted.adapter, &shared.connections[..]) {
        (Some(adapter), _) => adapter.clone(),
        (None, [only]) => only.config.name.clone(),
        (None, _) => DEFAULT_ADAPTER.to_owned(),
    };
    let mut connections = shared.connections.iter();
    let connection = connections.find(|one| one.config.name == adapter);
    let schema = match connection.filter(|_| wanted.fields.is_empty()) {
        Some(connection) => join(connection.config.mapping.fields()),
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
            data_adapter: Some(adapter.clone().into()),
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

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(" ")
}

/// Returns the first lines of a stream.
pub(super) fn first_lines() -> Vec<u8> {
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
            .is_some_and(|entry| entry.form.is_some())
    }

    /// Ends the session of a client that gets events, because one of its items is refused after
    /// the start of the stream. Returns `false` if it gets TLCP lines.
    pub(super) fn end_event_client(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        refusal: &SubscriptionError,
    ) -> bool {
        let is_event_client = self.has_events(key);
        if is_event_client {
            let code = SessionCode::from_code(refusal.code.code());
            self.end_session(wire, key, code, &refusal.message, false);
        }
        is_event_client
    }

    /// Returns a request for one item under the number that subscriptions for events have.
    pub(super) fn number_events<'a>(
        &self,
        add: &Add<'a>,
        resolved: &ResolvedItems,
    ) -> Result<Add<'a>, SubscriptionError> {
        let [Some(item)] = &resolved.items[..] else {
            return Err(SubscriptionError {
                code: ControlCode::BAD_GROUP,
                message: format!("no topic has an item \"{}\"", add.group),
            });
        };
        Ok(Add {
            sub_id: self.items.slot_for(item) + 1,
            ..add.clone()
        })
    }
}
