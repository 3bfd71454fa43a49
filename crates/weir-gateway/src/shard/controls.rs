//! Control requests: subscriptions come and go, sessions end.

use std::sync::Arc;

use weir_tlcp::codes::{ControlCode, SessionCode};
use weir_tlcp::request::{Add, Control, ControlOp, Frequency, Mode, Snapshot};
use weir_tlcp::server::{
    Subscription, push_full_payload, push_line_end, push_update_prefix, write_error, write_reqerr,
    write_reqok,
};

use super::Shard;
use super::backlog::Behind;
use super::item::{Ask, ClassKey, Delivery, ItemName, Progress};
use super::requests::Reply;
use super::session::{AdapterSet, SessionKey, Subscribed};
use super::wire::Wire;
use crate::resolve::{Refusal, Resolved, resolve};

/// A refusal with the code's own text.
fn refusal(code: ControlCode) -> Refusal {
    Refusal {
        code,
        message: code.text().to_owned(),
    }
}

impl Shard {
    /// Carries out a control request for a session of this shard. The answer goes before what the
    /// request causes, also where both go the same way.
    pub(super) fn control(
        &mut self,
        wire: &mut impl Wire,
        key: Option<SessionKey>,
        control: &Control<'_>,
        reply: &mut Reply,
    ) {
        let known = key.filter(|key| self.sessions.get_mut(*key).is_some());
        let Some(key) = known else {
            let refusal = refusal(ControlCode::SESSION_NOT_FOUND);
            return self.refuse(control, &refusal, &mut reply.lines);
        };
        let mut notes = std::mem::take(&mut self.notes);
        notes.clear();
        let done = match &control.op {
            ControlOp::Add(add) => self.subscribe(key, add, &mut notes),
            ControlOp::Delete { sub_id } => self.unsubscribe(key, *sub_id, &mut notes),
            ControlOp::Reconf { sub_id, .. } => self.reconfigure(key, *sub_id, &mut notes),
            ControlOp::Destroy { .. }
            | ControlOp::ForceRebind { .. }
            | ControlOp::Constrain { .. } => Ok(()),
        };
        match done {
            Ok(()) => {
                acknowledge(control, &mut reply.lines);
                self.flush_before(wire, key, reply);
                if !notes.is_empty() {
                    self.notify(wire, key, &notes);
                }
                self.affect(wire, key, &control.op);
                // Snapshots follow the confirmations of their subscriptions.
                self.catch_up(wire, key);
            }
            Err(refusal) => self.refuse(control, &refusal, &mut reply.lines),
        }
        self.notes = notes;
    }

    /// What a request does to the session as a whole.
    fn affect(&mut self, wire: &mut impl Wire, key: SessionKey, op: &ControlOp<'_>) {
        match op {
            ControlOp::Add(_) | ControlOp::Delete { .. } | ControlOp::Reconf { .. } => {}
            ControlOp::Destroy {
                cause_code,
                cause_message,
                close_socket,
            } => {
                let code = SessionCode::from_code(*cause_code);
                self.destroy(wire, key, code, cause_message, *close_socket);
            }
            ControlOp::ForceRebind { close_socket, .. } => {
                self.loop_away(wire, key, *close_socket);
            }
            ControlOp::Constrain { .. } => {
                // It says "unmanaged": clients that look at it do not ask.
                let mut line = Vec::new();
                if let Some(entry) = self.sessions.get_mut(key) {
                    entry.core.write_cons(&mut line);
                }
                self.tell(wire, key, &line);
            }
        }
    }

    fn refuse(&mut self, control: &Control<'_>, refusal: &Refusal, out: &mut Vec<u8>) {
        self.counters.requests_refused += 1;
        match &control.request_id {
            Some(id) => write_reqerr(out, id, refusal.code, &refusal.message),
            None => write_error(out, ControlCode::MALFORMED, &refusal.message),
        }
    }

    pub(super) fn subscribe(
        &mut self,
        key: SessionKey,
        add: &Add<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let shared = Arc::clone(&self.shared);
        let set = self.sessions.get_mut(key).map(|entry| entry.set);
        if set == Some(AdapterSet::LoadTests) {
            return self.subscribe_start_item(key, add, out);
        }
        let Resolved { connection, items } = resolve(add, &shared.connections, &shared.limits)?;
        let mapping = &shared.connections[usize::from(connection)].config.mapping;
        let schema = self.schemas.get(connection, &add.schema, mapping);
        let Some(entry) = self.sessions.get_mut(key) else {
            return Ok(());
        };
        let unfiltered =
            add.mode == Mode::Raw || add.requested_max_frequency == Frequency::Unfiltered;
        let delivery = Delivery::of(add.mode, unfiltered);
        let (item_count, field_count) = (items.len() as u32, schema.len() as u32);
        let subscription = Subscription {
            sub_id: add.sub_id,
            mode: add.mode,
            unfiltered,
            handle: Subscribed {
                connection,
                schema: Arc::clone(&schema),
                delivery,
                places: items.iter().map(|_| None).collect(),
            },
        };
        let most = shared.limits.subscriptions_per_session;
        let added = entry.core.add_subscription(subscription, most);
        added.map_err(refusal)?;
        self.counters.subscriptions += 1;
        let core = &mut entry.core;
        core.write_subok(add.sub_id, item_count, field_count, out);
        for (index, name) in items.into_iter().enumerate() {
            let position = index as u32 + 1;
            if let Some(name) = name {
                let class = ClassKey {
                    schema: &schema,
                    sub_id: add.sub_id,
                    position,
                    delivery,
                };
                self.join(key, &(connection, name), class);
                if add.snapshot != Snapshot::No {
                    self.send_snapshot(key, index, class, out);
                }
            }
            let entry = self.sessions.get_mut(key);
            // No history is kept, so the snapshot of a list is over at once.
            if let (Some(entry), Mode::Distinct, true) =
                (entry, add.mode, add.snapshot != Snapshot::No)
            {
                entry.core.write_end_of_snapshot(add.sub_id, position, out);
            }
        }
        Ok(())
    }

    /// Enters a session into an item's class, and asks ingest for what is new.
    fn join(&mut self, key: SessionKey, name: &ItemName, class: ClassKey<'_>) {
        let (place, asked) = self.items.add(name, class, key);
        let entry = self.sessions.get_mut(key);
        let subscription = entry.and_then(|entry| entry.core.subscription_mut(class.sub_id));
        let index = class.position as usize - 1;
        if let Some(slot) = subscription.and_then(|one| one.handle.places.get_mut(index)) {
            *slot = Some(place);
        }
        let ingest = &self.shared.connections[usize::from(name.0)];
        let name = Arc::clone(&name.1);
        match asked {
            Ask::Nothing => {}
            Ask::New(item, fields) => self.wishes.subscribe(ingest, name, item, fields),
            Ask::More(item, fields) => self.wishes.change(ingest, name, item, fields),
        }
    }

    /// The current values of a MERGE item, if they are known: for those who may wait through the
    /// backlog, else into the answer.
    fn send_snapshot(
        &mut self,
        key: SessionKey,
        index: usize,
        class: ClassKey<'_>,
        out: &mut Vec<u8>,
    ) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let subscription = entry.core.subscription(class.sub_id);
        let place = subscription.and_then(|one| one.handle.places.get(index).copied()?);
        let Some((place, item)) = place.and_then(|one| Some((one, self.items.at_mut(one.slot)?)))
        else {
            return;
        };
        let Some(values) = item.snapshot(class.schema).map(Arc::clone) else {
            return;
        };
        let members = item.class_mut(class).map(|found| &mut found.members);
        let member = members.and_then(|all| all.get_mut(place.member as usize));
        let Some(member) = member else { return };
        let (sub_id, position) = (class.sub_id, class.position);
        match class.delivery {
            Delivery::Events => {}
            Delivery::Newest => {
                member.progress = Progress::Behind;
                let seen = None;
                self.backlog.push(
                    key,
                    Behind {
                        sub_id,
                        position,
                        seen,
                    },
                );
            }
            Delivery::States => {
                member.progress = Progress::InStep;
                push_update_prefix(out, sub_id, position);
                push_full_payload(out, class.schema.project(&values));
                push_line_end(out);
                self.counters.updates_out += 1;
            }
        }
    }

    /// No frequency limit is applied, so a change of it changes nothing; the answer says so.
    fn reconfigure(
        &mut self,
        key: SessionKey,
        sub_id: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let Some(entry) = self.sessions.get_mut(key) else {
            return Ok(());
        };
        match entry.core.subscription(sub_id) {
            None => Err(refusal(ControlCode::SUBSCRIPTION_NOT_FOUND)),
            Some(one) if one.unfiltered => Err(refusal(ControlCode::UNFILTERED)),
            Some(_) => {
                entry.core.write_conf(sub_id, out);
                Ok(())
            }
        }
    }

    fn unsubscribe(
        &mut self,
        key: SessionKey,
        sub_id: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let entry = self.sessions.get_mut(key);
        let removed = entry.and_then(|entry| {
            let subscription = entry.core.remove_subscription(sub_id)?;
            entry.core.write_unsub(sub_id, out);
            Some(subscription)
        });
        match removed {
            Some(subscription) => {
                self.release(key, subscription);
                Ok(())
            }
            None => Err(Refusal {
                code: ControlCode::SUBSCRIPTION_NOT_FOUND,
                message: format!("no subscription {sub_id} in this session"),
            }),
        }
    }
}

fn acknowledge(control: &Control<'_>, out: &mut Vec<u8>) {
    if let Some(id) = control.request_id.as_deref().filter(|_| control.ack) {
        write_reqok(out, Some(id));
    }
}
