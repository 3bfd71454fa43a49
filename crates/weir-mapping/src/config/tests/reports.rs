//! Reports list all errors of a file, but no consequential errors.

use super::*;

/// Returns all errors of a file.
fn errors(xml: &str) -> Vec<String> {
    let report = ConfigReport::of("a.xml", xml, &env, ParseOptions::default());
    report.errors.iter().map(ToString::to_string).collect()
}

/// Returns the location, variable and context of each undefined variable.
fn undefined(xml: &str) -> Vec<String> {
    let errors = errors(xml);
    let short = errors.iter().map(|error| {
        let (at, rest) = error.split_once(" environment variable ").expect(error);
        format!("{at} {}", rest.split_once(" is not").expect(error).0)
    });
    short.collect()
}

#[test]
fn undefined_variables_cause_no_further_errors() {
    let xml = file(&[
        ("bootstrap.servers", "$env.A:$env.B"),
        ("item-template.t", "$env.C"),
        ("map.T.to", "item-template.$env.D"),
        ("field.value", "$env.E"),
        ("record.consume.from", "$env.F"),
        ("record.value.evaluator.type", "$env.G"),
        ("map.U.to", "item-template.t"),
        ("record.consume.with.num.threads", "0"),
    ]);
    let all = errors(&xml);
    assert_eq!(
        undefined(&xml.replace(">0<", ">1<")),
        [
            "a.xml:7: connection \"C\": \"A\" used in parameter [bootstrap.servers]",
            "a.xml:7: connection \"C\": \"B\" used in parameter [bootstrap.servers]",
            "a.xml:8: connection \"C\": \"C\" used in parameter [item-template.t]",
            "a.xml:9: connection \"C\": \"D\" used in parameter [map.T.to]",
            "a.xml:10: connection \"C\": \"E\" used in parameter [field.value]",
            "a.xml:11: connection \"C\": \"F\" used in parameter [record.consume.from]",
            "a.xml:12: connection \"C\": \"G\" used in parameter [record.value.evaluator.type]",
        ]
    );
    assert_eq!(all.len(), 8, "{all:?}");
    assert!(all[7].starts_with("a.xml:14: "), "{all:?}");
    let report = ConfigReport::of("a.xml", &xml, &env, ParseOptions::default());
    assert!(report.notes.is_empty(), "{:?}", report.notes);
}

#[test]
fn undefined_variables_outside_values_are_reported() {
    let xml = with(&[("$env.A", "x"), ("$env.B", "y")])
        .replace("id=\"Set\"", "id=\"$env.SET\"")
        .replace("name=\"C\"", "name=\"$env.NAME\"")
        .replace(DATA_CLASS, "$env.CLASS")
        .replace("log.properties", "$env.LOG");
    assert_eq!(
        undefined(&xml),
        [
            "a.xml:1: \"SET\" used in attribute id of <adapters_conf>",
            "a.xml:5: \"NAME\" used in attribute name of <data_provider>",
            "a.xml:6: \"CLASS\" used in element <adapter_class>",
            "a.xml:10: \"A\" used in attribute name of <param>",
            "a.xml:11: \"B\" used in attribute name of <param>",
            "a.xml:4: \"LOG\" used in parameter [logging.configuration.path]",
        ]
    );
    // Missing parameters cannot be detected then.
    let xml = file(&[("$env.MAP", "x")]);
    assert_eq!(errors(&xml).len(), 1);
}

#[test]
fn group_values_are_checked() {
    let invalid = [
        ("encryption.protocol", "SSLv3"),
        ("encryption.enabled.protocols", "TLSv1.2,"),
        ("encryption.truststore.type", "jks"),
        ("encryption.keystore.enable", "yes"),
        ("authentication.mechanism", "OAUTH"),
        ("schema.registry.url", "localhost:8081"),
        ("schema.registry.provider", "confluent"),
    ];
    // The connector neither reads them nor fails.
    let file = parse(&with(&invalid)).unwrap();
    assert_eq!(file.notes.len(), invalid.len(), "{:?}", file.notes);
    for (note, (name, value)) in file.notes.iter().zip(invalid) {
        assert_eq!(note.severity, Severity::Warning);
        let start = format!("specify a valid value for parameter [{name}]: \"{value}\" is not");
        assert!(note.text.starts_with(&start), "{note}");
        assert!(note.text.contains("; parameter is read only if "), "{note}");
    }
    let switches = [
        ("encryption.enable", "true"),
        ("authentication.enable", "true"),
        ("record.value.evaluator.schema.registry.enable", "true"),
    ];
    let errors = errors(&with(&[&invalid[..], &switches].concat()));
    assert_eq!(errors.len(), invalid.len(), "{errors:#?}");
    for (line, (error, (name, value))) in (10..).zip(errors.iter().zip(invalid)) {
        let start = format!(
            "a.xml:{line}: connection \"C\": specify a valid value for parameter [{name}]: \
             \"{value}\" is not "
        );
        assert!(error.starts_with(&start), "{error}");
    }
}

/// No parameter accepts arbitrary text, except names and passwords.
#[test]
fn parameters_with_type_reject_other_values() {
    let switches = [
        ("encryption.enable", "true"),
        ("authentication.enable", "true"),
        ("encryption.keystore.enable", "true"),
        ("authentication.gssapi.key.tab.enable", "true"),
        ("authentication.iam.role.arn", "arn"),
        ("record.key.evaluator.type", "PROTOBUF"),
        ("record.value.evaluator.type", "PROTOBUF"),
        ("record.key.evaluator.schema.registry.enable", "true"),
        ("schema.registry.url", "https://registry"),
        (
            "schema.registry.confluent.basic.authentication.enable",
            "true",
        ),
        (
            "schema.registry.confluent.encryption.keystore.enable",
            "true",
        ),
    ];
    for known in parameter_table::KNOWN.iter() {
        let (name, value_type) = (known.name.as_str(), known.value_type);
        let mechanism = match name.split('.').nth(1) {
            Some("gssapi") => "GSSAPI",
            Some("iam") => "AWS_MSK_IAM",
            _ => "PLAIN",
        };
        let provider = match name.contains("azure") {
            true => "AZURE",
            false => "CONFLUENT",
        };
        let mechanism = [
            ("authentication.mechanism", mechanism),
            ("schema.registry.provider", provider),
        ];
        let free = [
            "id",
            "username",
            "name",
            "arn",
            "region",
            "principal",
            "type",
            "rack",
            "*",
        ]
        .iter()
        .any(|end| name.ends_with(end));
        let free = free
            || name.contains("password")
            || name.ends_with("secret")
            || name.contains("provider")
            || name.contains("algorithm")
            || name.ends_with("class")
            || name.ends_with("implementation");
        let is_text = value_type == types::ValueType::Text;
        assert!(!is_text || free, "{name} has no type");
        let value = if is_text { " " } else { "\u{20}x, \u{20}" };
        let others = MINIMAL.iter().chain(&switches).chain(&mechanism).copied();
        let mut parameters: Vec<_> = others.filter(|(other, _)| *other != name).collect();
        parameters.push((name, value));
        let found = errors(&file(&parameters));
        let is_file = value_type == types::ValueType::File;
        let named = format!("parameter [{name}]");
        assert!(
            is_file || found.iter().any(|error| error.contains(&named)),
            "{name} = {value:?}: {found:#?}"
        );
    }
}

#[test]
fn empty_names_are_rejected() {
    let xml = with(&[]).replace("id=\"Set\"", "id=\" \"");
    let remedy = "write the adapter set name that clients give";
    assert_eq!(
        errors(&xml),
        [format!(
            "a.xml:1: missing value of attribute id of <adapters_conf>; {remedy}"
        )]
    );
    let found = errors(&with(&[]).replace("name=\"C\"", "name=\"\""));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("missing name of the connection; write the name"));
}
