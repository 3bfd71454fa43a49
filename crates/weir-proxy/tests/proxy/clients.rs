//! librdkafka through the proxy: producing, consuming, groups, transactions, administration.

use std::collections::BTreeSet;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, Producer};

use super::support::*;

#[test]
fn records_pass_with_every_codec_and_acks() {
    let proxy = proxy("");
    let bootstrap = proxy.bootstrap();
    let topic = topic(&bootstrap, "codecs", 2, 1);
    let mut all = Vec::new();
    for (codec, acks) in [
        ("none", "all"),
        ("gzip", "1"),
        ("snappy", "all"),
        ("lz4", "1"),
        ("zstd", "all"),
        ("none", "0"),
    ] {
        let values = numbered(&format!("{codec}-{acks}"), 200);
        let mut client_config = client_config(&bootstrap);
        client_config
            .set("compression.codec", codec)
            .set("acks", acks)
            .set("linger.ms", "5")
            .set(
                "enable.idempotence",
                if acks == "all" { "true" } else { "false" },
            );
        produce(&client_config, &topic, &values);
        all.extend(values);
    }
    all.sort_unstable();
    assert_eq!(
        consume(&bootstrap, &topic, all.len()),
        all,
        "through the proxy"
    );
    assert_eq!(
        consume(&broker(), &topic, all.len()),
        all,
        "from the broker"
    );
    assert_eq!(proxy.metric("weir_proxy_client_errors_total"), 0);
    assert_eq!(proxy.metric("weir_proxy_broker_errors_total"), 0);
    assert!(proxy.metric("weir_proxy_responses_rewritten_total") > 0);
}

#[test]
fn clients_see_only_proxy_addresses() {
    let proxy = proxy("");
    let client: BaseConsumer = client_config(&proxy.bootstrap())
        .create()
        .expect("valid configuration");
    let metadata = client
        .fetch_metadata(None, TEST_TIMEOUT)
        .expect("a response");
    let advertised: BTreeSet<_> = proxy
        .get()
        .brokers("default")
        .into_iter()
        .map(|row| row.advertised)
        .collect();
    assert!(!metadata.brokers().is_empty());
    for broker in metadata.brokers() {
        let seen = format!("{}:{}", broker.host(), broker.port());
        assert!(
            advertised.contains(&seen),
            "{seen} is not an address of the proxy"
        );
    }
    // Between two requests librdkafka may have no connection.
    await_that("a connection of librdkafka", || {
        let _ = client.fetch_metadata(None, TEST_TIMEOUT);
        let page = proxy.page("/connections");
        let body = page.split_once("\r\n\r\n").expect("a body").1;
        let rows: serde_json::Value = serde_json::from_str(body).expect("JSON");
        let seen = rows["connections"].as_array().expect("a list");
        let mut software = seen.iter().filter_map(|row| row["software"].as_str());
        software.any(|name| name.contains("librdkafka"))
    });
}

#[test]
fn group_assigns_partitions_and_rebalances() {
    let proxy = proxy("");
    let bootstrap = proxy.bootstrap();
    let topic = topic(&bootstrap, "group", 4, 1);
    let group = unique("sharing");
    let member = || -> BaseConsumer {
        let mut client_config = client_config(&bootstrap);
        client_config
            .set("group.id", &group)
            .set("auto.offset.reset", "earliest")
            .set("session.timeout.ms", "6000");
        let consumer: BaseConsumer = client_config.create().expect("valid configuration");
        consumer.subscribe(&[&topic]).expect("subscribes");
        consumer
    };
    let partitions = |consumer: &BaseConsumer| {
        // Polling joins the group.
        let _ = consumer.poll(Duration::from_millis(20));
        consumer.assignment().map_or(0, |list| list.count())
    };
    let first = member();
    await_that("all partitions", || partitions(&first) == 4);
    let second = member();
    await_that("half of the partitions", || {
        (partitions(&first), partitions(&second)) == (2, 2)
    });
    drop(first);
    await_that("all of them again", || partitions(&second) == 4);
}

#[test]
fn transactions_commit_and_abort() {
    let proxy = proxy("");
    let bootstrap = proxy.bootstrap();
    let topic = topic(&bootstrap, "transactions", 1, 1);
    let mut client_config = client_config(&bootstrap);
    client_config.set("transactional.id", unique("t"));
    let producer: BaseProducer = client_config.create().expect("valid configuration");
    producer
        .init_transactions(TEST_TIMEOUT)
        .expect("initialised");
    let committed = numbered("committed", 50);
    for (commit, values) in [(false, numbered("dropped", 50)), (true, committed.clone())] {
        producer.begin_transaction().expect("begins");
        send_all(&producer, &topic, &values);
        producer.flush(TEST_TIMEOUT).expect("stored");
        match commit {
            true => producer.commit_transaction(TEST_TIMEOUT).expect("commits"),
            false => producer.abort_transaction(TEST_TIMEOUT).expect("aborts"),
        }
    }
    assert_eq!(consume(&bootstrap, &topic, committed.len()), committed);
}
