//! Start offsets and resuming, as seen by clients: a first client, a returning client, a restarted
//! gateway, two gateways on one topic.

mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use support::{Client, TestEnv, metric, per_reader, wait_metric};
use weir_gateway::{Gateway, GatewayConfig};

per_reader! {
    latest_applies_to_first_client_only
    earliest_delivers_whole_topic_to_first_client
    all_items_of_first_subscription_get_old_records
    skipped_idle_records_reach_no_client
    group_resumes_after_restart
    clients_within_resume_delay_lose_nothing
    clients_after_resume_delay_are_counted
    no_resume_delay_without_stored_offsets
    position_lost_by_retention_follows_consume_from
    restarts_under_load_lose_and_repeat_nothing
    two_gateways_of_one_group_deliver_everything
}

const LATE_SUBSCRIPTIONS: &str = "weir_gateway_late_subscriptions_total";
const RECORDS: &str = "weir_gateway_kafka_records_total";
const LATE_RECORDS: &str = "weir_gateway_late_records_total";

/// Returns the values that the client of a new item gets, up to the value `last`.
fn until(client: &mut Client, last: &str) -> Vec<String> {
    let mut values = Vec::new();
    while values.last().is_none_or(|value| value != last) {
        let line = client.line();
        let value = line.strip_prefix("U,1,1,").expect("an update");
        values.push(value.to_owned());
    }
    values
}

fn subscriber(gateway: &Gateway) -> Client {
    let mut client = Client::create(gateway);
    client.subscribe(1, "ltest-[key=A]", "value");
    client
}

/// Ends the only subscription of a client.
fn leave(mut client: Client) {
    client.send("control\r\nLS_reqId=2&LS_op=delete&LS_subId=1&LS_ack=false");
    assert_eq!(client.line(), "UNSUB,1");
}

fn start(env: &TestEnv, from: &str, group: Option<&str>) -> Gateway {
    let group = group.map(|group| format!(r#"<param name="group.id">{group}</param>"#));
    let settings = format!(
        r#"<param name="record.consume.from">{from}</param>{}</data_provider>"#,
        group.unwrap_or_default()
    );
    env.start_gateway(|xml| xml.replace("</data_provider>", &settings))
}

/// Connects a first client and, after it left, a second one, which gets the records written in
/// between.
fn first_and_returning(env: &TestEnv, gateway: &Gateway, old: &[&str]) {
    let mut first = subscriber(gateway);
    env.produce("A", "one");
    assert_eq!(until(&mut first, "one"), [old, &["one"]].concat());
    leave(first);
    env.produce("A", "two");
    env.produce("B", "unrouted");
    env.produce("A", "three");
    let mut second = subscriber(gateway);
    env.produce("A", "four");
    assert_eq!(until(&mut second, "four"), ["two", "three", "four"]);
    leave(second);
}

fn latest_applies_to_first_client_only() {
    let env = TestEnv::new();
    env.produce("A", "old");
    let gateway = start(&env, "LATEST", None);
    first_and_returning(&env, &gateway, &[]);
    gateway.shut_down();

    env.produce("A", "while it was down");
    let gateway = start(&env, "LATEST", None);
    let mut client = subscriber(&gateway);
    env.produce("A", "new");
    assert_eq!(until(&mut client, "new"), ["new"]);
    gateway.shut_down();
}

fn earliest_delivers_whole_topic_to_first_client() {
    let env = TestEnv::new();
    env.produce("A", "old");
    let gateway = start(&env, "EARLIEST", None);
    first_and_returning(&env, &gateway, &["old"]);
    gateway.shut_down();

    let gateway = start(&env, "EARLIEST", None);
    let mut client = subscriber(&gateway);
    let all = ["old", "one", "two", "three", "four"];
    assert_eq!(until(&mut client, "four"), all);
    gateway.shut_down();
}

/// Reading starts with the first subscription. It must not start between two of its items.
fn all_items_of_first_subscription_get_old_records() {
    let env = TestEnv::new();
    // Adding so many items takes longer than reading the first records.
    let (items, last) = (10_000, 9_900..10_000);
    for number in last.clone() {
        env.send(&format!("k{number}"), "old");
    }
    env.flush();
    let gateway = configured(&env, "EARLIEST", &env.topic, |config| {
        config.limits.items_per_subscription = items;
        config.limits.request_bytes = 1 << 20;
    });
    let mut client = Client::create(&gateway);
    let names: Vec<String> = (0..items)
        .map(|key| format!("ltest-[key=k{key}]"))
        .collect();
    client.subscribe(1, &names.join(" "), "value");
    let updates: BTreeSet<String> = last.clone().map(|_| client.line()).collect();
    let expected = last.map(|number| format!("U,1,{},old", number + 1));
    assert_eq!(updates, expected.collect());
    gateway.shut_down();
}

fn skipped_idle_records_reach_no_client() {
    for (from, group) in [("LATEST", false), ("EARLIEST", false), ("EARLIEST", true)] {
        let env = TestEnv::new();
        env.produce("A", "old");
        let group = group.then(|| format!("<param name=\"group.id\">{}</param>", env.topic));
        let settings = format!(
            r#"<param name="record.consume.from">{from}</param>{}</data_provider>"#,
            group.as_deref().unwrap_or_default()
        );
        let toml = "idle_records = \"skip\"\nresume_delay_ms = 0\n";
        let config = || env.config_with(toml, |xml| xml.replace("</data_provider>", &settings));
        let gateway = env.ready(config());
        let mut first = subscriber(&gateway);
        env.produce("A", "one");
        let old: &[&str] = if from == "EARLIEST" { &["old"] } else { &[] };
        assert_eq!(until(&mut first, "one"), [old, &["one"]].concat());
        leave(first);
        wait_metric(&gateway, "weir_gateway_routed_items", |items| items == 0);
        let records = metric(&gateway, RECORDS);
        env.produce("A", "two");
        env.produce("A", "three");
        // No client gets them, and yet they are read.
        wait_metric(&gateway, RECORDS, |count| count == records + 2);
        let mut second = subscriber(&gateway);
        env.produce("A", "four");
        assert_eq!(until(&mut second, "four"), ["four"]);
        leave(second);
        wait_metric(&gateway, "weir_gateway_routed_items", |items| items == 0);
        env.produce("A", "five");
        wait_metric(&gateway, RECORDS, |count| count == records + 4);
        gateway.shut_down();
        if group.is_none() {
            continue;
        }
        // The offsets of skipped records are stored, too.
        env.produce("A", "while it was down");
        let gateway = env.ready(config());
        let mut client = subscriber(&gateway);
        env.produce("A", "six");
        assert_eq!(until(&mut client, "six"), ["while it was down", "six"]);
        gateway.shut_down();
    }
}

fn group_resumes_after_restart() {
    for from in ["LATEST", "EARLIEST"] {
        let env = TestEnv::partitioned(3);
        env.produce("A", "old");
        let group = format!("group-{}", env.topic);
        let gateway = start(&env, from, Some(&group));
        let old: &[&str] = if from == "EARLIEST" { &["old"] } else { &[] };
        first_and_returning(&env, &gateway, old);
        wait_metric(&gateway, "weir_gateway_kafka_commits_total", |count| {
            count > 0
        });
        let errors = metric(&gateway, "weir_gateway_kafka_commit_errors_total");
        assert_eq!(errors, 0);
        gateway.shut_down();

        // The offsets of partitions without records are committed too.
        for key in ["C", "D", "E", "F"] {
            env.produce(key, "elsewhere");
        }
        env.produce("A", "while it was down");
        let gateway = start(&env, from, Some(&group));
        let mut client = Client::create(&gateway);
        let items: Vec<String> = ["A", "C", "D", "E", "F"]
            .map(|key| format!("ltest-[key={key}]"))
            .into();
        client.subscribe(1, &items.join(" "), "key value");
        let lines: BTreeSet<String> = (0..5).map(|_| client.line()).collect();
        let expected = [
            "U,1,1,A|while it was down",
            "U,1,2,C|elsewhere",
            "U,1,3,D|elsewhere",
            "U,1,4,E|elsewhere",
            "U,1,5,F|elsewhere",
        ];
        assert_eq!(lines, BTreeSet::from(expected.map(str::to_owned)), "{from}");
        gateway.shut_down();
    }
}

/// Runs a gateway until it has committed the position after the records of `keys`, and stops it.
fn stored(env: &TestEnv, from: &str, group: &str, keys: usize) {
    let gateway = start(env, from, Some(group));
    let mut client = Client::create(&gateway);
    let items: Vec<String> = (0..keys).map(|key| format!("ltest-[key=k{key}]")).collect();
    client.subscribe(1, &items.join(" "), "value");
    for key in 0..keys {
        env.send(&format!("k{key}"), "before");
    }
    env.flush();
    for _ in 0..keys {
        assert!(client.line().ends_with(",before"));
    }
    gateway.shut_down();
}

fn configured(
    env: &TestEnv,
    from: &str,
    group: &str,
    change: impl FnOnce(&mut GatewayConfig),
) -> Gateway {
    let settings = format!(
        r#"<param name="record.consume.from">{from}</param>
        <param name="group.id">{group}</param></data_provider>"#
    );
    let mut config = env.config(|xml| xml.replace("</data_provider>", &settings));
    change(&mut config);
    env.ready(config)
}

fn clients_within_resume_delay_lose_nothing() {
    const CLIENTS: usize = 40;
    let env = TestEnv::partitioned(2);
    let group = format!("group-{}", env.topic);
    stored(&env, "LATEST", &group, CLIENTS);
    for number in 0..5 {
        for key in 0..CLIENTS {
            env.send(&format!("k{key}"), &number.to_string());
        }
    }
    env.flush();
    let gateway = configured(&env, "LATEST", &group, |config| {
        config.resume_delay_ms = 15_000;
    });
    // The clients reconnect over 1.5 s while more records arrive.
    let begun = Instant::now();
    let mut clients = Vec::new();
    for key in 0..CLIENTS {
        let due = Duration::from_millis(1500) * key as u32 / CLIENTS as u32;
        while begun.elapsed() < due {
            env.produce("other", "x");
        }
        let mut client = Client::create(&gateway);
        client.subscribe(1, &format!("ltest-[key=k{key}]"), "value");
        env.produce(&format!("k{key}"), "5");
        clients.push(client);
    }
    for client in &mut clients {
        assert_eq!(until(client, "5"), ["0", "1", "2", "3", "4", "5"]);
    }
    assert_eq!(metric(&gateway, LATE_SUBSCRIPTIONS), 0);
    assert_eq!(metric(&gateway, LATE_RECORDS), 0);
    gateway.shut_down();
}

fn clients_after_resume_delay_are_counted() {
    let env = TestEnv::new();
    let group = format!("group-{}", env.topic);
    stored(&env, "LATEST", &group, 3);
    for value in ["one", "two"] {
        for key in 0..3 {
            env.produce(&format!("k{key}"), value);
        }
    }
    let gateway = configured(&env, "LATEST", &group, |config| {
        config.resume_delay_ms = 200;
    });
    let mut early = Client::create(&gateway);
    early.subscribe(1, "ltest-[key=k0]", "value");
    assert_eq!(until(&mut early, "two"), ["one", "two"]);
    wait_metric(&gateway, "weir_gateway_kafka_records_total", |read| {
        read == 6
    });
    let mut late = Client::create(&gateway);
    late.subscribe(1, "ltest-[key=k1]", "value");
    wait_metric(&gateway, LATE_RECORDS, |records| records == 2);
    assert_eq!(metric(&gateway, LATE_SUBSCRIPTIONS), 1);
    // A second client of a delivered item has missed the same records.
    let mut other = Client::create(&gateway);
    other.subscribe(1, "ltest-[key=k0]", "value");
    assert_eq!(metric(&gateway, LATE_SUBSCRIPTIONS), 2);
    gateway.shut_down();
}

fn no_resume_delay_without_stored_offsets() {
    for group in [None, Some("fresh")] {
        let env = TestEnv::new();
        let group = group.map(|group| format!("{group}-{}", env.topic));
        env.produce("A", "old");
        let group = group.map_or_else(String::new, |group| {
            format!(r#"<param name="group.id">{group}</param>"#)
        });
        let settings =
            format!(r#"<param name="record.consume.from">EARLIEST</param>{group}</data_provider>"#);
        let mut config = env.config(|xml| xml.replace("</data_provider>", &settings));
        // Longer than the test waits for a line.
        config.resume_delay_ms = 3_600_000;
        let gateway = env.ready(config);
        let mut client = subscriber(&gateway);
        env.produce("A", "new");
        assert_eq!(until(&mut client, "new"), ["old", "new"]);
        assert_eq!(metric(&gateway, LATE_SUBSCRIPTIONS), 0);
        gateway.shut_down();
    }
}

fn position_lost_by_retention_follows_consume_from() {
    for (from, expected) in [
        ("EARLIEST", &["lost 2", "lost 3", "new"][..]),
        ("LATEST", &["new"]),
    ] {
        let env = TestEnv::new();
        let group = format!("group-{}", env.topic);
        stored(&env, from, &group, 1);
        for number in 0..4 {
            env.produce("k0", &format!("lost {number}"));
        }
        let deleted = env.admin.delete_records(&env.topic, 0, 3);
        deleted.expect("deleted");
        let gateway = configured(&env, from, &group, |config| config.resume_delay_ms = 100);
        let mut client = Client::create(&gateway);
        client.subscribe(1, "ltest-[key=k0]", "value");
        env.produce("k0", "new");
        assert_eq!(until(&mut client, "new"), expected, "{from}");
        let resets = metric(&gateway, "weir_gateway_kafka_offset_resets_total");
        assert_eq!(resets, 1, "{from}");

        // The same while the gateway runs without subscribers and retention deletes records.
        leave(client);
        wait_metric(&gateway, "weir_gateway_routed_items", |items| items == 0);
        for number in 0..3 {
            env.produce("k0", &format!("lost {number}"));
        }
        let deleted = env.admin.delete_records(&env.topic, 0, 7);
        deleted.expect("deleted");
        let mut client = Client::create(&gateway);
        client.subscribe(1, "ltest-[key=k0]", "value");
        wait_metric(
            &gateway,
            "weir_gateway_kafka_offset_resets_total",
            |resets| resets == 2,
        );
        env.produce("k0", "newest");
        let expected: &[&str] = match from {
            "EARLIEST" => &["lost 1", "lost 2", "newest"],
            _ => &["newest"],
        };
        assert_eq!(until(&mut client, "newest"), expected, "{from}");
        gateway.shut_down();
    }
}

fn restarts_under_load_lose_and_repeat_nothing() {
    let env = TestEnv::partitioned(2);
    let group = format!("group-{}", env.topic);
    let sent = 3000;
    let mut seen: Vec<Vec<usize>> = vec![Vec::new(); 4];
    std::thread::scope(|scope| {
        let mut gateway = start(&env, "EARLIEST", Some(&group));
        scope.spawn(|| {
            for number in 0..sent {
                env.send(&format!("k{}", number % 4), &number.to_string());
                if number % 100 == 99 {
                    env.flush();
                }
            }
        });
        let mut restarts = 0;
        while seen.iter().map(Vec::len).sum::<usize>() < sent {
            let mut client = Client::create(&gateway);
            let items: Vec<String> = (0..4).map(|key| format!("ltest-[key=k{key}]")).collect();
            client.subscribe(1, &items.join(" "), "value");
            let before: usize = seen.iter().map(Vec::len).sum();
            let last = restarts == 3;
            let enough = if last { sent } else { sent.min(before + 300) };
            while seen.iter().map(Vec::len).sum::<usize>() < enough {
                note(&client.line(), &mut seen);
            }
            restarts += 1;
            if !last {
                gateway.shut_down();
                // Updates in flight at the shutdown come before END.
                loop {
                    let line = client.line();
                    if line.starts_with("END,48,") {
                        break;
                    }
                    note(&line, &mut seen);
                }
                gateway = start(&env, "EARLIEST", Some(&group));
            }
        }
        gateway.shut_down();
    });
    for (key, numbers) in seen.iter().enumerate() {
        assert!(
            numbers.iter().copied().eq((key..sent).step_by(4)),
            "{key}: {numbers:?}"
        );
    }
}

fn note(line: &str, seen: &mut [Vec<usize>]) {
    let update = line.strip_prefix("U,1,").expect("an update");
    let (item, value) = update.split_once(',').expect("an item");
    let item: usize = item.parse().expect("a position");
    seen[item - 1].push(value.parse().expect("a number"));
}

fn two_gateways_of_one_group_deliver_everything() {
    let env = TestEnv::partitioned(2);
    let group = format!("group-{}", env.topic);
    let (one, two) = (
        start(&env, "LATEST", Some(&group)),
        start(&env, "LATEST", Some(&group)),
    );
    let (mut first, mut second) = (subscriber(&one), subscriber(&two));
    let values: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    for value in &values {
        env.produce("A", value);
    }
    assert_eq!(until(&mut first, "49"), values);
    assert_eq!(until(&mut second, "49"), values);
    for gateway in [one, two] {
        wait_metric(&gateway, "weir_gateway_kafka_commits_total", |count| {
            count > 0
        });
        gateway.shut_down();
    }
}
