//! Session administration lists sessions in slices that delay deliveries by less than 1 ms.

use std::time::{Duration, Instant};

use crossbeam_channel::bounded;

use super::*;
use crate::shard::visit::{SLICE_SESSIONS, SessionAction, SessionFilter, SessionVisit};

const SESSIONS: usize = 10_000;
/// Maximum delay of deliveries by one slice.
const DELAY_MAX: Duration = Duration::from_millis(1);
/// Repetitions, of which the fastest of each slice counts: the machine may interrupt the others.
const REPETITIONS: usize = 8;

/// Lists all sessions that a filter admits. Returns their number and the time of each slice.
fn list(env: &mut TestEnv, filter: &Arc<SessionFilter>) -> (usize, Vec<Duration>) {
    let (mut found, mut times, mut from) = (0, Vec::new(), 0);
    loop {
        let (reply, replies) = bounded(1);
        let visit = SessionVisit {
            filter: Arc::clone(filter),
            action: SessionAction::List,
            from,
            most: SLICE_SESSIONS,
            reply,
        };
        let begin = Instant::now();
        env.shard.clients.visit_sessions(&mut env.wire, &visit);
        times.push(begin.elapsed());
        let slice = replies.try_recv().expect("a reply in the same iteration");
        assert!(slice.rows.len() <= SLICE_SESSIONS);
        found += slice.rows.len();
        match slice.next {
            Some(next) => from = next,
            None => return (found, times),
        }
    }
}

#[test]
fn listing_ten_thousand_sessions_delays_deliveries_by_less_than_a_millisecond() {
    let mut env = TestEnv::new(GatewayLimits::default());
    // Polls that end at once, so that one connection can open all sessions.
    let ended = "&LS_polling=true&LS_polling_millis=9000&LS_idle_millis=0";
    for number in 0..SESSIONS {
        let id = env.create(1, ended);
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
        let filter = Arc::new(filter);
        let mut fastest: Vec<Duration> = Vec::new();
        for _ in 0..REPETITIONS {
            let (found, times) = list(&mut env, &filter);
            assert_eq!(found, expected, "sessions {what}");
            fastest.resize(times.len(), Duration::MAX);
            for (fastest, time) in fastest.iter_mut().zip(times) {
                *fastest = time.min(*fastest);
            }
        }
        let longest = fastest.into_iter().max().expect("a slice");
        assert!(longest < DELAY_MAX, "sessions {what}: {longest:?}");
    }
}
