//! Properties of the client behind a connection: its protocol version and its line length limits.

use std::collections::HashMap;

use weir_net::server::ConnId;
use weir_tlcp::Version;
use weir_tlcp::server::LineLimits;

use super::frame::Framing;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) version: Version,
    pub(super) lines: LineLimits,
    /// `true` if the client sends and gets JSON instead of TLCP lines.
    pub(super) is_json: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Self {
            version: Version::NEWEST,
            lines: LineLimits::NONE,
            is_json: false,
        }
    }
}

impl Dialect {
    pub(super) fn of(version: Version, user_agent: Option<&str>) -> Self {
        let lines = user_agent.map_or(LineLimits::NONE, LineLimits::of_user_agent);
        Self {
            version,
            lines,
            is_json: false,
        }
    }

    /// Returns the dialect of clients that send and get JSON.
    pub(super) fn json() -> Self {
        Self {
            is_json: true,
            ..Self::default()
        }
    }
}

/// Dialects of the connections of a shard that differ from the default.
#[derive(Debug, Default)]
pub(super) struct Dialects(HashMap<ConnId, Dialect>);

impl Dialects {
    /// Stores the dialect of a connection until [`Self::remove`].
    pub(super) fn insert(&mut self, conn: ConnId, dialect: Dialect) {
        if dialect != Dialect::default() {
            self.0.insert(conn, dialect);
        }
    }

    pub(super) fn remove(&mut self, conn: ConnId) -> Dialect {
        self.0.remove(&conn).unwrap_or_default()
    }

    /// Returns the version of a request: `named` if the request names one, as over HTTP.
    pub(super) fn version(&self, named: Option<Version>, conn: ConnId) -> Version {
        named.unwrap_or_else(|| self.get(conn).version)
    }

    /// Returns the length limit, in bytes, of lines that are sent over a connection. `line_bytes`
    /// is the configured limit; 0 is none.
    pub(super) fn line_max(&self, conn: ConnId, framing: Framing, line_bytes: u32) -> u32 {
        let lines = self.get(conn).lines;
        let client_max = match framing {
            Framing::WebSocket => lines.websocket,
            Framing::Chunk => lines.http,
        };
        match line_bytes {
            0 => client_max,
            configured => client_max.min(configured),
        }
    }

    #[cfg(test)]
    pub(super) fn stored(&self) -> &HashMap<ConnId, Dialect> {
        &self.0
    }

    /// Returns `true` if the client of a connection sends and gets JSON.
    pub(super) fn is_json(&self, conn: ConnId) -> bool {
        !self.0.is_empty() && self.get(conn).is_json
    }

    fn get(&self, conn: ConnId) -> Dialect {
        self.0.get(&conn).copied().unwrap_or_default()
    }
}
