mod cluster;
mod reports;
mod schemas;
mod snapshots;
mod start_up;

use super::*;
use crate::tests::common::AdaptersFile;

/// Returns an `adapters.xml` with one connection whose first parameter is in line 7.
fn file(parameters: &[(&str, &str)]) -> String {
    let mut xml = format!(
        "<adapters_conf id=\"Set\">\n<metadata_provider>\n\
         <adapter_class>{METADATA_CLASS}</adapter_class>\n\
         <param name=\"{LOGGING_PATH}\">log.properties</param></metadata_provider>\n\
         <data_provider name=\"C\">\n<adapter_class>{DATA_CLASS}</adapter_class>\n"
    );
    for (name, value) in parameters {
        xml.push_str(&format!("<param name=\"{name}\">{value}</param>\n"));
    }
    xml.push_str("</data_provider></adapters_conf>");
    xml
}

const MINIMAL: &[(&str, &str)] = &[
    ("bootstrap.servers", "localhost:9092"),
    ("map.T.to", "item"),
    ("field.value", "#{VALUE}"),
];

fn env(name: &str) -> Option<String> {
    (name == "HOST").then(|| "kafka:9092".to_owned())
}

fn parse_as(strict: bool, xml: &str) -> Result<AdaptersFile, ConfigError> {
    AdaptersFile::parse("a.xml", xml, &env, ParseOptions { strict })
}

fn parse(xml: &str) -> Result<AdaptersFile, ConfigError> {
    parse_as(false, xml)
}

/// Returns a file with the minimal connection and more parameters; `extra` starts in line 10.
fn with(extra: &[(&str, &str)]) -> String {
    file(&[MINIMAL, extra].concat())
}

fn error(xml: &str) -> String {
    parse(xml).unwrap_err().to_string()
}

fn notes(xml: &str) -> Vec<String> {
    parse(xml)
        .unwrap()
        .notes
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn minimal_file_has_defaults() {
    let file = parse_as(true, &with(&[])).unwrap();
    assert_eq!(file.set_id, "Set");
    let logging = file.logging_path.expect("logging path");
    assert_eq!(
        (logging.value.as_str(), logging.line),
        ("log.properties", Some(4))
    );
    assert!(file.notes.is_empty());
    let connection = &file.connections[0];
    assert_eq!(connection.name, "C");
    assert!(connection.enabled);
    assert_eq!(connection.bootstrap(), "localhost:9092");
    assert_eq!(connection.group_id, None);
    assert_eq!(connection.consume_from, ConsumeFrom::Latest);
    assert_eq!(connection.threads, Threads::Count(1));
    assert_eq!(connection.order_strategy, OrderStrategy::ByPartition);
    assert_eq!(connection.error_strategy, ErrorStrategy::IgnoreAndContinue);
    assert_eq!(connection.mapping.topics().collect::<Vec<_>>(), ["T"]);
    assert!(
        connection
            .parameters
            .iter()
            .all(|p| p.outcome == ParameterOutcome::Honoured)
    );
}

#[test]
fn parameters_are_read() {
    let xml = file(&[
        ("bootstrap.servers", "a:1 , b:2"),
        ("map.a.b.to", "item"),
        ("field.value", "#{VALUE}"),
        ("enable", "false"),
        ("group.id", "g"),
        ("record.consume.from", "EARLIEST"),
        ("record.consume.with.num.threads", "-1"),
        ("record.consume.with.order.strategy", "ORDER_BY_KEY"),
        ("record.extraction.error.strategy", "FORCE_UNSUBSCRIPTION"),
        ("record.value.evaluator.type", "STRING"),
        ("record.key.evaluator.schema.path", "schemas/key.json"),
    ]);
    let file = parse(&xml).unwrap();
    let connection = &file.connections[0];
    assert!(!connection.enabled);
    assert_eq!(connection.bootstrap_servers, ["a:1", "b:2"]);
    assert_eq!(connection.group_id.as_deref(), Some("g"));
    assert_eq!(connection.consume_from, ConsumeFrom::Earliest);
    assert_eq!(connection.threads, Threads::Processors);
    assert_eq!(connection.order_strategy, OrderStrategy::ByKey);
    assert_eq!(
        connection.error_strategy,
        ErrorStrategy::ForceUnsubscription
    );
    assert_eq!(connection.mapping.topics().collect::<Vec<_>>(), ["a.b"]);
    assert!(file.notes.is_empty(), "{:?}", file.notes);
}

#[test]
fn every_parameter_has_a_status() {
    let xml = with(&[
        ("record.consume.with.max.poll.records", "100"),
        ("authentication.password", "hunter2"),
        ("tpyo", "x"),
    ]);
    let file = parse(&xml).unwrap();
    let rows: Vec<_> = file.connections[0]
        .parameters
        .iter()
        .skip(MINIMAL.len())
        .map(|p| {
            (
                p.name.as_str(),
                p.value.as_str(),
                p.line,
                p.outcome.to_string(),
            )
        })
        .collect();
    let row = |name, value, line, status: &str| (name, value, Some(line), status.to_owned());
    assert_eq!(
        rows,
        [
            row(
                "record.consume.with.max.poll.records",
                "100",
                10,
                "honoured"
            ),
            row(
                "authentication.password",
                "********",
                11,
                "ignored: read only if authentication.enable is true"
            ),
            row("tpyo", "x", 12, "ignored: unknown"),
        ]
    );
}

#[test]
fn disabled_switches_are_accepted() {
    let xml = with(&[
        ("encryption.enable", "false"),
        ("encryption.protocol", ""),
        ("authentication.enable", "false"),
        ("map.regex.enable", "false"),
        ("record.key.evaluator.schema.registry.enable", "false"),
        ("fields.auto.command.mode.enable", "false"),
    ]);
    assert!(parse_as(true, &xml).unwrap().notes.is_empty());
}

#[test]
fn invalid_value_error_has_line_and_expected_type() {
    let rows = [
        ("enable", "TRUE", "true or false"),
        ("record.consume.from", "latest", "one of LATEST, EARLIEST"),
        (
            "record.consume.with.num.threads",
            "0",
            "-1 or a whole number from 1 to 256",
        ),
        (
            "record.consume.with.max.poll.records",
            "0",
            "a whole number from 1 to 2147483647",
        ),
        (
            "record.consume.with.session.timeout.ms",
            "x",
            "a whole number from -2147483648 to 2147483647",
        ),
        (
            "record.key.evaluator.kvp.pairs.separator",
            "ab",
            "exactly one character",
        ),
        ("group.id", " ", "a text that is not blank"),
        (
            "record.value.evaluator.schema.path",
            "",
            "the path of a file",
        ),
        ("item-template.x", "", "a text that is not blank"),
        (
            "map.U.to",
            "a,,b",
            "a list of non-empty strings, separated by commas",
        ),
        (
            "map.V.to",
            "a,",
            "a list of non-empty strings, separated by commas",
        ),
    ];
    for (name, value, expected) in rows {
        assert_eq!(
            error(&with(&[(name, value)])),
            format!(
                "a.xml:10: connection \"C\": specify a valid value for parameter [{name}]: \
                 \"{value}\" is not {expected}"
            )
        );
    }
    assert!(
        error(&with(&[("record.value.evaluator.type", "json")])).contains("is not one of AVRO")
    );
    assert!(error(&file(&[("bootstrap.servers", "localhost")])).contains("list of host:port"));
}

#[test]
fn missing_parameter_error_has_remedy() {
    assert_eq!(
        error(&file(&MINIMAL[1..])),
        "a.xml:5: connection \"C\": missing required parameter [bootstrap.servers]; write \
         host:port of at least one broker"
    );
    assert_eq!(
        error(&file(&[MINIMAL[0], MINIMAL[2]])),
        "a.xml:5: connection \"C\": specify at least one parameter [map.<...>.to]; name the \
         items a topic is delivered as"
    );
    assert_eq!(
        error(&file(&MINIMAL[..2])),
        "a.xml:5: connection \"C\": specify at least one parameter [field.<...>]; name a field \
         and its expression, such as field.value = #{VALUE}"
    );
}

#[test]
fn malformed_name_error_shows_form() {
    let rows = [
        ("map.to", "map.<...>.to"),
        ("map. .to", "map.<...>.to"),
        ("field", "field.<...>"),
        ("field.", "field.<...>"),
        ("item-template.", "item-template.<...>"),
    ];
    for (name, expected) in rows {
        let text = format!("specify a valid parameter [{expected}] instead of [{name}]");
        assert_eq!(
            error(&with(&[(name, "x")])),
            format!("a.xml:10: connection \"C\": {text}")
        );
    }
}

#[test]
fn mapping_errors_match_connector() {
    let rows = [
        (
            ("map.U.to", "item-template.x"),
            "no item template [x] found, which parameter [map.U.to] refers to; define \
             [item-template.x]",
        ),
        (
            ("map.U.to", "a,item-template."),
            "item template reference must be a non-empty string in parameter [map.U.to]; write \
             item-template.NAME",
        ),
        (
            ("item-template.x", "a-#{k=FOO}"),
            "got the following error while evaluating the template [x] containing the \
             expression [a-#{k=FOO}]: missing root tokens \
             [KEY|VALUE|TIMESTAMP|PARTITION|OFFSET|TOPIC|HEADERS] in the expression [FOO]",
        ),
        (
            ("item-template.x", "a-#{k=KEY,k=KEY}"),
            "got the following error while evaluating the template [x] containing the \
             expression [a-#{k=KEY,k=KEY}]: no duplicated keys are allowed",
        ),
        (
            ("item-template.x", "a-#{k=VALUE.b}"),
            "got the following error while evaluating the template [x] containing the \
             expression [a-#{k=VALUE.b}]: found the invalid expression [VALUE.b] for scalar \
             values",
        ),
        (
            ("item-template.x", "a b"),
            "got the following error while evaluating the template [x] containing the \
             expression [a b]: invalid template expression; write \
             PREFIX-#{NAME=EXPRESSION,...}",
        ),
        (
            ("field.x", "VALUE"),
            "got the following error while evaluating the field [x] containing the expression \
             [VALUE]: invalid expression; write #{EXPRESSION} with nothing around it",
        ),
        (
            ("field.x", "#{VALUE.*}"),
            "got the following error while evaluating the field [x] containing the expression \
             [#{VALUE.*}]: found unexpected wildcard char in the expression [VALUE.*]",
        ),
        (
            ("field.x", "#{OFFSET.a}"),
            "got the following error while evaluating the field [x] containing the expression \
             [#{OFFSET.a}]: found the invalid expression [OFFSET.a] for scalar values",
        ),
    ];
    for (parameter, expected) in rows {
        assert_eq!(
            error(&with(&[parameter])),
            format!("a.xml:10: connection \"C\": {expected}")
        );
    }
}

#[test]
fn unknown_parameters_warn_or_are_rejected() {
    let xml = with(&[("bootstrap.server", "a:1"), ("qwertz", "1"), ("map.U", "x")]);
    assert_eq!(
        notes(&xml),
        [
            "a.xml:10: connection \"C\": warning: unknown parameter [bootstrap.server]; the \
             nearest known name is [bootstrap.servers]; parameter ignored",
            "a.xml:11: connection \"C\": warning: unknown parameter [qwertz]; no known name is \
             similar; parameter ignored",
            "a.xml:12: connection \"C\": warning: unknown parameter [map.U]; the nearest known \
             name is [map.U.to]; parameter ignored",
        ]
    );
    assert_eq!(
        parse_as(true, &xml).unwrap_err().to_string(),
        "a.xml:10: connection \"C\": unknown parameter [bootstrap.server]; the nearest known \
         name is [bootstrap.servers]"
    );
    let unreleased = notes(&with(&[("group.mode", "x")]));
    assert!(unreleased[0].contains("belongs to no released connector version"));
}

#[test]
fn earlier_names_warn_or_are_rejected() {
    let xml = with(&[("record.consume.max.poll.records", "5")]);
    assert_eq!(
        notes(&xml),
        [
            "a.xml:10: connection \"C\": warning: parameter [record.consume.max.poll.records] is \
          not known to connector 1.5; write [record.consume.with.max.poll.records]; read as \
          that parameter"
        ]
    );
    assert!(parse_as(true, &xml).is_err());
    let error_text = error(&with(&[("value.evaluator.type", "AVRO")]));
    assert!(
        error_text.contains("[record.value.evaluator.type] = \"AVRO\" needs a schema"),
        "{error_text}"
    );
    let misprint = with(&[("fields.map.non.scalar.values", "maybe")]);
    assert!(error(&misprint).contains("true or false"));
}

#[test]
fn one_of_repeated_parameters_is_used() {
    let twice = with(&[("field.value", "#{KEY}")]);
    assert!(notes(&twice)[0].ends_with("is given twice; keep one of the two; used the later one"));
    assert!(parse_as(true, &twice).is_err());
    // The connector would ignore the earlier name.
    let both = with(&[
        ("record.key.evaluator.type", "STRING"),
        ("key.evaluator.type", "AVRO"),
    ]);
    assert!(notes(&both)[1].ends_with("used the current spelling"));
    let reversed = with(&[
        ("key.evaluator.type", "AVRO"),
        ("record.key.evaluator.type", "STRING"),
    ]);
    assert!(parse(&reversed).is_ok());
}

#[test]
fn blanks_around_parameter_names_cause_one_warning() {
    let xml = with(&[
        (" field.names1", "#{KEY}"),
        ("\u{2003}field.names2 ", "#{KEY}"),
        ("field.a b", "#{KEY}"),
    ]);
    let file = parse(&xml).unwrap();
    let names: Vec<_> = file.connections[0].mapping.fields().collect();
    assert_eq!(names, ["value", "names1", "names2", "a b"]);
    assert_eq!(
        notes(&xml),
        [
            "a.xml:10: connection \"C\": warning: parameter [ field.names1] begins or ends with a \
             blank (and 1 more in this connection); connector 1.5 does not know such a name; \
             blanks removed"
        ]
    );
    let rejected = parse_as(true, &xml).unwrap_err().to_string();
    assert_eq!(
        rejected,
        "a.xml:10: connection \"C\": parameter [ field.names1] begins or ends with a blank; \
         connector 1.5 does not know such a name"
    );
    let one = with(&[("field.x ", "#{KEY}")]);
    assert!(notes(&one)[0].contains("[field.x ] begins or ends with a blank; connector"));
}

#[test]
fn separators_apply_to_kvp_only() {
    for (part, name) in [
        ("key", "record.key.evaluator.kvp.pairs.separator"),
        ("key", "record.key.evaluator.kvp.key-value.separator"),
        ("value", "record.value.evaluator.kvp.pairs.separator"),
        ("value", "record.value.evaluator.kvp.key-value.separator"),
    ] {
        check_separator(part, (name, ";"));
    }
}

fn check_separator(part: &str, separator: (&str, &str)) {
    let status = |xml: &str| {
        let file = parse(xml).unwrap();
        let parameters = &file.connections[0].parameters;
        let found = parameters.iter().find(|p| p.name == separator.0);
        found.unwrap().outcome.to_string()
    };
    let evaluator = format!("record.{part}.evaluator.type");
    assert_eq!(status(&with(&[separator, (&evaluator, "KVP")])), "honoured");
    assert_eq!(
        status(&with(&[separator])),
        "ignored: read only by the KVP evaluator"
    );
}

#[test]
fn templates_without_parameters_and_unreachable_items_warn() {
    let xml = with(&[
        ("item-template.plain", "ltest"),
        ("item-template.unused", "x-#{k=KEY}"),
        ("map.U.to", "item-template.plain,my.item,x-[a=1]"),
    ]);
    let notes = notes(&xml);
    assert!(
        notes[0].contains("a.xml:10") && notes[0].contains("has no parameters"),
        "{notes:?}"
    );
    assert!(notes[1].contains("simple item \"my.item\""), "{notes:?}");
    assert!(notes[2].contains("simple item \"x-[a=1]\""), "{notes:?}");
    assert!(
        notes[3].contains("item template [unused] is used by no"),
        "{notes:?}"
    );
    let rejected = parse_as(true, &xml).unwrap_err().to_string();
    assert!(
        rejected.contains("invalid template expression"),
        "{rejected}"
    );
}

#[test]
fn variables_are_expanded_in_names_and_values() {
    let xml = with(&[])
        .replace("localhost:9092", "$env.HOST")
        .replace("\"Set\"", r#""\$Set""#);
    let file = parse(&xml).unwrap();
    assert_eq!(file.connections[0].bootstrap(), "kafka:9092");
    assert_eq!(file.set_id, "$Set");
    assert_eq!(
        error(&with(&[("$env.NOPE", "x")])),
        "a.xml:10: environment variable \"NOPE\" used in attribute name of <param> is not \
         defined; define it, or write \\$ for a literal dollar sign"
    );
    assert!(error(&with(&[("group.id", "$env.NOPE")])).contains("in parameter [group.id]"));
}

#[test]
fn file_structure_is_checked() {
    let class = format!("<adapter_class>{DATA_CLASS}</adapter_class>");
    let rows = [
        (
            "<adapters_conf id='x'>\n<a></adapters_conf>".to_owned(),
            "a.xml:2: not well-formed XML",
        ),
        (
            "<conf/>".to_owned(),
            "a.xml:1: missing root element <adapters_conf>",
        ),
        (
            "<adapters_conf/>".to_owned(),
            "a.xml:1: missing attribute id",
        ),
        (
            "<adapters_conf id='x'/>".to_owned(),
            "a.xml: missing a <data_provider>",
        ),
        (
            "<adapters_conf id='x'><data_provider name='n'/></adapters_conf>".to_owned(),
            "connection \"n\": missing element <adapter_class>",
        ),
        (
            format!(
                "<adapters_conf id='x'><data_provider>{class}<param>v</param>\
                 </data_provider></adapters_conf>"
            ),
            "missing attribute name of <param>",
        ),
    ];
    for (xml, expected) in rows {
        let text = error(&xml);
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn duplicate_connection_names_are_rejected() {
    let one = with(&[]);
    let start = one.find("<data_provider").unwrap();
    let block = one[start..].replace("</adapters_conf>", "");
    let twice = one.replace("</adapters_conf>", &format!("{block}</adapters_conf>"));
    assert!(error(&twice).contains("a second data_provider is named \"C\""));
    let unnamed = twice.replacen(" name=\"C\"", "", 1);
    let file = parse(&unnamed).unwrap();
    let names: Vec<_> = file.connections.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["DEFAULT", "C"]);
}

#[test]
fn other_classes_and_elements_cause_notes() {
    let other = with(&[]).replace(
        "</adapters_conf>",
        "<data_provider name='F'><adapter_class>x.Y</adapter_class><classloader/></data_provider>\
         <parm name='a'>b</parm></adapters_conf>",
    );
    let file = parse(&other).unwrap();
    assert_eq!(file.connections.len(), 1);
    let texts: Vec<_> = file.notes.iter().map(ToString::to_string).collect();
    assert!(
        texts[0].contains("note: element <classloader> is ignored"),
        "{texts:?}"
    );
    assert!(
        texts[1].contains("unknown element <parm> inside <adapters_conf>"),
        "{texts:?}"
    );
    assert!(
        texts[2].contains("connection \"F\"") && texts[2].contains("data provider is ignored"),
        "{texts:?}"
    );
    assert!(parse_as(true, &other).is_err());

    let with_subclass = with(&[]).replace(METADATA_CLASS, "my.Metadata");
    let texts = notes(&with_subclass);
    assert!(
        texts[0].contains("its additions have no effect"),
        "{texts:?}"
    );
}

#[test]
fn metadata_provider_is_optional_unless_strict() {
    let full = with(&[]);
    let without_path = full.replace(
        &format!("<param name=\"{LOGGING_PATH}\">log.properties</param>"),
        "",
    );
    assert!(notes(&without_path)[0].contains("a.xml:2: warning: missing required parameter"));
    assert!(parse_as(true, &without_path).is_err());
    let start = full.find("<metadata_provider>").unwrap();
    let end = full.find("<data_provider").unwrap();
    let without = format!("{}{}", &full[..start], &full[end..]);
    assert!(notes(&without)[0].contains("missing <metadata_provider>"));
    assert!(parse_as(true, &without).is_err());
    let blank = full.replace("log.properties", " ");
    assert!(error(&blank).contains("specify a valid value for parameter [logging"));
}

#[test]
fn comments_and_character_references_are_resolved() {
    let xml = with(&[]).replace("#{VALUE}", "#{VAL<!-- cut -->&#85;E}");
    let file = parse(&xml).unwrap();
    assert_eq!(file.connections[0].mapping.fields().next(), Some("value"));
}

#[test]
fn config_report_lists_all_errors() {
    let mut xml = file(&[
        ("bootstrap.servers", "localhost"),
        ("record.value.evaluator.type", "XML"),
        ("item-template.t", "x-#{k=KEY.a}"),
        ("map.T.to", "item-template.t"),
        ("map.U.to", "item-template.none"),
        ("field.v", "VALUE"),
        ("field.w", "#{VALUE}"),
    ]);
    let other = file(&[("map.T.to", "item")]).replace("name=\"C\"", "name=\"D\"");
    let provider = other.find("<data_provider").unwrap();
    xml = xml.replace("</adapters_conf>", &other[provider..]);
    let report = ConfigReport::of("a.xml", &xml, &env, ParseOptions::default());
    let errors: Vec<_> = report.errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 7, "{errors:#?}");
    assert_eq!(parse(&xml).unwrap_err(), report.errors[0]);
    let rejected = report.connections[0].as_ref().unwrap_err();
    let rejected_parameters = rejected
        .parameters
        .iter()
        .filter(|p| matches!(p.outcome, ParameterOutcome::Refused(_)));
    assert_eq!(
        rejected_parameters
            .map(|p| p.name.as_str())
            .collect::<Vec<_>>(),
        [
            "bootstrap.servers",
            "record.value.evaluator.type",
            "item-template.t",
            "map.U.to",
            "field.v"
        ]
    );
    let other = report.connections[1].as_ref().unwrap_err();
    assert_eq!((other.name.as_str(), other.errors.len()), ("D", 2));
    assert_eq!(other.parameters[0].outcome, ParameterOutcome::Honoured);
}
