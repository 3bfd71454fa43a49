use super::*;

const HEADERS: &[(&str, Option<&[u8]>)] = &[
    ("a", Some(b"1")),
    ("k", Some(b"x")),
    ("k", Some(b"y")),
    ("n", None),
];

fn record() -> RecordView<'static> {
    RecordView {
        topic: "stocks",
        partition: 3,
        offset: 1_234_567_890_123,
        timestamp_ms: -1,
        key: Some(b"Apple"),
        value: None,
        headers: HEADERS,
    }
}

fn compile(text: &str) -> Result<Selector, ExpressionError> {
    let mut compiler = Compiler::new(KeyAndValue::default());
    compiler.compile(&Expression::parse(text).unwrap())
}

fn select(text: &str, complex: bool) -> Result<Option<String>, ExtractionReason> {
    let mut out = String::new();
    let found = compile(text).unwrap().append(
        &record(),
        complex,
        &mut PayloadReader::default(),
        &mut out,
    )?;
    Ok((found == SelectorValue::Text).then_some(out))
}

fn text(expression: &str) -> Option<String> {
    select(expression, false).unwrap()
}

#[test]
fn roots_return_their_text() {
    assert_eq!(text("KEY").as_deref(), Some("Apple"));
    assert_eq!(text("VALUE"), None);
    assert_eq!(text("TOPIC").as_deref(), Some("stocks"));
    assert_eq!(text("PARTITION").as_deref(), Some("3"));
    assert_eq!(text("OFFSET").as_deref(), Some("1234567890123"));
    assert_eq!(text("TIMESTAMP").as_deref(), Some("-1"));
}

#[test]
fn scalars_reject_path_and_ignore_index() {
    assert_eq!(text("KEY[0]").as_deref(), Some("Apple"));
    assert_eq!(text("KEY['x'][1]").as_deref(), Some("Apple"));
    for path in [
        "KEY.a",
        "VALUE.a[0]",
        "TOPIC.a",
        "OFFSET.x",
        "PARTITION.x",
        "TIMESTAMP.x",
    ] {
        assert_eq!(
            compile(path).unwrap_err(),
            ExpressionError::ScalarPath(path.into())
        );
    }
}

#[test]
fn wildcards_are_rejected() {
    for path in ["VALUE.*", "HEADERS.*", "TOPIC.*"] {
        assert_eq!(
            compile(path).unwrap_err(),
            ExpressionError::UnexpectedWildcard(path.into())
        );
    }
}

#[test]
fn headers_are_selected_by_name_and_position() {
    assert_eq!(text("HEADERS.a").as_deref(), Some("1"));
    assert_eq!(text("HEADERS['a']").as_deref(), Some("1"));
    assert_eq!(text("HEADERS[0]").as_deref(), Some("1"));
    assert_eq!(text("HEADERS[2]").as_deref(), Some("y"));
    assert_eq!(text("HEADERS.k[1]").as_deref(), Some("y"));
    assert_eq!(text("HEADERS['k'][0]").as_deref(), Some("x"));
}

#[test]
fn header_with_null_value_is_null() {
    assert_eq!(text("HEADERS.n"), None);
    assert_eq!(text("HEADERS[3]"), None);
}

#[test]
fn header_errors_match_connector() {
    let rows = [
        ("HEADERS.z", "field [z] not found"),
        ("HEADERS.['a']", "field [] not found"),
        ("HEADERS[4]", "field not found at index [4]"),
        ("HEADERS.k[2]", "field not found at index [2]"),
        ("HEADERS.a[0]", "field [a] is not indexed"),
        ("HEADERS[0][0]", "field [HEADERS[0]] is not indexed"),
        (
            "HEADERS.a.b",
            "cannot retrieve field [b] from a scalar object",
        ),
        (
            "HEADERS.k.b",
            "cannot retrieve field [b] from an array object",
        ),
        (
            "HEADERS.k",
            "the expression must evaluate to a non-complex object",
        ),
        (
            "HEADERS",
            "the expression must evaluate to a non-complex object",
        ),
    ];
    for (expression, expected) in rows {
        assert_eq!(
            select(expression, false).unwrap_err().to_string(),
            expected,
            "{expression}"
        );
    }
}

#[test]
fn complex_selection_joins_several_headers() {
    assert_eq!(
        select("HEADERS", true).unwrap().as_deref(),
        Some("{a=1, k=x, k=y, n=null}")
    );
    assert_eq!(
        select("HEADERS.k", true).unwrap().as_deref(),
        Some("[x, y]")
    );
}
