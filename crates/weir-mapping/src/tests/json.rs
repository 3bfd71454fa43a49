//! JSON keys and values, with the results known from the connector.

use super::common::{mapping, record, values};
use crate::{FieldSet, FieldValues, ItemNames, RecordView};

const JSON: (&str, &str) = ("record.value.evaluator.type", "JSON");
const COMPLEX: (&str, &str) = ("fields.map.non.scalar.values.enable", "true");
const WHOLE: (&str, &str) = ("weir.json.check", "WHOLE");

/// Returns the text of one expression, `Ok(None)` for null.
fn select(expression: &str, value: &[u8], more: &[(&str, &str)]) -> Result<Option<String>, String> {
    let expression = format!("#{{{expression}}}");
    let parameters = [&[JSON, ("field.f", expression.as_str())], more].concat();
    let mapping = mapping(&parameters);
    let values = values(&mapping, &record(None, Some(value)));
    let mut values = values.map_err(|error| error.reason.to_string())?;
    Ok(values.remove(0).expect("no skipped field"))
}

fn text(expression: &str, value: &str) -> Option<String> {
    select(expression, value.as_bytes(), &[]).expect("a value")
}

fn error(expression: &str, value: &str) -> String {
    select(expression, value.as_bytes(), &[]).expect_err("there is none")
}

#[test]
fn number_texts_match_connector() {
    let rows = [
        ("1.10", "1.1"),
        ("1e2", "100.0"),
        ("0.00001", "1.0E-5"),
        ("12345678.9", "1.23456789E7"),
        ("-0.0", "-0.0"),
        ("-0", "0"),
        ("37", "37"),
        (
            "123456789012345678901234567890",
            "123456789012345678901234567890",
        ),
        ("1.0", "1.0"),
    ];
    for (number, expected) in rows {
        let document = format!("{{\"a\":{number}}}");
        assert_eq!(text("VALUE.a", &document).as_deref(), Some(expected));
        assert_eq!(text("VALUE", number).as_deref(), Some(expected));
    }
}

#[test]
fn paths_select_members_and_elements() {
    let document = r#" { "a" : { "b c" : [ 10, [ true , false ], { "x-y" : "deep" } ] } ,
        "" : "empty", "n" : null, "é" : "e", "esc\u0061ped\"" : "name", "." : "dot" } "#;
    let rows = [
        ("VALUE.a.b c[0]", Some("10")),
        ("VALUE.a['b c'][0]", Some("10")),
        ("VALUE['a']['b c'][1][0]", Some("true")),
        ("VALUE.a.b c[1][1]", Some("false")),
        ("VALUE.a.b c[02].x-y", Some("deep")),
        ("VALUE.['a']", None),
        ("VALUE.é", Some("e")),
        ("VALUE.escaped\"", Some("name")),
        ("VALUE..a", Some("dot")),
        ("VALUE.n", None),
    ];
    for (expression, expected) in rows {
        if expression == "VALUE.['a']" {
            // As in the connector, the member with the empty name, a text.
            assert_eq!(
                error(expression, document),
                "cannot retrieve field [a] from a scalar object"
            );
            continue;
        }
        assert_eq!(
            text(expression, document).as_deref(),
            expected,
            "{expression}"
        );
    }
    assert_eq!(text("VALUE[1]", "[1,2]").as_deref(), Some("2"));
    assert_eq!(text("VALUE", "\"top\"").as_deref(), Some("top"));
    assert_eq!(text("VALUE", "false").as_deref(), Some("false"));
}

#[test]
fn missing_path_error_names_failing_step() {
    let document = r#"{"o":{"x":1},"a":[1,[2]],"s":"t","n":null}"#;
    let rows = [
        ("VALUE.z", "field [z] not found"),
        ("VALUE.z.y[3]", "field [z] not found"),
        ("VALUE.o.y", "field [y] not found"),
        (
            "VALUE.o[0]",
            "cannot retrieve index [0] from a non-array object",
        ),
        (
            "VALUE[0]",
            "cannot retrieve index [0] from a non-array object",
        ),
        ("VALUE.a[2]", "field not found at index [2]"),
        ("VALUE.a[1][5]", "field not found at index [5]"),
        (
            "VALUE.a.x",
            "cannot retrieve field [x] from an array object",
        ),
        ("VALUE.a[0][0]", "field [a[0]] is not indexed"),
        ("VALUE.s[0]", "field [s] is not indexed"),
        (
            "VALUE.s.x",
            "cannot retrieve field [x] from a scalar object",
        ),
        ("VALUE.n.x", "cannot retrieve field [x] from a null object"),
        ("VALUE.n[4]", "cannot retrieve index [4] from a null object"),
        (
            "VALUE.o",
            "the expression must evaluate to a non-complex object",
        ),
        (
            "VALUE.a",
            "the expression must evaluate to a non-complex object",
        ),
        (
            "VALUE",
            "the expression must evaluate to a non-complex object",
        ),
    ];
    for (expression, expected) in rows {
        assert_eq!(error(expression, document), expected, "{expression}");
    }
    assert_eq!(
        error("VALUE.x", "[]"),
        "cannot retrieve field [x] from an array object"
    );
    assert_eq!(error("VALUE[0]", "[]"), "field not found at index [0]");
    assert_eq!(error("VALUE.x", "{}"), "field [x] not found");
}

#[test]
fn null_empty_and_missing_payloads_are_null() {
    assert_eq!(text("VALUE", "null"), None);
    assert_eq!(text("VALUE", ""), None);
    let null = "cannot retrieve field [x] from a null object";
    assert_eq!(error("VALUE.x", "null"), null);
    assert_eq!(error("VALUE.x.y", ""), null);
    let mapping = mapping(&[JSON, ("field.f", "#{VALUE}")]);
    assert_eq!(values(&mapping, &record(None, None)).unwrap(), [Some(None)]);
}

#[test]
fn malformed_json_is_rejected() {
    let rows: &[(&str, &[u8], &str)] = &[
        (
            "VALUE",
            b"hello",
            "the value is not JSON: expected a value at byte 0",
        ),
        (
            "VALUE.a",
            b"2024-01-01",
            "the value is not JSON: malformed number at byte 4",
        ),
        (
            "VALUE.a",
            b" ",
            "the value is not JSON: unexpected end at byte 1",
        ),
        (
            "VALUE.a",
            b"{\"b\":1",
            "the value is not JSON: unexpected end at byte 6",
        ),
        (
            "VALUE.a",
            b"{'a':1}",
            "the value is not JSON: expected a member name in double quotes at byte 1",
        ),
        (
            "VALUE.a",
            b"{\"a\" 1}",
            "the value is not JSON: expected ':' after the member name at byte 5",
        ),
        (
            "VALUE.a",
            b"{\"b\":1 \"a\":2}",
            "the value is not JSON: expected ',' or '}' at byte 7",
        ),
        (
            "VALUE.a",
            b"{\"a\":NaN}",
            "the value is not JSON: expected a value at byte 5",
        ),
        (
            "VALUE.a",
            b"{\"a\":nul}",
            "the value is not JSON: expected a value at byte 5",
        ),
        (
            "VALUE.a",
            b"{\"a\":truer}",
            "the value is not JSON: expected a value at byte 9",
        ),
        (
            "VALUE.a",
            b"{\"b\":1,}",
            "the value is not JSON: expected a member name in double quotes at byte 7",
        ),
        (
            "VALUE.a",
            b"{\"a\":\"\\q\"}",
            "the value is not JSON: malformed escape sequence at byte 7",
        ),
        (
            "VALUE.a",
            b"{\"a\":\"x\ty\"}",
            "the value is not JSON: control character in a string at byte 7",
        ),
        (
            "VALUE.a",
            b"{\"a\":\"\xff\"}",
            "the value is not JSON: malformed UTF-8 at byte 6",
        ),
        (
            "VALUE[1]",
            b"[1,]",
            "the value is not JSON: expected a value at byte 3",
        ),
        (
            "VALUE[3]",
            b"[1,2}",
            "the value is not JSON: expected ',' or ']' at byte 4",
        ),
        (
            "VALUE.a",
            b"// c\n{\"a\":1}",
            "the value is not JSON: expected a value at byte 0",
        ),
    ];
    for (expression, document, expected) in rows {
        let text = String::from_utf8_lossy(document);
        assert_eq!(
            select(expression, document, &[]).unwrap_err(),
            *expected,
            "{text}"
        );
        let whole = select(expression, document, &[WHOLE]).unwrap_err();
        assert!(
            whole.starts_with("the value is not JSON: "),
            "{text}: {whole}"
        );
    }
}

#[test]
fn malformed_document_fails_despite_skip_failed() {
    let skip = ("fields.skip.failed.mapping.enable", "true");
    let mapping = mapping(&[
        JSON,
        skip,
        ("field.a", "#{VALUE.a}"),
        ("field.b", "#{VALUE.b}"),
    ]);
    let record = |value| record(None, Some(value));
    let found = values(&mapping, &record(b"{\"b\":2}")).unwrap();
    assert_eq!(found, [None, Some(Some("2".into()))]);
    assert!(
        values(&mapping, &record(b"{\"b\":2"))
            .unwrap_err()
            .is_deserialization()
    );
    assert!(
        values(&mapping, &record(b"no"))
            .unwrap_err()
            .is_deserialization()
    );
}

#[test]
fn document_is_read_only_as_needed() {
    let a = |document: &str, more| select("VALUE.a", document.as_bytes(), more);
    let one = Ok(Some("1".to_owned()));
    for document in [
        "{\"a\":1,",
        "{\"a\":1, oops",
        "{\"b\":[1 2],\"a\":1}",
        "{\"b\":\"\\q\",\"a\":1}",
        "{\"b\":01,\"a\":1,}",
    ] {
        assert_eq!(a(document, &[]), one, "{document}");
        assert!(a(document, &[WHOLE]).is_err(), "{document}");
    }
    let twice = "{\"a\":1,\"b\":0,\"a\":2}";
    assert_eq!(a(twice, &[]), one);
    assert_eq!(a(twice, &[WHOLE]), Ok(Some("2".to_owned())));
    let nested = "{\"a\":{\"x\":1},\"a\":{\"y\":2}}";
    let x = select("VALUE.a.x", nested.as_bytes(), &[WHOLE]);
    assert_eq!(x.unwrap_err(), "field [x] not found");
    // Text after the first value is ignored in both modes.
    for more in [&[][..], &[WHOLE]] {
        assert_eq!(a("\u{feff} {\"a\":1} trailing", more), one);
    }
}

/// Returns `depth` containers around `inner`, and the path to `inner`. `is_object` determines the
/// kind of each level.
fn nested(depth: usize, inner: &str, is_object: fn(usize) -> bool) -> (String, String) {
    let (mut text, mut path) = (String::new(), "VALUE".to_owned());
    for level in 0..depth {
        let (open, step) = match is_object(level) {
            true => ("{\"a\":", ".a"),
            false => ("[", "[0]"),
        };
        text.push_str(open);
        path.push_str(step);
    }
    text.push_str(inner);
    for level in (0..depth).rev() {
        text.push(if is_object(level) { '}' } else { ']' });
    }
    (text, path)
}

const KINDS: [fn(usize) -> bool; 3] = [|_| false, |_| true, |level| level % 2 == 0];

#[test]
fn nesting_is_limited_to_1000_levels() {
    for is_object in KINDS {
        for depth in [999, 1000, 1001] {
            let (text, path) = nested(depth, "1", is_object);
            let (emptied, _) = nested(depth - 1, "[ ]", is_object);
            let at_path = |more: &[_]| select(&path, text.as_bytes(), more).map(drop);
            let whole = |text: &str, more: &[_]| {
                let found = select("VALUE", text.as_bytes(), &[&[COMPLEX], more].concat());
                found.map(drop)
            };
            let inside = |more: &[_]| {
                // The wanted value starts in the middle; the levels around it count as well.
                let (_, path) = nested(500, "", is_object);
                select(&path, text.as_bytes(), &[&[COMPLEX], more].concat()).map(drop)
            };
            for more in [&[][..], &[WHOLE]] {
                for result in [
                    at_path(more),
                    whole(&text, more),
                    whole(&emptied, more),
                    inside(more),
                ] {
                    match depth {
                        1001 => assert!(result.unwrap_err().contains("more than 1000 levels")),
                        _ => assert_eq!(result, Ok(()), "{depth} {more:?}"),
                    }
                }
            }
        }
    }
    // No value below it is wanted, so the depth uses no stack.
    let skipped = format!("{{\"b\":{},\"a\":1}}", nested(1_000_000, "1", KINDS[0]).0);
    assert_eq!(text("VALUE.a", &skipped).as_deref(), Some("1"));
}

#[test]
fn nesting_error_has_position_of_level() {
    let (text, _) = nested(1001, "1", KINDS[0]);
    let deep = "the value is not JSON: more than 1000 levels at byte 1000";
    assert_eq!(
        select("VALUE", text.as_bytes(), &[COMPLEX]).unwrap_err(),
        deep
    );
    let (empty, path) = nested(1000, "{}", KINDS[0]);
    assert_eq!(
        select(&path, empty.as_bytes(), &[COMPLEX]).unwrap_err(),
        deep
    );
}

#[test]
fn infinite_doubles_are_quoted_inside_json() {
    let document = r#"{"a":[1e400,-1e400,{"b":1E999}],"s":"Infinity"}"#;
    let select = |path| {
        select(path, document.as_bytes(), &[COMPLEX])
            .unwrap()
            .unwrap()
    };
    assert_eq!(
        select("VALUE.a"),
        r#"["Infinity","-Infinity",{"b":"Infinity"}]"#
    );
    assert!(serde_json::from_str::<serde_json::Value>(&select("VALUE")).is_ok());
    assert_eq!(select("VALUE.a[1]"), "-Infinity");
}

#[test]
fn objects_and_arrays_are_written_compactly() {
    let document = concat!(
        r#"{ "o" : { "b" : 1.10 , "a" : [ 1e2 , "x\/\u0041\u001f\n\"\u00e9" , { } , [ ] ] } "#,
        r#", "n":null }"#
    );
    let select = |path| select(path, document.as_bytes(), &[COMPLEX]).unwrap();
    let o = r#"{"b":1.1,"a":[100.0,"x/A\u001F\n\"é",{},[]]}"#;
    assert_eq!(select("VALUE.o").as_deref(), Some(o));
    assert_eq!(select("VALUE.o.a[2]").as_deref(), Some("{}"));
    let whole = format!("{{\"o\":{o},\"n\":null}}");
    assert_eq!(select("VALUE"), Some(whole));
    // Parts of a container and the container in one pass.
    let mapping = mapping(&[
        JSON,
        COMPLEX,
        ("field.a0", "#{VALUE.o.a[0]}"),
        ("field.o", "#{VALUE.o}"),
        ("field.n", "#{VALUE.n}"),
        ("field.again", "#{VALUE['o'].a[0]}"),
    ]);
    let found = values(&mapping, &record(None, Some(document.as_bytes()))).unwrap();
    let hundred = Some(Some("100.0".to_owned()));
    assert_eq!(
        found,
        [
            hundred.clone(),
            Some(Some(o.to_owned())),
            Some(None),
            hundred
        ]
    );
}

#[test]
fn large_array_key_routes_by_one_element() {
    let mapping = mapping(&[
        ("record.key.evaluator.type", "JSON"),
        JSON,
        ("item-template.t", "ltest-#{key=KEY.names[998]}"),
        ("map.U.to", "item-template.t"),
        ("field.first", "#{KEY.names[0]}"),
        ("field.last", "#{KEY.names[1023]}"),
        ("field.id", "#{KEY.nameId}"),
    ]);
    let names: Vec<_> = (0..1024).map(|i| format!("\"n{i}, [{{\"")).collect();
    let key = format!(
        "{{\"timestamp\":\"now\",\"nameId\":7,\"names\":[{}],\"more\":{{}}}}",
        names.join(" , ").replace("n998, [{", "Timothy")
    );
    let view = RecordView {
        topic: "U",
        ..record(Some(key.as_bytes()), Some(b"not JSON, but not read"))
    };
    let mut items = ItemNames::new();
    mapping.item_names(&view, &mut items).unwrap();
    assert_eq!(items.iter().collect::<Vec<_>>(), ["ltest-[key=Timothy]"]);
    let texts = |texts: [&str; 3]| texts.map(|t| Some(Some(t.to_owned()))).to_vec();
    assert_eq!(
        values(&mapping, &view).unwrap(),
        texts(["n0, [{", "n1023, [{", "7"])
    );
}

#[test]
fn only_wanted_fields_are_evaluated() {
    let mapping = mapping(&[
        JSON,
        ("field.a", "#{VALUE.a}"),
        ("field.b", "#{VALUE.b[1].c}"),
        ("field.c", "#{VALUE.c}"),
        ("field.key", "#{KEY}"),
    ]);
    let document = br#"{"b":[0,{"c":"x"}],"a":"y","c":oops"#;
    let view = record(Some(b"k"), Some(document));
    let mut values = FieldValues::new();
    let mut get = |wanted: &[usize]| {
        let wanted: FieldSet = wanted.iter().copied().collect();
        let outcome = mapping.field_values(&view, &wanted, &mut values);
        let found = (0..4).map(|i| values.get(i).unwrap_or("-").to_owned());
        outcome
            .map(|()| found.collect::<String>())
            .map_err(|e| e.is_deserialization())
    };
    // One buffer is used for many sets of fields; none may influence the next.
    for _ in 0..3 {
        assert_eq!(get(&[1]).as_deref(), Ok("-x--"));
        assert_eq!(get(&[0, 1]).as_deref(), Ok("yx--"));
        assert_eq!(get(&[3]).as_deref(), Ok("---k"));
        assert_eq!(get(&[0, 3]).as_deref(), Ok("y--k"));
        assert_eq!(get(&[0, 1, 2]), Err(true));
        assert_eq!(get(&[]).as_deref(), Ok("----"));
    }
}

#[test]
fn buffer_is_reusable_between_mappings() {
    let by_a = mapping(&[JSON, ("field.f", "#{VALUE.a}")]);
    let by_b = mapping(&[JSON, ("field.f", "#{VALUE.b[0]}")]);
    let document = br#"{"a":"1","b":["2"]}"#;
    let mut values = FieldValues::new();
    for _ in 0..3 {
        for (mapping, expected) in [(&by_a, "1"), (&by_b, "2")] {
            let wanted = mapping.all_fields();
            let view = record(None, Some(document));
            mapping.field_values(&view, &wanted, &mut values).unwrap();
            assert_eq!(values.get(0), Some(expected));
        }
    }
}

#[test]
fn templates_and_topics_read_their_own_paths() {
    let mapping = mapping(&[
        JSON,
        ("item-template.a", "a-#{x=VALUE.x}"),
        ("item-template.b", "b-#{x=VALUE.x,y=VALUE.l[1]}"),
        ("map.U.to", "item-template.a,item-template.b"),
        ("map.V.to", "item-template.a"),
        ("field.f", "#{VALUE.x}"),
    ]);
    let mut items = ItemNames::new();
    let mut names = |topic, value: &str| {
        let view = RecordView {
            topic,
            ..record(None, Some(value.as_bytes()))
        };
        let outcome = mapping.item_names(&view, &mut items);
        let names = items.iter().collect::<Vec<_>>().join(" ");
        outcome.map(|()| names).map_err(|error| error.to_string())
    };
    let document = r#"{"x":37,"l":["p","q"]}"#;
    for _ in 0..2 {
        assert_eq!(names("U", document).as_deref(), Ok("a-[x=37] b-[x=37,y=q]"));
        assert_eq!(names("V", document).as_deref(), Ok("a-[x=37]"));
        assert_eq!(names("T", "not even JSON").as_deref(), Ok("all"));
        assert_eq!(names("V", r#"{"x":null}"#).as_deref(), Ok("a-[x=null]"));
        let null = names("U", r#"{"x":1,"l":[0,null]}"#).unwrap_err();
        assert!(
            null.contains("null cannot be a value of a template"),
            "{null}"
        );
        let array = names("V", r#"{"x":[]}"#).unwrap_err();
        assert!(
            array.ends_with("must evaluate to a non-complex object"),
            "{array}"
        );
    }
}
