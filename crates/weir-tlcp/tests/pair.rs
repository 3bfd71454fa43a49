//! Client and server connected in memory, with a scripted clock: whole sessions without sockets.

use std::collections::BTreeMap;

use weir_tlcp::client::{
    AddParams, ClientSession, ClientSessionConfig, ClientState, CreateParams, ItemState, Line,
    Lines, SessionEvent, parse_line,
};
use weir_tlcp::codes::{ControlCode, SessionCode};
use weir_tlcp::request::{Control, ControlOp, CreateSession, Request, parse_ws_message};
use weir_tlcp::server::{
    Session, SessionConfig, SessionId, SessionLocation, Subscription, WakeOutcome,
    push_delta_payload, push_full_payload, push_overflow, push_update_prefix, write_conerr,
    write_end, write_loop, write_reqerr, write_reqok, write_wsok,
};

const FIELDS: usize = 2;
const SUBSCRIPTIONS_MAX: usize = 3;

type Values = Vec<Option<String>>;

/// Server of one WebSocket: uses the server end like a gateway, with one item per group.
struct Server {
    config: SessionConfig,
    session: Option<Session<Option<Values>>>,
    out: Vec<u8>,
}

impl Server {
    fn new() -> Self {
        let config = SessionConfig {
            server_name: "weir".into(),
            ..SessionConfig::default()
        };
        Self {
            config,
            session: None,
            out: Vec::new(),
        }
    }

    fn on_message(&mut self, text: &str, now_ms: u64) {
        parse_ws_message(text, &mut |request| match request {
            Err(error) => error.write(&mut self.out),
            Ok(request) => self.on_request(request, now_ms),
        });
    }

    fn on_request(&mut self, request: Request<'_>, now_ms: u64) {
        if let Some(session) = &mut self.session {
            session.touch(now_ms);
        }
        match request {
            Request::Wsok => write_wsok(&mut self.out),
            Request::CreateSession(create) => self.create(&create, now_ms),
            Request::Control(control) => self.control(&control),
            Request::Heartbeat(_) => {}
            other => panic!("not part of these scripts: {other:?}"),
        }
    }

    fn create(&mut self, create: &CreateSession<'_>, now_ms: u64) {
        if create.adapter_set != "DEFAULT" {
            let code = SessionCode::ADAPTER_SET_UNKNOWN;
            return write_conerr(&mut self.out, code, "no such set, sorry");
        }
        let id = SessionId::new(SessionLocation { shard: 0, slot: 0 }, &[0; 16]);
        let ip = "127.0.0.1";
        let session = Session::create(id, create, &self.config, ip, now_ms, &mut self.out);
        self.session = Some(session);
        create
            .controls
            .iter()
            .for_each(|control| self.control(control));
    }

    fn control(&mut self, control: &Control<'_>) {
        let id = control.request_id.as_deref().unwrap_or_default();
        let Some(session) = &mut self.session else {
            let code = ControlCode::SESSION_NOT_FOUND;
            return write_reqerr(&mut self.out, id, code, code.text());
        };
        let out = &mut self.out;
        match &control.op {
            ControlOp::Add(add) => {
                let subscription = Subscription {
                    sub_id: add.sub_id,
                    mode: add.mode,
                    unfiltered: add.mode == weir_tlcp::request::Mode::Raw,
                    handle: None,
                };
                match session.add_subscription(subscription, SUBSCRIPTIONS_MAX) {
                    Err(code) => return write_reqerr(out, id, code, code.text()),
                    Ok(()) if control.ack => write_reqok(out, Some(id)),
                    Ok(()) => {}
                }
                session.write_subok(add.sub_id, 1, FIELDS as u32, out);
                session.write_conf(add.sub_id, None, out);
                session.count_data(2);
            }
            ControlOp::Delete { sub_id } => match session.remove_subscription(*sub_id) {
                None => {
                    let code = ControlCode::SUBSCRIPTION_NOT_FOUND;
                    write_reqerr(out, id, code, code.text());
                }
                Some(_) => {
                    write_reqok(out, Some(id));
                    session.write_unsub(*sub_id, out);
                    session.count_data(1);
                }
            },
            ControlOp::Destroy {
                cause_code,
                cause_message,
                ..
            } => {
                write_reqok(out, Some(id));
                write_end(out, SessionCode::from_code(*cause_code), cause_message);
                self.session = None;
            }
            other => panic!("not part of these scripts: {other:?}"),
        }
    }

    fn update(&mut self, sub_id: u32, values: [Option<&str>; FIELDS]) {
        let session = self.session.as_mut().expect("a session");
        let slot = &mut session
            .subscription_mut(sub_id)
            .expect("a subscription")
            .handle;
        push_update_prefix(&mut self.out, sub_id, 1);
        match slot {
            None => push_full_payload(&mut self.out, values),
            Some(previous) => {
                let previous = previous.iter().map(Option::as_deref);
                push_delta_payload(&mut self.out, previous, values);
            }
        }
        self.out.extend_from_slice(b"\r\n");
        *slot = Some(values.map(|value| value.map(str::to_owned)).into());
        session.count_data(1);
    }
}

/// Both ends and the clock. `log` contains every message and line in order.
struct Pair<'a> {
    now_ms: u64,
    server: Server,
    client: ClientSession,
    config: ClientSessionConfig<'a>,
    items: BTreeMap<u32, ItemState>,
    log: Vec<String>,
}

impl<'a> Pair<'a> {
    fn new(config: ClientSessionConfig<'a>) -> Self {
        Self {
            now_ms: 1_000_000,
            server: Server::new(),
            client: ClientSession::new(),
            config,
            items: BTreeMap::new(),
            log: Vec::new(),
        }
    }

    /// Delivers lines in both directions until there are none.
    fn deliver_all(&mut self) {
        loop {
            let mut message = Vec::new();
            let sent = self.client.poll_send(&self.config, &mut message);
            if sent {
                let text = String::from_utf8(message).expect("requests are UTF-8");
                self.log.push(format!("« {text}"));
                self.server.on_message(&text, self.now_ms);
            }
            let received = self.deliver();
            if !sent && !received {
                return;
            }
        }
    }

    fn deliver(&mut self) -> bool {
        let bytes = std::mem::take(&mut self.server.out);
        if let (Some(session), false) = (&mut self.server.session, bytes.is_empty()) {
            session.wrote(self.now_ms);
        }
        let mut lines = Lines::new(&bytes);
        for line in lines.by_ref() {
            self.log
                .push(format!("» {}", String::from_utf8_lossy(line)));
            let line = parse_line(line).expect("valid line");
            match self.client.on_line(&line, &self.config) {
                SessionEvent::Subscribed { sub_id, fields, .. } => {
                    self.items.insert(sub_id, ItemState::new(fields as usize));
                }
                SessionEvent::Notification(Line::Update {
                    sub_id, payload, ..
                }) => {
                    let item = self.items.get_mut(sub_id).expect("subscribed before");
                    item.apply(payload).expect("valid update");
                }
                _ => {}
            }
        }
        assert!(lines.remainder().is_empty(), "only whole lines are written");
        if let Some(session) = &self.server.session {
            assert_eq!(
                session.data_count(),
                self.client.data_count(),
                "data counts differ"
            );
        }
        !bytes.is_empty()
    }

    /// Advances the time, and wakes the server at the times it requests.
    fn advance(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while let Some(session) = &mut self.server.session {
            let wake = session.next_wake_ms();
            assert!(wake > self.now_ms, "wake-up time is in the past");
            if wake > end {
                break;
            }
            self.now_ms = wake;
            if session.on_wake(wake, &mut self.server.out) == WakeOutcome::Inactive {
                self.server.session = None;
            }
            self.deliver_all();
        }
        self.now_ms = end;
    }

    /// Returns the log since the last call. Client messages are shortened to the pairs of their
    /// last line.
    fn log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }
}

fn config<'a>(adds: Vec<AddParams<'a>>) -> ClientSessionConfig<'a> {
    ClientSessionConfig {
        adds,
        ..ClientSessionConfig::default()
    }
}

#[test]
fn complete_session_transcript() {
    let mut pair = Pair::new(config(vec![AddParams::raw(1, "apple", "last qty")]));
    pair.deliver_all();
    assert_eq!(
        pair.log(),
        [
            "« wsok",
            "» WSOK",
            "« create_session\r\nLS_send_sync=false&LS_cid=mgQkwtwdysogQz2BJ4Ji%20kOj2Bg\
             &LS_supported_diffs=",
            "» CONOK,SAAAAAAAAAAAAAAAAAAAAAAAAAA,50000,5000,*",
            "» SERVNAME,weir",
            "» CLIENTIP,127.0.0.1",
            "» CONS,unlimited",
            "« control\r\nLS_reqId=1&LS_op=add&LS_subId=1&LS_mode=RAW&LS_group=apple\
             &LS_schema=last%20qty&LS_ack=false",
            "» SUBOK,1,1,2",
            "» CONF,1,unlimited,unfiltered",
        ]
    );
    assert_eq!(pair.client.state(), ClientState::Connected);
    assert_eq!(pair.client.subscribed(), 1);

    pair.server.update(1, [Some("1"), None]);
    pair.server.update(1, [Some("1"), None]);
    pair.server.update(1, [Some("2|"), Some("")]);
    pair.deliver_all();
    assert_eq!(pair.log(), ["» U,1,1,1|#", "» U,1,1,|", "» U,1,1,2%7C|$"]);
    assert_eq!(
        pair.items[&1].values().collect::<Vec<_>>(),
        [Some("2|"), Some("")]
    );
    assert_eq!(pair.client.data_count(), 5);

    pair.advance(4_999);
    assert_eq!(pair.log(), [""; 0]);
    pair.advance(1);
    assert_eq!(pair.log(), ["» PROBE"]);
    pair.advance(3_000);
    pair.server.update(1, [Some("3"), Some("")]);
    pair.deliver_all();
    pair.advance(4_999);
    assert_eq!(pair.log(), ["» U,1,1,3|"], "data postpones the probe");
    pair.advance(10_001);
    assert_eq!(pair.log(), ["» PROBE"; 3]);

    pair.client.delete(1);
    pair.deliver_all();
    let expected = [
        "« control\r\nLS_reqId=2&LS_op=delete&LS_subId=1",
        "» REQOK,2",
        "» UNSUB,1",
    ];
    assert_eq!(pair.log(), expected);
    pair.client.destroy();
    pair.deliver_all();
    let expected = [
        "« control\r\nLS_reqId=3&LS_op=destroy&LS_close_socket=true",
        "» REQOK,3",
        "» END,31,Session closed by the client",
    ];
    assert_eq!(pair.log(), expected);
    assert_eq!(pair.client.state(), ClientState::Closed);
}

#[test]
fn sync_replaces_probe_at_its_interval() {
    let create = CreateParams {
        send_sync: true,
        ..CreateParams::default()
    };
    let mut pair = Pair::new(ClientSessionConfig {
        create,
        ..ClientSessionConfig::default()
    });
    pair.deliver_all();
    pair.log();
    pair.advance(12_500);
    assert_eq!(pair.log(), ["» SYNC,4", "» SYNC,8", "» SYNC,12"]);
}

#[test]
fn late_wake_up_sends_one_sync() {
    let create = CreateParams {
        send_sync: true,
        ..CreateParams::default()
    };
    let mut pair = Pair::new(ClientSessionConfig {
        create,
        ..ClientSessionConfig::default()
    });
    pair.deliver_all();
    let session = pair.server.session.as_mut().expect("a session");
    let mut out = Vec::new();
    let late = pair.now_ms + 60_500;
    assert_eq!(session.on_wake(late, &mut out), WakeOutcome::Written);
    assert_eq!(out, b"SYNC,60\r\n");
    assert_eq!(session.on_wake(late, &mut out), WakeOutcome::Idle);
    assert_eq!(session.next_wake_ms(), late + 4_000);
}

#[test]
fn keepalive_is_limited_by_config() {
    for (requested, granted) in [
        (Some(1), 1_000),
        (Some(7_000), 7_000),
        (Some(90_000), 60_000),
    ] {
        let create = CreateParams {
            keepalive_ms: requested,
            ..CreateParams::default()
        };
        let mut pair = Pair::new(ClientSessionConfig {
            create,
            ..ClientSessionConfig::default()
        });
        pair.deliver_all();
        assert_eq!(pair.client.keepalive_ms(), granted);
        pair.log();
        pair.advance(granted);
        assert_eq!(pair.log(), ["» PROBE"]);
    }
}

#[test]
fn reduced_head_contains_only_conok() {
    let create = CreateParams {
        reduce_head: true,
        ..CreateParams::default()
    };
    let mut pair = Pair::new(ClientSessionConfig {
        create,
        ..ClientSessionConfig::default()
    });
    pair.deliver_all();
    let lines: Vec<_> = pair
        .log()
        .into_iter()
        .filter(|line| line.starts_with('»'))
        .collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[1].starts_with("» CONOK,"));
}

#[test]
fn inactive_client_is_detected() {
    let create = CreateParams {
        inactivity_ms: Some(2_000),
        ..CreateParams::default()
    };
    let mut pair = Pair::new(ClientSessionConfig {
        create,
        ..ClientSessionConfig::default()
    });
    pair.deliver_all();
    pair.advance(4_000);
    pair.server.on_message("heartbeat\r\n\r\n", pair.now_ms);
    pair.advance(4_999);
    assert!(pair.server.session.is_some());
    pair.advance(1);
    assert!(pair.server.session.is_none());
}

#[test]
fn combo_request_subscribes_without_round_trip() {
    let adds = vec![AddParams::raw(1, "a", "x y"), AddParams::raw(2, "b", "x y")];
    let mut pair = Pair::new(ClientSessionConfig {
        subscribes_in_create: true,
        ..config(adds)
    });
    pair.deliver_all();
    let log = pair.log();
    assert_eq!(log.iter().filter(|line| line.starts_with('«')).count(), 2);
    assert!(log.iter().all(|line| !line.contains("REQOK")));
    assert_eq!(pair.client.subscribed(), 2);
}

#[test]
fn batch_responses_are_in_order() {
    let mut pair = Pair::new(config(Vec::new()));
    pair.deliver_all();
    pair.log();
    let add = |id: u32, sub: u32| {
        format!("LS_reqId={id}&LS_op=add&LS_subId={sub}&LS_mode=RAW&LS_group=g&LS_schema=s%20t")
    };
    let delete = |id: u32, sub: u32| format!("LS_reqId={id}&LS_op=delete&LS_subId={sub}");
    let lines = [
        add(1, 5),
        add(2, 5),
        delete(3, 5),
        add(4, 5),
        delete(5, 9),
        "LS_reqId=6&LS_op=nonsense".to_owned(),
        add(7, 6),
        add(8, 4_000_000_000),
        add(9, 7),
    ];
    pair.server.on_message(
        &format!("control\r\n{}\r\n", lines.join("\r\n")),
        pair.now_ms,
    );
    pair.deliver();
    let responses: Vec<_> = pair
        .log()
        .into_iter()
        .filter(|line| line.contains("REQ"))
        .collect();
    assert_eq!(
        responses,
        [
            "» REQOK,1",
            "» REQERR,2,68,Subscription id already in use",
            "» REQOK,3",
            "» REQOK,4",
            "» REQERR,5,19,Subscription not found",
            "» REQERR,6,65,Syntax error: LS_op=nonsense",
            "» REQOK,7",
            "» REQOK,8",
            "» REQERR,9,68,Too many subscriptions in this session",
        ]
    );
}

#[test]
fn resubscribed_item_starts_with_all_fields() {
    let mut pair = Pair::new(config(vec![AddParams::raw(1, "a", "x y")]));
    pair.deliver_all();
    pair.server.update(1, [Some("1"), Some("2")]);
    pair.client.delete(1);
    pair.deliver_all();
    pair.log();
    let text = "control\r\nLS_reqId=9&LS_op=add&LS_subId=1&LS_mode=RAW&LS_group=a&LS_schema=x%20y";
    pair.server.on_message(text, pair.now_ms);
    pair.server.update(1, [Some("1"), Some("2")]);
    pair.deliver_all();
    assert_eq!(pair.log().pop().as_deref(), Some("» U,1,1,1|2"));
}

#[test]
fn lost_updates_are_reported_and_counted() {
    let mut pair = Pair::new(config(vec![AddParams::raw(1, "a", "x y")]));
    pair.deliver_all();
    let session = pair.server.session.as_mut().expect("a session");
    push_overflow(&mut pair.server.out, 1, 1, 12);
    session.count_data(1);
    pair.deliver_all();
    assert_eq!(pair.log().pop().as_deref(), Some("» OV,1,1,12"));
    assert_eq!(pair.client.data_count(), 3);
}

#[test]
fn refused_session_is_closed() {
    let create = CreateParams {
        adapter_set: Some("OTHER"),
        ..CreateParams::default()
    };
    let mut pair = Pair::new(ClientSessionConfig {
        create,
        ..ClientSessionConfig::default()
    });
    pair.deliver_all();
    assert_eq!(
        pair.log().pop().as_deref(),
        Some("» CONERR,2,no such set%2C sorry")
    );
    assert_eq!(pair.client.state(), ClientState::Closed);
}

#[test]
fn client_binds_again_after_loop() {
    let config = config(vec![AddParams::raw(1, "a", "x y")]);
    let mut pair = Pair::new(config.clone());
    pair.deliver_all();
    let mut line = Vec::new();
    write_loop(&mut line, 0);
    let line = parse_line(line.trim_ascii_end()).expect("a line");
    assert_eq!(
        pair.client.on_line(&line, &config),
        SessionEvent::Loop { delay_ms: 0 }
    );
    assert_eq!(pair.client.state(), ClientState::Unbound);
    pair.client.rebind(true);
    let mut messages = Vec::new();
    loop {
        let mut out = Vec::new();
        if !pair.client.poll_send(&config, &mut out) {
            break;
        }
        messages.push(String::from_utf8(out).expect("UTF-8"));
    }
    let expected = [
        "wsok",
        "bind_session\r\nLS_session=SAAAAAAAAAAAAAAAAAAAAAAAAAA&LS_keepalive_millis=5000\
         &LS_send_sync=false",
    ];
    assert_eq!(messages, expected);
    let bound = parse_line(b"CONOK,SAAAAAAAAAAAAAAAAAAAAAAAAAA,50000,5000,*").expect("a line");
    assert_eq!(
        pair.client.on_line(&bound, &config),
        SessionEvent::Connected
    );
    assert!(
        !pair.client.poll_send(&config, &mut Vec::new()),
        "subscriptions are preserved"
    );
}

/// Messages of an official SDK (chapter 13 of the reference), as far as they apply to mode RAW.
#[test]
fn sdk_transcript_is_reproduced() {
    let mut server = Server::new();
    for message in [
        "wsok",
        "create_session\r\nLS_adapter_set=DEFAULT&LS_cid=tqGko0tg4pkpW3EAM3O4hwLri8M4OC63i7x\
         &LS_send_sync=false&LS_cause=api",
        "control\r\nLS_reqId=1&LS_op=add&LS_subId=1&LS_mode=RAW&LS_group=item1\
         &LS_schema=n%20a&LS_ack=false",
        "control\r\nLS_reqId=5&LS_subId=1&LS_op=delete&LS_ack=false&LS_cause=zombie",
        "control\r\nLS_reqId=6&LS_op=destroy&LS_close_socket=true&LS_cause=api",
    ] {
        server.on_message(message, 0);
    }
    let text = String::from_utf8(server.out).expect("UTF-8");
    let tags: Vec<_> = text
        .lines()
        .map(|line| line.split(',').next().unwrap_or(""))
        .collect();
    let expected = [
        "WSOK", "CONOK", "SERVNAME", "CLIENTIP", "CONS", "SUBOK", "CONF", "REQOK", "UNSUB",
        "REQOK", "END",
    ];
    assert_eq!(tags, expected);
}
