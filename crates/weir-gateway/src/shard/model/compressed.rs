//! Frames that go out compressed, or not, and again the other way.

use super::ops::Op;
use super::want::{KINDS, SubscriptionSpec};
use super::{CLIENTS, SCHEMAS, TestEnv, WORKERS};

/// What connections have lost comes again over the next ones, in the other form.
#[test]
fn what_was_lost_comes_again_compressed_or_not() {
    let mut world = TestEnv::new(false);
    for client in 0..CLIENTS {
        let want = SubscriptionSpec {
            item: 0,
            fields: SCHEMAS[0],
            kind: KINDS[0],
            snapshot: false,
        };
        world.subscribe(client, 1, want);
        world.run(Op::Flush);
        world.run(Op::Room { client, bytes: 0 });
    }
    let compressed = |world: &TestEnv| {
        let counters = world.shard.courier.compressor.counters;
        (counters.messages, counters.sent)
    };
    let (messages, sent) = compressed(&world);
    for value in ["a", "b"] {
        let row = [Some(value.repeat(100)), None, None, None, None];
        world.run(Op::Produce { item: 0, row });
        (0..WORKERS).for_each(|worker| world.run(Op::Deliver { worker, count: 1 }));
    }
    // Client 1 takes them.
    assert_eq!(compressed(&world), (messages + 2, sent + 2));
    (0..CLIENTS).for_each(|client| world.run(Op::Cut { client }));
    world.run(Op::Return);
    // The next connections of clients 0 and 2 do, for which each is compressed anew.
    assert_eq!(compressed(&world), (messages + 6, sent + 6));
    world.finish();
}
