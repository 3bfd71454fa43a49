//! Recovery between compressed and uncompressed connections.

use super::ops::Op;
use super::want::{KINDS, SubscriptionSpec};
use super::{CLIENTS, SCHEMAS, TestEnv, WORKERS};

/// Lost frames are sent again over the next connections, in the other form.
#[test]
fn lost_frames_are_sent_again_in_any_form() {
    let mut env = TestEnv::new(false);
    for client in 0..CLIENTS {
        let want = SubscriptionSpec {
            item: 0,
            fields: SCHEMAS[0],
            kind: KINDS[0],
            snapshot: false,
        };
        env.subscribe(client, 1, want);
        env.run(Op::Flush);
        env.run(Op::Room { client, bytes: 0 });
    }
    let compressed = |env: &TestEnv| {
        let counters = env.shard.clients.writer.compressor.counters;
        (counters.messages, counters.sent)
    };
    let (messages, sent) = compressed(&env);
    for value in ["a", "b"] {
        let row = [Some(value.repeat(100)), None, None, None, None];
        env.run(Op::Produce { item: 0, row });
        (0..WORKERS).for_each(|worker| env.run(Op::Deliver { worker, count: 1 }));
    }
    // Client 1 accepts compressed messages.
    assert_eq!(compressed(&env), (messages + 2, sent + 2));
    (0..CLIENTS).for_each(|client| env.run(Op::Cut { client }));
    env.run(Op::Return);
    // So do the next connections of clients 0 and 2, for which each message is compressed again.
    assert_eq!(compressed(&env), (messages + 6, sent + 6));
    env.finish();
}
