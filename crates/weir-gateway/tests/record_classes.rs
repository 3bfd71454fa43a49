//! Rules with `where`, with a real broker: clients with different claims see different records of
//! one item, and nothing of the records of others.

mod support;

use support::classes::Classes;
use support::{Client, metric, wait_metric};

/// Records select by a member of their value; editors see all.
const VALUE_RULES: &str = r#"
[[authorize]]
name = "editors"
items = ["news"]
when = { role = "editor" }
[[authorize]]
name = "tenant news"
items = ["news"]
where = "VALUE.tenant = {claims.tenant}"
"#;
/// Records select by a member of their key.
const KEY_RULES: &str = r#"
[[authorize]]
name = "tenant rows"
items = ["rows"]
where = "KEY.tenant = {claims.tenant}"
"#;
const STORED: &str = "weir_gateway_last_values";
const READ: &str = "weir_gateway_kafka_records_total";

const NEWS: &[(&str, &str)] = &[
    ("record.value.evaluator.type", "JSON"),
    ("field.text", "#{VALUE.text}"),
    ("field.tenant", "#{VALUE.tenant}"),
];
const ROWS: &[(&str, &str)] = &[
    ("record.key.evaluator.type", "JSON"),
    ("field.key", "#{KEY.id}"),
    ("field.value", "#{VALUE}"),
];

/// Sends a subscription and returns the first line of its response.
fn add(client: &mut Client, id: u32, mode: &str, item: &str, schema: &str, more: &str) -> String {
    client.send(&format!(
        "control\r\nLS_reqId={id}&LS_op=add&LS_subId={id}&LS_mode={mode}&LS_group={item}\
         &LS_schema={schema}&LS_data_adapter=QuickStart&LS_ack=false{more}"
    ));
    let line = client.line();
    if !line.starts_with("REQERR") {
        assert!(client.line().starts_with("CONF,"));
    }
    line
}

fn add_news(client: &mut Client, id: u32, mode: &str) {
    let line = add(client, id, mode, "news", "text", "&LS_snapshot=true");
    assert_eq!(line, format!("SUBOK,{id},1,1"));
}

fn assert_lines(client: &mut Client, name: &str, lines: &[&str]) {
    for line in lines {
        assert_eq!(client.line(), *line, "{name}");
    }
}

#[test]
fn clients_get_records_with_values_of_their_claim() {
    let classes = Classes::new();
    let gateway = classes.start(VALUE_RULES, "news", NEWS);
    let mut anna = classes.tenant(&gateway, r#""acme""#);
    let mut bob = classes.tenant(&gateway, r#""zeta""#);
    let mut both = classes.tenant(&gateway, r#"["zeta","acme","zeta"]"#);
    let mut number = classes.tenant(&gateway, "7");
    let mut editor = classes.session(&gateway, r#"{"role":"editor","tenant":"acme"}"#);
    for client in [&mut anna, &mut bob, &mut both, &mut number, &mut editor] {
        assert_eq!(add(client, 1, "RAW", "news", "text", ""), "SUBOK,1,1,1");
    }
    for claims in [
        "{}",
        r#"{"tenant":null}"#,
        r#"{"tenant":"a,b"}"#,
        r#"{"tenant":""}"#,
    ] {
        let mut none = classes.session(&gateway, claims);
        let refused = add(&mut none, 1, "MERGE", "news", "text", "");
        assert_eq!(refused, "REQERR,1,-2,Not authorized", "{claims}");
    }
    // Values that no client can have, and records without one, belong to no class.
    for tenant in [
        r#""acme,zeta""#,
        "null",
        r#"{"a":"acme"}"#,
        r#"["acme"]"#,
        r#"" acme""#,
    ] {
        classes.news(tenant, "hidden");
    }
    classes.env.produce("k", r#"{"text":"hidden"}"#);
    classes.news(r#""acme""#, "same");
    classes.news(r#""zeta""#, "same");
    classes.news("7", "same");
    classes.news(r#""acme""#, "last");
    // A record with unchanged values has an empty payload only for those who have them.
    assert_lines(&mut anna, "anna", &["U,1,1,same", "U,1,1,last"]);
    assert_lines(&mut bob, "bob", &["U,1,1,same"]);
    assert_lines(&mut both, "both", &["U,1,1,same", "U,1,1,", "U,1,1,last"]);
    assert_lines(&mut number, "number", &["U,1,1,same"]);
    let mut hidden = vec!["U,1,1,hidden"];
    hidden.extend(["U,1,1,"; 5]);
    hidden.extend(["U,1,1,same", "U,1,1,", "U,1,1,", "U,1,1,last"]);
    assert_lines(&mut editor, "editor", &hidden);

    // Later subscribers of either event loop get the state of their class.
    for _ in 0..3 {
        for (tenants, text) in [
            (r#""acme""#, "last"),
            (r#""zeta""#, "same"),
            (r#"["acme","zeta"]"#, "last"),
            ("7", "same"),
        ] {
            let mut later = classes.tenant(&gateway, tenants);
            add_news(&mut later, 1, "MERGE");
            assert_lines(&mut later, tenants, &[&format!("U,1,1,{text}")]);
        }
    }
    // A class without records has no snapshot, although the item has one.
    let mut other = classes.tenant(&gateway, r#""other""#);
    add_news(&mut other, 1, "DISTINCT");
    assert_lines(&mut other, "other", &["EOS,1,1"]);
    drop(gateway);
}

#[test]
fn hidden_names_cannot_be_subscribed() {
    let classes = Classes::new();
    let rules = format!(
        "unknown_names = \"accept\"\n{VALUE_RULES}[[authorize]]\nname=\"x\"\nitems=[\"*\"]\n"
    );
    let gateway = classes.start(&rules, "news", NEWS);
    let mut anna = classes.tenant(&gateway, r#""acme""#);
    add_news(&mut anna, 1, "MERGE");
    let mut bob = classes.tenant(&gateway, r#""zeta""#);
    for (id, name) in (1..).zip([
        "%0A0:4:acmenews",
        "%0A0%3A4%3Aacmenews",
        "%250A0:4:acmenews",
        "0:4:acmenews",
        "news-[%0A0:4:acme=x]",
    ]) {
        let line = add(&mut bob, id, "MERGE", name, "text", "");
        assert!(
            line.starts_with(&format!("REQERR,{id},21,")),
            "{name}: {line}"
        );
    }
    let line = add(&mut bob, 9, "MERGE", "news%0A0:4:acme", "text", "");
    assert!(line.starts_with("REQERR,9,21,"), "{line}");
    drop(gateway);
}

#[test]
fn snapshots_of_classes_are_stored_apart() {
    let toml = format!("[last_values]\nmemory_bytes = 1000000\n{VALUE_RULES}");
    for (mode, snapshots) in [
        ("MERGE", None),
        ("MERGE", Some("MERGE")),
        ("DISTINCT", Some("DISTINCT")),
    ] {
        let classes = Classes::new();
        let mut parameters = NEWS.to_vec();
        if let Some(mode) = snapshots {
            parameters.push(("item.snapshot.enabled.mode", mode));
            parameters.push(("item.snapshot.distinct.length", "3"));
        }
        // Items of the other template are stored once, since no rule selects their records.
        parameters.push(("item-template.other", "other-#{id=KEY}"));
        let gateway = classes.start(&toml, "news,item-template.other", &parameters);
        for (number, tenant) in (1..=9).zip(
            ["acme", "zeta", "acme", "zeta", "zeta", "acme"]
                .iter()
                .cycle(),
        ) {
            classes.news(&format!("\"{tenant}\""), &number.to_string());
        }
        // acme: 1 3 6 7 9; zeta: 2 4 5 8.
        for tenant in ["null", r#""acme,zeta""#, r#""""#] {
            classes.news(tenant, "hidden");
        }
        wait_metric(&gateway, READ, |read| read == 12);
        // Two items, and one of them for each of two tenants.
        wait_metric(&gateway, STORED, |items| items == 4);
        for _ in 0..3 {
            for (tenants, last) in [
                (r#""acme""#, ["6", "7", "9"]),
                (r#""zeta""#, ["4", "5", "8"]),
                (r#"["acme","zeta"]"#, ["7", "8", "9"]),
                (r#"["acme","other"]"#, ["6", "7", "9"]),
            ] {
                let mut client = classes.tenant(&gateway, tenants);
                add_news(&mut client, 1, mode);
                let expected = match mode {
                    "MERGE" => vec![format!("U,1,1,{}", last[2])],
                    _ => {
                        let lines = last.iter().map(|text| format!("U,1,1,{text}"));
                        lines.chain(["EOS,1,1".to_owned()]).collect()
                    }
                };
                let expected: Vec<_> = expected.iter().map(String::as_str).collect();
                assert_lines(&mut client, &format!("{mode} {tenants}"), &expected);
            }
        }
        assert_eq!(metric(&gateway, STORED), 4, "no class for hidden records");
        drop(gateway);
    }
}

#[test]
fn idle_classes_lose_their_snapshot() {
    let classes = Classes::new();
    let mut parameters = NEWS.to_vec();
    parameters.push(("item.snapshot.enabled.mode", "DISTINCT"));
    parameters.push(("item.snapshot.max.idle.seconds", "1"));
    let gateway = classes.start(VALUE_RULES, "news", &parameters);
    let mut anna = classes.tenant(&gateway, r#""acme""#);
    let mut both = classes.tenant(&gateway, r#"["acme","zeta"]"#);
    let mut other = classes.tenant(&gateway, r#""other""#);
    for client in [&mut anna, &mut both, &mut other] {
        add_news(client, 1, "DISTINCT");
        assert_eq!(client.line(), "EOS,1,1");
    }
    classes.news(r#""acme""#, "one");
    assert_lines(&mut anna, "anna", &["U,1,1,one", "CS,1,1"]);
    assert_lines(&mut both, "both", &["U,1,1,one", "CS,1,1"]);
    wait_metric(&gateway, STORED, |items| items == 0);
    classes.news(r#""other""#, "two");
    assert_lines(&mut other, "other", &["U,1,1,two", "CS,1,1"]);
    drop(gateway);
}

#[test]
fn rows_of_classes_are_separate() {
    for snapshots in [false, true] {
        let classes = Classes::new();
        let mut parameters = ROWS.to_vec();
        match snapshots {
            true => parameters.push(("item.snapshot.enabled.mode", "COMMAND")),
            false => parameters.push(("fields.auto.command.mode.enable", "true")),
        }
        let gateway = classes.start(KEY_RULES, "rows", &parameters);
        let schema = "key%20command%20value";
        let join = |tenants: &str| {
            let mut client = classes.tenant(&gateway, tenants);
            let line = add(
                &mut client,
                1,
                "COMMAND",
                "rows",
                schema,
                "&LS_snapshot=true",
            );
            assert_eq!(line, "SUBCMD,1,1,3,1,2");
            client
        };
        let mut anna = join(r#""acme""#);
        let mut bob = join(r#""zeta""#);
        for client in [&mut anna, &mut bob] {
            assert_eq!(client.line(), "EOS,1,1");
        }
        classes.row("acme", "1", Some("a"));
        classes.row("zeta", "1", Some("z"));
        classes.row("zeta", "2", Some("z"));
        classes.row("acme", "3", Some("a"));
        classes.row("other", "4", Some("o"));
        classes.row("acme", "1", None);
        classes.row("zeta", "3", None);
        classes.row("zeta", "2", Some("y"));
        let lines = ["U,1,1,1|ADD|a", "U,1,1,3||", "U,1,1,1|DELETE|"];
        let got = [anna.line(), anna.line(), anna.line()];
        assert_eq!(got[..2], lines[..2]);
        assert!(got[2].starts_with("U,1,1,1|DELETE|"), "{got:?}");
        assert_lines(
            &mut bob,
            "bob",
            &["U,1,1,1|ADD|z", "U,1,1,2||", "U,1,1,|UPDATE|y"],
        );
        for _ in 0..3 {
            let mut later = join(r#""acme""#);
            assert_lines(&mut later, "acme", &["U,1,1,3|ADD|a", "EOS,1,1"]);
            let mut later = join(r#""zeta""#);
            assert_lines(
                &mut later,
                "zeta",
                &["U,1,1,1|ADD|z", "U,1,1,2||y", "EOS,1,1"],
            );
            let mut later = join(r#""none""#);
            assert_lines(&mut later, "none", &["EOS,1,1"]);
        }
        drop(gateway);
    }
}

#[test]
fn ends_of_snapshots_reach_every_class() {
    let classes = Classes::new();
    let parameters = [
        ("record.key.evaluator.type", "JSON"),
        ("record.value.evaluator.type", "JSON"),
        ("field.key", "#{KEY.id}"),
        ("field.command", "#{VALUE.c}"),
        ("field.v", "#{VALUE.v}"),
        ("fields.evaluate.as.command.enable", "true"),
        ("fields.skip.failed.mapping.enable", "true"),
    ];
    let gateway = classes.start(KEY_RULES, "rows", &parameters);
    let mut clients = [r#""acme""#, r#""zeta""#, r#"["acme","zeta"]"#].map(|tenants| {
        let mut client = classes.tenant(&gateway, tenants);
        let schema = "key%20command%20v";
        add(
            &mut client,
            1,
            "COMMAND",
            "rows",
            schema,
            "&LS_snapshot=true",
        );
        client
    });
    classes.row("acme", "1", Some(r#"{"c":"ADD","v":"a"}"#));
    classes
        .env
        .produce(r#"{"id":"snapshot"}"#, r#"{"c":"EOS","v":"hidden"}"#);
    classes.row("zeta", "2", Some(r#"{"c":"ADD","v":"z"}"#));
    classes
        .env
        .produce(r#"{"id":"snapshot","tenant":"acme"}"#, r#"{"c":"CS"}"#);
    let [anna, bob, both] = &mut clients;
    assert_lines(anna, "anna", &["U,1,1,1|ADD|a", "EOS,1,1", "CS,1,1"]);
    assert_lines(bob, "bob", &["EOS,1,1", "U,1,1,2|ADD|z", "CS,1,1"]);
    assert_lines(
        both,
        "both",
        &["U,1,1,1|ADD|a", "EOS,1,1", "U,1,1,2||z", "CS,1,1"],
    );
    drop(gateway);
}

#[test]
fn classes_of_item_are_limited() {
    let classes = Classes::new();
    let toml = format!("[limits]\nrecord_classes_per_item = 2\n{VALUE_RULES}");
    let gateway = classes.start(&toml, "news", NEWS);
    // There are two event loops.
    let mut clients: Vec<_> = (0..8)
        .map(|number| classes.tenant(&gateway, &number.to_string()))
        .collect();
    let lines: Vec<_> = clients
        .iter_mut()
        .map(|client| add(client, 1, "MERGE", "news", "text", ""))
        .collect();
    let refused = lines.iter().filter(|line| line.starts_with("REQERR,1,68,"));
    assert_eq!(refused.count(), 4, "{lines:?}");
    assert_eq!(metric(&gateway, "weir_gateway_limit_hits_total"), 4);
    // Another client of a class in use shares it.
    let place = lines.iter().position(|line| line.starts_with("SUBOK"));
    let admitted = place.expect("an admitted class");
    assert_eq!(
        add(&mut clients[admitted], 2, "RAW", "news", "text", ""),
        "SUBOK,2,1,1"
    );
    drop(gateway);
}

#[test]
fn operators_see_item_and_class_apart() {
    let classes = Classes::new();
    let token = "operators-0123456789-0123456789-0123456789";
    let toml = format!(
        "[admin.sessions]\ntoken = \"{token}\"\n[audit]\npath = \"audit.log\"\n{VALUE_RULES}"
    );
    let gateway = classes.start(&toml, "news", NEWS);
    let mut anna = classes.tenant(&gateway, r#"["acme","zeta"]"#);
    let mut editor = classes.session(&gateway, r#"{"role":"editor"}"#);
    for client in [&mut anna, &mut editor] {
        add_news(client, 1, "MERGE");
    }
    let get = |path: &str| {
        let request = format!(
            "GET /admin/v1/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\n\r\n"
        );
        let (_, body) = support::http(gateway.admin_address(), &request);
        serde_json::from_str::<serde_json::Value>(&body).expect(&body)
    };
    let list = get("sessions?item=news");
    let sessions = list["sessions"].as_array().expect("sessions");
    assert_eq!(sessions.len(), 2, "{list}");
    assert!(
        get("sessions?item=other")["sessions"]
            .as_array()
            .expect("a list")
            .is_empty()
    );
    let shown = sessions.iter().map(|session| {
        let handle = session["session"].as_str().expect("a handle");
        let row = &get(&format!("sessions/{handle}"))["subscription_list"][0];
        format!("{} {}", row["items"], row["records"])
    });
    let mut shown: Vec<_> = shown.collect();
    shown.sort();
    assert_eq!(
        shown,
        [
            r#"["news"] ["VALUE.tenant = acme,zeta"]"#,
            r#"["news"] null"#
        ]
    );
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let (_, metrics) = support::http(gateway.admin_address(), request);
    assert!(gateway.shut_down().is_empty());
    let audit = std::fs::read_to_string(classes.env.path("audit.log")).expect("the audit log");
    assert!(audit.contains(r#""items":["news"]"#), "{audit}");
    for (name, output) in [("audit", audit), ("metrics", metrics)] {
        assert!(!output.contains("9:acme,zeta"), "{name}: {output}");
    }
}
