//! Modes, snapshots and limits with a real broker: the lines that a client receives.

mod support;

use support::{Client, TestEnv, metric, wait_metric};
use weir_gateway::{Gateway, GatewayConfig};

/// Sends `add` and returns the confirming lines.
fn add(client: &mut Client, id: u32, mode: &str, group: &str, schema: &str, more: &str) -> String {
    client.send(&format!(
        "control\r\nLS_reqId={id}&LS_op=add&LS_subId={id}&LS_mode={mode}&LS_group={group}\
         &LS_schema={schema}&LS_data_adapter=QuickStart&LS_ack=false{more}"
    ));
    format!("{} {}", client.line(), client.line())
}

/// Returns a configuration with one item for the whole topic, rows by record key.
fn table(more: &str) -> impl Fn(String) -> String + use<> {
    let fields = format!(r#"<param name="field.key">#{{KEY}}</param>{more}</data_provider>"#);
    move |xml| {
        let template = "item-template.ltest\">ltest-#{key=KEY}";
        assert!(xml.contains(template), "{xml}");
        let lines = xml
            .lines()
            .filter(|line| !line.contains("name=\"field.key\""));
        let xml = lines.collect::<Vec<_>>().join("\n");
        let xml = xml.replace(template, "item-template.ltest\">rows-#{topic=PARTITION}");
        xml.replace("</data_provider>", &fields)
    }
}

const AUTO: &str = r#"<param name="fields.auto.command.mode.enable">true</param>"#;
const EVALUATE: &str = r#"<param name="fields.evaluate.as.command.enable">true</param>
<param name="record.value.evaluator.type">KVP</param>
<param name="field.command">#{VALUE.c}</param><param name="field.v">#{VALUE.v}</param>
<param name="fields.skip.failed.mapping.enable">true</param>"#;
const ROWS: &str = "rows-[topic=0]";

fn without_value(xml: String) -> String {
    let lines = xml
        .lines()
        .filter(|line| !line.contains("name=\"field.value\""));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn records_and_tombstones_form_a_table() {
    let env = TestEnv::partitioned(1);
    let gateway = env.start_gateway(table(AUTO));
    let mut first = Client::create(&gateway);
    let confirmed = add(
        &mut first,
        1,
        "COMMAND",
        ROWS,
        "command%20key%20value",
        "&LS_snapshot=true",
    );
    assert_eq!(confirmed, "SUBCMD,1,1,3,2,1 CONF,1,unlimited,filtered");
    assert_eq!(first.line(), "EOS,1,1");
    let mut unfiltered = Client::create(&gateway);
    let more = "&LS_requested_max_frequency=unfiltered";
    let confirmed = add(
        &mut unfiltered,
        1,
        "COMMAND",
        ROWS,
        "key%20command%20value",
        more,
    );
    assert_eq!(confirmed, "SUBCMD,1,1,3,1,2 CONF,1,unlimited,unfiltered");
    env.produce("a", "1");
    env.produce("b", "1");
    env.produce("a", "2");
    env.delete("b");
    env.delete("c");
    env.produce("c", "3");
    for line in [
        "U,1,1,ADD|a|1",
        "U,1,1,|b|",
        "U,1,1,UPDATE|a|2",
        "U,1,1,DELETE|b|",
        "U,1,1,ADD|c|3",
    ] {
        assert_eq!(first.line(), line);
    }
    for line in [
        "U,1,1,a|ADD|1",
        "U,1,1,b||",
        "U,1,1,a|UPDATE|2",
        "U,1,1,b|DELETE|",
        "U,1,1,c|ADD|3",
    ] {
        assert_eq!(unfiltered.line(), line);
    }
    // Row c is unknown; each event loop counts separately.
    assert!(metric(&gateway, "weir_gateway_command_records_rejected_total") > 0);
    // A new subscriber on the same event loop.
    let confirmed = add(
        &mut first,
        2,
        "COMMAND",
        ROWS,
        "key%20command%20value",
        "&LS_snapshot=true",
    );
    assert_eq!(confirmed, "SUBCMD,2,1,3,1,2 CONF,2,unlimited,filtered");
    for line in ["U,2,1,a|ADD|2", "U,2,1,c||3", "EOS,2,1"] {
        assert_eq!(first.line(), line);
    }
    for (mode, schema, code) in [
        ("MERGE", "value", 24),
        ("COMMAND", "key", 16),
        ("COMMAND", "command", 15),
    ] {
        first.send(&format!(
            "control\r\nLS_reqId=9&LS_op=add&LS_subId=9&LS_mode={mode}&LS_group={ROWS}\
             &LS_schema={schema}&LS_data_adapter=QuickStart"
        ));
        let line = first.line();
        assert!(line.starts_with(&format!("REQERR,9,{code},")), "{line}");
    }
    gateway.shut_down();
}

#[test]
fn command_records_clear_and_end_snapshot() {
    let env = TestEnv::partitioned(1);
    let gateway = env.start_gateway(|xml| without_value(table(EVALUATE)(xml)));
    let mut client = Client::create(&gateway);
    let schema = "key%20command%20v";
    add(&mut client, 1, "COMMAND", ROWS, schema, "&LS_snapshot=true");
    env.produce("a", "c=ADD,v=1");
    env.produce("b", "c=ADD,v=2");
    assert_eq!(client.line(), "U,1,1,a|ADD|1");
    assert_eq!(client.line(), "U,1,1,b||2");
    // The rows so far; the end of the snapshot goes to both at once.
    add(&mut client, 2, "COMMAND", ROWS, schema, "&LS_snapshot=true");
    assert_eq!(client.line(), "U,2,1,a|ADD|1");
    assert_eq!(client.line(), "U,2,1,b||2");
    env.produce("snapshot", "c=EOS");
    assert_eq!([client.line(), client.line()], ["EOS,1,1", "EOS,2,1"]);
    env.produce("a", "c=UPDATE,v=3");
    env.produce("a", "c=UPSERT,v=9");
    env.produce("a", "v=9");
    env.produce("snapshot", "c=CS");
    let mut lines: Vec<_> = (0..4).map(|_| client.line()).collect();
    lines.sort();
    assert_eq!(
        lines,
        ["CS,1,1", "CS,2,1", "U,1,1,a|UPDATE|3", "U,2,1,a|UPDATE|3"]
    );
    env.produce("a", "c=UPDATE,v=4");
    assert_eq!(
        [client.line(), client.line()],
        ["U,1,1,|ADD|4", "U,2,1,|ADD|4"]
    );
    // The item is in its snapshot again.
    add(&mut client, 3, "COMMAND", ROWS, schema, "&LS_snapshot=true");
    assert_eq!(client.line(), "U,3,1,a|ADD|4");
    env.produce("snapshot", "c=EOS");
    assert_eq!(client.line(), "EOS,3,1");
    gateway.shut_down();
}

#[test]
fn distinct_snapshot_has_last_updates() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut client = Client::create(&gateway);
    let item = "ltest-[key=Lime]";
    add(
        &mut client,
        1,
        "DISTINCT",
        item,
        "value",
        "&LS_snapshot=true",
    );
    assert_eq!(client.line(), "EOS,1,1");
    for number in 0..12 {
        env.produce("Lime", &number.to_string());
        assert_eq!(client.line(), format!("U,1,1,{number}"));
    }
    add(
        &mut client,
        2,
        "DISTINCT",
        item,
        "value",
        "&LS_snapshot=true",
    );
    for number in 2..12 {
        assert_eq!(client.line(), format!("U,2,1,{number}"));
    }
    assert_eq!(client.line(), "EOS,2,1");
    add(&mut client, 3, "DISTINCT", item, "value", "&LS_snapshot=2");
    for line in ["U,3,1,10", "U,3,1,11", "EOS,3,1"] {
        assert_eq!(client.line(), line);
    }
    gateway.shut_down();
}

#[test]
fn frequency_limit_is_applied_and_changed() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut client = Client::create(&gateway);
    let item = "ltest-[key=Mango]";
    let confirmed = add(
        &mut client,
        1,
        "MERGE",
        item,
        "value",
        "&LS_requested_max_frequency=0.001",
    );
    assert_eq!(confirmed, "SUBOK,1,1,1 CONF,1,0.001,filtered");
    env.produce("Mango", "one");
    assert_eq!(client.line(), "U,1,1,one");
    env.produce("Mango", "two");
    env.produce("Mango", "three");
    wait_metric(&gateway, "weir_gateway_updates_conflated_total", |count| {
        count > 0
    });
    client.send("control\r\nLS_reqId=5&LS_op=reconf&LS_subId=1&LS_requested_max_frequency=50.5");
    assert_eq!(
        [client.line(), client.line()],
        ["REQOK,5", "CONF,1,50.5,filtered"]
    );
    assert_eq!(client.line(), "U,1,1,three");
    for number in 0..5 {
        env.produce("Mango", &number.to_string());
        assert_eq!(client.line(), format!("U,1,1,{number}"));
    }
    client
        .send("control\r\nLS_reqId=6&LS_op=reconf&LS_subId=1&LS_requested_max_frequency=unlimited");
    assert_eq!(
        [client.line(), client.line()],
        ["REQOK,6", "CONF,1,unlimited,filtered"]
    );
    add(
        &mut client,
        2,
        "MERGE",
        item,
        "value",
        "&LS_requested_max_frequency=unfiltered",
    );
    client.send("control\r\nLS_reqId=7&LS_op=reconf&LS_subId=2&LS_requested_max_frequency=1");
    assert!(client.line().starts_with("REQERR,7,13,"));
    gateway.shut_down();
}

#[test]
fn bandwidth_limit_is_applied_and_changed() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=Melon]", "value");
    client.send("control\r\nLS_reqId=5&LS_op=constrain&LS_requested_max_bandwidth=0.01");
    assert_eq!([client.line(), client.line()], ["REQOK,5", "CONS,0.01"]);
    for number in 0..5 {
        env.produce("Melon", &number.to_string());
    }
    // One update is within the saved budget; the others wait, none is lost.
    assert_eq!(client.line(), "U,1,1,0");
    wait_metric(&gateway, "weir_gateway_lagging_sessions", |count| {
        count == 1
    });
    client.send("control\r\nLS_reqId=6&LS_op=constrain");
    assert_eq!([client.line(), client.line()], ["REQOK,6", "CONS,0.01"]);
    let mut second = Client::connect(&gateway);
    second.send(
        "create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=test\
         &LS_requested_max_bandwidth=50.5",
    );
    let head = [(); 4].map(|()| second.line());
    assert_eq!(head[3], "CONS,50.5");
    client.send("control\r\nLS_reqId=7&LS_op=constrain&LS_requested_max_bandwidth=unlimited");
    assert_eq!(
        [client.line(), client.line()],
        ["REQOK,7", "CONS,unlimited"]
    );
    for number in 1..5 {
        assert_eq!(client.line(), format!("U,1,1,{number}"));
    }
    gateway.shut_down();
}

/// Starts a gateway with `shards` event loops.
fn start_with(shards: usize, mut config: GatewayConfig) -> Gateway {
    config.event_loops = shards;
    let gateway = Gateway::start(config).expect("a gateway");
    wait_metric(&gateway, "weir_gateway_connection_ready", |ready| {
        ready == 1
    });
    gateway
}

#[test]
fn new_subscribers_get_rows_on_every_event_loop() {
    [2, 4].into_iter().for_each(check_row_snapshots);
}

fn check_row_snapshots(shards: usize) {
    let env = TestEnv::partitioned(1);
    let config = env.config(|xml| without_value(table(EVALUATE)(xml)));
    let gateway = start_with(shards, config);
    let mut first = Client::create(&gateway);
    let schema = "key%20command%20v";
    add(&mut first, 1, "COMMAND", ROWS, schema, "&LS_snapshot=true");
    for record in ["c=ADD,v=1", "c=UPDATE,v=2", "c=UPDATE"] {
        env.produce("a", record);
    }
    env.produce("b", "c=ADD,v=3");
    let lines = [
        "U,1,1,a|ADD|1",
        "U,1,1,|UPDATE|2",
        "U,1,1,||",
        "U,1,1,b|ADD|3",
    ];
    for line in lines {
        assert_eq!(first.line(), line);
    }
    let mut others = Vec::new();
    for _ in 0..8 {
        let mut other = Client::create(&gateway);
        add(&mut other, 1, "COMMAND", ROWS, schema, "&LS_snapshot=true");
        assert_eq!(other.line(), "U,1,1,a|ADD|2");
        assert_eq!(other.line(), "U,1,1,b||3");
        add(&mut other, 2, "COMMAND", ROWS, schema, "");
        others.push(other);
    }
    env.produce("snapshot", "c=EOS");
    for client in [&mut first].into_iter().chain(&mut others) {
        assert_eq!(client.line(), "EOS,1,1");
    }
    env.produce("b", "c=UPDATE,v=4");
    for other in &mut others {
        let mut lines = [other.line(), other.line()];
        lines.sort();
        assert_eq!(lines, ["U,1,1,|UPDATE|4", "U,2,1,b|UPDATE|4"]);
    }
    let mut late = Client::create(&gateway);
    add(&mut late, 1, "COMMAND", ROWS, schema, "&LS_snapshot=true");
    for line in ["U,1,1,a|ADD|2", "U,1,1,b||4", "EOS,1,1"] {
        assert_eq!(late.line(), line);
    }
    gateway.shut_down();
}

/// Connects clients until both event loops have one.
fn on_both_loops(gateway: &Gateway, item: &str) -> Vec<Client> {
    let mut clients = Vec::new();
    while metric(gateway, "weir_gateway_items") < 2 {
        let mut client = Client::create(gateway);
        add(&mut client, 1, "RAW", item, "value", "");
        clients.push(client);
        assert!(clients.len() < 100, "connections go to one event loop only");
    }
    clients
}

#[test]
fn last_values_are_shared_by_event_loops() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(|xml| xml);
    let mut first = Client::create(&gateway);
    add(
        &mut first,
        1,
        "MERGE",
        "ltest-[key=Nut]",
        "value",
        "&LS_snapshot=true",
    );
    env.produce("Nut", "known");
    assert_eq!(first.line(), "U,1,1,known");
    // On any event loop.
    for _ in 0..8 {
        let mut other = Client::create(&gateway);
        for (id, more) in [(1, ""), (2, "&LS_requested_max_frequency=unfiltered")] {
            let more = format!("&LS_snapshot=true{more}");
            add(&mut other, id, "MERGE", "ltest-[key=Nut]", "value", &more);
            assert_eq!(other.line(), format!("U,{id},1,known"));
        }
    }
    gateway.shut_down();
}

/// A new subscriber gets the last updates in order, then the end of the snapshot, then new updates.
#[test]
fn new_subscribers_get_history_on_every_event_loop() {
    for (shards, threads) in [(2, 1), (4, 1), (4, 3)] {
        let env = TestEnv::new();
        let threads = format!(
            r#"<param name="record.consume.with.num.threads">{threads}</param></data_provider>"#
        );
        let config = env.config(|xml| xml.replace("</data_provider>", &threads));
        let gateway = start_with(shards, config);
        let mut first = Client::create(&gateway);
        let item = "ltest-[key=Plum]";
        let all = "&LS_snapshot=true";
        add(&mut first, 1, "DISTINCT", item, "value", all);
        assert_eq!(first.line(), "EOS,1,1");
        for number in 0..26 {
            env.produce("Plum", &number.to_string());
            assert_eq!(first.line(), format!("U,1,1,{number}"));
        }
        let mut others = Vec::new();
        while others.len() < 8 || metric(&gateway, "weir_gateway_items") < shards as u64 {
            let mut other = Client::create(&gateway);
            add(&mut other, 1, "DISTINCT", item, "value", "&LS_snapshot=5");
            for number in 21..26 {
                assert_eq!(
                    other.line(),
                    format!("U,1,1,{number}"),
                    "{shards} {threads}"
                );
            }
            assert_eq!(other.line(), "EOS,1,1");
            // From the event loop's own history.
            add(&mut other, 2, "DISTINCT", item, "value", all);
            for number in 16..26 {
                assert_eq!(other.line(), format!("U,2,1,{number}"));
            }
            assert_eq!(other.line(), "EOS,2,1");
            add(&mut other, 3, "MERGE", item, "value", all);
            assert_eq!(other.line(), "U,3,1,25");
            others.push(other);
            assert!(others.len() < 200, "an event loop gets no connections");
        }
        env.produce("Plum", "next");
        assert_eq!(first.line(), "U,1,1,next");
        for other in &mut others {
            let mut lines = [other.line(), other.line(), other.line()];
            lines.sort();
            assert_eq!(lines, ["U,1,1,next", "U,2,1,next", "U,3,1,next"]);
        }
        gateway.shut_down();
    }
}

/// The snapshot exists while any event loop has the item, even if it is about to drop it.
#[test]
fn history_outlives_its_first_event_loop() {
    let env = TestEnv::new();
    let gateway = start_with(2, env.config(|xml| xml));
    let (item, all) = ("ltest-[key=Pear]", "&LS_snapshot=true");
    let mut last = Client::create(&gateway);
    add(&mut last, 1, "DISTINCT", item, "value", all);
    assert_eq!(last.line(), "EOS,1,1");
    for number in 0..3 {
        env.produce("Pear", &number.to_string());
        assert_eq!(last.line(), format!("U,1,1,{number}"));
    }
    for _ in 0..30 {
        let mut next = Client::create(&gateway);
        add(&mut next, 1, "DISTINCT", item, "value", all);
        // Both event loops send their interest at about the same time.
        last.send("control\r\nLS_reqId=9&LS_op=delete&LS_subId=1&LS_ack=false");
        for line in ["U,1,1,0", "U,1,1,1", "U,1,1,2", "EOS,1,1"] {
            assert_eq!(next.line(), line);
        }
        last = next;
    }
    gateway.shut_down();
}

#[test]
fn first_subscriber_gets_last_value() {
    let env = TestEnv::new();
    let mut config = env.config(|xml| xml);
    config.last_values.memory_bytes = 2_000_000;
    let gateway = Gateway::start(config).expect("a gateway");
    wait_metric(&gateway, "weir_gateway_connection_ready", |ready| {
        ready == 1
    });
    for (key, value) in [("Fig", "old"), ("Fig", "new"), ("Date", "sweet")] {
        env.produce(key, value);
    }
    wait_metric(&gateway, "weir_gateway_last_values", |items| items == 2);
    assert!(metric(&gateway, "weir_gateway_last_value_bytes") > 0);
    let mut client = Client::create(&gateway);
    add(
        &mut client,
        1,
        "MERGE",
        "ltest-[key=Fig]",
        "value",
        "&LS_snapshot=true",
    );
    assert_eq!(client.line(), "U,1,1,new");
    add(
        &mut client,
        2,
        "MERGE",
        "ltest-[key=Fig]",
        "value%20key",
        "&LS_snapshot=true",
    );
    assert_eq!(client.line(), "U,2,1,new|Fig");
    // It does not become an update.
    add(&mut client, 3, "RAW", "ltest-[key=Date]", "value", "");
    add(
        &mut client,
        4,
        "MERGE",
        "ltest-[key=Date]",
        "value",
        "&LS_snapshot=true",
    );
    assert_eq!(client.line(), "U,4,1,sweet");
    let others = on_both_loops(&gateway, "ltest-[key=Fig]");
    env.produce("Date", "dry");
    let mut lines = [client.line(), client.line()];
    lines.sort();
    assert_eq!(lines, ["U,3,1,dry", "U,4,1,dry"]);
    drop(others);
    gateway.shut_down();
}
