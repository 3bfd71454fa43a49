//! State of a session: stream start, keepalive, `SYNC`, inactivity, data count and subscriptions.
//! It is small because a gateway holds tens of thousands of sessions.

use std::sync::Arc;

use smallvec::SmallVec;

use super::line::{push_line_end, write_numbers, write_tag, write_text};
use super::{SessionId, Subscription};
use crate::codes::ControlCode;
use crate::request::{Bandwidth, CreateSession, Polling, StreamOptions};
use crate::text::{push_argument, push_number};

/// Configuration of all sessions of a server. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Argument of `SERVNAME`.
    pub server_name: Arc<str>,
    /// Host, `host:port` or URL for further connections of a session; `None` = `*`, any.
    pub control_link: Option<Arc<str>>,
    /// Keepalive for clients that request none; 5000, as in the protocol's examples.
    pub keepalive_default_ms: u64,
    /// Minimum keepalive, default 1000.
    pub keepalive_min_ms: u64,
    /// Maximum keepalive, default 60000.
    pub keepalive_max_ms: u64,
    /// Time between `SYNC` lines, default 4000.
    pub sync_period_ms: u64,
    /// Maximum time that a poll waits for data, default 30000.
    pub idle_max_ms: u64,
    /// Maximum pause between polls, default 15000.
    pub polling_max_ms: u64,
    /// Request limit sent to clients, default 50000 bytes. The framing must enforce it.
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
            idle_max_ms: 30_000,
            polling_max_ms: 15_000,
            request_limit_bytes: 50_000,
        }
    }
}

impl SessionConfig {
    /// Returns the requested times of a poll, limited by the configuration.
    pub fn granted(&self, requested: Polling) -> Polling {
        Polling {
            interval_ms: requested.interval_ms.min(self.polling_max_ms),
            idle_ms: requested.idle_ms.min(self.idle_max_ms),
        }
    }
}

/// Result of [`Session::on_wake`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeOutcome {
    /// Nothing was due.
    Idle,
    /// Lines were appended and count as written.
    Written,
    /// The client exceeded its inactivity timeout; its connection must be closed. Nothing was
    /// appended.
    Inactive,
}

/// A session. `H` is the caller's state per subscription.
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
    /// Maximum time without output on a stream; while polling, the time that a poll may wait.
    keepalive_ms: u32,
    /// Time without a request until the client counts as inactive; `u32::MAX` without a limit.
    inactivity_limit_ms: u32,
    /// `true` if the client polls. Such connections carry only data, no `PROBE` and no `SYNC`.
    polling: bool,
    /// Bandwidth limit in kbps; infinite without a limit.
    bandwidth_kbps: f32,
    /// `true` if the client requested no `CONS` for the whole session.
    without_cons: bool,
    /// Active subscriptions, sorted by id.
    subscriptions: SmallVec<[Subscription<H>; 1]>,
}

impl<H> Session<H> {
    /// Creates a session on its first connection and appends the first lines: `CONOK`, then
    /// `SERVNAME`, `CLIENTIP` and `CONS` unless the client requested reduced ones.
    ///
    /// Callers respond to `create.controls` themselves, after this call.
    pub fn create(
        id: SessionId,
        create: &CreateSession<'_>,
        config: &SessionConfig,
        client_ip: &str,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) -> Self {
        let mut session = Self {
            id,
            data_count: 0,
            bound_ms: now_ms,
            last_write_ms: now_ms,
            last_request_ms: now_ms,
            next_sync_ms: u64::MAX,
            sync_period_ms: 0,
            keepalive_ms: 0,
            inactivity_limit_ms: u32::MAX,
            polling: false,
            bandwidth_kbps: f32::INFINITY,
            without_cons: create.stream.reduce_head,
            subscriptions: SmallVec::new(),
        };
        session.set_stream(&create.stream, config, now_ms);
        session.set_bandwidth(create.requested_max_bandwidth);
        session.write_conok(config, out);
        if !create.stream.reduce_head {
            session.write_head(config, client_ip, out);
        }
        session
    }

    /// Binds the session to another connection. Appends the first lines as [`Self::create`] does;
    /// reduced ones omit `CONOK` too.
    pub fn bind(
        &mut self,
        stream: &StreamOptions,
        config: &SessionConfig,
        client_ip: &str,
        now_ms: u64,
        out: &mut Vec<u8>,
    ) {
        self.set_stream(stream, config, now_ms);
        if !stream.reduce_head {
            self.write_conok(config, out);
            self.write_head(config, client_ip, out);
        }
    }

    /// Sets the state of a connection.
    fn set_stream(&mut self, stream: &StreamOptions, config: &SessionConfig, now_ms: u64) {
        let keepalive_ms = match stream.polling {
            Some(polling) => config.granted(polling).idle_ms,
            None => stream
                .keepalive_ms
                .unwrap_or(config.keepalive_default_ms)
                .min(config.keepalive_max_ms)
                .max(config.keepalive_min_ms),
        };
        self.polling = stream.polling.is_some();
        self.bound_ms = now_ms;
        self.last_write_ms = now_ms;
        self.last_request_ms = now_ms;
        self.sync_period_ms = saturating_u32(config.sync_period_ms).max(1);
        self.keepalive_ms = saturating_u32(keepalive_ms);
        self.next_sync_ms = match stream.send_sync && !self.polling {
            true => now_ms.saturating_add(self.sync_period_ms.into()),
            false => u64::MAX,
        };
        self.set_inactivity(stream.inactivity_ms);
    }

    fn write_head(&self, config: &SessionConfig, client_ip: &str, out: &mut Vec<u8>) {
        write_text(out, "SERVNAME", &config.server_name);
        write_text(out, "CLIENTIP", client_ip);
        self.write_cons(out);
    }

    /// Sets the requested bandwidth limit; `None` changes nothing. The caller must enforce it, with
    /// a [`super::TokenBucket`].
    pub fn set_bandwidth(&mut self, requested: Option<Bandwidth>) {
        match requested {
            None => {}
            Some(Bandwidth::Unlimited) => self.bandwidth_kbps = f32::INFINITY,
            // Values too small for a 32-bit number become the smallest one.
            Some(Bandwidth::Kbps(kbps)) => {
                self.bandwidth_kbps = (kbps as f32).clamp(f32::MIN_POSITIVE, f32::MAX);
            }
        }
    }

    /// Returns the bandwidth limit in kbps (1000 bits per second); `None` without a limit.
    pub fn bandwidth_kbps(&self) -> Option<f64> {
        let kbps = self.bandwidth_kbps;
        kbps.is_finite().then(|| kbps.into())
    }

    /// Appends `CONS`, also in response to `constrain`, unless the client requested none.
    pub fn write_cons(&self, out: &mut Vec<u8>) {
        if self.without_cons {
            return;
        }
        match self.bandwidth_kbps.is_finite() {
            true => write_text(out, "CONS", &self.bandwidth_kbps.to_string()),
            false => write_text(out, "CONS", "unlimited"),
        }
    }

    fn write_conok(&self, config: &SessionConfig, out: &mut Vec<u8>) {
        out.extend_from_slice(b"CONOK,");
        out.extend_from_slice(self.id.as_str().as_bytes());
        out.push(b',');
        push_number(out, config.request_limit_bytes);
        out.push(b',');
        push_number(out, self.keepalive_ms);
        out.push(b',');
        match &config.control_link {
            None => out.push(b'*'),
            Some(link) => push_argument(out, link),
        }
        push_line_end(out);
    }

    /// Returns the session id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the keepalive in milliseconds; while polling, the idle time.
    pub fn keepalive_ms(&self) -> u64 {
        self.keepalive_ms.into()
    }

    /// Notes output on the stream, which postpones the next `PROBE`.
    pub fn wrote(&mut self, now_ms: u64) {
        self.last_write_ms = now_ms;
    }

    /// Notes a request of the client, which postpones its inactivity timeout.
    pub fn touch(&mut self, now_ms: u64) {
        self.last_request_ms = now_ms;
    }

    /// Sets the inactivity timeout that the client requests; `None` = no limit.
    ///
    /// The protocol does not specify the effect. The client counts as inactive after twice this
    /// time plus one second.
    pub fn set_inactivity(&mut self, timeout_ms: Option<u64>) {
        const SLACK_MS: u64 = 1_000;
        self.inactivity_limit_ms = timeout_ms.map_or(u32::MAX, |timeout| {
            saturating_u32(timeout.saturating_mul(2).saturating_add(SLACK_MS))
        });
    }

    /// Returns the time at which the client counts as inactive.
    fn inactivity_deadline_ms(&self) -> u64 {
        match self.inactivity_limit_ms {
            u32::MAX => u64::MAX,
            limit_ms => self.last_request_ms.saturating_add(limit_ms.into()),
        }
    }

    /// Counts data notifications. Callers also count those that this session did not write, in
    /// shared frames.
    pub fn count_data(&mut self, count: u64) {
        self.data_count += count;
    }

    /// Returns the number of data notifications since the session was created.
    pub fn data_count(&self) -> u64 {
        self.data_count
    }

    /// Returns the earliest time at which [`Self::on_wake`] may have something to do. `wrote` and
    /// `touch` only postpone it, so a timer may be set again when it fires.
    pub fn next_wake_ms(&self) -> u64 {
        if self.polling {
            return u64::MAX;
        }
        let probe = self.last_write_ms.saturating_add(self.keepalive_ms());
        probe
            .min(self.next_sync_ms)
            .min(self.inactivity_deadline_ms())
    }

    /// Appends `SYNC` or `PROBE` if one is due. `SYNC` must stay behind the data queued before it
    /// to be of use, so callers append `out` to the queue.
    pub fn on_wake(&mut self, now_ms: u64, out: &mut Vec<u8>) -> WakeOutcome {
        if self.polling {
            return WakeOutcome::Idle;
        }
        if now_ms >= self.inactivity_deadline_ms() {
            return WakeOutcome::Inactive;
        }
        if now_ms >= self.next_sync_ms {
            write_numbers(out, "SYNC", &[now_ms.saturating_sub(self.bound_ms) / 1_000]);
            self.next_sync_ms = now_ms.saturating_add(self.sync_period_ms.into());
        } else if now_ms >= self.last_write_ms.saturating_add(self.keepalive_ms()) {
            write_tag(out, "PROBE");
        } else {
            return WakeOutcome::Idle;
        }
        self.wrote(now_ms);
        WakeOutcome::Written
    }

    /// Returns the active subscriptions in the order of their ids.
    pub fn subscriptions(&self) -> &[Subscription<H>] {
        &self.subscriptions
    }

    /// Returns the active subscriptions, to change the callers' state.
    pub fn subscriptions_mut(&mut self) -> impl Iterator<Item = &mut Subscription<H>> {
        self.subscriptions.iter_mut()
    }

    /// Returns the subscription with this id.
    pub fn subscription(&self, sub_id: u32) -> Option<&Subscription<H>> {
        self.subscriptions.get(self.find(sub_id).ok()?)
    }

    /// Returns the subscription with this id, to change the caller's state.
    pub fn subscription_mut(&mut self, sub_id: u32) -> Option<&mut Subscription<H>> {
        let at = self.find(sub_id).ok()?;
        self.subscriptions.get_mut(at)
    }

    /// Returns the index of a subscription, or the index to insert it at. The list is sorted,
    /// because callers look up subscriptions for each update, and a session may have a thousand.
    fn find(&self, sub_id: u32) -> Result<usize, usize> {
        self.subscriptions
            .binary_search_by_key(&sub_id, |subscription| subscription.sub_id)
    }

    /// Adds a subscription, unless its id is in use or the session has `subscriptions_max`.
    pub fn add_subscription(
        &mut self,
        subscription: Subscription<H>,
        subscriptions_max: usize,
    ) -> Result<(), ControlCode> {
        let Err(at) = self.find(subscription.sub_id) else {
            return Err(ControlCode::SUBSCRIPTION_ID_IN_USE);
        };
        if self.subscriptions.len() >= subscriptions_max {
            return Err(ControlCode::TOO_MANY_SUBSCRIPTIONS);
        }
        self.subscriptions.insert(at, subscription);
        Ok(())
    }

    /// Removes and returns a subscription; the caller must write `UNSUB`.
    pub fn remove_subscription(&mut self, sub_id: u32) -> Option<Subscription<H>> {
        let at = self.find(sub_id).ok()?;
        Some(self.subscriptions.remove(at))
    }

    /// Appends `SUBOK` for a subscription that was added. `CONF` must follow.
    pub fn write_subok(&self, sub_id: u32, items: u32, fields: u32, out: &mut Vec<u8>) {
        write_numbers(out, "SUBOK", &[sub_id.into(), items.into(), fields.into()]);
    }

    /// Appends `SUBCMD`, which replaces `SUBOK` in mode COMMAND, with the positions (from 1) of the
    /// key field and the command field.
    pub fn write_subcmd(
        &self,
        sub_id: u32,
        (items, fields): (u32, u32),
        (key_pos, command_pos): (u32, u32),
        out: &mut Vec<u8>,
    ) {
        let numbers = [sub_id, items, fields, key_pos, command_pos].map(u64::from);
        write_numbers(out, "SUBCMD", &numbers);
    }

    /// Appends `CONF`, also in response to `reconf`, with the applied frequency in updates per
    /// second; `None` = no limit.
    pub fn write_conf(&self, sub_id: u32, max_frequency: Option<f64>, out: &mut Vec<u8>) {
        let known = self.subscription(sub_id);
        let unfiltered = known.is_none_or(|known| known.unfiltered);
        out.extend_from_slice(b"CONF,");
        push_number(out, sub_id);
        match max_frequency {
            // `Display` never uses an exponent.
            Some(frequency) => out.extend_from_slice(format!(",{frequency}").as_bytes()),
            None => out.extend_from_slice(b",unlimited"),
        }
        out.extend_from_slice(match unfiltered {
            true => b",unfiltered".as_slice(),
            false => b",filtered",
        });
        push_line_end(out);
    }

    /// Appends `UNSUB`, the last line of a subscription.
    pub fn write_unsub(&self, sub_id: u32, out: &mut Vec<u8>) {
        write_numbers(out, "UNSUB", &[sub_id.into()]);
    }
}

fn saturating_u32(millis: u64) -> u32 {
    u32::try_from(millis).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::SessionLocation;
    use super::*;
    use crate::request::{Request, parse_ws_message};

    fn stream(polling: Option<Polling>, reduce_head: bool) -> StreamOptions {
        StreamOptions {
            polling,
            content_length: None,
            keepalive_ms: Some(2000),
            inactivity_ms: None,
            send_sync: polling.is_none(),
            reduce_head,
        }
    }

    fn create(stream: StreamOptions, out: &mut Vec<u8>) -> Session {
        let mut created = None;
        parse_ws_message("create_session\r\nLS_cid=x", &mut |request| {
            let Ok(Request::CreateSession(mut create)) = request else {
                panic!("{request:?}")
            };
            create.stream = stream.clone();
            let location = SessionLocation { shard: 0, slot: 0 };
            let (id, config) = (SessionId::new(location, &[7; 16]), SessionConfig::default());
            created = Some(Session::create(id, &create, &config, "::1", 5, out));
        });
        created.expect("a session")
    }

    fn text(out: &mut Vec<u8>) -> String {
        String::from_utf8(std::mem::take(out)).unwrap()
    }

    #[test]
    fn polling_session_can_be_bound_to_stream() {
        let (config, mut out) = (SessionConfig::default(), Vec::new());
        let requested = Polling {
            interval_ms: 99_000,
            idle_ms: 99_000,
        };
        let mut session = create(stream(Some(requested), false), &mut out);
        let conok = format!("CONOK,{},50000,", session.id().as_str());
        let head = "SERVNAME,Weir\r\nCLIENTIP,::1\r\nCONS,unlimited\r\n";
        assert_eq!(text(&mut out), format!("{conok}30000,*\r\n{head}"));
        assert_eq!(config.granted(requested).interval_ms, 15_000);
        assert_eq!(session.next_wake_ms(), u64::MAX);
        assert_eq!(session.on_wake(u64::MAX, &mut out), WakeOutcome::Idle);

        session.bind(&stream(None, false), &config, "::1", 1_000, &mut out);
        assert_eq!(text(&mut out), format!("{conok}2000,*\r\n{head}"));
        assert_eq!(session.next_wake_ms(), 3_000);
        session.bind(&stream(None, true), &config, "::1", 1_000, &mut out);
        assert_eq!(text(&mut out), "");
        assert_eq!(session.on_wake(3_000, &mut out), WakeOutcome::Written);
        assert_eq!(text(&mut out), "PROBE\r\n");
    }

    /// 15,000 sessions with all related state must fit into 2 KiB each.
    #[test]
    fn session_with_one_subscription_is_small() {
        assert!(
            size_of::<Session<Box<()>>>() <= 128,
            "{}",
            size_of::<Session<Box<()>>>()
        );
    }
}
