//! What is known of the client behind a connection: the version of the protocol it speaks, and how
//! long a line it can read.

use weir_net::server::ConnId;
use weir_tlcp::Version;
use weir_tlcp::server::LineLimits;

use super::Shard;
use super::frame::Framing;
use super::session::SessionEntry;
use super::session_writer::SessionWriter;

/// What the client of a connection speaks and reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) version: Version,
    pub(super) lines: LineLimits,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            version: Version::NEWEST,
            lines: LineLimits::NONE,
        }
    }
}

impl Dialect {
    /// Returns what follows from the `User-Agent` of a client.
    pub(super) fn of(version: Version, user_agent: Option<&str>) -> Self {
        let lines = user_agent.map_or(LineLimits::NONE, LineLimits::of_user_agent);
        Self { version, lines }
    }
}

impl Shard {
    /// Remembers the dialect of a connection until it is gone; most have the usual one.
    pub(super) fn hears(&mut self, conn: ConnId, dialect: Dialect) {
        if dialect != Dialect::default() {
            self.dialects.insert(conn, dialect);
        }
    }

    /// Returns the version of a request, which names it if it came over HTTP.
    pub(super) fn version(&self, named: Option<Version>, conn: ConnId) -> Version {
        named.unwrap_or_else(|| self.dialect(conn).version)
    }

    /// Returns how many bytes a line may have that goes out by this connection.
    pub(super) fn line_max(&self, conn: ConnId, framing: Framing) -> u32 {
        let lines = self.dialect(conn).lines;
        let known = match framing {
            Framing::WebSocket => lines.websocket,
            Framing::Chunk => lines.http,
        };
        match self.shared.limits.line_bytes {
            0 => known,
            most => known.min(most),
        }
    }

    fn dialect(&self, conn: ConnId) -> Dialect {
        self.dialects.get(&conn).copied().unwrap_or_default()
    }
}

impl SessionWriter {
    /// Logs an update that is too long for its client, one in so many milliseconds.
    pub(super) fn note_too_long(&mut self, entry: &SessionEntry, bytes: usize, now_ms: u64) {
        const PAUSE_MS: u64 = 10_000;
        if now_ms < self.too_long_quiet_ms {
            return;
        }
        self.too_long_quiet_ms = now_ms + PAUSE_MS;
        let (session, most) = (entry.core.id(), entry.line_max);
        tracing::warn!(
            %session, bytes, most,
            "an update is longer than its client reads and was left out; more are counted, not logged"
        );
    }
}
