//! Remote adapter protocol: lines exchanged with published SDKs, and random ones.

mod support;

use proptest::prelude::*;
use weir_identity::ari::{
    AdapterException, AdapterLine, AdapterMethod, AdapterNotification, AdapterPeer, AdapterReply,
    AdapterRequest, AriError, AriVersion, ExceptionKind, ItemData, NotificationResult, Parameter,
    TableInfo, TableStatistics, UserItemData,
};
use weir_identity::{ItemMode, ItemModes};

const A: AriVersion = AriVersion::V183;
const B: AriVersion = AriVersion::V191;

fn peer(version: AriVersion) -> AdapterPeer {
    AdapterPeer {
        version,
        is_node: false,
        wants_close: false,
    }
}

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

fn parameter(name: &str, value: &str) -> Parameter {
    Parameter::new(name, value)
}

fn encode(request: &AdapterRequest, id: &str, version: AriVersion) -> String {
    let mut line = String::new();
    request.encode(id, &peer(version), &mut line);
    line.strip_suffix("\r\n").unwrap().to_owned()
}

/// Checks that the line is the request, and that our own line of it reads back.
fn check_request(version: AriVersion, line: &str, expected: &AdapterRequest) {
    let (id, request) = AdapterRequest::decode(line, version).unwrap();
    assert!(request == *expected, "{line}");
    let own = encode(&request, id, version);
    assert!(
        AdapterRequest::decode(&own, version) == Ok((id, request)),
        "{own}"
    );
    assert!(own.is_ascii() && !own.contains('+'));
}

type Decoded = Result<Result<AdapterReply, AdapterException>, AriError>;

fn decode_reply(version: AriVersion, line: &str, entries: usize) -> Decoded {
    match AdapterLine::parse(line, version)? {
        AdapterLine::Reply(reply) => {
            let method = reply.method;
            reply.decode(method, entries, version)
        }
        other => panic!("{other:?}"),
    }
}

/// Checks that the line is the reply, and that our own line of it reads back.
fn check_reply(
    version: AriVersion,
    line: &str,
    entries: usize,
    expected: Result<AdapterReply, AdapterException>,
) {
    assert_eq!(
        decode_reply(version, line, entries),
        Ok(expected.clone()),
        "{line}"
    );
    let mut parts = line.split('|');
    let (id, name) = (parts.next().unwrap(), parts.next().unwrap());
    let method = AdapterMethod::from_name(name).unwrap();
    let mut own = String::new();
    match &expected {
        Ok(reply) => reply.encode(id, method, &mut own),
        Err(exception) => exception.encode(id, method, &mut own),
    }
    assert_eq!(
        decode_reply(version, own.trim_end(), entries),
        Ok(expected),
        "{own}"
    );
}

fn exception(kind: ExceptionKind, message: &str) -> Result<AdapterReply, AdapterException> {
    let message = text(message);
    Err(AdapterException { kind, message })
}

fn credits(code: i32, user_message: Option<&str>) -> ExceptionKind {
    ExceptionKind::Credits {
        code,
        user_message: user_message.map(str::to_owned),
    }
}

fn user_reply() -> Result<AdapterReply, AdapterException> {
    Ok(AdapterReply::User {
        bandwidth_max_kbps: 128.5,
        wants_tables: true,
    })
}

fn user_request(user: Option<&str>, password: &str, request_id: Option<&str>) -> AdapterRequest {
    AdapterRequest::NotifyUser {
        user: user.map(str::to_owned),
        password: text(password),
        headers: request_id
            .iter()
            .map(|id| parameter("REQUEST_ID", id))
            .collect(),
    }
}

fn names(list: &[&str]) -> Result<AdapterReply, AdapterException> {
    Ok(AdapterReply::Names(
        list.iter().map(|name| (*name).to_owned()).collect(),
    ))
}

fn modes(letters: &str) -> Option<ItemModes> {
    letters.chars().map(ItemMode::from_letter).collect()
}

fn table() -> TableInfo {
    TableInfo {
        window: 3,
        mode: ItemMode::Merge,
        group: "mine".into(),
        data_adapter: None,
        schema: "bid ask".into(),
        first: 1,
        last: 1,
        selector: None,
        items: Vec::new(),
    }
}

fn table_1_9() -> TableInfo {
    TableInfo {
        data_adapter: text("QuickStart"),
        last: 2,
        items: vec!["orders-[account=anna]".into(), "q".into()],
        ..table()
    }
}

#[test]
fn vectors_of_start_and_users() {
    let credentials = |line: &str| match AdapterLine::parse(line, B) {
        Ok(AdapterLine::Notification("1", notification)) => notification,
        other => panic!("{other:?}"),
    };
    let first = credentials("1|RAC|S|enableClosePacket|S|true");
    let expected = AdapterNotification::Credentials {
        user: None,
        password: None,
        enables_close: true,
        sdk: None,
    };
    assert!(first == expected);
    let line = "1|RAC|S|password|S|p%2Bw%7C1|S|SDK|S|Java+Remote+Adapter+SDK|S|\
        enableClosePacket|S|true|S|user|S|gw+user";
    let java = credentials(line);
    let expected = AdapterNotification::Credentials {
        user: text("gw user"),
        password: text("p+w|1"),
        enables_close: true,
        sdk: text("Java Remote Adapter SDK"),
    };
    assert!(java == expected);
    assert!(!format!("{java:?}").contains("p+w"));
    let mut own = String::new();
    java.encode("1", &mut own);
    assert!(credentials(own.trim_end()) == java);

    let init = AdapterRequest::Init {
        parameters: vec![
            parameter("ARI.version", "1.9.1"),
            parameter("keepalive_hint.millis", "8000"),
            parameter("adapters_conf.id", "KafkaConnector"),
        ],
    };
    let line = "w1|MPI|S|ARI.version|S|1.9.1|S|keepalive_hint.millis|S|8000|S|adapters_conf.id\
        |S|KafkaConnector";
    check_request(B, line, &init);
    assert_eq!(encode(&init, "w1", B), line);
    for (version, name) in [(A, "1.8.3"), (B, "1.9.1")] {
        let reply = AdapterReply::Init {
            version,
            parameters: vec![parameter("ARI.version", name)],
        };
        check_reply(B, &format!("w1|MPI|S|ARI.version|S|{name}"), 0, Ok(reply));
    }
    let old = AdapterReply::Init {
        version: AriVersion::V180,
        parameters: Vec::new(),
    };
    check_reply(B, "w1|MPI|V", 0, Ok(old));
    let unsupported = exception(ExceptionKind::Generic, "Unsupported protocol version");
    check_reply(B, "w1|MPI|E|Unsupported+protocol+version", 0, unsupported);
    let unsupported = exception(ExceptionKind::Init, "Unsupported protocol version");
    check_reply(B, "w1|MPI|EM|Unsupported+protocol+version", 0, unsupported);
    for version in ["1.8.1", "1.9.0", "2.0", ""] {
        let line = format!("w1|MPI|S|ARI.version|S|{version}");
        let error = decode_reply(B, line.trim_end_matches('|'), 0).unwrap_err();
        assert!(
            matches!(error, AriError::Version | AriError::Missing),
            "{version}"
        );
    }

    for version in [A, B] {
        let line = "w2|NUS|S|anna|S|pw%7C1|S|REQUEST_ID|S|r1";
        check_request(
            version,
            line,
            &user_request(Some("anna"), "pw|1", Some("r1")),
        );
        check_reply(version, "w2|NUS|D|128.5|B|1", 0, user_reply());
    }
    let line = "w3|NUS|S|#|S|$|S|REQUEST_ID|S|r2";
    check_request(A, line, &user_request(None, "", Some("r2")));
    assert_eq!(encode(&user_request(None, "", Some("r2")), "w3", A), line);
    let access = || exception(ExceptionKind::Access, "no such user");
    check_reply(A, "w4|NUS|EA|no+such+user", 0, access());
    check_reply(B, "w4|NUS|EA|no such user", 0, access());
    let away = exception(ExceptionKind::Unavailable, "directory is away");
    check_reply(B, "w5|NUS|ER|directory is away", 0, away);
    let quota = || exception(credits(-7, Some("Daily limit, come back")), "quota");
    check_reply(A, "w6|NUS|EC|quota|-7|Daily+limit%2C+come+back", 0, quota());
    check_reply(B, "w6|NUS|EC|quota|-7|Daily limit, come back", 0, quota());
    let boom = || exception(ExceptionKind::Generic, "boom | now");
    check_reply(A, "w7|NUS|E|boom+%7C+now", 0, boom());
    check_reply(B, "w7|NUS|E|boom %7C now", 0, boom());
    let principal = AdapterRequest::NotifyUserWithPrincipal {
        user: None,
        password: None,
        principal: text("CN=edge 1"),
        headers: vec![parameter("REQUEST_ID", "r9")],
    };
    check_request(
        A,
        "wi|NUA|S|#|S|#|S|CN%3Dedge+1|S|REQUEST_ID|S|r9",
        &principal,
    );
    check_reply(A, "wi|NUA|D|128.5|B|1", 0, user_reply());
}

#[test]
fn vectors_of_sessions_and_items() {
    let session = AdapterRequest::NotifyNewSession {
        user: text("anna"),
        session: "Sab1".into(),
        context: vec![
            parameter("REMOTE_IP", "10.0.0.7"),
            Parameter {
                name: "CLIENT_TYPE".into(),
                value: None,
            },
        ],
    };
    let line = "w8|NNS|S|anna|S|Sab1|S|REMOTE_IP|S|10.0.0.7|S|CLIENT_TYPE|S|#";
    check_request(A, line, &session);
    for (line, time_to_live_s) in [("w8|NNS|V", None), ("w8|NNS|I|3600", Some(3600))] {
        check_reply(B, line, 0, Ok(AdapterReply::Session { time_to_live_s }));
    }
    let conflict = ExceptionKind::ConflictingSession {
        code: -9,
        user_message: text("Logged in elsewhere"),
        session: "Sold1".into(),
    };
    let line = "w9|NNS|EX|one+session+only|-9|Logged+in+elsewhere|Sold1";
    check_reply(A, line, 0, exception(conflict, "one session only"));

    let items = AdapterRequest::GetItems {
        user: text("anna"),
        group: "mine quote-[s=A]".into(),
        session: "Sab1".into(),
    };
    check_request(A, "wa|GIS|S|anna|S|mine+quote-[s=A]|S|Sab1", &items);
    check_request(B, "wa|GIS|S|anna|S|mine quote-[s=A]|S|Sab1", &items);
    let line = "wa|GIS|S|orders-%5Baccount%3Danna%5D|S|quote-%5Bs%3DA%5D";
    check_reply(A, line, 0, names(&["orders-[account=anna]", "quote-[s=A]"]));
    check_reply(
        B,
        "wa|GIS|S|mine|S|quote-[s=A]",
        0,
        names(&["mine", "quote-[s=A]"]),
    );
    let unknown = exception(ExceptionKind::Items, "unknown list");
    check_reply(A, "wb|GIS|EI|unknown+list", 0, unknown);
    check_reply(A, "wc|GIS", 0, names(&[]));
    let schema = AdapterRequest::GetSchema {
        user: text("anna"),
        group: "mine".into(),
        schema: "bid ask".into(),
        session: "Sab1".into(),
    };
    check_request(A, "wd|GSC|S|anna|S|mine|S|bid+ask|S|Sab1", &schema);
    check_reply(A, "wd|GSC|S|bid|S|ask", 0, names(&["bid", "ask"]));
    let unknown = exception(ExceptionKind::Schema, "unknown field");
    check_reply(A, "we|GSC|ES|unknown+field", 0, unknown);

    let data = AdapterRequest::GetItemData {
        items: vec!["a".into(), "b".into()],
    };
    check_request(A, "wf|GIT|S|a|S|b", &data);
    let one = |snapshot_length, letters| ItemData {
        snapshot_length,
        source_frequency: 0.0,
        modes: modes(letters),
    };
    let line = "wf|GIT|I|20|D|0|M|RM|I|20|D|0|M|RM";
    check_reply(
        A,
        line,
        2,
        Ok(AdapterReply::ItemData(vec![one(20, "RM"); 2])),
    );
    let line = "wf|GIT|I|0|D|0.0|M|RMDC|I|0|D|0.0|M|RMDC";
    check_reply(
        B,
        line,
        2,
        Ok(AdapterReply::ItemData(vec![one(0, "RMDC"); 2])),
    );
    let user = AdapterRequest::GetUserItemData {
        user: text("anna"),
        items: vec!["a".into()],
    };
    check_request(A, "wg|GUI|S|anna|S|a", &user);
    let data = UserItemData {
        buffer_size: 0,
        frequency_max: 2.5,
        modes: modes("MD"),
    };
    check_reply(
        A,
        "wg|GUI|I|0|D|2.5|M|MD",
        1,
        Ok(AdapterReply::UserItemData(vec![data])),
    );
}

const TABLE_1_9: &str =
    "I|3|M|M|S|mine|S|QuickStart|S|bid ask|I|1|I|2|S|#|I|2|S|orders-[account=anna]|S|q";

#[test]
fn vectors_of_tables_and_messages() {
    let new_tables = |table: TableInfo| AdapterRequest::NotifyNewTables {
        user: text("anna"),
        session: "Sab1".into(),
        table,
    };
    let line = "wh|NNT|S|anna|S|Sab1|I|3|M|M|S|mine|S|bid+ask|I|1|I|1|S|#";
    check_request(A, line, &new_tables(table()));
    let line = format!("wh|NNT|S|anna|S|Sab1|{TABLE_1_9}");
    check_request(B, &line, &new_tables(table_1_9()));
    let accepted = |both| AdapterReply::Tables {
        can_unsubscribe: both,
        wants_statistics: both,
    };
    check_reply(A, "wh|NNT|V", 0, Ok(accepted(false)));
    check_reply(B, "wh|NNT|V", 0, Ok(accepted(false)));
    check_reply(B, "wh|NNT|B|1|B|1", 0, Ok(accepted(true)));
    check_reply(
        B,
        "wh|NNT|EC|too many|-5|#",
        0,
        exception(credits(-5, None), "too many"),
    );
    let short: Vec<_> = line.split('|').collect();
    let short = short[..short.len() - 6].join("|");
    let error = AdapterRequest::decode(&short, B).map(drop);
    assert_eq!(error, Err(AriError::Missing));

    let close = |table: TableInfo, statistics| AdapterRequest::NotifyTablesClose {
        session: "Sab1".into(),
        table,
        statistics,
    };
    let line = "wk|NTC|S|Sab1|I|3|M|M|S|mine|S|bid+ask|I|1|I|1|S|#";
    check_request(A, line, &close(table(), Vec::new()));
    let statistics = [(10, 0, 3), (7, 1, 0)].map(|(sent, lost, filtered)| TableStatistics {
        sent,
        lost,
        filtered,
    });
    let line = format!("wk|NTC|S|Sab1|{TABLE_1_9}|I|2|L|10|L|0|L|3|L|7|L|1|L|0");
    check_request(B, &line, &close(table_1_9(), statistics.to_vec()));
    check_reply(B, "wk|NTC|V", 0, Ok(AdapterReply::Void));

    let message = |text: &str| AdapterRequest::NotifyUserMessage {
        user: Some("anna".into()),
        session: "Sab1".into(),
        message: text.into(),
    };
    for version in [A, B] {
        check_request(version, "wl|NUM|S|anna|S|Sab1|S|buy", &message("buy"));
        check_reply(version, "wl|NUM|V", 0, Ok(AdapterReply::Void));
        let refused = exception(credits(-3, None), "refused");
        check_reply(version, "wm|NUM|EC|refused|-3|#", 0, refused);
        let bad = exception(ExceptionKind::Notification, "bad");
        check_reply(version, "wn|NUM|EN|bad", 0, bad);
        let end = AdapterRequest::NotifySessionClose {
            session: "Sab1".into(),
        };
        check_request(version, "wo|NSC|S|Sab1", &end);
        check_reply(version, "wo|NSC|V", 0, Ok(AdapterReply::Void));
        let close = AdapterRequest::Close {
            reason: "going down".into(),
        };
        check_request(version, "0|CLOSE|S|reason|S|going+down", &close);
    }
    let unknown = AdapterRequest::decode("wz|XYZ|S|a", B).map(drop);
    assert_eq!(unknown, Err(AriError::UnknownMethod));
}

#[test]
fn vectors_of_adapter_requests() {
    let end = |cause| AdapterNotification::ForceSessionEnd {
        session: "Sab1".into(),
        cause,
    };
    let unsubscribe = AdapterNotification::ForceUnsubscription {
        session: "Sab1".into(),
        window: 3,
    };
    let failure = AdapterNotification::Failure {
        message: text("database is gone"),
    };
    let closed = end(Some((-12, text("closed, by office"))));
    let rows = [
        ("64", "64|FST|S|Sab1|V", end(None)),
        ("65", "65|FST|S|Sab1|I|-12|S|closed, by office", closed),
        ("66", "66|FUS|S|Sab1|I|3", unsubscribe),
        ("2", "2|FAL|E|database is gone", failure),
    ];
    for (id, line, expected) in rows {
        let parse = |line: &str| match AdapterLine::parse(line, B) {
            Ok(AdapterLine::Notification(found, one)) if found == id => one,
            other => panic!("{line}: {other:?}"),
        };
        assert!(parse(line) == expected, "{line}");
        let mut own = String::new();
        expected.encode(id, &mut own);
        assert!(parse(own.trim_end()) == expected, "{own}");
    }
    let result = |request: &AdapterNotification, id: &str, result: NotificationResult| {
        let mut line = String::new();
        request.encode_result(id, &result, &mut line);
        line
    };
    let ends = result(&end(None), "64", NotificationResult::SessionEnds);
    assert_eq!(ends, "64|FST|V\r\n");
    let failed = result(
        &end(None),
        "65",
        NotificationResult::Failed("not now".into()),
    );
    assert_eq!(failed, "65|FST|E|not%20now\r\n");
    let unsubscribe = AdapterNotification::ForceUnsubscription {
        session: "Sab1".into(),
        window: 3,
    };
    let done = result(&unsubscribe, "66", NotificationResult::Unsubscribed(true));
    assert_eq!(done, "66|FUS|B|1\r\n");
    let alive = AdapterLine::parse("KEEPALIVE", B);
    assert!(matches!(alive, Ok(AdapterLine::KeepAlive)));
}

#[test]
fn node_gets_tables_without_items() {
    let mut line = String::new();
    let node = AdapterPeer {
        is_node: true,
        ..peer(B)
    };
    let request = AdapterRequest::NotifyNewTables {
        user: None,
        session: "S".into(),
        table: table_1_9(),
    };
    request.encode("1", &node, &mut line);
    assert!(line.ends_with("|S|#|I|0\r\n"), "{line}");
    assert!(node.understands_close() && peer(A).understands_close());
    assert!(!peer(AriVersion::V180).understands_close());
}

#[test]
fn faults_spoil_the_reply_or_the_connection() {
    let error = |line: &str| decode_reply(B, line, 1).unwrap_err();
    let fatal = [
        ("", AriError::Line),
        ("x", AriError::Line),
        ("x||V", AriError::Line),
        ("x|XYZ|V", AriError::UnknownMethod),
        ("x|MPI|S|ARI.version|S|3.0", AriError::Version),
    ];
    for (line, expected) in fatal {
        assert_eq!(error(line), expected, "{line}");
        assert!(expected.is_fatal());
    }
    let count = AriError::Count {
        found: 2,
        expected: 1,
    };
    let spoiled = [
        ("x|NUS|D|nan|B|1", AriError::Value { kind: 'D' }),
        ("x|NUS|D|inf|B|1", AriError::Value { kind: 'D' }),
        ("x|NUS|D|-1|B|1", AriError::Value { kind: 'D' }),
        ("x|NUS|D|1e999|B|1", AriError::Value { kind: 'D' }),
        ("x|NUS|D|1|B|2", AriError::Value { kind: 'B' }),
        ("x|NUS|D|1", AriError::Missing),
        ("x|NUS|I|1|B|1", AriError::Type { expected: 'D' }),
        ("x|NUS|D|1|B|1|S|x", AriError::Trailing),
        ("x|NUS|EI|x", AriError::Exception),
        ("x|NUS|EZ|x", AriError::Exception),
        ("x|NUS|EC|x|y|#", AriError::Value { kind: 'I' }),
        ("x|NUS|EC|x|1", AriError::Missing),
        ("x|GIS|S|%zz", AriError::Value { kind: 'S' }),
        ("x|GIS|S|#", AriError::Value { kind: 'S' }),
        ("x|GIT|I|1|D|1|M|Z", AriError::Value { kind: 'M' }),
        ("x|GIT|I|99999999999|D|1|M|R", AriError::Value { kind: 'I' }),
        ("x|GIT|I|1|D|1|M|R|I|1|D|1|M|R", count),
        ("x|FAL|S|x", AriError::Type { expected: 'E' }),
    ];
    for (line, expected) in spoiled {
        assert_eq!(error(line), expected, "{line}");
        assert!(!expected.is_fatal());
    }
    let many = format!("x|GIS{}", "|S|a".repeat(10_001));
    assert_eq!(error(&many), AriError::TooMany);
    let huge = format!(
        "x|NNT|S|u|S|s|{}",
        TABLE_1_9.replace("|I|2|S|orders", "|I|2000000|S|o")
    );
    assert_eq!(
        AdapterRequest::decode(&huge, B).map(drop),
        Err(AriError::TooMany)
    );
    let AdapterLine::Reply(reply) = AdapterLine::parse("x|NUM|V", B).unwrap() else {
        panic!("a reply");
    };
    let other = reply.decode(AdapterMethod::NotifySessionClose, 0, B);
    assert_eq!(other, Err(AriError::OtherMethod));
}

#[test]
fn positive_codes_are_cleared() {
    check_reply(B, "w|NUM|EC|x|-3|#", 0, exception(credits(-3, None), "x"));
    let decoded = decode_reply(B, "w|NUM|EC|x|7|#", 0);
    assert_eq!(decoded, Ok(exception(credits(0, None), "x")));
}

#[test]
fn debug_texts_show_no_password() {
    let request = user_request(Some("anna"), "s3cret", None);
    assert_eq!(format!("{request:?}"), "AdapterRequest(NUS)");
}

/// Types and methods.
const NAMES: &[&str] = &[
    "S", "I", "D", "B", "M", "V", "E", "EC", "FST", "RAC", "NUS", "GIT",
];

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,3}", ".{0,5}", "[#$+|%\r\n é]{0,4}"]
}

proptest! {
    #![proptest_config(support::property_config(300))]

    #[test]
    fn requests_read_back(
        texts in prop::collection::vec(any_text(), 6),
        numbers in prop::collection::vec(any::<i32>(), 3),
        items in prop::collection::vec(any_text(), 0..5),
        version in prop_oneof![Just(AriVersion::V180), Just(A), Just(B)],
        user in prop::option::of(any_text()),
    ) {
        let mut one = texts.iter().cloned();
        let mut next = || one.next().unwrap();
        let is_1_9 = version == B;
        let table = TableInfo {
            window: numbers[0],
            mode: ItemMode::Distinct,
            group: next(),
            data_adapter: user.clone().filter(|_| is_1_9),
            schema: next(),
            first: numbers[1],
            last: numbers[2],
            selector: Some(next()),
            items: if is_1_9 { items.clone() } else { Vec::new() },
        };
        let requests = [
            AdapterRequest::NotifyNewTables { user: user.clone(), session: next(), table },
            AdapterRequest::GetUserItemData { user: user.clone(), items: items.clone() },
            AdapterRequest::NotifyUser {
                user: user.clone(), password: Some(next()),
                headers: items.iter().map(|text| Parameter::new(text, text)).collect(),
            },
        ];
        for request in requests {
            let line = encode(&request, "1", version);
            prop_assert!(!line.contains(['\r', '\n', '+']));
            prop_assert!(AdapterRequest::decode(&line, version) == Ok(("1", request)), "{}", line);
        }
    }

    #[test]
    fn random_lines_never_panic(
        tokens in prop::collection::vec(prop_oneof![
            "[A-Z]{1,3}", "[a-z0-9%+#$.-]{0,5}",
            prop::sample::select(NAMES)
                .prop_map(str::to_owned),
        ], 0..12),
    ) {
        let line = tokens.join("|");
        for version in [AriVersion::V180, A, B] {
            let _ = AdapterRequest::decode(&line, version);
            if let Ok(AdapterLine::Reply(reply)) = AdapterLine::parse(&line, version) {
                let method = reply.method;
                let _ = reply.decode(method, 1, version);
            }
        }
    }
}
