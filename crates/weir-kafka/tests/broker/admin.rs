//! Topics: creation, growth, deletion.

use weir_kafka::AdminError;

use crate::support::{broker, numbered, unique};

#[test]
fn topics_are_created_grown_and_deleted() {
    let broker = broker();
    let admin = broker.admin();
    let topic = unique("admin");
    assert!(!admin.topic_exists(&topic).expect("broker responds"));

    let config = [("retention.ms", "60000")];
    admin.create_topic(&topic, 2, 1, &config).expect("created");
    assert_eq!(admin.partitions(&topic), Ok(Some(2)));
    admin.grow_topic(&topic, 5).expect("grown");
    assert_eq!(admin.partitions(&topic), Ok(Some(5)));
    admin.delete_topic(&topic).expect("deleted");
    assert!(!admin.topic_exists(&topic).expect("broker responds"));
    assert!(!admin.broker_ids().expect("broker responds").is_empty());
}

#[test]
fn rejection_errors_name_topic_and_reason() {
    let broker = broker();
    let admin = broker.admin();
    let topic = broker.topic("existing", 1);
    let error = admin.create_topic(&topic, 1, 1, &[]).expect_err("existing");
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

#[test]
fn several_topics_are_created_and_deleted_together() {
    let broker = broker();
    let admin = broker.admin();
    let mut names: Vec<String> = (0..3).map(|at| unique(&format!("many-{at}"))).collect();
    let config = [("retention.ms", "-1")];
    admin.create_topics(&names, &config).expect("created");
    for name in &names {
        assert_eq!(admin.partitions(name), Ok(Some(1)));
        assert_eq!(admin.end_offset(name, 0), Ok(0));
    }
    broker
        .producer()
        .store(&names[1], 0, &numbered("record", 7));
    assert_eq!(admin.end_offset(&names[1], 0), Ok(7));
    let existing = admin.create_topics(&names[2..], &config);
    let error = existing.expect_err("existing").to_string();
    assert!(error.contains(&names[2]), "{error}");
    names.push(unique("never"));
    admin.delete_topics(&names).expect("deleted");
    for name in &names {
        assert!(!admin.topic_exists(name).expect("broker responds"));
    }
    admin.create_topics(&[], &[]).expect("nothing to do");
    admin.delete_topics(&[]).expect("nothing to do");
}
