mod support;

use weir_identity::ari::{AdapterNotification, AdapterReply, AriVersion};
use weir_identity::{ItemMode, ItemModes};

use self::support::{
    Pair, TIMEOUT_MS, items, new_session, new_tables, options, session_close, tables_close, user,
};
use super::*;
use crate::config::CloseRecovery;
use crate::credentials::AdapterUser;
use crate::metrics::RequestOutcome;

fn adapter_user() -> Vec<AdapterUser> {
    vec![AdapterUser {
        name: "gw user".to_owned(),
        password: "p+w|1".to_owned(),
    }]
}

const CREDENTIALS: &str = "1|RAC|S|password|S|p%2Bw%7C1|S|SDK|S|Java+Remote+Adapter+SDK|S|\
    enableClosePacket|S|true|S|user|S|gw+user";

/// Requests and replies of chapter 2.6 of the protocol notes, with published SDKs: version, line
/// to the adapter, line of the adapter.
const VECTORS: &[(AriVersion, &str, &str)] = &[
    (
        A,
        "w2|NUS|S|anna|S|pw%7C1|S|REQUEST_ID|S|r1",
        "w2|NUS|D|128.5|B|1",
    ),
    (
        B,
        "w2|NUS|S|anna|S|pw%7C1|S|REQUEST_ID|S|r1",
        "w2|NUS|D|128.5|B|1",
    ),
    (A, "w3|NUS|S|#|S|$|S|REQUEST_ID|S|r2", "w3|NUS|D|128.5|B|1"),
    (A, "w4|NUS|S|bad|S|x", "w4|NUS|EA|no+such+user"),
    (B, "w4|NUS|S|bad|S|x", "w4|NUS|EA|no such user"),
    (B, "w5|NUS|S|busy|S|x", "w5|NUS|ER|directory is away"),
    (
        A,
        "w6|NUS|S|blocked|S|x",
        "w6|NUS|EC|quota|-7|Daily+limit%2C+come+back",
    ),
    (
        B,
        "w6|NUS|S|blocked|S|x",
        "w6|NUS|EC|quota|-7|Daily limit, come back",
    ),
    (A, "w7|NUS|S|boom|S|x", "w7|NUS|E|boom+%7C+now"),
    (B, "w7|NUS|S|boom|S|x", "w7|NUS|E|boom %7C now"),
    (
        A,
        "wi|NUA|S|#|S|#|S|CN%3Dedge+1|S|REQUEST_ID|S|r9",
        "wi|NUA|D|128.5|B|1",
    ),
    (
        A,
        "w8|NNS|S|anna|S|Sab1|S|REMOTE_IP|S|10.0.0.7|S|CLIENT_TYPE|S|#",
        "w8|NNS|V",
    ),
    (
        B,
        "w8|NNS|S|anna|S|Sab1|S|REMOTE_IP|S|10.0.0.7|S|CLIENT_TYPE|S|#",
        "w8|NNS|I|3600",
    ),
    (
        A,
        "w9|NNS|S|two|S|Sab2",
        "w9|NNS|EX|one+session+only|-9|Logged+in+elsewhere|Sold1",
    ),
    (
        A,
        "wa|GIS|S|anna|S|mine+quote-[s=A]|S|Sab1",
        "wa|GIS|S|orders-%5Baccount%3Danna%5D|S|quote-%5Bs%3DA%5D",
    ),
    (
        B,
        "wa|GIS|S|anna|S|mine quote-[s=A]|S|Sab1",
        "wa|GIS|S|mine|S|quote-[s=A]",
    ),
    (A, "wb|GIS|S|anna|S|x|S|Sab1", "wb|GIS|EI|unknown+list"),
    (A, "wc|GIS|S|anna|S|none|S|Sab1", "wc|GIS"),
    (
        A,
        "wd|GSC|S|anna|S|mine|S|bid+ask|S|Sab1",
        "wd|GSC|S|bid|S|ask",
    ),
    (
        A,
        "we|GSC|S|anna|S|mine|S|z|S|Sab1",
        "we|GSC|ES|unknown+field",
    ),
    (A, "wf|GIT|S|a|S|b", "wf|GIT|I|20|D|0|M|RM|I|20|D|0|M|RM"),
    (
        B,
        "wf|GIT|S|a|S|b",
        "wf|GIT|I|0|D|0.0|M|RMDC|I|0|D|0.0|M|RMDC",
    ),
    (A, "wg|GUI|S|anna|S|a", "wg|GUI|I|0|D|2.5|M|MD"),
    (
        A,
        "wh|NNT|S|anna|S|Sab1|I|3|M|M|S|mine|S|bid+ask|I|1|I|1|S|#",
        "wh|NNT|V",
    ),
    (B, TABLE, "wh|NNT|B|1|B|1"),
    (B, TABLE, "wh|NNT|EC|too many|-5|#"),
    (
        A,
        "wk|NTC|S|Sab1|I|3|M|M|S|mine|S|bid+ask|I|1|I|1|S|#",
        "wk|NTC|V",
    ),
    (A, "wl|NUM|S|anna|S|Sab1|S|buy", "wl|NUM|V"),
    (B, "wl|NUM|S|anna|S|Sab1|S|buy", "wl|NUM|V"),
    (A, "wm|NUM|S|anna|S|Sab1|S|no", "wm|NUM|EC|refused|-3|#"),
    (B, "wm|NUM|S|anna|S|Sab1|S|no", "wm|NUM|EC|refused|-3|#"),
    (B, "wn|NUM|S|anna|S|Sab1|S|?", "wn|NUM|EN|bad"),
    (A, "wo|NSC|S|Sab1", "wo|NSC|V"),
    (B, "wo|NSC|S|Sab1", "wo|NSC|V"),
];
const A: AriVersion = AriVersion::V183;
const B: AriVersion = AriVersion::V191;
const TABLE: &str = "wh|NNT|S|anna|S|Sab1|I|3|M|M|S|mine|S|QuickStart|S|bid ask|I|1|I|2|S|#|I|2\
    |S|orders-[account=anna]|S|q";

#[test]
fn vectors_of_requests_are_completed() {
    for (version, line, reply) in VECTORS {
        let mut pair = Pair::ready(options(), *version);
        let (_, request) = AdapterRequest::decode(line, *version).unwrap();
        pair.request(7, request.clone(), WhileDown::Fail);
        let sent = pair.take().remove(0);
        let (id, decoded) = AdapterRequest::decode(&sent, *version).unwrap();
        assert!(decoded == request, "{sent}");
        let own_reply = reply.replacen(reply.split('|').next().unwrap(), id, 1);
        pair.feed(&own_reply);
        let (token, outcome) = pair.outcome();
        let is_exception = reply
            .split('|')
            .nth(2)
            .is_some_and(|kind| kind.starts_with('E'));
        match outcome {
            Ok(_) => assert!(!is_exception, "{reply}"),
            Err(AdapterFailure::Exception(_)) => assert!(is_exception, "{reply}"),
            Err(other) => panic!("{reply}: {other}"),
        }
        assert_eq!((token, pair.closes, pair.metrics.pending()), (7, 0, 0));
    }
}

#[test]
fn vectors_of_the_handshake_are_accepted() {
    for (reply, version) in [
        ("w0|MPI|S|ARI.version|S|1.8.3", "1.8.3"),
        ("w0|MPI|S|ARI.version|S|1.9.1", "1.9.1"),
        ("w0|MPI|V", "1.8.0"),
    ] {
        let users = adapter_user();
        let mut pair = Pair::new(ProtocolOptions { users, ..options() });
        pair.protocol.on_connected(pair.now_ms);
        assert!(pair.take().is_empty());
        pair.feed(CREDENTIALS);
        let expected = "w0|MPI|S|ARI.version|S|1.9.1|S|keepalive_hint.millis|S|13000\
            |S|adapters_conf.id|S|KafkaConnector";
        assert_eq!(pair.take(), [expected]);
        pair.feed("KEEPALIVE");
        pair.feed(reply);
        let LinkState::Ready(peer) = pair.protocol.state else {
            panic!("not ready");
        };
        assert_eq!(peer.version.as_str(), version);
        assert!(peer.wants_close && !peer.is_node);
        pair.protocol.stop();
        pair.collect();
        assert_eq!(pair.take(), ["0|CLOSE|S|reason|S|shutting%20down"]);
        assert_eq!((pair.closes, pair.protocol.pause_ms()), (1, 0));
    }
}

#[test]
fn vectors_of_notifications_are_answered() {
    let mut pair = Pair::ready(options(), B);
    for line in [
        "64|FST|S|Sab1|V",
        "65|FST|S|Sab1|I|-12|S|closed, by office",
        "66|FUS|S|Sab1|I|3",
    ] {
        pair.feed(line);
    }
    let notices = std::mem::take(&mut pair.notices);
    let cause = |index: usize| match &notices[index].1 {
        AdapterNotification::ForceSessionEnd { session, cause } => (session.clone(), cause.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(cause(0), ("Sab1".to_owned(), None));
    assert_eq!(
        cause(1).1,
        Some((-12, Some("closed, by office".to_owned())))
    );
    let results = [
        NotificationResult::SessionEnds,
        NotificationResult::Failed("not now".to_owned()),
        NotificationResult::Unsubscribed(true),
    ];
    for ((ticket, _), result) in notices.iter().zip(&results) {
        pair.protocol.respond(*ticket, result, pair.now_ms);
        // A second answer is ignored.
        pair.protocol.respond(*ticket, result, pair.now_ms);
    }
    pair.collect();
    assert_eq!(
        pair.take(),
        ["64|FST|V", "65|FST|E|not%20now", "66|FUS|B|1"]
    );
    pair.feed("2|FAL|E|database is gone");
    assert_eq!(pair.take(), ["0|CLOSE|S|reason|S|the%20adapter%20failed"]);
    assert!(pair.closes == 1 && !pair.metrics.is_connected());
    pair.connect();
    pair.protocol
        .respond(notices[0].0, &results[0], pair.now_ms);
    pair.collect();
    assert!(pair.take().is_empty(), "an answer to an earlier connection");
}

#[test]
fn adapter_without_credentials_is_initialized_after_a_second() {
    let mut pair = Pair::new(options());
    pair.protocol.on_connected(pair.now_ms);
    assert_eq!(pair.protocol.next_deadline_ms(), Some(pair.now_ms + 1_000));
    pair.advance(999);
    assert!(pair.take().is_empty());
    pair.advance(1);
    assert_eq!(pair.methods(), ["MPI"]);
    // Credentials that come late still name the SDK.
    pair.feed("1|RAC|S|SDK|S|Node.js+Adapter+SDK");
    pair.feed("w0|MPI|S|ARI.version|S|1.9.1");
    assert!(matches!(pair.protocol.state, LinkState::Ready(peer) if peer.is_node));
    pair.request(1, new_tables("S1", 1), WhileDown::Fail);
    assert!(pair.take()[0].ends_with("|S|#|I|0"), "no list of items");
}

#[test]
fn rejected_adapters_wait_longer_each_time() {
    let bad: [&[&str]; 7] = [
        &["1|RAC|S|user|S|gw+user|S|password|S|wrong"],
        &["1|RAC|S|enableClosePacket|S|true"],
        &["w0|MPI|S|ARI.version|S|1.9.1"],
        &[CREDENTIALS, "w0|MPI|EM|Unsupported+protocol+version"],
        &[CREDENTIALS, "w0|MPI|S|ARI.version|S|2.0"],
        &[CREDENTIALS, CREDENTIALS],
        &[CREDENTIALS, "w0|NUS|D|1|B|1"],
    ];
    let users = adapter_user();
    let mut pair = Pair::new(ProtocolOptions { users, ..options() });
    let pauses = [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
    for (index, (lines, pause_ms)) in bad.iter().zip(pauses).enumerate() {
        pair.protocol.on_connected(pair.now_ms);
        lines.iter().for_each(|line| pair.feed(line));
        assert_eq!(
            (pair.closes, pair.protocol.pause_ms()),
            (index + 1, pause_ms),
            "{lines:?}"
        );
        assert!(!pair.metrics.is_connected());
    }
    pair.protocol.on_connected(pair.now_ms);
    pair.advance(5_000);
    assert_eq!(pair.closes, 8, "no credentials");
    pair.protocol.on_connected(pair.now_ms);
    pair.feed(CREDENTIALS);
    for _ in 0..3 {
        pair.advance(9_999);
        pair.feed("KEEPALIVE");
    }
    assert_eq!(pair.closes, 8);
    pair.advance(9_999);
    assert_eq!(pair.closes, 9, "no reply to the first request");
    pair.protocol.on_connected(pair.now_ms);
    pair.feed(CREDENTIALS);
    pair.feed("w0|MPI|S|ARI.version|S|1.9.1");
    assert_eq!(pair.protocol.pause_ms(), 0);
}

#[test]
fn replies_come_in_any_order() {
    let mut pair = Pair::ready(options(), B);
    for token in 0..50 {
        pair.request(token, items(&format!("g{token}")), WhileDown::Fail);
    }
    let requests = pair.requests();
    for (id, _) in requests.iter().rev() {
        pair.feed(&format!("{id}|GIS|S|of-{id}"));
    }
    let tokens: Vec<u32> = pair.outcomes.iter().map(|(token, _)| *token).collect();
    assert_eq!(tokens, (0..50).rev().collect::<Vec<_>>());
    for ((_, outcome), (id, _)) in pair.outcomes.iter().zip(requests.iter().rev()) {
        assert_eq!(*outcome, Ok(AdapterReply::Names(vec![format!("of-{id}")])));
    }
}

#[test]
fn silent_adapter_times_out_requests_then_the_connection() {
    let mut pair = Pair::ready(options(), B);
    pair.request(1, items("g"), WhileDown::Wait);
    let id = pair.requests().remove(0).0;
    pair.advance(TIMEOUT_MS - 1);
    assert!(pair.outcomes.is_empty());
    pair.advance(1);
    assert_eq!(pair.outcome(), (1, Err(AdapterFailure::Timeout)));
    pair.feed(&format!("{id}|GIS|S|late"));
    assert!(pair.outcomes.is_empty() && pair.closes == 0);
    assert_eq!(pair.metrics.late_replies(), 1);
    pair.advance(14_999);
    assert_eq!(pair.closes, 0);
    pair.advance(1);
    assert_eq!(pair.closes, 1);
    assert_eq!(
        pair.count(AdapterMethod::GetItems, RequestOutcome::Timeout),
        1
    );
}

#[test]
fn late_acceptance_is_undone() {
    let mut pair = Pair::ready(options(), B);
    pair.request(1, new_session("S1"), WhileDown::Fail);
    pair.request(2, new_tables("S2", 4), WhileDown::Fail);
    pair.request(3, new_session("S3"), WhileDown::Fail);
    let ids: Vec<String> = pair.requests().into_iter().map(|(id, _)| id).collect();
    pair.advance(TIMEOUT_MS);
    assert_eq!(pair.outcomes.len(), 3);
    pair.feed(&format!("{}|NNS|V", ids[0]));
    assert!(pair.take()[0].contains("|NSC|S|S1"));
    pair.feed(&format!("{}|NNT|V", ids[1]));
    assert!(pair.take()[0].contains("|NTC|S|S2|I|4"));
    pair.feed(&format!("{}|NNS|EC|no|-1|#", ids[2]));
    pair.feed(&format!("{}|NNS|V", ids[0]));
    assert!(
        pair.take().is_empty(),
        "a rejection and a second reply need nothing"
    );
}

#[test]
fn too_many_requests_fail_at_once() {
    let pending_max = 3;
    let mut pair = Pair::ready(
        ProtocolOptions {
            pending_max,
            ..options()
        },
        B,
    );
    for token in 0..5 {
        pair.request(token, items("g"), WhileDown::Wait);
    }
    let failed = [3, 4].map(|token| (token, Err(AdapterFailure::Overloaded)));
    assert_eq!(pair.outcomes, failed);
    assert_eq!(pair.metrics.pending(), 3);
    pair.notify_close(session_close("S9"));
    let requests = pair.requests();
    assert_eq!(requests.len(), 3, "the notification waits");
    pair.feed(&format!("{}|GIS|S|g", requests[0].0));
    assert_eq!(pair.methods(), ["NSC"]);
}

#[test]
fn bad_values_fail_one_request() {
    let mut pair = Pair::ready(options(), B);
    for reply in [
        "NUS|D|nan|B|1",
        "NUS|D|-1|B|1",
        "NUS|D|1",
        "NUS|EI|x",
        "NUS|D|1|B|1|S|more",
        "NUS|S|x",
    ] {
        pair.request(1, user(reply, "r"), WhileDown::Fail);
        let id = pair.requests().remove(0).0;
        pair.feed(&format!("{id}|{reply}"));
        let (_, outcome) = pair.outcome();
        assert!(
            matches!(outcome, Err(AdapterFailure::Invalid(_))),
            "{reply}"
        );
    }
    let items = vec!["a".to_owned(), "b".to_owned()];
    pair.request(1, AdapterRequest::GetItemData { items }, WhileDown::Fail);
    let id = pair.requests().remove(0).0;
    pair.feed(&format!("{id}|GIT|I|1|D|0|M|R"));
    let (_, outcome) = pair.outcome();
    let count = AriError::Count {
        found: 1,
        expected: 2,
    };
    assert_eq!(outcome, Err(AdapterFailure::Invalid(count)));
    assert!(pair.closes == 0 && pair.metrics.is_connected());
}

#[test]
fn unreadable_lines_close_the_connection() {
    for line in [
        "garbage",
        "",
        "w1|XYZ|V",
        "w1|NUM|V",
        "w99|GIS|S|x",
        "x|GIS|S|x",
        "w|GIS|S|x",
        "-1|GIS|S|x",
        "7|FST|I|1",
        "7|FUS|S|s|I|99999999999",
        "7|FAL|S|x",
    ] {
        let mut pair = Pair::ready(options(), B);
        pair.request(1, items("g"), WhileDown::Fail);
        assert_eq!(pair.methods(), ["GIS"]);
        pair.feed(line);
        assert_eq!(pair.closes, 1, "{line}");
        assert_eq!(pair.take(), ["0|CLOSE|S|reason|S|protocol%20violation"]);
        pair.advance(0);
        assert_eq!(pair.outcome(), (1, Err(AdapterFailure::Down)));
        assert_eq!(pair.protocol.pause_ms(), 0, "it may return at once");
    }
    let mut pair = Pair::ready(options(), B);
    let part = vec![b'x'; 64 * 1024];
    for _ in 0..17 {
        pair.protocol.on_received(&part, pair.now_ms);
    }
    pair.collect();
    assert_eq!(pair.closes, 1, "an endless line");
}

#[test]
fn requests_wait_for_a_connection_up_to_their_deadline() {
    let mut pair = Pair::new(options());
    pair.request(1, user("anna", "r1"), WhileDown::Fail);
    assert_eq!(pair.outcome(), (1, Err(AdapterFailure::Down)));
    pair.request(2, items("a"), WhileDown::Wait);
    pair.advance(1_000);
    pair.request(3, items("b"), WhileDown::Wait);
    pair.advance(2_000);
    assert_eq!(pair.outcome(), (2, Err(AdapterFailure::Timeout)));
    pair.connect();
    let id = pair.requests().remove(0).0;
    // Lost before the reply: a query is sent again, an acceptance is not.
    pair.request(4, new_tables("S1", 1), WhileDown::Wait);
    pair.disconnect();
    assert_eq!(pair.outcome(), (4, Err(AdapterFailure::Down)));
    pair.take();
    pair.connect();
    let again = pair.requests();
    assert_eq!(again, [(id.clone(), "GIS".to_owned())]);
    pair.feed(&format!("{id}|GIS|S|b"));
    assert_eq!(pair.outcome().0, 3);
    assert_eq!(pair.metrics.generation(), 2);
}

#[test]
fn clients_with_the_same_credentials_share_a_request() {
    let mut pair = Pair::ready(options(), B);
    pair.request(1, user("anna", "r1"), WhileDown::Fail);
    pair.request(2, user("anna", "r2"), WhileDown::Fail);
    pair.request(3, user("bob", "r3"), WhileDown::Fail);
    let requests = pair.requests();
    assert_eq!(requests.len(), 2);
    pair.advance(TIMEOUT_MS);
    assert_eq!(pair.outcomes.len(), 3);
    pair.outcomes.clear();
    // The client tries again while the adapter still works.
    pair.advance(1_000);
    pair.request(4, user("anna", "r4"), WhileDown::Fail);
    assert!(pair.take().is_empty());
    pair.feed(&format!("{}|NUS|D|0|B|0", requests[0].0));
    assert_eq!(pair.outcome().0, 4);
    // The reply for the other one comes when no client waits, and is given once.
    pair.feed(&format!("{}|NUS|EA|no", requests[1].0));
    assert!(pair.outcomes.is_empty());
    pair.request(5, user("bob", "r5"), WhileDown::Fail);
    let (token, outcome) = pair.outcome();
    assert!(token == 5 && matches!(outcome, Err(AdapterFailure::Exception(_))));
    pair.request(6, user("bob", "r6"), WhileDown::Fail);
    assert_eq!(pair.methods(), ["NUS"]);
    pair.advance(9_999);
    pair.feed("KEEPALIVE");
    assert_eq!(pair.metrics.pending(), 1);
    pair.advance(1);
    assert_eq!(pair.metrics.pending(), 0, "forgotten after 10 s");
}

#[test]
fn other_headers_are_another_request() {
    let mut pair = Pair::ready(options(), B);
    pair.request(1, user("anna", "r1"), WhileDown::Fail);
    let mut other = user("anna", "r1");
    if let AdapterRequest::NotifyUser { headers, .. } = &mut other {
        headers[0].value = Some("other".to_owned());
    }
    pair.request(2, other, WhileDown::Fail);
    assert_eq!(pair.requests().len(), 2);
}

#[test]
fn notifications_of_one_session_follow_each_other() {
    let mut pair = Pair::ready(options(), B);
    pair.request(1, new_tables("S1", 1), WhileDown::Fail);
    pair.request(2, new_tables("S1", 2), WhileDown::Fail);
    pair.notify_close(tables_close("S1", 1));
    pair.notify_close(session_close("S1"));
    pair.notify_close(session_close("S2"));
    let mut sent = pair.requests();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert_eq!((&*sent[0].1, &*sent[1].1), ("NNT", "NSC"));
    for next in ["NNT", "NTC", "NSC"] {
        let (id, method) = sent.remove(0);
        pair.feed(&format!("{id}|{method}|V"));
        sent = pair.requests();
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].1, next);
    }
    let (id, _) = sent.remove(0);
    pair.feed(&format!("{id}|NSC|EN|ignored"));
    assert_eq!(pair.outcomes.len(), 2);
    assert!(!pair.protocol.is_idle(), "S2 waits");
    pair.advance(TIMEOUT_MS);
    assert!(pair.protocol.is_idle());
}

#[test]
fn close_notifications_are_recovered_as_configured() {
    let cases: [(CloseRecovery, &[&str]); 3] = [
        (CloseRecovery::Unneeded, &[]),
        (CloseRecovery::Optimistic, &["S3", "S4"]),
        (CloseRecovery::Pessimistic, &["S2", "S3", "S4"]),
    ];
    for (close_recovery, expected) in cases {
        let (pending_max, base) = (2, options());
        let options = ProtocolOptions {
            close_recovery,
            pending_max,
            ..base
        };
        let mut pair = Pair::ready(options, B);
        for session in ["S1", "S2", "S3"] {
            pair.notify_close(session_close(session));
        }
        let sent = pair.requests();
        assert_eq!(sent.len(), 2);
        pair.feed(&format!("{}|NSC|V", sent[0].0));
        // S3 was sent now; another one waits in its place.
        pair.disconnect();
        pair.notify_close(session_close("S4"));
        pair.take();
        pair.connect();
        let mut found = Vec::new();
        loop {
            let lines = pair.take();
            if lines.is_empty() {
                break;
            }
            for line in lines {
                let (id, session) = line.split_once("|NSC|S|").unwrap();
                found.push(session.to_owned());
                pair.feed(&format!("{id}|NSC|V"));
            }
        }
        let expected: Vec<&str> = match close_recovery {
            // S3 was sent as well, when the reply for S1 made room.
            CloseRecovery::Optimistic => vec!["S4"],
            _ => expected.to_vec(),
        };
        assert_eq!(found, expected, "{close_recovery:?}");
    }
}

#[test]
fn close_queue_is_bounded() {
    let close_recovery = CloseRecovery::Pessimistic;
    let mut pair = Pair::new(ProtocolOptions {
        close_recovery,
        ..options()
    });
    for _ in 0..close_queue::CLOSES_MAX + 5 {
        pair.notify_close(session_close("S1"));
    }
    assert_eq!(pair.metrics.closes(), [close_queue::CLOSES_MAX as u64, 5]);
}

#[test]
fn forced_ends_wait_for_the_acceptance() {
    let mut pair = Pair::ready(options(), B);
    pair.request(1, new_session("S1"), WhileDown::Fail);
    pair.request(2, new_tables("S2", 1), WhileDown::Fail);
    let ids: Vec<String> = pair.requests().into_iter().map(|(id, _)| id).collect();
    pair.feed("64|FST|S|S1|V");
    pair.feed("65|FUS|S|S2|I|1");
    pair.feed("66|FST|S|S3|V");
    let windows = |pair: &Pair| pair.notices.len();
    assert_eq!(windows(&pair), 1, "only that of S3");
    pair.feed(&format!("{}|NNS|V", ids[0]));
    assert_eq!((pair.outcomes.len(), windows(&pair)), (1, 2));
    pair.feed(&format!("{}|NNT|V", ids[1]));
    assert_eq!((pair.outcomes.len(), windows(&pair)), (2, 3));
}

#[test]
fn flood_of_notifications_is_not_read() {
    let mut pair = Pair::ready(options(), B);
    let line = "7|FST|S|unknown|V\r\n";
    let flood = line.repeat(3_000);
    pair.protocol.on_received(flood.as_bytes(), pair.now_ms);
    pair.collect();
    assert_eq!(pair.notices.len(), 1_000);
    assert!(!pair.protocol.wants_input());
    pair.advance(60_000);
    assert_eq!(pair.closes, 0, "the adapter is not silent, it has to wait");
    let mut answered = 0;
    while let Some((ticket, _)) = pair.notices.pop() {
        let unknown = NotificationResult::Failed("unknown session".to_owned());
        pair.protocol.respond(ticket, &unknown, pair.now_ms);
        pair.collect();
        answered += 1;
        assert!(pair.notices.len() <= 1_000);
    }
    assert_eq!((answered, pair.take().len()), (3_000, 3_000));
    assert!(pair.protocol.wants_input());
    let long = "s".repeat(1_000);
    pair.feed(&format!("8|FST|S|{long}|V"));
    assert_eq!(pair.take(), ["8|FST|E|unknown%20session"]);
    pair.feed(&format!("{long}|FST|S|S1|V"));
    assert_eq!(pair.closes, 1);
}

#[test]
fn long_texts_of_exceptions_are_cut() {
    let mut pair = Pair::ready(options(), B);
    pair.request(1, items("g"), WhileDown::Fail);
    let id = pair.requests().remove(0).0;
    pair.feed(&format!("{id}|GIS|EI|x{}", "%C3%A9".repeat(10_000)));
    let (_, outcome) = pair.outcome();
    let Err(AdapterFailure::Exception(exception)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(exception.message.unwrap().len(), MESSAGE_BYTES_MAX - 1);
}

#[test]
fn limits_of_items_are_read() {
    let mut pair = Pair::ready(options(), B);
    let items = vec!["a".to_owned()];
    pair.request(
        1,
        AdapterRequest::GetUserItemData { user: None, items },
        WhileDown::Wait,
    );
    let id = pair.requests().remove(0).0;
    pair.feed(&format!("{id}|GUI|I|5|D|2.5|M|MD"));
    let (_, outcome) = pair.outcome();
    let Ok(AdapterReply::UserItemData(data)) = outcome else {
        panic!("{outcome:?}");
    };
    let modes: ItemModes = [ItemMode::Merge, ItemMode::Distinct].into_iter().collect();
    assert_eq!((data[0].buffer_size, data[0].modes), (5, Some(modes)));
}
