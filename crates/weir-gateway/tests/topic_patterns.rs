//! `map.regex.enable` with a real broker: several topics, one of them created later.

mod support;

use support::{Client, TestEnv, per_reader};

per_reader! {
    topics_created_later_are_read_from_their_beginning
}

fn topics_created_later_are_read_from_their_beginning() {
    let env = TestEnv::new();
    let name = env.topic.clone();
    let gateway = env.start_gateway(|xml| {
        let pattern = format!("map.{name}(_[a-z]+)?.to");
        let switch = "<param name=\"map.regex.enable\">true</param></data_provider>";
        xml.replace(&format!("map.{name}.to"), &pattern)
            .replacen("</data_provider>", switch, 1)
    });
    let mut client = Client::create(&gateway);
    client.subscribe(1, "ltest-[key=Kiwi]", "value");
    env.produce("Kiwi", "first");
    assert_eq!(client.line(), "U,1,1,first");
    // A name that only begins like the pattern is not read.
    for (suffix, value) in [("_9", "other"), ("_new", "second")] {
        let topic = format!("{name}{suffix}");
        let created = env
            .admin
            .create_topic(&topic, 2, 1, &[("retention.ms", "-1")]);
        created.expect("a new topic");
        env.produce_to(&topic, "Kiwi", value);
    }
    assert_eq!(client.line(), "U,1,1,second");
    env.produce("Kiwi", "third");
    assert_eq!(client.line(), "U,1,1,third");
    gateway.shut_down();
}
