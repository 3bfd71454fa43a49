//! The vectors of chapter 18.1, accepted and refused input, and error codes.

use super::*;
use crate::error::ErrorLine;
use crate::{RequestError, Version};

fn ws(text: &str) -> Vec<Result<Request<'_>, RequestError>> {
    let mut found = Vec::new();
    parse_ws_message(text, &mut |request| found.push(request));
    found
}

fn http<'a>(name: &str, query: &'a str, body: &'a str) -> Vec<Result<Request<'a>, RequestError>> {
    let mut found = Vec::new();
    parse_http_request(name, query, body, &mut |request| found.push(request));
    found
}

fn one<T>(mut found: Vec<T>) -> T {
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn ok(text: &str) -> Request<'_> {
    one(ws(text)).expect(text)
}

/// Returns the error line of a message that must be refused.
fn error_of(text: &str) -> String {
    error_line(one(ws(text)))
}

fn error_line(result: Result<Request<'_>, RequestError>) -> String {
    let mut out = Vec::new();
    result.expect_err("request error").write(&mut out);
    String::from_utf8(out).expect("UTF-8").trim_end().to_owned()
}

fn control<'a>(request: Request<'a>) -> Control<'a> {
    match request {
        Request::Control(control) => control,
        other => panic!("not a control request: {other:?}"),
    }
}

fn create<'a>(request: Request<'a>) -> CreateSession<'a> {
    match request {
        Request::CreateSession(create) => create,
        other => panic!("not a create request: {other:?}"),
    }
}

fn add(line: &str) -> Add<'_> {
    match control(ok(line)).op {
        ControlOp::Add(add) => add,
        other => panic!("not an add: {other:?}"),
    }
}

#[test]
fn vectors_of_the_specification_parse() {
    assert_eq!(ok("wsok"), Request::Wsok);
    for text in ["heartbeat\r\n\r\n", "heartbeat\r\n", "heartbeat"] {
        assert_eq!(ok(text), Request::Heartbeat(Heartbeat { session: None }));
    }
    let Request::Heartbeat(heartbeat) = ok("heartbeat\r\nLS_session=S1") else {
        panic!("not a heartbeat");
    };
    assert_eq!(heartbeat.session.as_deref(), Some("S1"));

    let text = "control\r\nLS_reqId=1&LS_op=add&LS_subId=1&LS_mode=MERGE&LS_group=a%20b\
                &LS_schema=x%7Cy&LS_ack=false";
    let found = control(ok(text));
    assert_eq!((found.request_id.as_deref(), found.ack), (Some("1"), false));
    let add = add(text);
    assert_eq!(
        (&*add.group, &*add.schema, add.mode),
        ("a b", "x|y", Mode::Merge)
    );

    let batch = ws("control\r\nLS_reqId=1&LS_op=delete&LS_subId=1\r\nLS_reqId=2&LS_op=destroy\r\n");
    let ops: Vec<_> = batch
        .into_iter()
        .map(|line| control(line.expect("valid")).op)
        .collect();
    assert!(matches!(
        ops[..],
        [ControlOp::Delete { sub_id: 1 }, ControlOp::Destroy { .. }]
    ));

    let found = create(ok(
        "create_session\r\nLS_user=j%C3%B6e%26%3D%2B%20%25&LS_cid=x",
    ));
    assert_eq!(found.user.as_deref(), Some("jöe&=+ %"));

    let Request::BindSession(bind) = ok("bind_session\r\nLS_cause=loop1&LS_session=S1&\r\n") else {
        panic!("not a bind");
    };
    assert_eq!(bind.session.as_deref(), Some("S1"));

    let text = "msg\r\nLS_reqId=9&LS_message=a+b";
    let Request::Message(message) = ok(text) else {
        panic!("not a message");
    };
    assert_eq!(
        (&*message.text, message.outcome, message.ack),
        ("a+b", false, true)
    );
    assert_eq!(error_of("control"), "ERROR,67,Malformed request");
}

#[test]
fn create_session_reads_values_and_defaults() {
    let plain = create(ok("create_session\r\nLS_cid=x"));
    assert_eq!(plain.adapter_set, "DEFAULT");
    assert_eq!(
        (plain.user, plain.password.is_none(), plain.ttl),
        (None, true, TimeToLive::Unknown)
    );
    assert_eq!(
        plain.supported_diffs,
        Diffs {
            json_patch: true,
            tlcp_diff: true
        }
    );
    assert!(plain.stream.polling.is_none() && plain.stream.send_sync && !plain.stream.reduce_head);

    let full = create(ok(
        "create_session\r\nLS_keepalive_millis=7000&LS_inactivity_millis=3000\
                          &LS_requested_max_bandwidth=2.5&LS_adapter_set=A%20B&LS_user=&LS_cid=x\
                          &LS_send_sync=false&LS_supported_diffs=T,Q&LS_reduce_head=true\
                          &LS_ttl_millis=unlimited&LS_old_session=Sabcdefgh&LS_content_length=90\
                          &LS_password=geheim&LS_cause=api&LS_nonsense=1",
    ));
    assert_eq!(
        (full.stream.keepalive_ms, full.stream.inactivity_ms),
        (Some(7000), Some(3000))
    );
    assert_eq!(full.requested_max_bandwidth, Some(Bandwidth::Kbps(2.5)));
    assert_eq!(
        (&*full.adapter_set, full.user.as_deref()),
        ("A B", Some(""))
    );
    assert!(!full.stream.send_sync && full.stream.reduce_head);
    assert_eq!(
        full.supported_diffs,
        Diffs {
            json_patch: false,
            tlcp_diff: true
        }
    );
    assert_eq!(
        (full.ttl, full.stream.content_length),
        (TimeToLive::Unlimited, Some(90))
    );
    assert_eq!(full.password.as_ref().map(Password::reveal), Some("geheim"));
    let shown = format!("{full:?}");
    assert!(
        !shown.contains("geheim") && !shown.contains("Sabcdefgh"),
        "{shown}"
    );

    let none = create(ok("create_session\r\nLS_supported_diffs="));
    assert_eq!(
        none.supported_diffs,
        Diffs {
            json_patch: false,
            tlcp_diff: false
        }
    );
}

#[test]
fn polling_ignores_streaming_options() {
    let text = "create_session\r\nLS_polling=true&LS_polling_millis=0&LS_idle_millis=19000\
                &LS_keepalive_millis=5000&LS_inactivity_millis=x&LS_cid=x";
    let stream = create(ok(text)).stream;
    assert_eq!(
        stream.polling,
        Some(Polling {
            interval_ms: 0,
            idle_ms: 19_000
        })
    );
    assert_eq!(
        (stream.keepalive_ms, stream.inactivity_ms, stream.send_sync),
        (None, None, false)
    );
    let missing = "create_session\r\nLS_polling=true&LS_cid=x";
    assert_eq!(
        error_of(missing),
        "CONERR,67,Malformed request: missing LS_polling_millis"
    );
}

#[test]
fn combo_request_contains_controls() {
    let one = create(ok(
        "create_session\r\nLS_cid=x&LS_op=add&LS_subId=1&LS_mode=RAW&LS_group=g\
                         &LS_schema=s",
    ));
    assert_eq!(one.controls.len(), 1);
    let many = create(ok("create_session\r\nLS_cid=x\r\n\
                          LS_op=add&LS_subId=1&LS_mode=RAW&LS_group=g&LS_schema=s\r\n\
                          LS_op=add&LS_subId=2&LS_mode=RAW&LS_group=g&LS_schema=s\r\n"));
    let ids = many.controls.iter().map(|control| match &control.op {
        ControlOp::Add(add) => (add.sub_id, control.request_id.is_some(), control.ack),
        other => panic!("not an add: {other:?}"),
    });
    assert_eq!(
        ids.collect::<Vec<_>>(),
        [(1, false, false), (2, false, false)]
    );
    assert_eq!(
        error_of("create_session\r\nLS_cid=x\r\nLS_op=add&LS_subId=1&LS_mode=RAW&LS_schema=s"),
        "CONERR,64,Control part of the request failed: Bad item group: LS_group="
    );
    assert_eq!(
        error_of("create_session\r\nLS_cid=x\r\nrubbish"),
        "CONERR,64,Control part of the request failed: Malformed request"
    );
}

#[test]
fn tolerable_deviations_are_accepted() {
    // Raw spaces, raw non-ASCII, doubled `&`, trailing `&`, several trailing empty lines.
    let text = "control\r\nLS_reqId=1&&LS_op=add&LS_subId=7&LS_mode=RAW&LS_group=a b\
                &LS_schema=é&\r\n\r\n\r\n";
    let found = add(text);
    assert_eq!((&*found.group, &*found.schema), ("a b", "é"));
    // The last duplicate wins; names may be encoded; a value may contain a raw equals sign.
    let text = "control\r\nLS_reqId=1&LS_op=add&LS_subId=7&LS%5FsubId=8&LS_mode=RAW&LS_group=a=b\
                &LS_schema=s";
    let found = add(text);
    assert_eq!((found.sub_id, &*found.group), (8, "a=b"));
    assert!(matches!(found.group, Cow::Borrowed(_)));
}

#[test]
fn bare_line_feeds_are_errors() {
    assert_eq!(
        error_of("control\nLS_reqId=1&LS_op=destroy"),
        "ERROR,67,Malformed request"
    );
    let text = "control\r\nLS_reqId=1&LS_op=destroy\nLS_reqId=2&LS_op=destroy";
    let line = error_of(text);
    assert!(
        line.starts_with("ERROR,65,") || line.starts_with("REQERR,"),
        "{line}"
    );
    let text = "control\r\nLS_op=destroy&LS_reqId=1&LS_cause_message=a\nb";
    assert_eq!(
        error_of(text),
        "REQERR,1,65,Syntax error: line break in LS_cause_message"
    );
    let text = "heartbeat\r\nLS_session=S1\r\nLS_session=S2";
    assert!(error_of(text).starts_with("ERROR,65,"));
    let text = "bind_session\r\nLS_session=S1\r\nLS_session=S2";
    assert!(error_of(text).starts_with("CONERR,65,"));
}

#[test]
fn errors_have_exact_codes() {
    for (line, expected) in [
        (
            "LS_op=destroy",
            "ERROR,67,Malformed request: missing LS_reqId",
        ),
        (
            "LS_reqId=&LS_op=destroy",
            "ERROR,67,Malformed request: missing LS_reqId",
        ),
        (
            "LS_reqId=a%2Cb&LS_op=destroy",
            "ERROR,65,Syntax error: LS_reqId=a%2Cb",
        ),
        ("rubbish", "ERROR,67,Malformed request"),
        ("LS_reqId=1&rubbish", "REQERR,1,67,Malformed request"),
        ("LS_reqId=1", "REQERR,1,67,Malformed request: missing LS_op"),
        (
            "LS_reqId=1&LS_op=fly",
            "REQERR,1,65,Syntax error: LS_op=fly",
        ),
        (
            "LS_reqId=1&LS_op=delete",
            "REQERR,1,67,Malformed request: missing LS_subId",
        ),
        (
            "LS_reqId=1&LS_op=delete&LS_subId=0",
            "REQERR,1,65,Syntax error: LS_subId=0",
        ),
        (
            "LS_reqId=1&LS_op=delete&LS_subId=+1",
            "REQERR,1,65,Syntax error: LS_subId=+1",
        ),
        (
            "LS_reqId=1&LS_op=delete&LS_subId=4294967296",
            "REQERR,1,65,Syntax error: LS_subId=4294967296",
        ),
        (
            "LS_reqId=1&LS_op=delete&LS_subId=1&LS_ack=no",
            "REQERR,1,65,Syntax error: LS_ack=no",
        ),
        (
            "LS_reqId=1&LS_op=reconf&LS_subId=1&LS_requested_max_frequency=unfiltered",
            "REQERR,1,65,Syntax error: LS_requested_max_frequency=unfiltered",
        ),
        (
            "LS_reqId=1&LS_op=constrain&LS_requested_max_bandwidth=-1",
            "REQERR,1,65,Syntax error: LS_requested_max_bandwidth=-1",
        ),
        (
            "LS_reqId=1&LS_op=destroy&LS_cause_code=x",
            "REQERR,1,65,Syntax error: LS_cause_code=x",
        ),
    ] {
        assert_eq!(error_of(&format!("control\r\n{line}")), expected, "{line}");
    }
    for op in [
        "register",
        "reset_badge",
        "activate",
        "pn_reconf",
        "deactivate",
    ] {
        let text = format!("control\r\nLS_reqId=5&LS_op={op}");
        assert_eq!(error_of(&text), "REQERR,5,40,MPN module not available");
    }
    assert_eq!(
        error_of("create_session\r\nLS_send_sync=1"),
        "CONERR,65,Syntax error: LS_send_sync=1"
    );
    assert_eq!(
        error_of("bind_session\r\nLS_recovery_from=-1"),
        "CONERR,65,Syntax error: LS_recovery_from=-1"
    );
    assert_eq!(
        error_of("nonsense\r\nLS_reqId=1"),
        "ERROR,67,Malformed request"
    );
    assert_eq!(error_of(""), "ERROR,67,Malformed request");
}

#[test]
fn subscription_errors_use_subscription_codes() {
    let head = "control\r\nLS_reqId=1&LS_op=add&LS_subId=1";
    for (rest, expected) in [
        (
            "&LS_group=g&LS_schema=s",
            "REQERR,1,24,Mode not allowed: LS_mode=",
        ),
        (
            "&LS_group=g&LS_schema=s&LS_mode=raw",
            "REQERR,1,24,Mode not allowed: LS_mode=raw",
        ),
        (
            "&LS_schema=s&LS_mode=RAW",
            "REQERR,1,21,Bad item group: LS_group=",
        ),
        (
            "&LS_group=g&LS_schema=&LS_mode=RAW",
            "REQERR,1,23,Bad field schema: LS_schema=",
        ),
    ] {
        assert_eq!(error_of(&format!("{head}{rest}")), expected, "{rest}");
    }
}

#[test]
fn add_reads_parameters_of_its_mode() {
    let options = "&LS_requested_buffer_size=10&LS_requested_max_frequency=2.5&LS_snapshot=20\
                   &LS_data_adapter=D&LS_selector=x";
    let text = |mode| {
        format!(
            "control\r\nLS_reqId=1&LS_op=add&LS_subId=1&LS_group=g&LS_schema=s\
             &LS_mode={mode}{options}"
        )
    };
    let (raw, distinct, command) = (text("RAW"), text("DISTINCT"), text("COMMAND"));
    let raw = add(&raw);
    assert_eq!(
        (raw.requested_buffer_size, raw.snapshot),
        (None, Snapshot::No)
    );
    assert_eq!(raw.requested_max_frequency, Frequency::Unlimited);
    assert_eq!(
        (raw.data_adapter.as_deref(), raw.selector.as_deref()),
        (Some("D"), Some("x"))
    );
    let distinct = add(&distinct);
    assert_eq!(
        distinct.requested_buffer_size,
        Some(BufferSize::Limited(10))
    );
    assert_eq!(distinct.requested_max_frequency, Frequency::PerSecond(2.5));
    assert_eq!(distinct.snapshot, Snapshot::Length(20));
    assert_eq!(add(&command).requested_buffer_size, None);
}

#[test]
fn destroy_has_specified_code_and_message() {
    for (parameters, code, message) in [
        ("", 31, "Session closed by the client"),
        (
            "&LS_cause_message=ignored",
            31,
            "Session closed by the client",
        ),
        ("&LS_cause_code=-5&LS_cause_message=bye", -5, "bye"),
        ("&LS_cause_code=-5", -5, "null"),
        ("&LS_cause_code=7&LS_cause_message=x", 0, "x"),
    ] {
        let text = format!("control\r\nLS_reqId=1&LS_op=destroy{parameters}&LS_close_socket=true");
        let expected = ControlOp::Destroy {
            cause_code: code,
            cause_message: message.into(),
            close_socket: true,
        };
        assert_eq!(control(ok(&text)).op, expected, "{parameters}");
    }
}

#[test]
fn messages_with_sequence_need_number() {
    for (rest, expected) in [
        ("&LS_outcome=false&LS_ack=false", None),
        ("&LS_sequence=Orders_1&LS_msg_prog=1&LS_max_wait=20", None),
        ("", None),
        (
            "&LS_outcome=false&LS_sequence=A",
            Some("REQERR,2,67,Malformed request: missing LS_msg_prog"),
        ),
        (
            "&LS_msg_prog=0",
            Some("REQERR,2,65,Syntax error: LS_msg_prog=0"),
        ),
        (
            "&LS_sequence=a-b&LS_msg_prog=1",
            Some("REQERR,2,65,Syntax error: LS_sequence=a-b"),
        ),
        (
            "&LS_sequence=UNORDERED_MESSAGES&LS_msg_prog=1",
            Some("REQERR,2,65,Syntax error: LS_sequence=UNORDERED_MESSAGES"),
        ),
    ] {
        let text = format!("msg\r\nLS_reqId=2&LS_message=hi{rest}");
        match expected {
            None => assert!(matches!(ok(&text), Request::Message(_)), "{rest}"),
            Some(line) => assert_eq!(error_of(&text), line, "{rest}"),
        }
    }
}

#[test]
fn http_query_contains_protocol_and_session() {
    const QUERY: &str = "LS_protocol=TLCP-2.5.0&LS_session=S1";
    let body = "LS_reqId=1&LS_op=destroy\r\nLS_reqId=2&LS_op=destroy&LS_session=S2";
    let sessions = http("control", QUERY, body).into_iter().map(|line| {
        control(line.expect("valid"))
            .session
            .map(|id| id.as_str().to_owned())
    });
    assert_eq!(
        sessions.collect::<Vec<_>>(),
        [Some("S1".into()), Some("S2".into())]
    );

    let heartbeat = one(http("heartbeat", QUERY, "\r\n")).expect("valid");
    assert!(matches!(
        heartbeat,
        Request::Heartbeat(Heartbeat { session: Some(_) })
    ));
    let get = one(http(
        "create_session",
        "LS_protocol=TLCP-2.5.0&LS_user=u&LS_cid=x",
        "",
    ));
    assert_eq!(create(get.expect("valid")).user.as_deref(), Some("u"));

    let no_session = "LS_protocol=TLCP-2.5.0";
    let text = error_line(one(http("control", no_session, "LS_reqId=1&LS_op=destroy")));
    assert_eq!(text, "REQERR,1,20,Session not found");
    let text = error_line(one(http("bind_session", no_session, "LS_cause=x")));
    assert_eq!(text, "CONERR,20,Session not found");
}

#[test]
fn http_request_has_version() {
    for version in Version::all() {
        let query = format!("LS_protocol={}&LS_session=S1", version.name());
        let made = create(one(http("create_session", &query, "LS_cid=x")).expect("valid"));
        assert_eq!(made.version, Some(version));
        match one(http("bind_session", &query, "LS_cause=x")).expect("valid") {
            Request::BindSession(bind) => assert_eq!(bind.version, Some(version)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(create(ok("create_session\r\nLS_cid=x")).version, None);
}

#[test]
fn http_refuses_unknown_versions() {
    let text = error_line(one(http(
        "create_session",
        "LS_protocol=TLCP-2.0.0",
        "LS_cid=x",
    )));
    assert_eq!(
        text,
        "CONERR,60,Protocol TLCP-2.0.0 is not served: use TLCP-2.5.0"
    );
    let text = error_line(one(http(
        "control",
        "LS_session=S1",
        "LS_reqId=1&LS_op=destroy",
    )));
    assert_eq!(text, "ERROR,67,Malformed request: missing LS_protocol");
    let text = error_line(one(http("wsok", "LS_protocol=TLCP-2.5.0", "")));
    assert_eq!(text, "ERROR,67,Malformed request");
}

#[test]
fn request_error_has_request_id() {
    let error = one(ws("control\r\nLS_reqId=1")).expect_err("no operation");
    assert_eq!((error.request_id(), error.code()), (Some("1"), 67));
    assert_eq!(error.error_line(), &ErrorLine::ReqErr("1".into()));
    assert_eq!(
        one(ws("bogus")).expect_err("no such request").request_id(),
        None
    );
}

#[test]
fn batches_split_at_cr_lf_in_order() {
    let lines = [
        "LS_reqId=1&LS_op=delete&LS_subId=1",
        "LS_reqId=2",
        "",
        "LS_reqId=4&LS_op=destroy",
    ];
    let text = format!("control\r\n{}\r\n", lines.join("\r\n"));
    let results: Vec<_> = ws(&text)
        .into_iter()
        .map(|result| match result {
            Ok(request) => control(request).request_id.unwrap_or_default().into_owned(),
            Err(error) => format!("{} {:?}", error.code(), error.request_id()),
        })
        .collect();
    assert_eq!(results, ["1", "67 Some(\"2\")", "67 None", "4"]);
}

#[test]
fn long_values_are_shortened_in_messages() {
    let line = error_of(&format!("control\r\nLS_reqId=1&LS_op={}", "x".repeat(5000)));
    assert!(line.len() < 120 && line.ends_with('…'), "{line}");
}
