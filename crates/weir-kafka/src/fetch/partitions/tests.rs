use super::*;

const BACKOFF: Duration = Duration::from_millis(100);

fn led(partition: i32, leader: i32, epoch: i32) -> PartitionLeader {
    PartitionLeader {
        partition,
        leader,
        epoch,
    }
}

/// Returns a table that reads partition 0 of topic "t" at offset 10 from broker 1.
fn table() -> (PartitionTable, Instant) {
    let mut table = PartitionTable::default();
    table.assign("t", 0, 10);
    assert!(table.update_topic("t", 7, &[led(0, 1, 4), led(1, 2, 4)]));
    (table, Instant::now())
}

fn only_fetch(table: &PartitionTable, node: i32, now: Instant) -> PlannedFetch {
    let mut plan = table.plan(node, now);
    assert_eq!((plan.fetches.len(), plan.checks.len()), (1, 0));
    plan.fetches.remove(0)
}

fn fetched(table: &mut PartitionTable, now: Instant, next: i64, epoch: i32) {
    let sent = only_fetch(table, 1, now);
    assert!(table.advance(&sent, next, epoch));
}

#[test]
fn assigned_partition_is_fetched_from_its_leader() {
    let (mut table, now) = table();
    let sent = only_fetch(&table, 1, now);
    assert_eq!((sent.offset, sent.leader_epoch, sent.topic_id), (10, 4, 7));
    assert_eq!(&*sent.topic, "t");
    assert!(table.plan(2, now).fetches.is_empty());
    assert_eq!(table.nodes(now).into_iter().collect::<Vec<_>>(), [1]);
    assert!(table.advance(&sent, 15, 4));
    assert_eq!(only_fetch(&table, 1, now).offset, 15);
    assert!(!table.advance(&sent, 15, 4), "fetched before");
    table.unassign("t", 0);
    assert!(table.plan(1, now).fetches.is_empty());
    assert!(!table.is_current(sent.key, sent.generation));
}

#[test]
fn results_of_former_assignments_are_dropped() {
    let (mut table, now) = table();
    let sent = only_fetch(&table, 1, now);
    table.assign("t", 0, 10);
    assert!(!table.advance(&sent, 15, 4));
    let problem = table.on_error(&sent, OFFSET_OUT_OF_RANGE, now, BACKOFF);
    assert_eq!(problem, PartitionProblem::Retry);
    assert_eq!(only_fetch(&table, 1, now).offset, 10);
}

#[test]
fn new_leader_confirms_the_position_first() {
    let (mut table, now) = table();
    fetched(&mut table, now, 20, 4);
    assert!(!table.update_topic("t", 7, &[led(0, 1, 3)]), "outdated");
    assert!(table.update_topic("t", 7, &[led(0, 2, 5)]));
    assert!(table.plan(1, now).fetches.is_empty());
    let plan = table.plan(2, now);
    assert!(plan.fetches.is_empty());
    let check = &plan.checks[0];
    assert_eq!((check.leader_epoch, check.epoch), (5, 4));
    let at = (now, BACKOFF);
    let retried = table.on_epoch_end(check, 75, (-1, -1), at);
    assert_eq!(retried, EpochOutcome::Valid);
    assert_eq!(table.plan(2, now).wake_at, Some(now + BACKOFF));
    let later = now + BACKOFF;
    assert_eq!(table.plan(2, later).checks.len(), 1);
    let valid = table.on_epoch_end(check, 0, (4, 20), at);
    assert_eq!(valid, EpochOutcome::Valid);
    assert_eq!(only_fetch(&table, 2, later).offset, 20);
}

#[test]
fn truncated_position_stops_the_partition() {
    for (epoch_end, continues_at) in [((4, 12), 12), ((-1, -1), 0)] {
        let (mut table, now) = table();
        fetched(&mut table, now, 20, 4);
        table.update_topic("t", 7, &[led(0, 2, 5)]);
        let check = table.plan(2, now).checks.remove(0);
        let outcome = table.on_epoch_end(&check, 0, epoch_end, (now, BACKOFF));
        assert_eq!(outcome, EpochOutcome::Truncated(continues_at));
        assert!(table.plan(2, now + BACKOFF).fetches.is_empty());
        table.assign("t", 0, continues_at);
        let check = table.plan(2, now).checks.remove(0);
        let outcome = table.on_epoch_end(&check, 0, epoch_end, (now, BACKOFF));
        assert_eq!(outcome, EpochOutcome::Valid);
        assert_eq!(only_fetch(&table, 2, now).offset, continues_at);
    }
}

#[test]
fn unread_position_is_checked_too() {
    let (mut table, now) = table();
    table.update_topic("t", 7, &[led(0, 2, 5)]);
    let check = table.plan(2, now).checks.remove(0);
    assert_eq!(check.epoch, 4, "the leader when it was assigned");
    let outcome = table.on_epoch_end(&check, 0, (3, 8), (now, BACKOFF));
    assert_eq!(outcome, EpochOutcome::Truncated(8));
}

#[test]
fn truncation_while_paused_is_detected() {
    let (mut table, now) = table();
    fetched(&mut table, now, 20, 4);
    table.unassign("t", 0);
    table.update_topic("t", 7, &[led(0, 2, 5)]);
    table.assign("t", 0, 15);
    let check = table.plan(2, now).checks.remove(0);
    assert_eq!(check.epoch, 4);
    let outcome = table.on_epoch_end(&check, 0, (4, 12), (now, BACKOFF));
    assert_eq!(outcome, EpochOutcome::Truncated(12));
    table.assign("t", 0, 30);
    assert_eq!(only_fetch(&table, 2, now).offset, 30, "moved by the caller");
}

#[test]
fn response_of_a_former_leader_confirms_nothing() {
    let (mut table, now) = table();
    fetched(&mut table, now, 20, 4);
    table.update_topic("t", 7, &[led(0, 2, 5)]);
    let check = table.plan(2, now).checks.remove(0);
    table.update_topic("t", 7, &[led(0, 1, 6)]);
    let outcome = table.on_epoch_end(&check, 0, (4, 20), (now, BACKOFF));
    assert_eq!(outcome, EpochOutcome::Valid);
    assert_eq!(table.plan(1, now).checks[0].leader_epoch, 6);
}

#[test]
fn errors_delay_the_next_fetch() {
    use PartitionProblem::{Failure, Refresh, Retry};
    for (code, expected, wait) in [
        (6, Refresh, BACKOFF),
        (74, Refresh, BACKOFF),
        (100, Refresh, BACKOFF),
        (OFFSET_NOT_AVAILABLE, Retry, BACKOFF),
        (29, Failure, FAILURE_BACKOFF),
        (-1, Failure, FAILURE_BACKOFF),
    ] {
        let (mut table, now) = table();
        let sent = only_fetch(&table, 1, now);
        assert_eq!(table.on_error(&sent, code, now, BACKOFF), expected);
        assert_eq!(table.plan(1, now).wake_at, Some(now + wait), "{code}");
        assert_eq!(only_fetch(&table, 1, now + wait).offset, 10);
    }
}

#[test]
fn position_out_of_range_waits_for_the_caller() {
    let (mut table, now) = table();
    let sent = only_fetch(&table, 1, now);
    let problem = table.on_error(&sent, OFFSET_OUT_OF_RANGE, now, BACKOFF);
    assert_eq!(problem, PartitionProblem::OutOfRange);
    assert!(table.plan(1, now + FAILURE_BACKOFF).fetches.is_empty());
}

#[test]
fn follower_is_read_until_error_or_timeout() {
    let (mut table, now) = table();
    let sent = only_fetch(&table, 1, now);
    let until = now + FOLLOWER_TIME;
    table.prefer(sent.key, sent.generation, (3, now));
    assert_eq!(table.on_followers(now), 1);
    assert_eq!(only_fetch(&table, 3, now).offset, 10);
    assert!(table.plan(1, now).fetches.is_empty());
    assert_eq!(only_fetch(&table, 1, until).offset, 10, "asked again");
    let problem = table.on_error(&sent, OFFSET_OUT_OF_RANGE, now, BACKOFF);
    assert_eq!(problem, PartitionProblem::Retry, "the leader may have it");
    assert_eq!(only_fetch(&table, 1, now + BACKOFF).offset, 10);
}

#[test]
fn failed_follower_is_not_asked_for_again_at_once() {
    let (mut table, now) = table();
    let sent = only_fetch(&table, 1, now);
    table.prefer(sent.key, sent.generation, (3, now));
    table.leave_follower(2, now);
    assert_eq!(only_fetch(&table, 3, now).offset, 10, "another broker");
    table.leave_follower(3, now);
    assert_eq!(table.on_followers(now), 0);
    let plan = table.plan(1, now);
    assert!(plan.avoids_followers && plan.fetches.len() == 1);
    assert!(!table.plan(1, now + LEADER_TIME).avoids_followers);
}

#[test]
fn replaced_topic_is_not_read_on() {
    let (mut table, now) = table();
    assert!(table.update_topic("t", 8, &[led(0, 1, 0)]), "not read yet");
    fetched(&mut table, now, 20, 0);
    assert!(!table.update_topic("t", 9, &[led(0, 1, 0)]));
    assert!(table.plan(1, now).fetches.is_empty());
    assert_eq!(table.replaced().collect::<Vec<_>>(), ["t"]);
}

#[test]
fn ends_are_known_while_there_is_a_leader() {
    let (mut table, now) = table();
    let sent = only_fetch(&table, 1, now);
    let ends = |table: &PartitionTable| -> Vec<_> {
        let ends = table.ends();
        ends.map(|(topic, partition, end)| (topic.to_owned(), partition, end))
            .collect()
    };
    table.note_end(sent.key, sent.generation, 40);
    table.note_end(sent.key, sent.generation + 1, 50);
    assert_eq!(ends(&table), [("t".to_owned(), 0, Some(40))]);
    table.assign("t", 0, 30);
    assert_eq!(ends(&table), [("t".to_owned(), 0, Some(40))], "kept");
    table.update_topic("t", 7, &[led(0, -1, 5)]);
    assert_eq!(ends(&table), [("t".to_owned(), 0, None)]);
    assert_eq!(table.leader("t", 0), None);
    assert_eq!(table.leader("t", 1), Some(led(1, 2, 4)));
    assert!(table.nodes(now).is_empty());
}

#[test]
fn undecodable_records_are_fetched_again() {
    let (mut table, now) = table();
    let sent = only_fetch(&table, 1, now);
    fetched(&mut table, now, 20, 4);
    table.fetch_again(sent.key, sent.generation, (12, now));
    assert!(!table.is_current(sent.key, sent.generation));
    assert_eq!(only_fetch(&table, 1, now + FAILURE_BACKOFF).offset, 12);
}
