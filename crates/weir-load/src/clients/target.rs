//! What all sessions of a run share: requests, keys and item names.

use weir_net::websocket;
use weir_tlcp::client::{AddParams, ClientPlan, CreateParams};
use weir_tlcp::{PATH_PREFIX, WEBSOCKET_SUBPROTOCOL};

use super::items::KEY_PLACEHOLDER;
use super::{ClientsOptions, FieldMap, Kind};
use crate::keys::key_names;

/// The texts a run needs; the sessions borrow from it.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) server: String,
    /// Record keys, by key index.
    pub(super) keys: Vec<String>,
    /// Item names, by key index.
    items: Vec<String>,
    schema: String,
    pub(super) fields: FieldMap,
    pub(super) kind: Kind,
    /// `Sec-WebSocket-Key` of all sessions; it guards against caches, not against anybody.
    pub(super) websocket_key: String,
    /// The upgrade request of all sessions.
    pub(super) upgrade: Vec<u8>,
}

impl Target {
    pub(super) fn new(options: &ClientsOptions, authority: String) -> Self {
        let keys = key_names(options.keys.max(1));
        let items = keys
            .iter()
            .map(|key| options.items.replace(KEY_PLACEHOLDER, key))
            .collect();
        let websocket_key = websocket::new_client_key(u128::from(options.seed).to_be_bytes());
        let mut upgrade = Vec::new();
        websocket::client_request(
            &mut upgrade,
            &authority,
            PATH_PREFIX,
            &websocket_key,
            WEBSOCKET_SUBPROTOCOL,
        );
        Self {
            server: authority,
            items,
            schema: options.fields.join(" "),
            fields: FieldMap::new(&options.fields),
            kind: options.kind.clone(),
            keys,
            websocket_key,
            upgrade,
        }
    }

    /// What a TLCP session asks for, by key index; empty for the floor.
    pub(super) fn plans(&self) -> Vec<ClientPlan<'_>> {
        let Kind::Tlcp {
            adapter_set,
            data_adapter,
            mode,
        } = &self.kind
        else {
            return Vec::new();
        };
        self.items
            .iter()
            .map(|item| ClientPlan {
                create: CreateParams {
                    adapter_set: Some(adapter_set),
                    ..CreateParams::default()
                },
                adds: vec![AddParams {
                    mode: *mode,
                    data_adapter: data_adapter.as_deref(),
                    ..AddParams::raw(SUB_ID, item, &self.schema)
                }],
                combo: false,
            })
            .collect()
    }
}

/// The one subscription of each session.
pub(super) const SUB_ID: u32 = 1;
