//! Frames that go out compressed, or not, and again the other way.

use super::ops::Op;
use super::want::{KINDS, SubscriptionSpec};
use super::{CLIENTS, SCHEMAS, TestEnv, WORKERS};

/// What connections have lost comes again over the next ones, in the other form.
#[test]
fn what_was_lost_comes_again_compressed_or_not() {
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
        let counters = env.shard.writer.compressor.counters;
        (counters.messages, counters.sent)
    };
    let (messages, sent) = compressed(&env);
    for value in ["a", "b"] {
        let row = [Some(value.repeat(100)), None, None, None, None];
        env.run(Op::Produce { item: 0, row });
        (0..WORKERS).for_each(|worker| env.run(Op::Deliver { worker, count: 1 }));
    }
    // Client 1 takes them.
    assert_eq!(compressed(&env), (messages + 2, sent + 2));
    (0..CLIENTS).for_each(|client| env.run(Op::Cut { client }));
    env.run(Op::Return);
    // The next connections of clients 0 and 2 do, for which each is compressed anew.
    assert_eq!(compressed(&env), (messages + 6, sent + 6));
    env.finish();
}
