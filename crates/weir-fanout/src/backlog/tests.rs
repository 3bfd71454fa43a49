//! The backlog against a naive model, and the cost of its operations.

use proptest::prelude::*;
use weir_mapping::FieldValues;

use super::super::delivery_mode::DeliveryMode;
use super::super::queue::QueuedUpdate;
use super::super::work::visits;
use super::*;

const SESSION: SessionKey = SessionKey {
    index: 1,
    serial: 1,
};
/// Bytes that are counted for an update without text.
const UPDATE: usize = 64;

fn lagging(at: ItemAt, delivery: DeliveryMode) -> LaggingItem {
    LaggingItem {
        at,
        seen: None,
        queue: Some(Box::new(UpdateQueue::new(delivery, usize::MAX))),
    }
}

fn values() -> Arc<FrozenValues> {
    Arc::new(FieldValues::default().freeze())
}

/// Returns the entries visited by 100 appends that exceed the limit, with `items` items of
/// `updates` queued updates each.
fn append_cost(items: u32, updates: usize, delivery: DeliveryMode) -> u64 {
    let (values, mut backlog) = (values(), Backlog::new(items as usize * updates * UPDATE));
    let append = |backlog: &mut Backlog, position| {
        backlog.append(SESSION, (1, position), |queue, free_bytes| {
            queue.push(&values, free_bytes)
        })
    };
    for position in 1..=items {
        backlog.push(SESSION, lagging((1, position), delivery), 0);
    }
    for position in (1..=items).cycle().take(items as usize * updates) {
        assert_eq!(append(&mut backlog, position), OverflowCounts::default());
    }
    let before = visits();
    for number in 0..100 {
        assert_ne!(
            append(&mut backlog, items - number % 50),
            OverflowCounts::default()
        );
    }
    visits() - before
}

#[test]
fn append_cost_is_independent_of_queue_length() {
    for delivery in [
        DeliveryMode::Events,
        DeliveryMode::List,
        DeliveryMode::Buffered,
    ] {
        let few = append_cost(50, 40, delivery);
        assert!(few <= 1_000, "{delivery:?}: {few}");
        assert_eq!(
            append_cost(20_000, 2, delivery),
            append_cost(50, 2, delivery)
        );
        // A queue compacts its entries at once; the earlier removals are included.
        let many = append_cost(50, 1_000, delivery);
        assert!(many <= few, "{delivery:?}: {few} {many}");
    }
}

#[test]
fn removal_cost_is_independent_of_item_count() {
    let cost = |items: u32| {
        let mut backlog = Backlog::new(usize::MAX);
        for position in 1..=items {
            backlog.push(SESSION, lagging((1, position), DeliveryMode::Events), 0);
        }
        let before = visits();
        (1..=10).for_each(|position| backlog.remove(SESSION, (1, position)));
        visits() - before
    };
    assert_eq!(cost(100), cost(20_000));
}

#[derive(Debug, Clone)]
enum Op {
    Push(u32, u64),
    Append(u32),
    AdvanceDue(u32, u64),
    Release(u32),
    Remove(u32),
    /// Sends from the first item that is due at a time: all its updates, one update, or none.
    Send(u64, Option<bool>),
}

fn op() -> impl Strategy<Value = Op> {
    let due = || prop_oneof![4 => 0u64..8, 1 => Just(NEVER)];
    prop_oneof![
        3 => (0u32..6, due()).prop_map(|(at, due)| Op::Push(at, due)),
        6 => (0u32..6).prop_map(Op::Append),
        1 => (0u32..6, due()).prop_map(|(at, due)| Op::AdvanceDue(at, due)),
        1 => (0u32..6).prop_map(Op::Release),
        1 => (0u32..6).prop_map(Op::Remove),
        3 => (0u64..9, any::<Option<bool>>()).prop_map(|(now, what)| Op::Send(now, what)),
    ]
}

/// Item of the model.
#[derive(Debug, Clone, PartialEq)]
struct ModelItem {
    at: u32,
    due: u64,
    updates: usize,
}

proptest! {
    /// The backlog behaves like a list that is sorted and summed up each time.
    #[test]
    fn backlog_behaves_like_a_sorted_list(ops in proptest::collection::vec(op(), 1..100)) {
        const QUEUE_BYTES: usize = 10 * UPDATE;
        let (values, mut backlog) = (values(), Backlog::new(QUEUE_BYTES));
        let mut model: Vec<ModelItem> = Vec::new();
        for op in ops {
            match op {
                Op::Push(at, due) => {
                    backlog.push(SESSION, lagging((at, 1), DeliveryMode::Events), due);
                    model.retain(|one| one.at != at);
                    model.push(ModelItem { at, due, updates: 0 });
                }
                Op::Append(at) => {
                    let others = model.iter().filter(|one| one.at != at);
                    let used: usize = others.map(|one| one.updates * UPDATE).sum();
                    let free_bytes = QUEUE_BYTES - used;
                    let mut seen = None;
                    backlog.append(SESSION, (at, 1), |queue, free_bytes| {
                        seen = Some(free_bytes);
                        queue.push(&values, free_bytes)
                    });
                    let known = model.iter_mut().find(|one| one.at == at);
                    prop_assert_eq!(seen, known.as_ref().map(|_| free_bytes));
                    if let Some(one) = known {
                        let fits = (one.updates + 1) * UPDATE <= free_bytes;
                        one.updates += usize::from(fits || one.updates == 0);
                    }
                    // One update is always accepted.
                    let all: usize = model.iter().map(|one| one.updates).sum();
                    prop_assume!(all * UPDATE <= QUEUE_BYTES);
                }
                Op::AdvanceDue(at, due) => {
                    backlog.advance_due(SESSION, (at, 1), due);
                    let is_later = |one: &ModelItem| one.due > due && one.due != NEVER;
                    let found = model.iter().position(|one| one.at == at && is_later(one));
                    if let Some(index) = found {
                        let one = model.remove(index);
                        model.push(ModelItem { due, ..one });
                    }
                }
                Op::Release(at) => {
                    backlog.release(SESSION, (at, 1), |_| {});
                    if let Some(index) = model.iter().position(|one| one.at == at) {
                        let one = model.remove(index);
                        model.push(ModelItem { due: 0, ..one });
                    }
                }
                Op::Remove(at) => {
                    backlog.remove(SESSION, (at, 1));
                    model.retain(|one| one.at != at);
                }
                Op::Send(now, what) => {
                    let first = model.iter().enumerate().min_by_key(|(_, one)| one.due);
                    let first = first.filter(|(_, one)| one.due <= now).map(|(index, _)| index);
                    let Some(mut waiting) = backlog.take(SESSION) else {
                        prop_assert!(model.is_empty());
                        continue;
                    };
                    let mut sent = None;
                    let result = waiting.send_first(now, |lagging| {
                        sent = Some(lagging.at.0);
                        match what {
                            None => Err(()),
                            Some(true) => Ok(None),
                            Some(false) => {
                                let queue = lagging.queue.as_mut().expect("item has a queue");
                                while let Some(index) = queue.next(now) {
                                    let entry = queue.get(index);
                                    let is_loss = matches!(entry, Some(QueuedUpdate::Lost(_)));
                                    queue.mark_removed(index);
                                    if !is_loss {
                                        break;
                                    }
                                }
                                queue.trim();
                                Ok(Some(now + 2))
                            }
                        }
                    });
                    prop_assert_eq!(sent, first.map(|index| model[index].at));
                    prop_assert_eq!(result.is_some(), first.is_some());
                    match (first, what) {
                        (None, _) | (_, None) => {}
                        (Some(index), Some(true)) => drop(model.remove(index)),
                        (Some(index), Some(false)) => {
                            let one = model.remove(index);
                            // A report of lost updates counts no bytes.
                            let updates = one.updates.saturating_sub(1);
                            model.push(ModelItem { due: now + 2, updates, ..one });
                        }
                    }
                    backlog.put_back(SESSION, waiting);
                }
            }
            let next = backlog.sessions.get(&SESSION).map(LaggingItems::next_ms);
            prop_assert_eq!(next, model.iter().map(|one| one.due).min());
            let bytes = backlog.sessions.get(&SESSION).map_or(0, |waiting| waiting.bytes);
            prop_assert_eq!(bytes, model.iter().map(|one| one.updates * UPDATE).sum::<usize>());
        }
    }
}
