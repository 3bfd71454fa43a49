//! The configurations published with the connector's load test.

use super::common::AdaptersFile;
use crate::{
    CanonicalItem, ConfigError, FieldValue, FieldValues, ItemNames, ParseOptions, RecordView,
    Severity,
};

const SCENARIO_1: &str = include_str!("../../tests/fixtures/scenario1-adapters.xml");
const SCENARIO_2: &str = include_str!("../../tests/fixtures/scenario2-adapters.xml");
const SCENARIO_3: &str = include_str!("../../tests/fixtures/scenario3-adapters.xml");

fn parse(xml: &str, strict: bool) -> Result<AdaptersFile, ConfigError> {
    AdaptersFile::parse("adapters.xml", xml, &|_| None, ParseOptions { strict })
}

fn record() -> RecordView<'static> {
    RecordView {
        topic: "LTest",
        partition: 3,
        offset: 12,
        timestamp_ms: 1_700_000_000_000,
        key: Some(b"Apple"),
        value: Some(b"2024-01-01 00:00:00.000 text"),
        headers: &[],
    }
}

fn warnings(file: &AdaptersFile) -> Vec<String> {
    let warnings = file
        .notes
        .iter()
        .filter(|note| note.severity == Severity::Warning);
    warnings.map(ToString::to_string).collect()
}

const CLASS_WARNINGS: [&str; 2] = [
    "adapters.xml:15: warning: adapter class \
     \"com.lightstreamer.kafka_connector.adapters.ConnectorMetadataAdapter\" is a name from \
     before 1.0; write \"com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter\"",
    "adapters.xml:25: connection \"QuickStart\": warning: adapter class \
     \"com.lightstreamer.kafka_connector.adapters.ConnectorDataAdapter\" is a name from before \
     1.0; write \"com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter\"",
];

#[test]
fn scenario_1_maps_to_one_item() {
    let file = parse(SCENARIO_1, false).unwrap();
    let warnings = warnings(&file);
    assert_eq!(warnings[..2], CLASS_WARNINGS);
    assert_eq!(
        warnings[2],
        "adapters.xml:33: connection \"QuickStart\": warning: item template [ltest] = \"ltest\" \
         has no parameters, which connector 1.5 rejects; it is read as the simple item \"ltest\""
    );
    assert_eq!(warnings.len(), 3);

    let mapping = &file.connections[0].mapping;
    let mut names = ItemNames::new();
    mapping.item_names(&record(), &mut names).unwrap();
    assert_eq!(names.iter().collect::<Vec<_>>(), ["ltest"]);
    assert!(mapping.admits(&CanonicalItem::parse("ltest").unwrap()));
}

#[test]
fn scenario_2_routes_by_key() {
    let file = parse(SCENARIO_2, false).unwrap();
    assert_eq!(warnings(&file), CLASS_WARNINGS);
    assert_eq!(file.set_id, "KafkaConnector");
    assert_eq!(
        file.logging_path.as_ref().map(|path| path.value.as_str()),
        Some("log4j.properties")
    );
    let connection = &file.connections[0];
    assert_eq!(connection.name, "QuickStart");
    assert_eq!(connection.bootstrap(), "localhost:9092");

    let mapping = &connection.mapping;
    assert_eq!(mapping.topics().collect::<Vec<_>>(), ["LTest"]);
    let fields: Vec<_> = mapping.fields().collect();
    assert_eq!(fields, ["key", "value", "ts", "partition", "offset"]);

    let mut names = ItemNames::new();
    mapping.item_names(&record(), &mut names).unwrap();
    assert_eq!(names.iter().collect::<Vec<_>>(), ["ltest-[key=Apple]"]);
    let item = CanonicalItem::parse("ltest-[key=Apple]").unwrap();
    assert!(mapping.admits(&item));
    assert!(!mapping.admits(&CanonicalItem::parse("ltest").unwrap()));

    let mut values = FieldValues::new();
    mapping
        .field_values(&record(), &mapping.all_fields(), &mut values)
        .unwrap();
    let texts: Vec<_> = (0..5).map(|i| values.get(i).unwrap()).collect();
    let expected = [
        "Apple",
        "2024-01-01 00:00:00.000 text",
        "1700000000000",
        "3",
        "12",
    ];
    assert_eq!(texts, expected);
}

/// Record of the load test's `complex` producer, shortened.
const COMPLEX: &str = r#"{"id":"James","firstText":"a\u00e9","secondText":"b","thirdText":"",
    "fourthText":null,"firstnumber":-17,"secondNumber":2,"thirdNumber":3,"fourthNumber":4,
    "hobbies":["Playing video games","Chess","Hiking"],"timestamp":"2024-01-01 00:00:00.000"}"#;

#[test]
fn scenario_3_extracts_json_values() {
    let file = parse(SCENARIO_3, false).unwrap();
    let warnings = warnings(&file);
    assert_eq!(
        warnings[2],
        "adapters.xml:42: connection \"JsonStart-k\": warning: parameter \
         [value.evaluator.type] is not known to connector 1.5; write \
         [record.value.evaluator.type]; read as that parameter"
    );
    assert_eq!(warnings.len(), 6);
    let connections: Vec<_> = file.connections.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(connections, ["JsonStart-k", "AirpotDemo"]);
    assert_eq!(file.connections[1].bootstrap_servers.len(), 2);

    let mapping = &file.connections[0].mapping;
    let record = RecordView {
        key: Some(b"James"),
        value: Some(COMPLEX.as_bytes()),
        ..record()
    };
    let mut names = ItemNames::new();
    mapping.item_names(&record, &mut names).unwrap();
    assert_eq!(names.iter().collect::<Vec<_>>(), ["jsontest-[key=James]"]);

    let mut values = FieldValues::new();
    mapping
        .field_values(&record, &mapping.all_fields(), &mut values)
        .unwrap();
    let get = |name: &str| values.value(mapping.field_index(name).unwrap());
    let expected = [
        ("key", "James"),
        ("timestamp", "2024-01-01 00:00:00.000"),
        ("firstText", "aé"),
        ("secondText", "b"),
        ("thirdText", ""),
        ("firstnumber", "-17"),
        ("fourthNumber", "4"),
        ("hobbies", "Playing video games"),
        ("ts", "1700000000000"),
    ];
    for (name, text) in expected {
        assert_eq!(get(name), FieldValue::Text(text), "{name}");
    }
    assert_eq!(get("fourthText"), FieldValue::Null);
}

#[test]
fn invalid_json_is_a_deserialization_error() {
    let file = parse(SCENARIO_3, false).unwrap();
    let mapping = &file.connections[0].mapping;
    let all = mapping.all_fields();
    let mut values = FieldValues::new();
    let error = mapping
        .field_values(&record(), &all, &mut values)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot extract field \"timestamp\" by [VALUE.timestamp]: the value is not JSON: \
         malformed number at byte 4"
    );
    assert!(error.is_deserialization());

    let record = RecordView {
        value: Some(b"{\"timestamp\":\"now\"}"),
        ..record()
    };
    let error = mapping
        .field_values(&record, &all, &mut values)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot extract field \"firstText\" by [VALUE.firstText]: field [firstText] not found"
    );
    assert!(!error.is_deserialization());
}

/// Returns a file similar to the load test's `scenario4`: two connections, a JSON key of a thousand
/// names, parameter names with a leading blank.
fn scenario_4() -> String {
    let provider = |name: &str, parameters: &[(String, String)]| {
        let mut xml = format!(
            "<data_provider name=\"{name}\">\n<adapter_class>\
             com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter</adapter_class>\n"
        );
        for (name, value) in parameters {
            xml.push_str(&format!("<param name=\"{name}\">{value}</param>\n"));
        }
        xml + "</data_provider>\n"
    };
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let mut load_test: Vec<_> = [
        ("bootstrap.servers", "localhost:9092"),
        ("record.consume.from", "LATEST"),
        ("record.consume.with.num.threads", "4"),
        ("record.consume.with.order.strategy", "ORDER_BY_PARTITION"),
        ("record.key.evaluator.type", "JSON"),
        ("record.value.evaluator.type", "JSON"),
        ("item-template.ltest", "ltest-#{key=KEY.names[999]}"),
        ("map.LTest001.to", "item-template.ltest"),
        ("field.key", "#{KEY.nameId}"),
        ("field.firstText", "#{VALUE.firstText}"),
    ]
    .iter()
    .map(own)
    .collect();
    load_test.extend((1..=1000).map(|i| {
        let blank = if i % 3 == 0 { "" } else { " " };
        (
            format!("{blank}field.names{i}"),
            format!("#{{KEY.names[{i}]}}"),
        )
    }));
    let old: Vec<_> = [
        ("bootstrap.servers", "localhost:9092"),
        ("record.consume.from", "EARLIEST"),
        ("record.consume.with.num.threads", "4"),
        ("record.consume.with.order.strategy", "UNORDERED"),
        ("item-template.ltest", "ltest-#{key=KEY}"),
        ("map.LTest.to", "item-template.ltest"),
        ("field.value", "#{VALUE}"),
    ]
    .iter()
    .map(own)
    .collect();
    format!(
        "<?xml version=\"1.0\"?>\n<adapters_conf id=\"KafkaConnector\"><metadata_provider>\
         <adapter_class>com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter\
         </adapter_class><param name=\"logging.configuration.path\">log4j.properties</param>\
         </metadata_provider>\n{}{}</adapters_conf>",
        provider("LoadTest", &load_test),
        provider("OldLoadTest", &old),
    )
}

#[test]
fn scenario_4_causes_one_warning() {
    let xml = scenario_4();
    let file = parse(&xml, false).unwrap();
    let warnings = warnings(&file);
    assert_eq!(
        warnings,
        [
            "adapters.xml:15: connection \"LoadTest\": warning: parameter [ field.names1] begins \
             or ends with a blank (and 666 more in this connection); connector 1.5 does not know \
             such a name; blanks removed"
        ]
    );
    let mapping = &file.connections[0].mapping;
    assert_eq!(mapping.fields().len(), 1002);
    assert_eq!(file.connections[1].name, "OldLoadTest");

    let names: Vec<_> = (0..1024).map(|i| format!("\"name {i}\"")).collect();
    let key = format!("{{\"nameId\":\"Timothy\",\"names\":[{}]}}", names.join(","));
    let record = RecordView {
        topic: "LTest001",
        key: Some(key.as_bytes()),
        value: Some(COMPLEX.as_bytes()),
        ..record()
    };
    let mut items = ItemNames::new();
    mapping.item_names(&record, &mut items).unwrap();
    assert_eq!(items.iter().collect::<Vec<_>>(), ["ltest-[key=name 999]"]);
    let mut values = FieldValues::new();
    mapping
        .field_values(&record, &mapping.all_fields(), &mut values)
        .unwrap();
    for i in 1..=1000 {
        let index = mapping.field_index(&format!("names{i}")).unwrap();
        assert_eq!(values.get(index), Some(format!("name {i}").as_str()));
    }
    assert_eq!(values.get(0), Some("Timothy"));

    let refused = parse(&xml, true).unwrap_err();
    assert!(refused.text.contains("begins or ends with a blank"));
}

#[test]
fn strict_mode_rejects_names_before_1_0() {
    for xml in [SCENARIO_1, SCENARIO_2, SCENARIO_3] {
        let error = parse(xml, true).unwrap_err();
        assert_eq!(error.at.line, Some(15));
        assert!(error.text.contains("is not the Kafka connector's"));
    }
}

#[test]
fn strict_mode_rejects_template_without_parameters() {
    let current = SCENARIO_1
        .replace(
            "com.lightstreamer.kafka_connector.adapters.ConnectorMetadataAdapter",
            "com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter",
        )
        .replace(
            "com.lightstreamer.kafka_connector.adapters.ConnectorDataAdapter",
            "com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter",
        );
    let error = parse(&current, true).unwrap_err();
    assert_eq!(error.at.line, Some(33));
    assert!(error.text.contains("while evaluating the template"));
}
