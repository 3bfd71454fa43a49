use super::*;

fn steps(text: &str) -> Vec<String> {
    let expression = Expression::parse(text).unwrap();
    expression
        .steps()
        .iter()
        .map(|step| match step {
            PathStep::Member(name) => format!(".{name}"),
            PathStep::Index { index, container } => format!("{container}[{index}]"),
        })
        .collect()
}

fn error(text: &str) -> ExpressionError {
    Expression::parse(text).unwrap_err()
}

#[test]
fn roots_are_valid_expressions() {
    let rows = [
        ("KEY", Root::Key),
        ("VALUE", Root::Value),
        ("HEADERS", Root::Headers),
        ("TOPIC", Root::Topic),
        ("TIMESTAMP", Root::Timestamp),
        ("PARTITION", Root::Partition),
        ("OFFSET", Root::Offset),
    ];
    for (text, root) in rows {
        let expression = Expression::parse(text).unwrap();
        assert_eq!(expression.root(), root);
        assert_eq!(expression.text(), text);
        assert!(!expression.has_path() && !expression.is_wildcard());
        assert!(expression.steps().is_empty());
    }
}

#[test]
fn members_and_indexes_become_steps() {
    assert_eq!(steps("VALUE.a[0]"), [".a", "a[0]"]);
    assert_eq!(steps("VALUE.a['k']"), [".a", ".k"]);
    assert_eq!(steps("VALUE.m[0][1]"), [".m", "m[0]", "m[0][1]"]);
    assert_eq!(steps("VALUE['a']['b']"), [".a", ".b"]);
    assert_eq!(steps("VALUE.a[01]"), [".a", "a[1]"]);
    assert_eq!(steps("HEADERS[2]"), ["HEADERS[2]"]);
    assert_eq!(steps("HEADERS.k[1]"), [".k", "k[1]"]);
    assert_eq!(steps("HEADERS['k'][1]"), [".k", "k[1]"]);
}

#[test]
fn names_may_contain_blanks() {
    assert_eq!(steps("VALUE.x y"), [".x y"]);
    assert_eq!(steps("VALUE['x y']"), [".x y"]);
}

#[test]
fn empty_segments_are_parsed_as_in_connector() {
    assert_eq!(steps("VALUE..a"), [".."]);
    assert_eq!(steps("VALUE...a"), ["..", ".a"]);
    assert_eq!(steps("VALUE.['a']"), [".", ".a"]);
}

#[test]
fn dots_split_inside_quotes() {
    assert_eq!(
        error("VALUE.o['d.e']"),
        ExpressionError::InvalidIndex("VALUE.o['d.e']".into())
    );
    assert_eq!(
        error("HEADERS['a.b']"),
        ExpressionError::MissingRoot("HEADERS['a.b']".into())
    );
}

#[test]
fn invalid_roots_are_rejected() {
    for text in [
        "",
        ".",
        "key",
        "foo",
        "KEYS",
        "TOPIC[0]",
        "OFFSET['a']",
        "PARTITION[0]",
        "TIMESTAMP[1]",
        "KEY[0",
        "KEY]",
        "KEY[0]x",
        "KEY}-#{VALUE",
        ".KEY",
    ] {
        assert_eq!(
            error(text),
            ExpressionError::MissingRoot(text.into()),
            "{text}"
        );
    }
    assert!(!Expression::parse("KEY[0]").unwrap().has_path());
    assert!(Expression::parse("KEY.a").unwrap().has_path());
    assert!(Expression::parse("TOPIC.a").unwrap().has_path());
}

#[test]
fn other_indexes_are_rejected() {
    for text in [
        "VALUE.a[]",
        "VALUE.a[x]",
        "VALUE.a[-1]",
        "VALUE.a[0]b",
        "VALUE.a[0]b[1]",
        "VALUE.a[",
        "VALUE.a['x]",
        "VALUE.a['x'",
        "VALUE.a[1 ]",
        "VALUE.a[2147483648]",
        "HEADERS[a]",
        "VALUE.a[99999999999999999999]",
        "VALUE.a['x''y']",
    ] {
        assert_eq!(
            error(text),
            ExpressionError::InvalidIndex(text.into()),
            "{text}"
        );
    }
    assert_eq!(steps("VALUE.a[2147483647]"), [".a", "a[2147483647]"]);
}

#[test]
fn outer_blanks_and_trailing_dots_are_rejected() {
    for text in [
        " KEY",
        "KEY ",
        "VALUE. a",
        "VALUE.a .b",
        "VALUE.\ta",
        "VALUE. ",
    ] {
        assert_eq!(
            error(text),
            ExpressionError::WhiteChar(text.into()),
            "{text:?}"
        );
    }
    for text in ["VALUE.", "VALUE..", "VALUE.a."] {
        assert_eq!(
            error(text),
            ExpressionError::TrailingDot(text.into()),
            "{text:?}"
        );
    }
}

#[test]
fn wildcard_must_be_last_segment() {
    assert!(Expression::parse("VALUE.*").unwrap().is_wildcard());
    assert!(Expression::parse("HEADERS.k.*").unwrap().is_wildcard());
    assert!(!Expression::parse("VALUE.*.a").unwrap().is_wildcard());
    assert!(!Expression::parse("VALUE.a*").unwrap().is_wildcard());
    assert!(!Expression::parse("VALUE.*").unwrap().has_path());
}

#[test]
fn wrapped_form_rejects_surrounding_text() {
    assert_eq!(
        Expression::parse_wrapped("#{VALUE.a}").unwrap().text(),
        "VALUE.a"
    );
    for text in [
        "KEY", "#{}", "#{KEY", "KEY}", " #{KEY}", "#{KEY} ", "{KEY}", "#{KEY\n}", "",
    ] {
        assert_eq!(
            Expression::parse_wrapped(text),
            Err(ExpressionError::NotWrapped),
            "{text:?}"
        );
    }
    assert_eq!(
        Expression::parse_wrapped("#{KEY}-#{VALUE}"),
        Err(ExpressionError::MissingRoot("KEY}-#{VALUE".into()))
    );
}
