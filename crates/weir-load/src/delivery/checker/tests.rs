use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::keys::KeyTable;
use crate::worker::protocol::LedgerEntry;

const WINDOW: std::ops::Range<u64> = 10..40;

fn stamp(producer: u32, seq: u64) -> Stamp {
    Stamp {
        due_unix_ns: seq,
        producer,
        seq,
        sent_unix_ns: None,
    }
}

fn entry(key: &str, producer: u32, first_seq: u64, last_seq: u64) -> LedgerEntry {
    LedgerEntry {
        key: key.to_owned(),
        producer,
        first_seq,
        last_seq,
        missing: Vec::new(),
        last_due_unix_ns: last_seq,
    }
}

fn one_key() -> (KeyTable, KeyId) {
    let mut keys = KeyTable::default();
    let apple = keys.id(b"Apple").expect("table is empty");
    (keys, apple)
}

fn feed(checker: &mut DeliveryChecker, key: KeyId, seqs: &[u64]) -> Vec<DeliveryCheck> {
    let seqs = seqs.iter();
    seqs.map(|&seq| checker.on_delivery(key, &stamp(0, seq), WINDOW.contains(&seq)))
        .collect()
}

#[test]
fn late_record_is_reordered_not_lost() {
    use DeliveryCheck::{AfterGap, Duplicate, InOrder, Reordered};
    let (mut keys, apple) = one_key();
    let mut checker = DeliveryChecker::default();
    let verdicts = feed(&mut checker, apple, &[20, 21, 25, 23, 23, 25, 19, 26]);
    let expected = [
        InOrder,
        InOrder,
        AfterGap(3),
        Reordered,
        Duplicate,
        Duplicate,
        Reordered,
        InOrder,
    ];
    assert_eq!(verdicts, expected);
    let ledger = Ledger::new(&[entry("Apple", 0, 18, 28)], &mut keys);
    let counts = checker.settle(&ledger, Expected::All);
    // 18, 22, 24, 27, 28
    assert_eq!(
        (counts.lost, counts.duplicated, counts.reordered),
        (5, 2, 2)
    );
    assert_eq!(checker.settle_without_ledger().lost, 2);
}

#[test]
fn missing_key_loses_only_its_records() {
    let (mut keys, apple) = one_key();
    let entries = [
        entry("Apple", 0, 10, 19),
        entry("Fig", 0, 10, 39),
        entry("Apple", 1, 5, 5),
    ];
    let ledger = Ledger::new(&entries, &mut keys);
    let checker = DeliveryChecker::default();
    assert_eq!(checker.settle(&ledger, Expected::Key(apple)).lost, 11);
    assert_eq!(checker.settle(&ledger, Expected::All).lost, 41);
    assert_eq!(ledger.records(Expected::Key(apple)), 11);
}

#[test]
fn unacknowledged_records_are_not_lost() {
    let (mut keys, apple) = one_key();
    let mut checker = DeliveryChecker::default();
    feed(&mut checker, apple, &[9, 10, 13]);
    let mut entry = entry("Apple", 0, 10, 15);
    entry.missing = vec![11, 15, 99];
    let ledger = Ledger::new(&[entry], &mut keys);
    // 12 and 14; not 11 and 15
    assert_eq!(checker.settle(&ledger, Expected::All).lost, 2);
}

#[test]
fn conflation_requires_a_later_record_of_key() {
    let (mut keys, apple) = one_key();
    let ledger = Ledger::new(&[entry("Apple", 0, 10, 20)], &mut keys);
    let settle = |seqs: &[u64], other_producer: Option<u64>| {
        let mut checker = DeliveryChecker::new(Conflation::Allowed);
        feed(&mut checker, apple, seqs);
        if let Some(due) = other_producer {
            checker.on_delivery(apple, &stamp(7, due), true);
        }
        let counts = checker.settle(&ledger, Expected::Key(apple));
        (counts.conflated, counts.lost)
    };
    assert_eq!(settle(&[10, 15, 20], None), (8, 0));
    assert_eq!(settle(&[10, 15], None), (8, 1));
    assert_eq!(settle(&[10, 15], Some(30)), (9, 0));
    assert_eq!(settle(&[], None), (10, 1));
}

#[test]
fn gaps_over_limit_stay_lost() {
    let (mut keys, apple) = one_key();
    let mut checker = DeliveryChecker::default();
    let last = 2 * (GAPS_PER_STREAM_MAX as u64 + 10);
    for seq in (0..=last).step_by(2) {
        checker.on_delivery(apple, &stamp(0, seq), true);
    }
    let verdict = checker.on_delivery(apple, &stamp(0, 1), true);
    assert_eq!(verdict, DeliveryCheck::Unknown);
    let ledger = Ledger::new(&[entry("Apple", 0, 0, last)], &mut keys);
    let counts = checker.settle(&ledger, Expected::All);
    assert_eq!((counts.lost, counts.unchecked), (last / 2, 1));
    let memory = checker.streams[0].gaps.as_ref().map(|gaps| gaps.open.len());
    assert_eq!(memory, Some(GAPS_PER_STREAM_MAX));
}

#[test]
fn checker_without_gaps_is_small() {
    assert!(
        size_of::<SequenceState>() <= 40,
        "{}",
        size_of::<SequenceState>()
    );
    assert!(
        size_of::<DeliveryChecker>() <= 112,
        "{}",
        size_of::<DeliveryChecker>()
    );
}

#[test]
fn extreme_numbers_do_not_overflow() {
    let (mut keys, apple) = one_key();
    let mut checker = DeliveryChecker::default();
    feed(
        &mut checker,
        apple,
        &[u64::MAX, 0, 5, u64::MAX - 1, u64::MAX],
    );
    let ledger = Ledger::new(&[entry("Apple", 0, 0, u64::MAX)], &mut keys);
    assert_eq!(checker.settle(&ledger, Expected::All).lost, u64::MAX - 3);
}

/// One delivery: key, producer, sequence number.
type RecordArrival = (usize, u32, u64);

/// Computes lost, duplicated and reordered deliveries by the plain definitions.
fn naive(arrivals: &[RecordArrival], entries: &[LedgerEntry], keys: &[&str]) -> (u64, u64, u64) {
    let mut seen: BTreeMap<(usize, u32), BTreeSet<u64>> = BTreeMap::new();
    let (mut duplicated, mut reordered) = (0, 0);
    for &(key, producer, seq) in arrivals {
        let seen = seen.entry((key, producer)).or_default();
        let late = seen.last().is_some_and(|&highest| seq < highest);
        let fresh = seen.insert(seq);
        if WINDOW.contains(&seq) {
            duplicated += u64::from(!fresh);
            reordered += u64::from(fresh && late);
        }
    }
    let lost = entries.iter().map(|entry| {
        let key = keys
            .iter()
            .position(|key| *key == entry.key)
            .expect("a key of the test");
        let seen = seen.get(&(key, entry.producer));
        let due = (entry.first_seq..=entry.last_seq).filter(|seq| !entry.missing.contains(seq));
        due.filter(|seq| !seen.is_some_and(|seen| seen.contains(seq)))
            .count() as u64
    });
    (lost.sum(), duplicated, reordered)
}

#[derive(Debug, Clone, Copy)]
enum RecordDelivery {
    Delivered,
    Dropped,
    Twice,
    /// Swapped with the arrival this number of places later.
    Delayed(usize),
}

fn delivery() -> impl Strategy<Value = RecordDelivery> {
    prop_oneof![
        6 => Just(RecordDelivery::Delivered),
        2 => Just(RecordDelivery::Dropped),
        1 => Just(RecordDelivery::Twice),
        2 => (1..12_usize).prop_map(RecordDelivery::Delayed),
    ]
}

proptest! {
    #[test]
    fn checker_agrees_with_plain_definitions(
        deliveries in proptest::collection::vec((0..2_usize, 0..3_u32, delivery()), 0..400),
        missing in proptest::collection::vec(WINDOW, 0..5),
    ) {
        let names = ["Apple", "Fig"];
        let mut next = BTreeMap::new();
        let mut arrivals: Vec<RecordArrival> = Vec::new();
        let mut swaps = Vec::new();
        for (key, producer, delivery) in deliveries {
            let next = next.entry((key, producer)).or_insert(0_u64);
            let arrival = (key, producer, *next);
            *next += 1;
            match delivery {
                RecordDelivery::Delivered => arrivals.push(arrival),
                RecordDelivery::Dropped => {}
                RecordDelivery::Twice => arrivals.extend([arrival; 2]),
                RecordDelivery::Delayed(by) => {
                    swaps.push((arrivals.len(), by));
                    arrivals.push(arrival);
                }
            }
        }
        for (at, by) in swaps {
            let to = (at + by).min(arrivals.len() - 1);
            arrivals.swap(at, to);
        }
        let entries: Vec<_> = next
            .into_iter()
            .filter(|&(_, next)| next > WINDOW.start)
            .map(|((key, producer), next)| LedgerEntry {
                missing: missing.clone(),
                ..entry(names[key], producer, WINDOW.start, (next - 1).min(WINDOW.end - 1))
            })
            .collect();

        let mut keys = KeyTable::default();
        let ids = names.map(|name| keys.id(name.as_bytes()).expect("table is not full"));
        let ledger = Ledger::new(&entries, &mut keys);
        let mut checker = DeliveryChecker::default();
        for &(key, producer, seq) in &arrivals {
            checker.on_delivery(ids[key], &stamp(producer, seq), WINDOW.contains(&seq));
        }
        let counts = checker.settle(&ledger, Expected::All);
        let expected = naive(&arrivals, &entries, &names);
        prop_assert_eq!((counts.lost, counts.duplicated, counts.reordered), expected);
        prop_assert_eq!(counts.updates_total, arrivals.len() as u64);
    }
}
