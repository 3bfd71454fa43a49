//! Audit log of the proxy: who connected, logged in, was denied something or changed the cluster,
//! one JSON object per line. Event loops add records to a bounded queue; a thread writes them.

mod config;
mod lines;
mod record;

pub use config::{ProxyAuditConfig, RawAudit};
pub use record::{AuditDetails, AuditKind};

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use weir_access::audit::{AuditError, LineWriter, unix_ms};
use weir_identity::Principal;

use self::config::OnFull;
use self::lines::AuditLines;
use self::record::AuditLine;

/// Sending end of the audit log, shared by all threads.
#[derive(Debug)]
pub struct ProxyAudit {
    writer: Arc<LineWriter<AuditLines>>,
    on_full: OnFull,
}

impl ProxyAudit {
    /// Opens the log and starts its writer.
    pub fn start(config: &ProxyAuditConfig) -> Result<(Arc<Self>, JoinHandle<()>), AuditError> {
        let lines = AuditLines::new(&config.log);
        let (writer, thread) = LineWriter::start(lines, &config.log.target)?;
        let on_full = config.on_full;
        Ok((Arc::new(Self { writer, on_full }), thread))
    }

    /// Records a reload of the configuration.
    pub fn reloaded(&self, generation: u64, is_applied: bool) {
        self.record(AuditLine {
            generation: Some(generation),
            details: AuditDetails {
                decision: Some(if is_applied { "applied" } else { "failed" }),
                ..AuditDetails::default()
            },
            ..AuditLine::new(AuditKind::Reload)
        });
    }

    fn record(&self, line: AuditLine) {
        let now_ms = unix_ms();
        let add = |lines: &mut AuditLines| lines.push(line, now_ms);
        match self.on_full {
            OnFull::Drop => self.writer.add(add),
            OnFull::Wait => self.writer.add_when(AuditLines::has_room, add),
        }
    }

    /// Returns the number of records that were written or wait, and of those that were dropped or
    /// could not be written.
    pub fn counts(&self) -> [u64; 2] {
        let (records, dropped) = self.writer.read(AuditLines::counts);
        let unwritten = self.writer.unwritten();
        [records.saturating_sub(unwritten), dropped + unwritten]
    }

    /// Opens the file again, after it was renamed by log rotation.
    pub fn reopen(&self) {
        self.writer.reopen();
    }

    /// Ends the writer after the records in the queue.
    pub fn close(&self) {
        self.writer.close();
    }
}

/// The audit log with what is equal for all connections of a cluster.
#[derive(Debug)]
pub struct ClusterAudit {
    log: Arc<ProxyAudit>,
    cluster: Box<str>,
    /// Mode of the identity at the brokers.
    identity: &'static str,
}

impl ClusterAudit {
    /// Creates the audit log of a cluster; `identity` is the mode of its identity at the brokers.
    pub fn new(log: Arc<ProxyAudit>, cluster: &str, identity: &'static str) -> Self {
        Self {
            log,
            cluster: cluster.into(),
            identity,
        }
    }

    /// Records an event of a client.
    pub fn record(
        &self,
        kind: AuditKind,
        client: SocketAddr,
        principal: Option<&str>,
        details: AuditDetails,
    ) {
        self.log.record(AuditLine {
            cluster: Some(self.cluster.clone()),
            client: Some(client),
            principal: principal.map(Into::into),
            identity: Some(self.identity),
            details,
            ..AuditLine::new(kind)
        });
    }

    /// Records a request that changes the cluster.
    pub fn request(
        &self,
        (api, client_id): (&'static str, Option<Box<str>>),
        client: SocketAddr,
        principal: Option<&Principal>,
    ) {
        let principal = principal.map(Principal::to_string);
        let details = AuditDetails {
            api: Some(api),
            client_id,
            ..AuditDetails::default()
        };
        self.record(AuditKind::Admin, client, principal.as_deref(), details);
    }
}

/// Returns the `client.id` in a request header after the correlation id, if it is a text and not
/// empty. Long ones are cut.
pub fn client_id(header: &[u8]) -> Option<Box<str>> {
    let (length, rest) = header.split_first_chunk::<2>()?;
    let length = usize::try_from(i16::from_be_bytes(*length)).ok()?;
    let text = std::str::from_utf8(rest.get(..length)?).ok()?;
    if text.is_empty() {
        return None;
    }
    let end = text.char_indices().nth(CLIENT_ID_CHARS_MAX);
    Some(text[..end.map_or(text.len(), |(at, _)| at)].into())
}

/// Longest `client.id` in a line.
const CLIENT_ID_CHARS_MAX: usize = 256;

/// Returns the JSON Schema of lines of the audit log.
#[cfg(feature = "schema")]
pub fn line_schema() -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let schema = settings.into_generator();
    let schema = schema.into_root_schema_for::<record::NumberedLine<'static>>();
    schema.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_ids_are_read_and_cut() {
        let header = |text: &[u8]| [&(text.len() as i16).to_be_bytes()[..], text].concat();
        assert_eq!(client_id(&header(b"app-1")).as_deref(), Some("app-1"));
        let long = "\u{e9}".repeat(1_000);
        let cut = client_id(&header(long.as_bytes())).expect("a text");
        assert_eq!(cut.chars().count(), CLIENT_ID_CHARS_MAX);
        for other in [
            &[][..],
            &[0],
            &[0, 0],
            &[0xff, 0xff],
            &[0, 5, b'a'],
            &[0, 1, 0xff],
        ] {
            assert_eq!(client_id(other), None, "{other:?}");
        }
    }
}
