//! Session administration lists sessions in slices that delay deliveries by less than 1 ms.

use std::time::{Duration, Instant};

use crossbeam_channel::bounded;

use super::*;
use crate::shard::visit::{
    SLICE_DETAILS, SLICE_SESSIONS, SessionAction, SessionFilter, SessionVisit,
};

const SESSIONS: usize = 10_000;
/// Polls that end at once, so that one connection can open all sessions.
const ENDED: &str = "&LS_polling=true&LS_polling_millis=9000&LS_idle_millis=0";
/// Maximum delay of deliveries by one slice.
const DELAY_MAX: Duration = Duration::from_millis(1);
/// Repetitions, of which the fastest of each slice counts: the machine may interrupt the others.
const REPETITIONS: usize = 8;

/// Lists all sessions that a filter admits. Returns their number and the time of each slice.
fn list(
    env: &mut TestEnv,
    filter: &Arc<SessionFilter>,
    (action, most): (&SessionAction, usize),
) -> (usize, Vec<Duration>) {
    let (mut found, mut times, mut from) = (0, Vec::new(), 0);
    loop {
        let (reply, replies) = bounded(1);
        let visit = SessionVisit {
            filter: Arc::clone(filter),
            action: action.clone(),
            from,
            most,
            reply,
        };
        let begin = Instant::now();
        env.shard.clients.visit_sessions(&mut env.wire, &visit);
        times.push(begin.elapsed());
        let slice = replies.try_recv().expect("a reply in the same iteration");
        assert!(slice.rows.len() <= most);
        found += slice.rows.len();
        match slice.next {
            Some(next) => from = next,
            None => return (found, times),
        }
    }
}

/// Returns the number of sessions and the time of the longest slice.
///
/// Of each slice, the fastest of its repetitions counts.
fn longest_slice(
    env: &mut TestEnv,
    filter: SessionFilter,
    how: (&SessionAction, usize),
) -> (usize, Duration) {
    let filter = Arc::new(filter);
    let mut fastest: Vec<Duration> = Vec::new();
    let mut found = 0;
    for _ in 0..REPETITIONS {
        let (sessions, times) = list(env, &filter, how);
        found = sessions;
        fastest.resize(times.len(), Duration::MAX);
        for (fastest, time) in fastest.iter_mut().zip(times) {
            *fastest = time.min(*fastest);
        }
    }
    (found, fastest.into_iter().max().expect("a slice"))
}

#[test]
fn listing_many_items_delays_deliveries_by_less_than_a_millisecond() {
    let mut env = TestEnv::new(GatewayLimits::default());
    for _ in 0..40 {
        let id = env.create(1, ENDED);
        for sub_id in 0..20 {
            let items: Vec<_> = (0..10)
                .map(|item| format!("item-[key={sub_id}-{item}]"))
                .collect();
            let body = format!(
                "LS_session={id}&LS_reqId=1&LS_op=add&LS_subId={}&LS_mode=MERGE&LS_group={}\
                 &LS_schema=a&LS_data_adapter=Data",
                sub_id + 1,
                items.join(" ")
            );
            assert_eq!(env.http(2, "control", &body), ["REQOK,1"]);
        }
    }
    let all = SessionFilter::default();
    let how = (&SessionAction::Show, SLICE_DETAILS);
    let (found, longest) = longest_slice(&mut env, all, how);
    assert_eq!(found, 40);
    assert!(longest < DELAY_MAX, "{longest:?}");
}

#[test]
fn listing_ten_thousand_sessions_barely_delays_deliveries() {
    let mut env = TestEnv::new(GatewayLimits::default());
    for number in 0..SESSIONS {
        let id = env.create(1, ENDED);
        let body = format!(
            "LS_session={id}&LS_reqId=1&LS_op=add&LS_subId=1&LS_mode=MERGE\
             &LS_group=item-[key=common] item-[key={number}]&LS_schema=a&LS_data_adapter=Data"
        );
        assert_eq!(env.http(2, "control", &body), ["REQOK,1"]);
    }
    assert_eq!(env.sessions(), SESSIONS);
    let item = |name: &str| SessionFilter {
        item: Some(name.into()),
        ..SessionFilter::default()
    };
    let user = SessionFilter {
        user: Some("zoe".to_owned()),
        ..SessionFilter::default()
    };
    for (filter, expected, what) in [
        (SessionFilter::default(), SESSIONS, "all"),
        (
            item("item-[key=common]"),
            SESSIONS,
            "of an item that all have",
        ),
        (item("item-[key=7]"), 1, "of an item that one has"),
        (user, 0, "of a user"),
    ] {
        let (found, longest) =
            longest_slice(&mut env, filter, (&SessionAction::List, SLICE_SESSIONS));
        assert_eq!(found, expected, "sessions {what}");
        assert!(longest < DELAY_MAX, "sessions {what}: {longest:?}");
    }
}
