//! Filters in the running proxy: stored values, read values and errors of producers.

use std::sync::mpsc::{Sender, channel};

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, ProducerContext, ThreadedProducer};

use super::support::*;

/// Passes on the result of each record.
struct DeliveryResults(Sender<Result<(), KafkaError>>);

impl ClientContext for DeliveryResults {}

impl ProducerContext for DeliveryResults {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let result = result
            .as_ref()
            .map(drop)
            .map_err(|(error, _)| error.clone());
        let _ = self.0.send(result);
    }
}

#[test]
fn values_change_on_produce_or_fetch() {
    let proxy = proxy(
        "[[cluster.filter]]\ntype = \"lower-case\"\ntopics = [\"low-*\"]\non = [\"produce\"]\n\
         [[cluster.filter]]\ntype = \"upper-case\"\ntopics = [\"up-*\"]\non = [\"fetch\"]\n",
    );
    let bootstrap = proxy.bootstrap();
    let values = ["GRÜN".to_owned(), "ẞpäß İ".to_owned(), "Plain".to_owned()];
    for codec in ["none", "zstd"] {
        let low = topic(&bootstrap, "low", 1, 1);
        let up = topic(&bootstrap, "up", 1, 1);
        let other = topic(&bootstrap, "other", 1, 1);
        let mut client_config = client_config(&bootstrap);
        client_config
            .set("compression.codec", codec)
            .set("linger.ms", "20");
        for topic in [&low, &up, &other] {
            produce(&client_config, topic, &values);
        }
        let sorted = |change: fn(&str) -> String| {
            let mut all: Vec<_> = values.iter().map(|value| change(value)).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(consume(&broker(), &low, 3), sorted(str::to_lowercase));
        assert_eq!(consume(&broker(), &up, 3), sorted(str::to_owned));
        assert_eq!(consume(&bootstrap, &up, 3), sorted(str::to_uppercase));
        assert_eq!(consume(&bootstrap, &other, 3), sorted(str::to_owned));
    }
    assert!(proxy.metric("weir_proxy_filter_records_total") > 0);
}

#[test]
fn rejected_record_is_reported_and_next_passes() {
    let proxy = proxy("[[cluster.filter]]\ntype = \"require\"\njson = true\n");
    let bootstrap = proxy.bootstrap();
    let topic = topic(&bootstrap, "json", 1, 1);
    let (sender, results) = channel();
    let producer: ThreadedProducer<_> = client_config(&bootstrap)
        .set("enable.idempotence", "true")
        .create_with_context(DeliveryResults(sender))
        .expect("valid configuration");
    let send = |value: &str| {
        let record: BaseRecord<'_, (), str> = BaseRecord::to(&topic).payload(value);
        producer.send(record).expect("an empty queue");
        results.recv_timeout(TEST_TIMEOUT).expect("a result")
    };
    send("{\"a\":1}").expect("JSON");
    let error = send("no json").expect_err("rejected");
    assert_eq!(
        error,
        KafkaError::MessageProduction(RDKafkaErrorCode::InvalidRecord)
    );
    send("{\"a\":2}").expect("JSON again");
    assert_eq!(consume(&bootstrap, &topic, 2), ["{\"a\":1}", "{\"a\":2}"]);
    assert_eq!(
        proxy.metric("weir_proxy_filter_rejected_partitions_total"),
        1
    );
    assert_eq!(errors(&proxy, "Produce", 87), 1);
}

#[test]
fn delayed_frames_keep_their_order() {
    let proxy = proxy(
        "[[cluster.filter]]\ntype = \"delay\"\ndelay_ms = 30\non = [\"produce\", \"fetch\"]\n",
    );
    let bootstrap = proxy.bootstrap();
    let topic = topic(&bootstrap, "delay", 1, 1);
    let values = numbered("delayed", 50);
    let mut client_config = client_config(&bootstrap);
    client_config
        .set("batch.num.messages", "5")
        .set("enable.idempotence", "true");
    produce(&client_config, &topic, &values);
    assert_eq!(consume(&bootstrap, &topic, 50), values);
    assert_eq!(consume(&broker(), &topic, 50), values);
    for api in ["Produce", "Fetch"] {
        let labels = format!("cluster=\"default\",api=\"{api}\"");
        let held = proxy.metric(&format!("weir_proxy_held_seconds_count{{{labels}}}"));
        let soon = format!("weir_proxy_held_seconds_bucket{{le=\"0.016384\",{labels}}}");
        assert!(held >= 1, "{api} {held}");
        assert_eq!(proxy.metric(&soon), 0, "all waited for 30 ms");
    }
}
