//! Request texts, keys and item names shared by all sessions of a run.

use weir_net::websocket;
use weir_tlcp::client::{AddParams, ClientSessionConfig, CreateParams};
use weir_tlcp::{PATH_PREFIX, WEBSOCKET_SUBPROTOCOL};

use super::diff_choice::DiffChoice;
use super::json::JsonMessages;
use super::options::{ClientProtocol, ClientsOptions};
use super::scenario::KEY_PLACEHOLDER;
use crate::error::Result;
use weir_tlcp::Mode;

/// Positions of the fields that clients read; other fields are only counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct FieldMap {
    /// Number of fields in the subscription.
    pub(super) count: usize,
    /// Positions in the subscription, from 1, by [`KEY`], [`DUE`] and so on.
    pub(super) positions: [Option<usize>; FIELDS],
}

/// Field `key`, which must equal the key of the client's item.
pub(super) const KEY: usize = 0;
/// Field `timestamp`, or `value` if there is none: the due time of the record, as text.
pub(super) const DUE: usize = 1;
/// Field `partition` of the record.
pub(super) const PARTITION: usize = 2;
/// Field `offset` of the record.
pub(super) const OFFSET: usize = 3;
/// Field `ts`: Kafka timestamp of the record, in milliseconds.
pub(super) const STORED: usize = 4;
/// Field `weir`: text form of the record's [`Stamp`](crate::stamp::Stamp).
pub(super) const STAMP: usize = 5;
/// Number of these fields.
pub(super) const FIELDS: usize = 6;

impl FieldMap {
    pub(super) fn new(fields: &[String]) -> Self {
        let position = |name| Some(fields.iter().position(|field| field == name)? + 1);
        let names = ["key", "timestamp", "partition", "offset", "ts", "weir"];
        let mut positions = names.map(position);
        positions[DUE] = positions[DUE].or_else(|| position("value"));
        Self {
            count: fields.len(),
            positions,
        }
    }

    pub(super) fn has_stamp(&self) -> bool {
        self.positions[STAMP].is_some()
    }
}

/// Options and texts of a run, borrowed by its sessions.
#[derive(Debug)]
pub(super) struct RequestTexts<'a> {
    pub(super) options: &'a ClientsOptions,
    /// Addresses of the servers, for messages.
    pub(super) servers: String,
    pub(super) keys: Vec<String>,
    /// `true` if each client subscribes only to the records of its key.
    pub(super) keyed: bool,
    /// Item names, by key index.
    items: Vec<String>,
    schema: String,
    pub(super) fields: FieldMap,
    /// `Sec-WebSocket-Key` of all sessions. It prevents cached responses and is not a secret.
    pub(super) websocket_key: String,
    /// Upgrade requests, by server.
    upgrades: Vec<Vec<u8>>,
}

impl<'a> RequestTexts<'a> {
    pub(super) fn new(options: &'a ClientsOptions, authorities: &[String]) -> Self {
        let keys = match options.keys.is_empty() {
            true => vec![String::new()],
            false => options.keys.clone(),
        };
        let items = keys
            .iter()
            .map(|key| options.items.replace(KEY_PLACEHOLDER, key))
            .collect();
        let websocket_key = websocket::new_client_key(u128::from(options.seed).to_be_bytes());
        let upgrade = |authority: &String| {
            let mut request = Vec::new();
            websocket::client_request(
                &mut request,
                authority,
                PATH_PREFIX,
                &websocket_key,
                WEBSOCKET_SUBPROTOCOL,
                options.compression,
            );
            request
        };
        Self {
            options,
            servers: authorities.join(", "),
            items,
            keyed: options.is_keyed(),
            schema: options.fields.join(" "),
            fields: FieldMap::new(&options.fields),
            keys,
            upgrades: authorities.iter().map(upgrade).collect(),
            websocket_key,
        }
    }

    /// Returns the messages to servers with a JSON protocol; `None` for other protocols. `servers`
    /// has the `Host` header and the path of each server.
    ///
    /// # Errors
    /// An error if the path of a JSON member is invalid.
    pub(super) fn json_messages(
        &self,
        servers: &[(String, String)],
    ) -> Result<Option<JsonMessages>> {
        let ClientProtocol::Json(clients) = &self.options.kind else {
            return Ok(None);
        };
        let (key, compression) = (&self.websocket_key, self.options.compression);
        let messages = JsonMessages::new(clients, servers, &self.items, (key, MASK), compression)?;
        Ok(Some(messages))
    }

    /// Returns the upgrade request of connection `conn`.
    pub(super) fn upgrade(&self, conn: usize) -> &[u8] {
        &self.upgrades[conn % self.upgrades.len()]
    }

    /// Returns the configurations of TLCP sessions that allow these diff formats, by key index;
    /// empty for servers with another protocol.
    pub(super) fn session_configs(&self, diffs: DiffChoice) -> Vec<ClientSessionConfig<'_>> {
        let ClientProtocol::Tlcp {
            adapter_set,
            data_adapter,
            mode,
        } = &self.options.kind
        else {
            return Vec::new();
        };
        self.items
            .iter()
            .map(|item| ClientSessionConfig {
                create: CreateParams {
                    adapter_set: Some(adapter_set),
                    supported_diffs: Some(diffs.tags()),
                    ..CreateParams::default()
                },
                adds: vec![AddParams {
                    mode: *mode,
                    data_adapter: data_adapter.as_deref(),
                    // Without this, the snapshot's earlier records would count as late deliveries.
                    snapshot: (*mode != Mode::Raw).then_some("false"),
                    ..AddParams::raw(SUB_ID, item, &self.schema)
                }],
                subscribes_in_create: false,
            })
            .collect()
    }
}

/// WebSocket mask of all messages. A random mask protects caches between client and server from
/// hostile payloads; there are none here.
pub(super) const MASK: [u8; 4] = [0x57, 0x65, 0x69, 0x72];
/// Id of the only subscription of each session.
pub(super) const SUB_ID: u32 = 1;
