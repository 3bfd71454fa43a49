//! Several ingest threads with a real broker: all records are delivered in the configured order.

mod support;

use std::collections::HashMap;

use support::{Client, TestEnv};

const KEYS: usize = 10;
const RECORDS_PER_KEY: usize = 400;

/// One update: key number, sequence number, partition and offset.
struct Update {
    key: usize,
    sequence: usize,
    partition: String,
    offset: i64,
}

/// Produces while a client reads; returns the client's updates.
fn run(threads: &str, strategy: &str) -> Vec<Update> {
    let env = TestEnv::partitioned(4);
    let settings = format!(
        r#"<param name="record.consume.with.num.threads">{threads}</param>
           <param name="record.consume.with.order.strategy">{strategy}</param></data_provider>"#
    );
    let gateway = env.start_gateway(|xml| xml.replace("</data_provider>", &settings));
    let mut client = Client::create(&gateway);
    let items: Vec<String> = (0..KEYS).map(|key| format!("ltest-[key=k{key}]")).collect();
    client.subscribe(1, &items.join(" "), "value offset partition");
    let mut updates = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for sequence in 0..RECORDS_PER_KEY {
                for key in 0..KEYS {
                    env.send(&format!("k{key}"), &sequence.to_string());
                }
                env.send("unrouted", "x");
            }
            env.flush();
        });
        let mut partitions = HashMap::new();
        while updates.len() < KEYS * RECORDS_PER_KEY {
            updates.push(parse(&client.line(), &mut partitions));
        }
    });
    let unrouted = "weir_gateway_kafka_unrouted_records_total";
    support::wait_metric(&gateway, unrouted, |count| count == RECORDS_PER_KEY as u64);
    gateway.shut_down();
    assert_eq!(client.line(), "END,48,the gateway is shutting down");
    updates
}

fn parse(line: &str, partitions: &mut HashMap<usize, String>) -> Update {
    let fields = line.strip_prefix("U,1,").expect("an update");
    let (item, values) = fields.split_once(',').expect("an item");
    let values: Vec<&str> = values.split('|').collect();
    let key = item.parse::<usize>().expect("a position") - 1;
    if !values[2..].concat().is_empty() {
        partitions.insert(key, values[2].to_owned());
    }
    Update {
        key,
        sequence: values[0].parse().expect("a sequence number"),
        partition: partitions[&key].clone(),
        offset: values[1].parse().expect("an offset"),
    }
}

/// Returns `true` if each key's records came in order; asserts that they are complete.
fn keys_in_order(updates: &[Update]) -> bool {
    let mut in_order = true;
    for key in 0..KEYS {
        let of_key = updates.iter().filter(|update| update.key == key);
        let mut sequences: Vec<usize> = of_key.map(|update| update.sequence).collect();
        in_order &= sequences.is_sorted();
        sequences.sort_unstable();
        assert!(sequences.into_iter().eq(0..RECORDS_PER_KEY), "key {key}");
    }
    in_order
}

fn partitions_in_order(updates: &[Update]) -> bool {
    let mut last: HashMap<&str, i64> = HashMap::new();
    updates.iter().all(|update| {
        let before = last.insert(&update.partition, update.offset);
        before.is_none_or(|before| before < update.offset)
    })
}

#[test]
fn one_thread_preserves_every_order() {
    let updates = run("1", "UNORDERED");
    assert!(keys_in_order(&updates) && partitions_in_order(&updates));
}

#[test]
fn four_threads_preserve_partition_order() {
    let updates = run("4", "ORDER_BY_PARTITION");
    assert!(keys_in_order(&updates) && partitions_in_order(&updates));
}

#[test]
fn four_threads_preserve_key_order() {
    assert!(keys_in_order(&run("4", "ORDER_BY_KEY")));
}

#[test]
fn unordered_strategy_delivers_everything() {
    keys_in_order(&run("-1", "UNORDERED"));
    keys_in_order(&run("4", "UNORDERED"));
}
