//! `field.*` through a running gateway: clients with different schemas share the fields that their
//! subscriptions name.

mod support;

use support::{Client, TestEnv};

/// Returns a change of the scenario's configuration to the members of JSON values.
fn members(more: &str) -> impl FnOnce(String) -> String {
    let parameters = format!(
        "<param name=\"record.value.evaluator.type\">JSON</param>\
         <param name=\"field.*\">#{{VALUE.*}}</param>{more}</data_provider>"
    );
    move |xml| {
        xml.replacen("</data_provider>", &parameters, 1)
            .replace("<param name=\"field.value\">#{VALUE}</param>", "")
    }
}

#[test]
fn clients_with_different_schemas_get_their_fields() {
    let env = TestEnv::new();
    let gateway = env.start_gateway(members("<param name=\"field.named\">#{VALUE.b}</param>"));
    let (mut one, mut other) = (Client::create(&gateway), Client::create(&gateway));
    one.subscribe(1, "ltest-[key=Kiwi]", "a key c");
    other.subscribe(1, "ltest-[key=Kiwi]", "c named d.e");
    env.produce(
        "Kiwi",
        r#"{"a":1,"b":"B","c":{"x":[1.10]},"d.e":null,"more":[1,2]}"#,
    );
    assert_eq!(one.line(), r#"U,1,1,1|Kiwi|{"x":[1.1]}"#);
    assert_eq!(other.line(), r##"U,1,1,{"x":[1.1]}|B|#"##);
    // A later schema needs a name that no client has used before, and one that records lack.
    let mut late = Client::create(&gateway);
    late.subscribe(1, "ltest-[key=Kiwi]", "more a never");
    env.produce("Kiwi", r#"{"b":"B","c":2,"more":true}"#);
    assert_eq!(one.line(), "U,1,1,#||2");
    assert_eq!(other.line(), "U,1,1,2||");
    assert_eq!(late.line(), "U,1,1,true|#|#");
    gateway.shut_down();
}

#[test]
fn rows_of_command_mode_have_dynamic_fields() {
    let env = TestEnv::new();
    let command = "<param name=\"fields.auto.command.mode.enable\">true</param>";
    let gateway = env
        .start_gateway(|xml| members(command)(xml).replace("ltest-#{key=KEY}", "rows-#{t=TOPIC}"));
    let mut client = Client::create(&gateway);
    client.send(&format!(
        "control\r\nLS_reqId=1&LS_op=add&LS_subId=1&LS_mode=COMMAND&LS_group=rows-[t%3D{}]\
         &LS_schema=key%20command%20price&LS_data_adapter=QuickStart&LS_ack=false",
        env.topic
    ));
    assert_eq!(client.line(), "SUBCMD,1,1,3,1,2");
    assert_eq!(client.line(), "CONF,1,unlimited,filtered");
    env.produce("Kiwi", r#"{"price":1}"#);
    assert_eq!(client.line(), "U,1,1,Kiwi|ADD|1");
    env.produce("Kiwi", r#"{"price":2}"#);
    assert_eq!(client.line(), "U,1,1,|UPDATE|2");
    env.delete("Kiwi");
    assert_eq!(client.line(), "U,1,1,|DELETE|");
    gateway.shut_down();
}
