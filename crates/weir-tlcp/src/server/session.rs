//! One session bound to a streaming connection: head, keepalive, `SYNC`, inactivity, data count and
//! subscriptions. Small, because a gateway holds tens of thousands.

use std::sync::Arc;

use smallvec::SmallVec;

use super::line::{write_loop, write_numbers, write_tag, write_text};
use super::update::push_line_end;
use super::{SessionId, Subscription};
use crate::codes::ControlCode;
use crate::request::{CreateSession, StreamOptions};
use crate::text::{push_argument, push_number};

/// What all sessions of a server share. Times in milliseconds.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Argument of `SERVNAME`.
    pub server_name: Arc<str>,
    /// Host, `host:port` or URL for all new connections of a session; `None` = `*`, any.
    pub control_link: Option<Arc<str>>,
    /// Keepalive of clients that ask for none; 5000 is what the protocol's examples show.
    pub keepalive_default_ms: u64,
    /// Smallest keepalive granted, default 1000.
    pub keepalive_min_ms: u64,
    /// Largest keepalive granted, default 60000.
    pub keepalive_max_ms: u64,
    /// Time between two `SYNC` lines, default 4000.
    pub sync_period_ms: u64,
    /// Request limit told to clients, default 50000 bytes. Enforcing it is the framing's task.
    pub request_limit_bytes: usize,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            server_name: Arc::from("Weir"),
            control_link: None,
            keepalive_default_ms: 5_000,
            keepalive_min_ms: 1_000,
            keepalive_max_ms: 60_000,
            sync_period_ms: 4_000,
            request_limit_bytes: 50_000,
        }
    }
}

/// What [`Session::on_wake`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Nothing was due.
    Idle,
    /// Lines were appended; they count as written now.
    Written,
    /// The client promised to be heard and was not: close its connection. Nothing was appended.
    Inactive,
}

/// A streaming session; `H` is the caller's state per subscription.
#[derive(Debug)]
pub struct Session<H = ()> {
    id: SessionId,
    data_count: u64,
    bound_ms: u64,
    last_write_ms: u64,
    last_request_ms: u64,
    /// `u64::MAX` without `SYNC`.
    next_sync_ms: u64,
    sync_period_ms: u32,
    keepalive_ms: u32,
    /// Silence after which the client is given up; `u64::MAX` without a promise.
    inactivity_limit_ms: u64,
    /// The client wants no `CONS` in the whole session.
    without_cons: bool,
    subscriptions: SmallVec<[Subscription<H>; 1]>,
}

impl<H> Session<H> {
    /// Starts a session and appends its head: `CONOK`, then `SERVNAME`, `CLIENTIP` and `CONS` unless
    /// the client asked for a reduced head.
    ///
    /// The stream must be a streaming one: callers answer `create.stream.polling` and
    /// `create.controls` themselves, before and after this call.
    pub fn create(
        id: SessionId,
        create: &CreateSession<'_>,
        config: &SessionConfig,
        client_ip: &str,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Self {
        let mut session = Self::open(id, &create.stream, config, now_ms);
        session.without_cons = create.stream.reduce_head;
        session.write_conok(config, out);
        session.write_head(&create.stream, config, client_ip, out);
        session
    }

    /// Starts a session on the streaming connection that its first `bind_session` opens, after
    /// [`write_unbound`] had answered its `create_session`. Appends the head as
    /// [`Self::create`] does; with a reduced one not even `CONOK`.
    pub fn bind(
        id: SessionId,
        stream: &StreamOptions,
        config: &SessionConfig,
        client_ip: &str,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Self {
        let session = Self::open(id, stream, config, now_ms);
        session.begin_stream(stream, config, client_ip, out);
        session
    }

    /// Continues an unbound session on another streaming connection: the head as [`Self::bind`]
    /// writes it, then everything goes on where it was.
    pub fn rebind(
        &mut self,
        stream: &StreamOptions,
        config: &SessionConfig,
        client_ip: &str,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) {
        self.set_stream(stream, config, now_ms);
        self.begin_stream(stream, config, client_ip, out);
    }

    fn open(id: SessionId, stream: &StreamOptions, config: &SessionConfig, now_ms: u64) -> Self {
        let mut session = Self {
            id,
            data_count: 0,
            bound_ms: now_ms,
            last_write_ms: now_ms,
            last_request_ms: now_ms,
            next_sync_ms: u64::MAX,
            sync_period_ms: 0,
            keepalive_ms: 0,
            inactivity_limit_ms: u64::MAX,
            without_cons: false,
            subscriptions: SmallVec::new(),
        };
        session.set_stream(stream, config, now_ms);
        session
    }

    /// What holds for one connection only.
    fn set_stream(&mut self, stream: &StreamOptions, config: &SessionConfig, now_ms: u64) {
        let small = |millis: u64| u32::try_from(millis).unwrap_or(u32::MAX);
        let keepalive_ms = stream
            .keepalive_ms
            .unwrap_or(config.keepalive_default_ms)
            .min(config.keepalive_max_ms)
            .max(config.keepalive_min_ms);
        self.bound_ms = now_ms;
        self.last_write_ms = now_ms;
        self.last_request_ms = now_ms;
        self.sync_period_ms = small(config.sync_period_ms).max(1);
        self.keepalive_ms = small(keepalive_ms);
        self.next_sync_ms = match stream.send_sync {
            true => now_ms.saturating_add(self.sync_period_ms.into()),
            false => u64::MAX,
        };
        self.set_inactivity(stream.inactivity_ms);
    }

    fn begin_stream(
        &self,
        stream: &StreamOptions,
        config: &SessionConfig,
        client_ip: &str,
        out: &mut Vec<u8>,
    ) {
        if !stream.reduce_head {
            self.write_conok(config, out);
        }
        self.write_head(stream, config, client_ip, out);
    }

    fn write_head(
        &self,
        stream: &StreamOptions,
        config: &SessionConfig,
        client_ip: &str,
        out: &mut Vec<u8>,
    ) {
        if !stream.reduce_head {
            write_text(out, "SERVNAME", &config.server_name);
            write_text(out, "CLIENTIP", client_ip);
            self.write_cons(out);
        }
    }

    /// Appends `CONS`, also as the effect of `constrain`, unless the session goes without.
    /// `unmanaged` keeps clients from asking for a bandwidth, which is not implemented.
    pub fn write_cons(&self, out: &mut Vec<u8>) {
        if !self.without_cons {
            write_text(out, "CONS", "unmanaged");
        }
    }

    fn write_conok(&self, config: &SessionConfig, out: &mut Vec<u8>) {
        write_conok(&self.id, self.keepalive_ms(), config, out);
    }

    /// The id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The keepalive time granted, in milliseconds.
    pub fn keepalive_ms(&self) -> u64 {
        self.keepalive_ms.into()
    }

    /// Tells that something was written to the stream, which puts off the next `PROBE`.
    pub fn wrote(&mut self, now_ms: u64) {
        self.last_write_ms = now_ms;
    }

    /// Tells that the client sent a request, which feeds the inactivity promise.
    pub fn touch(&mut self, now_ms: u64) {
        self.last_request_ms = now_ms;
    }

    /// Takes the client's promise to send something every so many milliseconds (`None` = no promise).
    ///
    /// What a broken promise means is not specified; the client is given up after twice the time
    /// plus one second.
    pub fn set_inactivity(&mut self, promised_ms: Option<u64>) {
        const SLACK_MS: u64 = 1_000;
        self.inactivity_limit_ms = promised_ms.map_or(u64::MAX, |promised| {
            promised.saturating_mul(2).saturating_add(SLACK_MS)
        });
    }

    /// Counts data notifications that were encoded outside of the session, in shared frames.
    pub fn note_data(&mut self, count: u64) {
        self.data_count += count;
    }

    /// Number of data notifications emitted since the session began.
    pub fn data_count(&self) -> u64 {
        self.data_count
    }

    /// The earliest instant at which [`Self::on_wake`] may have something to do. It moves only to
    /// later instants on `wrote` and `touch`, so a timer may be re-armed when it fires.
    pub fn next_wake_ms(&self) -> u64 {
        let probe = self.last_write_ms.saturating_add(self.keepalive_ms());
        let inactive = self
            .last_request_ms
            .saturating_add(self.inactivity_limit_ms);
        probe.min(self.next_sync_ms).min(inactive)
    }

    /// Appends `SYNC` or `PROBE` if due. `SYNC` measures only if it stays behind the data queued
    /// before it, so callers append `out` to the queue.
    pub fn on_wake(&mut self, now_ms: u64, out: &mut Vec<u8>) -> Wake {
        if now_ms
            >= self
                .last_request_ms
                .saturating_add(self.inactivity_limit_ms)
        {
            return Wake::Inactive;
        }
        if now_ms >= self.next_sync_ms {
            write_numbers(out, "SYNC", &[now_ms.saturating_sub(self.bound_ms) / 1_000]);
            self.next_sync_ms = now_ms.saturating_add(self.sync_period_ms.into());
        } else if now_ms >= self.last_write_ms.saturating_add(self.keepalive_ms()) {
            write_tag(out, "PROBE");
        } else {
            return Wake::Idle;
        }
        self.wrote(now_ms);
        Wake::Written
    }

    /// The active subscriptions, in no particular order.
    pub fn subscriptions(&self) -> &[Subscription<H>] {
        &self.subscriptions
    }

    /// The active subscriptions, for changing the callers' state.
    pub fn subscriptions_mut(&mut self) -> impl Iterator<Item = &mut Subscription<H>> {
        self.subscriptions.iter_mut()
    }

    /// The subscription with this id.
    pub fn subscription(&self, sub_id: u32) -> Option<&Subscription<H>> {
        self.subscriptions
            .iter()
            .find(|subscription| subscription.sub_id == sub_id)
    }

    /// The subscription with this id, for changing the caller's state.
    pub fn subscription_mut(&mut self, sub_id: u32) -> Option<&mut Subscription<H>> {
        self.subscriptions
            .iter_mut()
            .find(|subscription| subscription.sub_id == sub_id)
    }

    /// Adds a subscription unless its id is in use or the session already has `subscriptions_max`.
    pub fn add_subscription(
        &mut self,
        subscription: Subscription<H>,
        subscriptions_max: usize,
    ) -> Result<(), ControlCode> {
        if self.subscription(subscription.sub_id).is_some() {
            return Err(ControlCode::SUBSCRIPTION_ID_IN_USE);
        }
        if self.subscriptions.len() >= subscriptions_max {
            return Err(ControlCode::TOO_MANY_SUBSCRIPTIONS);
        }
        self.subscriptions.push(subscription);
        Ok(())
    }

    /// Removes a subscription and hands it back; the caller then writes `UNSUB`.
    pub fn remove_subscription(&mut self, sub_id: u32) -> Option<Subscription<H>> {
        let at = self
            .subscriptions
            .iter()
            .position(|candidate| candidate.sub_id == sub_id)?;
        Some(self.subscriptions.swap_remove(at))
    }

    /// Appends `SUBOK` and `CONF` for a subscription that was added before, and counts them.
    pub fn write_subok(&mut self, sub_id: u32, items: u32, fields: u32, out: &mut Vec<u8>) {
        write_numbers(out, "SUBOK", &[sub_id.into(), items.into(), fields.into()]);
        self.data_count += 1;
        self.write_conf(sub_id, out);
    }

    /// Appends `CONF`, also as the effect of `reconf`, and counts it. The frequency is the one that
    /// is applied: there is no limit, whatever the client has asked for.
    pub fn write_conf(&mut self, sub_id: u32, out: &mut Vec<u8>) {
        let known = self.subscription(sub_id);
        let unfiltered = known.is_none_or(|known| known.unfiltered);
        out.extend_from_slice(b"CONF,");
        push_number(out, sub_id);
        out.extend_from_slice(match unfiltered {
            true => b",unlimited,unfiltered".as_slice(),
            false => b",unlimited,filtered",
        });
        push_line_end(out);
        self.data_count += 1;
    }

    /// Appends `EOS`, the end of an item's snapshot in mode DISTINCT, and counts it.
    pub fn write_end_of_snapshot(&mut self, sub_id: u32, item_pos: u32, out: &mut Vec<u8>) {
        write_numbers(out, "EOS", &[sub_id.into(), item_pos.into()]);
        self.data_count += 1;
    }

    /// Appends `UNSUB`, the last line about a subscription, and counts it.
    pub fn write_unsub(&mut self, sub_id: u32, out: &mut Vec<u8>) {
        write_numbers(out, "UNSUB", &[sub_id.into()]);
        self.data_count += 1;
    }

    /// Appends `OV` at the place where `lost` updates of an item were dropped, and counts it.
    pub fn write_overflow(&mut self, sub_id: u32, item_pos: u32, lost: u64, out: &mut Vec<u8>) {
        write_numbers(out, "OV", &[sub_id.into(), item_pos.into(), lost]);
        self.data_count += 1;
    }
}

/// Answers a polling `create_session` over HTTP and leaves the session unbound: `CONOK`, and
/// `LOOP,0` to make the client bind it at once. A session costs the server nothing but its id
/// until [`Session::bind`].
pub fn write_unbound(id: &SessionId, config: &SessionConfig, out: &mut Vec<u8>) {
    write_conok(id, 0, config, out);
    write_loop(out, 0);
}

fn write_conok(id: &SessionId, keepalive_ms: u64, config: &SessionConfig, out: &mut Vec<u8>) {
    out.extend_from_slice(b"CONOK,");
    out.extend_from_slice(id.as_str().as_bytes());
    out.push(b',');
    push_number(out, config.request_limit_bytes);
    out.push(b',');
    push_number(out, keepalive_ms);
    out.push(b',');
    match &config.control_link {
        None => out.push(b'*'),
        Some(link) => push_argument(out, link),
    }
    push_line_end(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_created_unbound_and_bound_later() {
        let (id, config) = (SessionId::from_random(&[7; 16]), SessionConfig::default());
        let mut out = Vec::new();
        write_unbound(&id, &config, &mut out);
        let expected = format!("CONOK,{},50000,0,*\r\nLOOP,0\r\n", id.as_str());
        assert_eq!(String::from_utf8(out).unwrap(), expected);

        let head = |reduce_head| {
            let stream = StreamOptions {
                polling: None,
                content_length: None,
                keepalive_ms: Some(2000),
                inactivity_ms: None,
                send_sync: false,
                reduce_head,
            };
            let mut out = Vec::new();
            let session: Session = Session::bind(id, &stream, &config, "::1", 5, &mut out);
            assert_eq!(session.id(), &id);
            String::from_utf8(out).unwrap()
        };
        let conok = format!("CONOK,{},50000,2000,*\r\n", id.as_str());
        assert!(head(false).starts_with(&format!("{conok}SERVNAME,Weir\r\nCLIENTIP,::1\r\n")));
        assert_eq!(head(true), "");
    }

    /// 15,000 sessions with everything around them must fit in 2 KiB each.
    #[test]
    fn a_session_with_one_subscription_is_small() {
        assert!(
            size_of::<Session<Box<()>>>() <= 128,
            "{}",
            size_of::<Session<Box<()>>>()
        );
    }
}
