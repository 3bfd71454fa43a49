//! An in-memory network: queues with the limits of the real one, and peers that read on request.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use weir_net::http1::Response;
use weir_net::server::{ConnId, TrySend};
use weir_net::tls::CertificateNames;
use weir_net::websocket::{DeflateWindow, FrameEvent, FrameRole, Inflater, WebSocketFrameReader};

use crate::shard::wire::Wire;

/// Small enough to be filled by a few updates.
pub(super) const QUEUE_BYTES: usize = 800;
const LAG_BYTES: usize = 100;
const MESSAGE_BYTES: usize = 1 << 20;

/// One connection.
struct Conn {
    tag: u64,
    /// Number of the connection among those of the client.
    generation: u32,
    /// `true` until one side closes it.
    open: bool,
    /// `true` after the connection was lost.
    cut: bool,
    queue: VecDeque<Bytes>,
    /// Bytes that the peer's side still accepts.
    room: usize,
    blocked: bool,
    wants_room: bool,
    /// Window of the negotiated compression.
    window: Option<DeflateWindow>,
    reader: WebSocketFrameReader,
    inflater: Inflater,
    /// Complete messages that have arrived.
    arrived: String,
}

/// All connections. The number of a connection is that of its client.
pub(super) struct MemoryWire {
    conns: Vec<Conn>,
    next_writable: Vec<usize>,
    now_ms: u64,
    timers: Vec<(u64, u64)>,
}

/// Timers are late by up to this time.
const TICK_MS: u64 = 16;

impl MemoryWire {
    pub(super) fn new(clients: usize) -> Self {
        Self {
            conns: (0..clients).map(|client| Conn::new(client, 1)).collect(),
            next_writable: Vec::new(),
            now_ms: 1_000,
            timers: Vec::new(),
        }
    }

    /// Advances the time by one tick, but not beyond `until_ms`.
    pub(super) fn pass(&mut self, until_ms: u64) {
        self.now_ms = until_ms.min(self.now_ms + TICK_MS);
    }

    /// Returns the tokens of the timers that are due.
    pub(super) fn due(&mut self) -> Vec<u64> {
        let now_ms = self.now_ms;
        let (due, later) = self.timers.iter().partition(|(at_ms, _)| *at_ms <= now_ms);
        self.timers = later;
        let due: Vec<(u64, u64)> = due;
        due.into_iter().map(|(_, token)| token).collect()
    }

    /// Sets the number of bytes that the peer accepts from now on.
    pub(super) fn set_room(&mut self, client: usize, bytes: usize) {
        let conn = &mut self.conns[client];
        conn.room = bytes;
        conn.blocked = false;
        self.flush(client);
    }

    pub(super) fn flush_all(&mut self) {
        (0..self.conns.len()).for_each(|client| self.flush(client));
    }

    fn flush(&mut self, client: usize) {
        let conn = &mut self.conns[client];
        while let (Some(first), false) = (conn.queue.front_mut(), conn.blocked) {
            let taken = first.split_to(first.len().min(conn.room));
            conn.room -= taken.len();
            conn.blocked = !first.is_empty();
            if first.is_empty() {
                conn.queue.pop_front();
            }
            conn.receive(&taken);
        }
        if !conn.blocked && std::mem::take(&mut conn.wants_room) {
            self.next_writable.push(client);
        }
    }

    /// Returns the id of a client's current connection.
    pub(super) fn id(&self, client: usize) -> ConnId {
        ConnId::from_parts(client as u32, self.conns[client].generation)
    }

    /// Loses a connection with all data that has not arrived. Returns its id and tag.
    pub(super) fn cut(&mut self, client: usize) -> (ConnId, u64) {
        let conn = &mut self.conns[client];
        conn.cut = true;
        conn.queue.clear();
        let tag = conn.tag;
        (self.id(client), tag)
    }

    /// Opens a new connection of a client.
    pub(super) fn connect(&mut self, client: usize) {
        let generation = self.conns[client].generation + 1;
        self.conns[client] = Conn::new(client, generation);
    }

    /// Returns `true` if requests of the client arrive.
    pub(super) fn is_connected(&self, client: usize) -> bool {
        self.conns[client].open && !self.conns[client].cut
    }

    pub(super) fn is_cut(&self, client: usize) -> bool {
        self.conns[client].cut
    }

    /// Returns a connection that is writable again and whose handler requested a notification.
    pub(super) fn next_writable(&mut self) -> Option<(ConnId, u64)> {
        let client = self.next_writable.pop()?;
        Some((self.id(client), self.conns[client].tag))
    }

    /// Returns the lines that have arrived since the last call.
    pub(super) fn take_lines(&mut self, client: usize) -> String {
        std::mem::take(&mut self.conns[client].arrived)
    }

    pub(super) fn is_open(&self, client: usize) -> bool {
        self.conns[client].open
    }

    fn check_capacity(&mut self, conn: ConnId, bytes: usize) -> Option<bool> {
        let fits = |conn: &Conn| conn.queue.is_empty() || conn.queued() + bytes <= QUEUE_BYTES;
        let client = self.client(conn)?;
        if !fits(&self.conns[client]) {
            self.flush(client);
        }
        Some(fits(&self.conns[client]))
    }

    /// Returns the client of a connection, if it is current.
    fn client(&self, conn: ConnId) -> Option<usize> {
        let mut clients = 0..self.conns.len();
        clients.find(|client| self.id(*client) == conn && self.is_connected(*client))
    }

    fn conn(&mut self, conn: ConnId) -> Option<&mut Conn> {
        let client = self.client(conn)?;
        self.conns.get_mut(client)
    }
}

impl Conn {
    /// Every other connection of a client accepts compressed messages, so that lost frames are sent
    /// again in the other form.
    fn new(client: usize, generation: u32) -> Self {
        let deflate = (client + generation as usize) % 2 == 0;
        Self {
            window: deflate.then_some(DeflateWindow::LARGEST),
            tag: 0,
            generation,
            open: true,
            cut: false,
            queue: VecDeque::new(),
            room: usize::MAX,
            blocked: false,
            wants_room: false,
            reader: WebSocketFrameReader::new(FrameRole::Client, MESSAGE_BYTES)
                .with_deflate(deflate),
            inflater: Inflater::new(),
            arrived: String::new(),
        }
    }

    fn queued(&self) -> usize {
        self.queue.iter().map(Bytes::len).sum()
    }

    fn receive(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (used, event) = self.reader.read(bytes).expect("valid frames");
            let text = match event {
                Some(FrameEvent::Text(text)) => text,
                Some(FrameEvent::Deflated(payload)) => self
                    .inflater
                    .inflate(payload, MESSAGE_BYTES)
                    .expect("independent message"),
                _ => &[],
            };
            self.arrived += std::str::from_utf8(text).expect("text");
            bytes = &bytes[used..];
        }
    }
}

impl Wire for MemoryWire {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn send(&mut self, conn: ConnId, chunk: Bytes) -> bool {
        let room = self.check_capacity(conn, chunk.len()) == Some(true);
        if let Some(state) = self.conn(conn).filter(|_| room) {
            state.queue.push_back(chunk);
        }
        room
    }

    fn try_send(&mut self, conn: ConnId, chunk: Bytes) -> TrySend {
        let room = self.check_capacity(conn, chunk.len());
        let (Some(room), Some(state)) = (room, self.conn(conn)) else {
            return TrySend::Closed;
        };
        if !room || (state.blocked && state.queued() > LAG_BYTES) {
            state.wants_room = true;
            return TrySend::Full;
        }
        state.queue.push_back(chunk);
        TrySend::Queued
    }

    fn notify_writable(&mut self, conn: ConnId) {
        if let Some(state) = self.conn(conn) {
            state.wants_room = true;
        }
    }

    fn close(&mut self, conn: ConnId, last: Option<Bytes>, drop_queued: bool) {
        let Some(state) = self.conn(conn) else { return };
        if drop_queued {
            // One chunk may be partly written.
            state.queue.truncate(1);
        }
        state.queue.extend(last);
        state.open = false;
    }

    fn close_with(&mut self, _conn: ConnId, _code: u16, _last: Option<Bytes>, _drop: bool) {
        unreachable!("all clients have SDKs");
    }

    fn begin_body(&mut self, _conn: ConnId, _head: &Response) {
        unreachable!("all clients use WebSockets");
    }

    fn finish(&mut self, _conn: ConnId) {
        unreachable!("all clients use WebSockets");
    }

    fn respond(&mut self, _conn: ConnId, _response: &Response) {
        unreachable!("all clients use WebSockets");
    }

    fn detach(&mut self, _conn: ConnId) {
        unreachable!("there is only one shard");
    }

    fn pause_input(&mut self, _conn: ConnId) {
        unreachable!("there is only one shard");
    }

    fn resume_input(&mut self, _conn: ConnId) {
        unreachable!("there is only one shard");
    }

    fn tag(&mut self, conn: ConnId) -> Option<u64> {
        self.conn(conn).map(|state| state.tag)
    }

    fn set_tag(&mut self, conn: ConnId, tag: u64) {
        if let Some(state) = self.conn(conn) {
            state.tag = tag;
        }
    }

    fn set_timer(&mut self, at_ms: u64, token: u64) {
        self.timers.push((at_ms, token));
    }

    fn peer_ip(&mut self, _conn: ConnId) -> Option<IpAddr> {
        Some(Ipv4Addr::LOCALHOST.into())
    }

    fn admission_id(&mut self, _conn: ConnId) -> u32 {
        0
    }

    fn queued_bytes(&mut self, _conn: ConnId) -> usize {
        0
    }

    fn client_names(&mut self, _conn: ConnId) -> Option<CertificateNames> {
        None
    }

    fn deflate_window(&mut self, conn: ConnId) -> Option<DeflateWindow> {
        self.conn(conn).and_then(|state| state.window)
    }
}
