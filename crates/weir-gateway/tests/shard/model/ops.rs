//! Operations of the model and their frequencies.

use proptest::prelude::*;

use super::differences;
use super::values::{CLIENTS, ITEMS, ModelRow, SCHEMAS, WORKERS};
use super::want::KINDS;

#[derive(Debug, Clone)]
pub(super) enum Op {
    Subscribe {
        client: usize,
        sub_id: u32,
        item: usize,
        schema: usize,
        kind: usize,
        snapshot: bool,
    },
    /// Changes the frequency limit; 0 is none.
    Reconfigure {
        client: usize,
        sub_id: u32,
        frequency: u32,
    },
    /// Changes the bandwidth limit; 0 is none.
    Constrain {
        client: usize,
        kbps: u32,
    },
    Unsubscribe {
        client: usize,
        sub_id: u32,
    },
    Produce {
        item: usize,
        row: ModelRow,
    },
    /// The shard handles `count` events of a worker.
    Deliver {
        worker: usize,
        count: usize,
    },
    /// The client's side accepts `bytes` more.
    Room {
        client: usize,
        bytes: usize,
    },
    /// The connection is lost, with all unread data.
    Cut {
        client: usize,
    },
    /// Clients without a connection reconnect.
    Return,
    /// End of an iteration.
    Flush,
    /// Time passes.
    Pass {
        millis: u64,
    },
}

fn value() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(String::new())),
        4 => (0u8..4, 0usize..90).prop_map(|(n, len)| Some(format!("{n}{}", "|".repeat(len)))),
        5 => differences::similar_value().prop_map(Some),
    ]
}

fn row() -> impl Strategy<Value = ModelRow> {
    let key = prop_oneof![
        9 => (0u8..3).prop_map(|key| Some(format!("k{key}"))),
        1 => Just(None),
    ];
    let command = prop_oneof![
        2 => Just(Some("ADD")),
        4 => Just(Some("UPDATE")),
        2 => Just(Some("DELETE")),
        1 => Just(Some("OTHER")),
        1 => Just(None),
    ];
    let command = command.prop_map(|word| word.map(str::to_owned));
    (value(), value(), value(), key, command)
        .prop_map(|(a, b, c, key, command)| [a, b, c, key, command])
}

/// Returns a strategy for one operation.
pub(super) fn op() -> impl Strategy<Value = Op> {
    let client = 0..CLIENTS;
    prop_oneof![
        5 => (client.clone(), 1u32..3, 0..ITEMS, 0..SCHEMAS.len(), 0..KINDS.len(), any::<bool>())
            .prop_map(|(client, sub_id, item, schema, kind, snapshot)| Op::Subscribe {
                client, sub_id, item, schema, kind, snapshot,
            }),
        1 => (client.clone(), 1u32..3)
            .prop_map(|(client, sub_id)| Op::Unsubscribe { client, sub_id }),
        1 => (client.clone(), 1u32..3, 0u32..8).prop_map(|(client, sub_id, frequency)| {
            Op::Reconfigure { client, sub_id, frequency }
        }),
        1 => (client.clone(), prop_oneof![Just(0), 1u32..20])
            .prop_map(|(client, kbps)| Op::Constrain { client, kbps }),
        9 => (0..ITEMS, row()).prop_map(|(item, row)| Op::Produce { item, row }),
        7 => (0..WORKERS, 1usize..4).prop_map(|(worker, count)| Op::Deliver { worker, count }),
        4 => (client, prop_oneof![Just(0), 0usize..500, Just(usize::MAX)])
            .prop_map(|(client, bytes)| Op::Room { client, bytes }),
        2 => Just(Op::Flush),
        1 => (0..CLIENTS).prop_map(|client| Op::Cut { client }),
        1 => Just(Op::Return),
        3 => prop_oneof![1u64..40, 50u64..400].prop_map(|millis| Op::Pass { millis }),
    ]
}
