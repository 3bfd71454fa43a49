//! The hot path: one update to all its subscribers. Encodes once per frame class and form, then
//! queues the same bytes for every member; nothing is allocated per client.

use std::sync::Arc;

use bytes::Bytes;
use weir_mapping::{FieldSet, FrozenValues};
use weir_net::server::Io;
use weir_net::websocket;
use weir_tlcp::server::{push_delta_payload, push_full_payload, push_update_prefix};

use super::Shard;
use super::item::FrameClass;
use super::session::SessionKey;
use crate::routing::ItemKey;

/// The two forms of an update within a class, each made when first needed.
struct Forms<'a> {
    class: &'a FrameClass,
    update: &'a FrozenValues,
    previous: Option<&'a FrozenValues>,
    full: Option<Bytes>,
    delta: Option<Bytes>,
}

impl Forms<'_> {
    fn get(&mut self, in_step: bool, line: &mut Vec<u8>) -> Bytes {
        let (class, update) = (self.class, self.update);
        match self.previous.filter(|_| in_step) {
            Some(previous) => self.delta.get_or_insert_with(|| {
                frame(class, line, |line| {
                    let before = class.schema.project(previous);
                    push_delta_payload(line, before, class.schema.project(update));
                })
            }),
            None => self.full.get_or_insert_with(|| {
                frame(class, line, |line| {
                    push_full_payload(line, class.schema.project(update))
                })
            }),
        }
        .clone()
    }
}

/// One whole WebSocket message with one `U` line.
fn frame(class: &FrameClass, line: &mut Vec<u8>, payload: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    line.clear();
    push_update_prefix(line, class.sub_id, class.position);
    payload(line);
    line.extend_from_slice(b"\r\n");
    let mut framed = Vec::with_capacity(line.len() + websocket::HEADER_BYTES_MAX);
    websocket::push_server_text(&mut framed, line);
    Bytes::from(framed)
}

impl Shard {
    /// Queues an update for every subscriber of its item.
    pub(super) fn fan_out(
        &mut self,
        io: &mut Io,
        key: ItemKey,
        update: Arc<FrozenValues>,
        extracted: &FieldSet,
    ) {
        let now_ms = io.now_ms();
        let mut too_slow: Vec<SessionKey> = Vec::new();
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        let previous = item.last.take();
        for class in &mut item.classes {
            if !class.schema.wanted().is_subset(extracted) {
                // Read before this class asked for its fields: its members joined later. What they
                // have seen is no longer the item's last update, so the next one goes out whole.
                for member in &mut class.members {
                    member.in_step = false;
                }
                continue;
            }
            let mut members = std::mem::take(&mut class.members);
            let start = class.start % members.len().max(1);
            let mut forms = Forms {
                class,
                update: &update,
                previous: previous.as_deref(),
                full: None,
                delta: None,
            };
            let (second, first) = members.split_at_mut(start);
            for member in first.iter_mut().chain(second) {
                let frame = forms.get(member.in_step, &mut self.line);
                member.in_step = true;
                let Some(session) = self.sessions.get_mut(member.session) else {
                    continue;
                };
                if io.send(session.conn, frame) {
                    session.core.note_data(1);
                    session.core.wrote(now_ms);
                    self.counters.updates_out += 1;
                } else {
                    too_slow.push(member.session);
                }
            }
            class.members = members;
            class.start = start + 1;
        }
        item.last = Some(update);
        for session in too_slow {
            self.end_slow(io, session);
        }
    }
}
