//! Topics: create, grow, delete.

use weir_kafka::AdminError;

use crate::support::{broker, unique};

#[test]
fn topics_are_created_grown_and_deleted() {
    let broker = broker();
    let admin = broker.admin();
    let topic = unique("admin");
    assert!(!admin.topic_exists(&topic).expect("answers"));

    let config = [("retention.ms", "60000")];
    admin.create_topic(&topic, 2, 1, &config).expect("created");
    assert_eq!(admin.partitions(&topic), Ok(Some(2)));
    admin.grow_topic(&topic, 5).expect("grown");
    assert_eq!(admin.partitions(&topic), Ok(Some(5)));
    admin.delete_topic(&topic).expect("deleted");
    assert!(!admin.topic_exists(&topic).expect("answers"));
    assert!(!admin.broker_ids().expect("answers").is_empty());
}

#[test]
fn refusals_name_topic_and_reason() {
    let broker = broker();
    let admin = broker.admin();
    let topic = broker.topic("taken", 1);
    let error = admin.create_topic(&topic, 1, 1, &[]).expect_err("taken");
    assert!(matches!(
        error,
        AdminError::Topic {
            action: "create",
            ..
        }
    ));
    assert!(error.to_string().contains(&topic), "{error}");

    let unknown = [("no.such.setting", "1")];
    let error = admin.create_topic(&unique("bad"), 1, 1, &unknown);
    assert!(error.is_err());
    assert!(admin.delete_topic(&unique("never")).is_err());
}
