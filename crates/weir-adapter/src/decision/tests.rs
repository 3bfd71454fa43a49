use std::time::Duration;

use weir_identity::ari::{
    AdapterException, AdapterMethod, AdapterReply, AdapterRequest, AriError, ExceptionKind,
    ItemData, Parameter, UserItemData,
};
use weir_identity::{ItemMode, ItemModes};

use super::*;
use crate::config::UnavailablePolicy;
use crate::outcome::{AdapterFailure, AdapterOutcome};

fn exception(kind: ExceptionKind) -> AdapterFailure {
    let message = Some("stack trace".to_owned());
    AdapterFailure::Exception(AdapterException { kind, message })
}

fn credits(code: i32, user_message: Option<&str>) -> AdapterFailure {
    exception(ExceptionKind::Credits {
        code,
        user_message: user_message.map(str::to_owned),
    })
}

const INVALID: AdapterFailure = AdapterFailure::Invalid(AriError::Missing);
const TRANSIENT: [AdapterFailure; 3] = [
    AdapterFailure::Down,
    AdapterFailure::Timeout,
    AdapterFailure::Overloaded,
];

fn modes(letters: &str) -> Option<ItemModes> {
    letters.chars().map(ItemMode::from_letter).collect()
}

fn item_data(snapshot_length: i32, letters: &str) -> ItemData {
    ItemData {
        snapshot_length,
        source_frequency: 0.0,
        modes: modes(letters),
    }
}

fn user_data(buffer_size: i32, frequency_max: f64, letters: &str) -> UserItemData {
    UserItemData {
        buffer_size,
        frequency_max,
        modes: modes(letters),
    }
}

fn wanted(wants_tables: bool) -> RequestedSubscription {
    RequestedSubscription {
        user: Some("anna".to_owned()),
        session: "S1".to_owned(),
        window: 3,
        group: "mine".to_owned(),
        schema: "bid ask".to_owned(),
        data_adapter: None,
        wants_tables,
        limits: RequestedLimits {
            mode: ItemMode::Merge,
            unfiltered: false,
            frequency_max: Some(10.0),
            buffer_size: None,
            snapshot_length: Some(10),
        },
        unavailable: UnavailablePolicy::Reject,
    }
}

fn names(names: &[&str]) -> AdapterOutcome {
    let names = names.iter().map(|name| (*name).to_owned());
    Ok(AdapterReply::Names(names.collect()))
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Methods of the requests to send.
fn sent(progress: &SubscriptionProgress) -> Vec<&'static str> {
    match progress {
        SubscriptionProgress::Send(requests) => {
            let methods = requests.iter().filter_map(AdapterRequest::method);
            methods.map(AdapterMethod::name).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn rejected(progress: SubscriptionProgress) -> ClientRefusal {
    match progress {
        SubscriptionProgress::Refused(SubscriptionRefusal::Reject(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Brings a decision to the step after its names.
fn named(wanted: RequestedSubscription, cache: &mut ItemCache) -> SubscriptionFlow {
    let (mut flow, requests) = SubscriptionFlow::begin(wanted);
    let methods = requests.map(|request| request.method().unwrap().name());
    assert_eq!(methods, ["GIS", "GSC"]);
    // Replies come in any order.
    let first = flow.receive(AdapterMethod::GetSchema, names(&["bid", "ask"]), cache, 0);
    assert_eq!(first, SubscriptionProgress::Wait);
    let second = flow.receive(AdapterMethod::GetItems, names(&["a", "b"]), cache, 0);
    let expected = SubscriptionProgress::Named {
        items: strings(&["a", "b"]),
        fields: strings(&["bid", "ask"]),
    };
    assert_eq!(second, expected);
    flow
}

fn give_items(
    flow: &mut SubscriptionFlow,
    cache: &mut ItemCache,
    data: Vec<ItemData>,
) -> SubscriptionProgress {
    let reply = Ok(AdapterReply::ItemData(data));
    flow.receive(AdapterMethod::GetItemData, reply, cache, 0)
}

fn give_user_items(
    flow: &mut SubscriptionFlow,
    cache: &mut ItemCache,
    data: Vec<UserItemData>,
) -> SubscriptionProgress {
    let reply = Ok(AdapterReply::UserItemData(data));
    flow.receive(AdapterMethod::GetUserItemData, reply, cache, 0)
}

#[test]
fn users_are_decided_with_codes() {
    let accept = |bandwidth_max_kbps| {
        Ok(AdapterReply::User {
            bandwidth_max_kbps,
            wants_tables: true,
        })
    };
    let bandwidth = |kbps| user_decision(&accept(kbps)).unwrap().bandwidth_max_kbps;
    assert_eq!((bandwidth(128.5), bandwidth(0.0)), (Some(128.5), None));
    let refusals = [
        (
            exception(ExceptionKind::Access),
            1,
            "user or password rejected",
        ),
        (
            exception(ExceptionKind::Unavailable),
            6,
            "the gateway is busy, try again later",
        ),
        (credits(-7, Some("Daily limit\r\n")), -7, "Daily limit  "),
        (credits(0, None), 0, ""),
        (exception(ExceptionKind::Generic), 66, "internal error"),
        (INVALID, 66, "internal error"),
    ];
    for (failure, code, text) in refusals {
        let refusal = user_decision(&Err(failure)).unwrap_err();
        assert_eq!((refusal.code, &*refusal.text), (code, text));
    }
    for failure in TRANSIENT {
        assert_eq!(user_decision(&Err(failure)).unwrap_err().code, 6);
    }
}

#[test]
fn sessions_are_decided_with_conflicts_and_lifetimes() {
    let decided = |time_to_live_s| session_decision(&Ok(AdapterReply::Session { time_to_live_s }));
    for (seconds, expected) in [
        (None, None),
        (Some(0), None),
        (Some(-1), None),
        (Some(5), Some(5)),
    ] {
        let time_to_live = expected.map(Duration::from_secs);
        assert_eq!(
            decided(seconds),
            Ok(SessionDecision::Accepted { time_to_live })
        );
    }
    let conflict = exception(ExceptionKind::ConflictingSession {
        code: -9,
        user_message: Some("elsewhere".to_owned()),
        session: "Sold".to_owned(),
    });
    let refusal = ClientRefusal {
        code: -9,
        text: "elsewhere".to_owned(),
    };
    let session = "Sold".to_owned();
    let expected = SessionDecision::Conflict { session, refusal };
    assert_eq!(session_decision(&Err(conflict)), Ok(expected));
    let refused = |failure| session_decision(&Err(failure)).unwrap_err().code;
    assert_eq!(refused(exception(ExceptionKind::Notification)), 66);
    assert_eq!(refused(credits(-2, None)), -2);
    assert_eq!(refused(AdapterFailure::Timeout), 6);
}

#[test]
fn requests_about_clients_have_joined_headers() {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut client = ClientInfo {
        user: None,
        password: Some("s3cret".to_owned()),
        principal: None,
        headers: vec![
            header("Cookie", "a=1"),
            header("Host", "x"),
            header("cookie", "b=2"),
        ],
        request_id: "r1".to_owned(),
    };
    assert!(!format!("{client:?}").contains("s3cret"));
    let expected = [("cookie", "a=1,b=2"), ("host", "x"), ("REQUEST_ID", "r1")];
    let expected = expected.map(|(name, value)| Parameter::new(name, value));
    match client.notify_user() {
        AdapterRequest::NotifyUser { headers, .. } => assert_eq!(headers, expected),
        other => panic!("{other:?}"),
    }
    client.principal = Some(None);
    let method = client.notify_user().method();
    assert_eq!(method, Some(AdapterMethod::NotifyUserWithPrincipal));
    match client.notify_new_session("S1", &[Parameter::new("REMOTE_IP", "10.0.0.7")]) {
        AdapterRequest::NotifyNewSession {
            context, session, ..
        } => {
            assert_eq!((&*session, &*context[1].name), ("S1", "REQUEST_ID"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn subscription_gets_the_strictest_limits() {
    let mut cache = ItemCache::default();
    cache.begin(1);
    let mut flow = named(wanted(true), &mut cache);
    let next = flow.admit(strings(&["A", "B"]), &cache, 0);
    assert_eq!(sent(&next), ["GIT", "GUI"]);
    let users = vec![user_data(0, 2.5, "MD"), user_data(7, 4.0, "M")];
    let next = give_user_items(&mut flow, &mut cache, users);
    assert_eq!(next, SubscriptionProgress::Wait);
    let next = give_items(
        &mut flow,
        &mut cache,
        vec![item_data(20, "RM"), item_data(5, "M")],
    );
    assert_eq!(sent(&next), ["NNT"]);
    let reply = Ok(AdapterReply::Tables {
        can_unsubscribe: false,
        wants_statistics: false,
    });
    let next = flow.receive(AdapterMethod::NotifyNewTables, reply, &mut cache, 0);
    let SubscriptionProgress::Accepted(limits, Some(table)) = next else {
        panic!("{next:?}");
    };
    let expected = AdapterLimits {
        frequency_max: Some(2.5),
        buffer_size: Some(7),
        snapshot_length: Some(5),
    };
    assert_eq!(limits, expected);
    assert_eq!(
        (table.window, table.last, table.items),
        (3, 2, strings(&["A", "B"]))
    );

    // All of it is known for 5 s; then only what concerns the user is asked again.
    let mut flow = named(wanted(false), &mut cache);
    let next = flow.admit(strings(&["B"]), &cache, 4_999);
    let expected = AdapterLimits {
        frequency_max: Some(4.0),
        ..expected
    };
    assert_eq!(next, SubscriptionProgress::Accepted(expected, None));
    let mut flow = named(wanted(false), &mut cache);
    assert_eq!(sent(&flow.admit(strings(&["B"]), &cache, 5_000)), ["GUI"]);
    cache.begin(2);
    let mut flow = named(wanted(false), &mut cache);
    assert_eq!(
        sent(&flow.admit(strings(&["B"]), &cache, 0)),
        ["GIT", "GUI"]
    );
}

#[test]
fn other_users_have_their_own_limits() {
    let mut cache = ItemCache::default();
    let mut flow = named(wanted(false), &mut cache);
    flow.admit(strings(&["A"]), &cache, 0);
    give_items(&mut flow, &mut cache, vec![item_data(0, "M")]);
    give_user_items(&mut flow, &mut cache, vec![user_data(0, 0.0, "M")]);
    let user = Some("bob".to_owned());
    let bob = RequestedSubscription {
        user,
        ..wanted(false)
    };
    let mut flow = named(bob, &mut cache);
    assert_eq!(sent(&flow.admit(strings(&["A"]), &cache, 0)), ["GUI"]);
}

#[test]
fn modes_and_unfiltered_are_refused() {
    let slow = ItemData {
        source_frequency: 1.0,
        ..item_data(0, "M")
    };
    let free = user_data(0, 0.0, "M");
    let cases = [
        (
            item_data(0, "RD"),
            user_data(0, 0.0, "RMDC"),
            false,
            Err(24),
        ),
        (item_data(0, "RMDC"), user_data(0, 0.0, ""), false, Err(24)),
        (
            ItemData {
                modes: None,
                ..slow
            },
            free,
            false,
            Err(24),
        ),
        (item_data(0, "M"), user_data(0, 2.0, "M"), true, Err(26)),
        (item_data(0, "M"), user_data(0, 2.0, "M"), false, Ok(())),
        (slow, free, true, Err(27)),
        (slow, free, false, Ok(())),
        (item_data(0, "M"), free, true, Ok(())),
    ];
    for (item, user, unfiltered, expected) in cases {
        let mut cache = ItemCache::default();
        let mut wanted = wanted(false);
        wanted.limits.unfiltered = unfiltered;
        let mut flow = named(wanted, &mut cache);
        flow.admit(strings(&["A"]), &cache, 0);
        give_items(&mut flow, &mut cache, vec![item]);
        let next = give_user_items(&mut flow, &mut cache, vec![user]);
        match expected {
            Ok(()) => assert!(
                matches!(next, SubscriptionProgress::Accepted(..)),
                "{next:?}"
            ),
            Err(code) => assert_eq!(rejected(next).code, code, "{item:?} {user:?}"),
        }
    }
}

#[test]
fn failures_of_subscriptions_have_codes() {
    let items = AdapterMethod::GetItems;
    let tables = AdapterMethod::NotifyNewTables;
    let cases = [
        (items, exception(ExceptionKind::Items), 21),
        (
            AdapterMethod::GetSchema,
            exception(ExceptionKind::Items),
            22,
        ),
        (
            AdapterMethod::GetSchema,
            exception(ExceptionKind::Schema),
            23,
        ),
        (items, exception(ExceptionKind::Generic), 66),
        (tables, credits(-5, None), -5),
        (tables, exception(ExceptionKind::Notification), 66),
        (AdapterMethod::GetItemData, INVALID, 66),
        (items, AdapterFailure::Down, 68),
        (items, AdapterFailure::Timeout, 68),
        (items, AdapterFailure::Overloaded, 68),
    ];
    for (method, failure, code) in cases {
        let mut cache = ItemCache::default();
        let (mut flow, _) = SubscriptionFlow::begin(wanted(true));
        let next = flow.receive(method, Err(failure.clone()), &mut cache, 0);
        assert_eq!(rejected(next).code, code, "{method:?} {failure:?}");
        // The reply to the other request changes nothing.
        let late = flow.receive(items, names(&["a"]), &mut cache, 0);
        assert_eq!(late, SubscriptionProgress::Wait);
        let late = flow.receive(items, Err(AdapterFailure::Down), &mut cache, 0);
        assert_eq!(late, SubscriptionProgress::Wait);
    }
    for failure in TRANSIENT {
        let unavailable = UnavailablePolicy::EndSession;
        let wanted = RequestedSubscription {
            unavailable,
            ..wanted(true)
        };
        let (mut flow, _) = SubscriptionFlow::begin(wanted);
        let next = flow.receive(items, Err(failure), &mut ItemCache::default(), 0);
        let ended = SubscriptionProgress::Refused(SubscriptionRefusal::EndSession);
        assert_eq!(next, ended);
    }
    let (mut flow, _) = SubscriptionFlow::begin(wanted(true));
    let mut cache = ItemCache::default();
    flow.receive(items, names(&[]), &mut cache, 0);
    let next = flow.receive(AdapterMethod::GetSchema, names(&["f"]), &mut cache, 0);
    assert_eq!(rejected(next).code, 21, "no items");
}

#[test]
fn failures_of_messages_have_codes() {
    let cases = [
        (credits(-3, Some("no")), -3),
        (exception(ExceptionKind::Notification), 34),
        (exception(ExceptionKind::Generic), 35),
        (INVALID, 35),
        (AdapterFailure::Down, 34),
        (AdapterFailure::Timeout, 34),
        (AdapterFailure::Overloaded, 34),
    ];
    for (failure, code) in cases {
        let refusal = message_refusal(&failure);
        assert_eq!(refusal.code, code, "{failure:?}");
        assert!(!refusal.text.contains("stack trace"));
    }
}
