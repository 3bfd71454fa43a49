//! New tokens in a session, and classes of records.

use super::super::messages::messages_of;
use super::*;

#[test]
fn new_token_renews_session_and_rights() {
    let mut env = AccessEnv::new(&format!("{AUTH}{RULES}"));
    env.session(1, r#"{"accounts":["A1","A2"]}"#);
    for (sub_id, key) in [(1, "A1"), (2, "A2"), (3, "free")] {
        let what = format!("LS_group=item-[key={key}]&LS_schema=a&LS_mode=MERGE");
        assert_eq!(env.add(1, sub_id, &what), "REQOK,1");
    }
    let failed = |prog| format!("MSGFAIL,weir_auth,{prog},-10,Token refused");
    let exp = UNIX_START_MS / 1_000 + 1_200;
    let bob = env.token(r#"{"sub":"bob"}"#);
    let foreign = signer("k1").token("{}");
    for (prog, token) in [(1, &*bob), (2, &*foreign), (3, "x")] {
        assert_eq!(
            env.refresh(1, prog, token),
            ["REQOK,5".to_owned(), failed(prog)]
        );
    }
    let renewed = env.token(&format!(r#"{{"accounts":"A2","exp":{exp}}}"#));
    assert_eq!(
        env.refresh(1, 4, &renewed),
        ["REQOK,5", "UNSUB,1", "MSGDONE,weir_auth,4,"]
    );
    assert_eq!(
        env.add(1, 4, "LS_group=item-[key=A1]&LS_schema=a&LS_mode=MERGE"),
        "REQERR,1,-2,Not authorized"
    );
    env.env.pass(700_000);
    env.ws(1, "heartbeat\r\n");
    assert_eq!(env.env.sessions(), 1, "the old token has ended");
    env.env.pass(531_000);
    assert_eq!(env.env.sessions(), 0);
}

#[test]
fn new_token_with_other_records_ends_subscription() {
    let mut env = AccessEnv::new(&format!("{AUTH}{CLASSES}"));
    let what = "LS_group=item-[key=x] item-[key=y]&LS_schema=a&LS_mode=MERGE";
    let both = r#"{"tenant":["acme","zeta"]}"#;
    for (number, claims, remains) in [
        (1, r#"{"tenant":["zeta","acme","acme"]}"#, true),
        (2, r#"{"tenant":["acme"]}"#, false),
        (3, r#"{"tenant":"other"}"#, false),
        (4, r#"{"tenant":["acme","zeta"],"role":"staff"}"#, false),
        (5, "{}", false),
    ] {
        env.session(number, both);
        assert_eq!(env.add(number, 1, what), "REQOK,1");
        let token = env.token(claims);
        let lines = env.refresh(number, 1, &token);
        let ended = lines.contains(&"UNSUB,1".to_owned());
        assert_eq!(ended, !remains, "{claims}: {lines:?}");
    }
    // All records are not a class either.
    env.session(6, r#"{"role":"staff","tenant":"acme"}"#);
    assert_eq!(env.add(6, 1, what), "REQOK,1");
    let token = env.token(r#"{"tenant":"acme"}"#);
    assert!(env.refresh(6, 1, &token).contains(&"UNSUB,1".to_owned()));
    let item = (0, "item-[key=x]".into());
    let count = |env: &AccessEnv| env.env.shard.clients.classes.of(&item).count();
    assert_eq!(count(&env), 1, "only that of the first session");
    env.ws(1, "control\r\nLS_reqId=2&LS_op=delete&LS_subId=1");
    assert_eq!(count(&env), 0);
}

#[test]
fn names_of_classes_count_for_the_memory_of_subscriptions() {
    let limits = GatewayLimits {
        subscription_bytes: 3_000,
        ..GatewayLimits::default()
    };
    let mut env = AccessEnv::build(&format!("{AUTH}{CLASSES}"), limits, None);
    let what = "LS_group=item-[key=x]&LS_schema=a&LS_mode=MERGE";
    let long: Vec<_> = (0..24).map(|number| format!("\"{number:0>80}\"")).collect();
    env.session(1, &format!(r#"{{"tenant":[{}]}}"#, long.join(",")));
    let refusal = env.add(1, 1, what);
    assert!(refusal.starts_with("REQERR,1,68,"), "{refusal}");
    env.session(2, r#"{"tenant":"acme"}"#);
    assert_eq!(env.add(2, 1, what), "REQOK,1");
}

#[test]
fn new_token_changes_message_rights() {
    let (messages, written) = messages_of(
        "[[message]]\nname = 'orders'\nwhen = { role = 'trader' }\nconnection = 'Data'\n\
         topic = 't'\n",
    );
    let limits = GatewayLimits::default();
    let mut env = AccessEnv::build(&format!("{AUTH}{RULES}"), limits, Some(messages));
    let send = |env: &mut AccessEnv, prog: u32| {
        let text = format!("LS_reqId=9&LS_sequence=s&LS_msg_prog={prog}&LS_message=buy");
        env.ws(1, &format!("msg\r\n{text}"))
    };
    env.session(1, r#"{"role":"trader"}"#);
    assert_eq!(send(&mut env, 1), ["REQOK,9"]);
    assert_eq!(written.try_iter().count(), 1);
    for (number, (claims, is_trader)) in [("{}", false), (r#"{"role":"trader"}"#, true)]
        .into_iter()
        .enumerate()
    {
        let token = env.token(claims);
        let done = format!("MSGDONE,weir_auth,{},", number + 1);
        let lines = env.refresh(1, number as u32 + 1, &token);
        assert!(lines.contains(&done), "{lines:?}");
        // A refused message does not take its place in the sequence.
        let lines = send(&mut env, 2);
        let is_refused = lines.iter().any(|line| line.starts_with("MSGFAIL,s,"));
        assert_eq!(!is_refused, is_trader, "{lines:?}");
        assert_eq!(written.try_iter().count(), usize::from(is_trader));
    }
}
