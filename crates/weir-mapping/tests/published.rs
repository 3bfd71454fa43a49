//! The configurations published with the connector's load test, unchanged.

use weir_mapping::{
    AdaptersFile, ConfigError, FieldName, FieldValues, ItemNames, ParseOptions, Problem,
    RecordView, Severity,
};

const SCENARIO_1: &str = include_str!("fixtures/scenario1-adapters.xml");
const SCENARIO_2: &str = include_str!("fixtures/scenario2-adapters.xml");
const SCENARIO_3: &str = include_str!("fixtures/scenario3-adapters.xml");

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
fn scenario_1_becomes_one_item_with_a_warning() {
    let file = parse(SCENARIO_1, false).unwrap();
    let warnings = warnings(&file);
    assert_eq!(warnings[..2], CLASS_WARNINGS);
    assert_eq!(
        warnings[2],
        "adapters.xml:33: connection \"QuickStart\": warning: item template [ltest] = \"ltest\" \
         has no parameters, which connector 1.5 refuses; it is taken as the simple item \"ltest\""
    );
    assert_eq!(warnings.len(), 3);

    let mapping = &file.connections[0].mapping;
    let mut names = ItemNames::new();
    mapping.item_names(&record(), &mut names).unwrap();
    assert_eq!(names.iter().collect::<Vec<_>>(), ["ltest"]);
    assert!(mapping.admits(&mapping.canonical_item("ltest").unwrap()));
}

#[test]
fn scenario_2_routes_by_key_and_maps_five_fields() {
    let file = parse(SCENARIO_2, false).unwrap();
    assert_eq!(warnings(&file), CLASS_WARNINGS);
    assert_eq!(file.set_id, "KafkaConnector");
    assert_eq!(file.logging_path.as_deref(), Some("log4j.properties"));
    let connection = &file.connections[0];
    assert_eq!(connection.name, "QuickStart");
    assert_eq!(connection.bootstrap(), "localhost:9092");

    let mapping = &connection.mapping;
    assert_eq!(mapping.topics().collect::<Vec<_>>(), ["LTest"]);
    let fields: Vec<_> = mapping.fields().iter().map(FieldName::as_str).collect();
    assert_eq!(fields, ["key", "value", "ts", "partition", "offset"]);

    let mut names = ItemNames::new();
    mapping.item_names(&record(), &mut names).unwrap();
    assert_eq!(names.iter().collect::<Vec<_>>(), ["ltest-[key=Apple]"]);
    let item = mapping.canonical_item("ltest-[key=Apple]").unwrap();
    assert!(mapping.admits(&item));
    assert!(!mapping.admits(&mapping.canonical_item("ltest").unwrap()));

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

#[test]
fn scenario_3_is_refused_for_its_json_evaluator() {
    let error = parse(SCENARIO_3, false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "adapters.xml:42: connection \"JsonStart-k\": [value.evaluator.type] = \"JSON\" is not \
         supported by this version; only STRING is"
    );
    assert!(matches!(*error.problem, Problem::Unsupported { .. }));
}

#[test]
fn strict_refuses_the_names_from_before_1_0() {
    for xml in [SCENARIO_1, SCENARIO_2, SCENARIO_3] {
        let error = parse(xml, true).unwrap_err();
        assert_eq!(error.at.line, Some(15));
        assert!(matches!(*error.problem, Problem::ForeignClass { .. }));
    }
}

#[test]
fn strict_refuses_a_template_without_parameters() {
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
    assert!(matches!(*error.problem, Problem::Template { .. }));
}
