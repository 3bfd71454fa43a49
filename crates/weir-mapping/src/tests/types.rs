//! Keys and values of types other than text and JSON.

use super::common::{mapping, record, values};

const VALUE_TYPE: &str = "record.value.evaluator.type";

fn select(
    kind: &str,
    expression: &str,
    value: &[u8],
    more: &[(&str, &str)],
) -> Result<Option<String>, String> {
    let expression = format!("#{{{expression}}}");
    let parameters = [
        &[(VALUE_TYPE, kind), ("field.f", expression.as_str())],
        more,
    ]
    .concat();
    let found = values(&mapping(&parameters), &record(None, Some(value)));
    let mut found = found.map_err(|error| error.reason.to_string())?;
    Ok(found.remove(0).expect("no skipped field"))
}

#[test]
fn scalar_types_are_converted_to_text() {
    let rows: &[(&str, &[u8], &str)] = &[
        ("INTEGER", &[0, 0, 1, 0], "256"),
        ("SHORT", &[0xff, 0xff], "-1"),
        ("LONG", &[0x80, 0, 0, 0, 0, 0, 0, 0], "-9223372036854775808"),
        ("FLOAT", &0.1_f32.to_be_bytes(), "0.1"),
        ("DOUBLE", &1e-5_f64.to_be_bytes(), "1.0E-5"),
        ("BOOLEAN", &[1], "true"),
        (
            "UUID",
            b"6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        ),
        ("BYTES", b"a\0", "a\\x00"),
        ("BYTE_ARRAY", b"a", "a"),
        ("BYTE_BUFFER", b"a", "a"),
    ];
    for (kind, bytes, expected) in rows {
        for expression in ["VALUE", "VALUE[0]"] {
            let found = select(kind, expression, bytes, &[]);
            assert_eq!(found.unwrap().as_deref(), Some(*expected), "{kind}");
        }
        let mapping = mapping(&[(VALUE_TYPE, kind), ("field.f", "#{VALUE}")]);
        assert_eq!(values(&mapping, &record(None, None)).unwrap(), [Some(None)]);
    }
}

#[test]
fn payload_of_wrong_type_is_always_an_error() {
    let skip = ("fields.skip.failed.mapping.enable", "true");
    let rows: &[(&str, &[u8], &str)] = &[
        (
            "INTEGER",
            b"12",
            "the value is not INTEGER: 2 bytes instead of 4",
        ),
        (
            "BOOLEAN",
            b"1",
            "the value is not BOOLEAN: byte 49 is neither 0 nor 1",
        ),
        (
            "UUID",
            b"x",
            "the value is not UUID: not the text of a UUID",
        ),
    ];
    for (kind, bytes, expected) in rows {
        assert_eq!(
            select(kind, "VALUE", bytes, &[skip]).unwrap_err(),
            *expected
        );
    }
}

#[test]
fn pairs_are_selected_by_key() {
    let text = b" a = 1 ,b=two words,c=,d=x=y,=z,e,a=2, ,\xff=3";
    let kvp = |expression| select("KVP", expression, text, &[]);
    let rows = [
        ("VALUE.a", "2"),
        ("VALUE['b']", "two words"),
        ("VALUE.c", ""),
        ("VALUE.e", ""),
        ("VALUE.\u{fffd}", "3"),
    ];
    for (expression, expected) in rows {
        assert_eq!(
            kvp(expression),
            Ok(Some(expected.to_owned())),
            "{expression}"
        );
    }
    let errors = [
        ("VALUE.d", "field [d] not found"),
        ("VALUE.z", "field [z] not found"),
        (
            "VALUE.a.x",
            "cannot retrieve field [x] from a scalar object",
        ),
        ("VALUE.a[0]", "field [a] is not indexed"),
        (
            "VALUE[0]",
            "cannot retrieve index [0] from a non-array object",
        ),
        (
            "VALUE",
            "the expression must evaluate to a non-complex object",
        ),
    ];
    for (expression, expected) in errors {
        assert_eq!(kvp(expression).unwrap_err(), expected, "{expression}");
    }
    let complex = ("fields.map.non.scalar.values.enable", "true");
    let whole = select("KVP", "VALUE", b"a=1,b=2 , a=3", &[complex]);
    assert_eq!(whole, Ok(Some("{a=3, b=2}".to_owned())));
    assert_eq!(select("KVP", "VALUE", b" ", &[]), Ok(None));
    let null = select("KVP", "VALUE.a", b"", &[]).unwrap_err();
    assert_eq!(null, "cannot retrieve field [a] from a null object");
}

#[test]
fn pair_separators_are_configurable() {
    let separators = [
        ("record.value.evaluator.kvp.pairs.separator", ";"),
        ("record.value.evaluator.kvp.key-value.separator", ":"),
    ];
    let found = select("KVP", "VALUE.b", b"a:1;b:2,3", &separators);
    assert_eq!(found, Ok(Some("2,3".to_owned())));
}
