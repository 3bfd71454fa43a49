//! Incremental fetch sessions (KIP-227): the broker stores the partitions of a connection, and a
//! request contains only those that have changed.

use std::collections::BTreeMap;

use super::plan::{PartitionKey, PlannedFetch};

/// Session with one broker, on one connection.
#[derive(Debug, Default)]
pub(crate) struct FetchSession {
    /// 0 until the broker has created a session.
    id: i32,
    /// Number of the next request; 0 requests a new session.
    epoch: i32,
    /// Partitions as the broker knows them.
    known: BTreeMap<PartitionKey, PlannedFetch>,
}

/// Session fields of a request, and its partitions.
#[derive(Debug, Default)]
pub(crate) struct SessionRequest {
    pub(crate) id: i32,
    pub(crate) epoch: i32,
    /// Partitions that are new or have changed.
    pub(crate) changed: Vec<PlannedFetch>,
    /// Partitions that are not fetched any more.
    pub(crate) forgotten: Vec<PlannedFetch>,
}

impl FetchSession {
    /// Returns the next request for the partitions in `plan`, which must be sorted by key. If the
    /// request is not sent, the session must be [reset](Self::reset).
    pub(crate) fn next(&mut self, plan: &[PlannedFetch]) -> SessionRequest {
        let mut request = SessionRequest {
            id: self.id,
            epoch: self.epoch,
            ..SessionRequest::default()
        };
        if self.epoch == 0 {
            self.known = plan.iter().map(|it| (it.key, it.clone())).collect();
            request.changed = plan.to_vec();
            return request;
        }
        let is_planned = |key: &PartitionKey| plan.binary_search_by_key(key, |it| it.key).is_ok();
        self.known.retain(|key, it| {
            let is_planned = is_planned(key);
            if !is_planned {
                request.forgotten.push(it.clone());
            }
            is_planned
        });
        for it in plan {
            let before = self.known.get(&it.key);
            if before.is_some_and(|before| is_equal(before, it)) {
                continue;
            }
            self.replace_id(before.cloned(), it, &mut request);
            self.known.insert(it.key, it.clone());
            request.changed.push(it.clone());
        }
        request
    }

    /// Forgets the partition under its old topic id: for the broker, a recreated topic is another
    /// one.
    fn replace_id(
        &self,
        before: Option<PlannedFetch>,
        now: &PlannedFetch,
        request: &mut SessionRequest,
    ) {
        if let Some(before) = before.filter(|before| before.topic_id != now.topic_id) {
            request.forgotten.push(before);
        }
    }

    /// Returns the partitions of the latest request.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = &PlannedFetch> {
        self.known.values()
    }

    /// Applies the session fields of a response. Returns `false` if the session has ended; then the
    /// response contains nothing, and the next request starts a new one.
    pub(crate) fn on_response(&mut self, error: i16, id: i32) -> bool {
        match error {
            0 if id == 0 => self.reset(),
            0 => {
                self.id = id;
                // 0 and -1 have other meanings.
                self.epoch = self.epoch.checked_add(1).unwrap_or(1);
            }
            _ => {
                self.reset();
                return false;
            }
        }
        true
    }

    /// Starts again without a session, as on a new connection.
    pub(crate) fn reset(&mut self) {
        (self.id, self.epoch) = (0, 0);
    }
}

fn is_equal(one: &PlannedFetch, other: &PlannedFetch) -> bool {
    let fields = |it: &PlannedFetch| (it.generation, it.topic_id, it.offset, it.leader_epoch);
    fields(one) == fields(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn planned(partition: i32, offset: i64) -> PlannedFetch {
        PlannedFetch {
            key: (0, partition),
            generation: 1,
            topic: "t".into(),
            topic_id: 7,
            offset,
            leader_epoch: 3,
        }
    }

    fn rows(rows: &[PlannedFetch]) -> Vec<(i32, i64)> {
        rows.iter().map(|row| (row.key.1, row.offset)).collect()
    }

    #[test]
    fn only_changes_are_sent_after_the_first_request() {
        let mut session = FetchSession::default();
        let first = session.next(&[planned(0, 5), planned(1, 6)]);
        assert_eq!((first.id, first.epoch), (0, 0));
        assert_eq!(rows(&first.changed), [(0, 5), (1, 6)]);
        assert!(session.on_response(0, 99));
        let second = session.next(&[planned(0, 5), planned(1, 8)]);
        assert_eq!((second.id, second.epoch), (99, 1));
        assert_eq!(rows(&second.changed), [(1, 8)]);
        assert!(second.forgotten.is_empty());
        assert!(session.on_response(0, 99));
        let third = session.next(&[planned(1, 8), planned(2, 0)]);
        assert_eq!(
            (rows(&third.changed), rows(&third.forgotten)),
            (vec![(2, 0)], vec![(0, 5)])
        );
        assert_eq!(third.epoch, 2);
    }

    #[test]
    fn lost_session_starts_again_with_all_partitions() {
        let mut session = FetchSession::default();
        session.next(&[planned(0, 5)]);
        assert!(session.on_response(0, 4));
        session.next(&[planned(0, 6)]);
        assert!(!session.on_response(FETCH_SESSION_ID_NOT_FOUND, 0));
        let again = session.next(&[planned(0, 6)]);
        assert_eq!((again.id, again.epoch, again.changed.len()), (0, 0, 1));
        // A broker whose cache is full creates no session.
        assert!(session.on_response(0, 0));
        assert_eq!(session.next(&[planned(0, 7)]).epoch, 0);
    }

    #[test]
    fn new_topic_id_replaces_the_partition() {
        let mut session = FetchSession::default();
        session.next(&[planned(0, 5)]);
        session.on_response(0, 4);
        let new = PlannedFetch {
            topic_id: 8,
            ..planned(0, 0)
        };
        let request = session.next(&[new]);
        assert_eq!(request.forgotten[0].topic_id, 7);
        assert_eq!(request.changed[0].topic_id, 8);
    }

    #[test]
    fn session_epoch_skips_reserved_numbers() {
        let mut session = FetchSession::default();
        session.next(&[]);
        session.on_response(0, 4);
        session.epoch = i32::MAX;
        session.next(&[]);
        session.on_response(0, 4);
        assert_eq!(session.epoch, 1);
    }

    const FETCH_SESSION_ID_NOT_FOUND: i16 = 70;

    proptest! {
        /// A broker that applies the changes always knows the planned partitions.
        #[test]
        fn changes_add_up_to_the_plan(
            plans in prop::collection::vec(
                prop::collection::btree_map(0_i32..6, 0_i64..3, 0..6), 1..20,
            ),
            failures in prop::collection::vec(any::<bool>(), 20),
        ) {
            let mut session = FetchSession::default();
            let mut broker: BTreeMap<i32, i64> = BTreeMap::new();
            for (plan, fails) in plans.iter().zip(failures) {
                let rows: Vec<_> = plan.iter().map(|(it, offset)| planned(*it, *offset)).collect();
                let request = session.next(&rows);
                if request.epoch == 0 {
                    broker.clear();
                }
                for row in &request.forgotten {
                    prop_assert!(broker.remove(&row.key.1).is_some());
                }
                for row in &request.changed {
                    prop_assert!(broker.insert(row.key.1, row.offset) != Some(row.offset));
                }
                prop_assert_eq!(&broker, plan);
                session.on_response(if fails { FETCH_SESSION_ID_NOT_FOUND } else { 0 }, 3);
            }
        }
    }
}
