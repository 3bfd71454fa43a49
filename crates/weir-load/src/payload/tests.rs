use serde_json::Value;

use super::*;

fn spec() -> PayloadSpec {
    PayloadSpec {
        kind: PayloadKind::Json,
        size: 16,
        keys: 40,
        key: None,
        entropy: 1.0,
        members: MembersSpec {
            members: 20,
            characters: 24,
            change_ratio: 0.1,
        },
        seed: 7,
        marked: false,
        record: None,
        extended: false,
        replay: Arc::default(),
    }
}
/// 1970-01-01 00:00:00.007 with some nanoseconds.
const DUE: u64 = 7_000_009;
fn stamp(producer: u32) -> Stamp {
    Stamp {
        due_unix_ns: DUE,
        producer,
        seq: 0,
        sent_unix_ns: None,
    }
}
const DUE_TEXT: &str = "1970-01-01 00:00:00.007";

fn payloads(kind: PayloadKind) -> PayloadGenerator {
    PayloadGenerator::new(&PayloadSpec { kind, ..spec() }, LocalTime::utc()).expect("payloads")
}

/// Returns one record as key text, object and value text.
fn object(payloads: &mut PayloadGenerator, name: usize) -> (String, Value, String) {
    payloads.make(name, &stamp(0));
    let key = payloads.key(name).expect("a key").to_vec();
    let value = String::from_utf8(payloads.value().to_vec()).expect("UTF-8");
    let object = serde_json::from_str(&value).expect("an object");
    (String::from_utf8(key).expect("UTF-8"), object, value)
}

/// Checks names and order of an object's members.
fn assert_members(text: &str, members: &[&str]) {
    let object: Value = serde_json::from_str(text).expect("an object");
    let count = object.as_object().expect("an object").len();
    assert_eq!(count, members.len(), "{text}");
    let places = members.iter().map(|member| {
        let place = text.find(&format!("\"{member}\":"));
        place.unwrap_or_else(|| panic!("no {member} in {text}"))
    });
    assert!(places.is_sorted(), "{members:?} in {text}");
    assert!(
        !text.contains(": ") && !text.contains(", "),
        "no blanks between members"
    );
}

fn text_of<'a>(object: &'a Value, member: &str) -> &'a str {
    object[member]
        .as_str()
        .unwrap_or_else(|| panic!("{member} of {object}"))
}

fn assert_filler(object: &Value, member: &str, len: usize) {
    let text = text_of(object, member);
    assert_eq!(text.len(), len, "{member}");
    assert!(
        text.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        "{text}"
    );
}

#[test]
fn kinds_have_the_published_names() {
    for &kind in PayloadKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    let error = "keyd"
        .parse::<PayloadKind>()
        .expect_err("unknown")
        .to_string();
    assert!(
        error.starts_with("unknown kind \"keyd\": use base, keyed, json"),
        "{error}"
    );
}

#[test]
fn json_has_four_members_including_its_key() {
    let mut payloads = payloads(PayloadKind::Json);
    for name in [0, 1, 39] {
        let (key, value, text) = object(&mut payloads, name);
        assert_members(&text, &["timestamp", "fstValue", "sndValue", "intNum"]);
        assert_eq!(key, FRUITS[name]);
        assert_eq!(text_of(&value, "sndValue"), key);
        assert_eq!(text_of(&value, "timestamp"), DUE_TEXT);
        assert_filler(&value, "fstValue", 512);
        assert!(
            value["intNum"]
                .as_i64()
                .is_some_and(|n| i32::try_from(n).is_ok())
        );
    }
}

#[test]
fn extended_key_has_500_characters() {
    let mut payloads = payloads(PayloadKind::JsonExtended);
    let mut keys = Vec::new();
    for (name, fruit) in FRUITS.iter().copied().enumerate() {
        let (key, value, _) = object(&mut payloads, name);
        assert_eq!(key.len(), 500);
        assert!(key.starts_with(fruit) && fruit.repeat(500).starts_with(&key));
        assert_eq!(text_of(&value, "sndValue"), key);
        keys.push(key);
    }
    assert_eq!(payloads.names(), keys);
}

const COMPLEX: [&str; 11] = [
    "id",
    "firstText",
    "secondText",
    "thirdText",
    "fourthText",
    "firstnumber",
    "secondNumber",
    "thirdNumber",
    "fourthNumber",
    "hobbies",
    "timestamp",
];

/// Returns the members that differ between two objects.
fn changed<'a>(before: &Value, after: &'a Value) -> Vec<&'a str> {
    let after = after.as_object().expect("an object");
    let changed = after
        .iter()
        .filter(|(name, value)| before[name.as_str()] != **value);
    changed.map(|(name, _)| name.as_str()).collect()
}

#[test]
fn complex_changes_a_text_and_its_number() {
    let mut payloads = payloads(PayloadKind::Complex);
    let (key, mut before, text) = object(&mut payloads, 3);
    assert_members(&text, &COMPLEX);
    assert_eq!(
        (key.as_str(), text_of(&before, "id")),
        ("Michael", "Michael")
    );
    assert_eq!(before["hobbies"].as_array().map(Vec::len), Some(3));
    assert_eq!(text_of(&before, "timestamp"), DUE_TEXT);
    let mut pairs = std::collections::BTreeMap::new();
    for round in 0..200 {
        // Records of other names do not change this object.
        object(&mut payloads, round % 3);
        let (_, after, _) = object(&mut payloads, 3);
        for member in &COMPLEX[1..5] {
            assert_filler(&after, member, 256);
        }
        let pair = changed(&before, &after).join(" ");
        *pairs.entry(pair).or_insert(0) += 1;
        before = after;
    }
    let found: Vec<_> = pairs.keys().map(String::as_str).collect();
    let expected = [
        "firstText fourthNumber",
        "firstnumber fourthText",
        "secondNumber thirdText",
        "secondText thirdNumber",
    ];
    assert_eq!(found, expected);
    // 50 each, standard deviation 6.
    assert!(
        pairs.values().all(|count| (20..=80).contains(count)),
        "{pairs:?}"
    );
}

#[test]
fn verycomplex_changes_a_short_text_and_number() {
    let mut payloads = payloads(PayloadKind::VeryComplex);
    let (_, mut before, text) = object(&mut payloads, 0);
    let members = [&["id", "changes"], &COMPLEX[1..]].concat();
    assert_members(&text, &members);
    assert_filler(&before, "changes", 20);
    for _ in 0..50 {
        let (_, after, _) = object(&mut payloads, 0);
        let changed = changed(&before, &after);
        assert!(changed.len() == 2 && changed[0] == "changes", "{changed:?}");
        assert!(changed[1].to_lowercase().ends_with("number"), "{changed:?}");
        before = after;
    }
}

#[test]
fn json_key_repeats_value_and_has_1024_names() {
    let mut payloads = payloads(PayloadKind::JsonKeyX);
    for name in [0, 21, 39] {
        let (key, value, text) = object(&mut payloads, name);
        assert_members(
            &key,
            &["timestamp", "nameId", "sndValue", "intNum", "names"],
        );
        assert_members(&text, &[&["id", "changes"], &COMPLEX[1..]].concat());
        let key: Value = serde_json::from_str(&key).expect("an object");
        for (ours, theirs) in [
            ("timestamp", "timestamp"),
            ("nameId", "id"),
            ("sndValue", "secondText"),
            ("intNum", "firstnumber"),
        ] {
            assert_eq!(key[ours], value[theirs]);
        }
        let names = key["names"].as_array().expect("an array");
        assert_eq!(names.len(), 1024);
        assert_eq!(names[998], value["id"]);
        assert_eq!(payloads.names()[name], FIRST_NAMES[name]);
        let mut cycle: Vec<_> = names[..40].iter().filter_map(Value::as_str).collect();
        assert_ne!(cycle, *FIRST_NAMES);
        assert_eq!(names[40..80], names[..40]);
        cycle.sort_unstable();
        cycle.dedup();
        assert_eq!(cycle.len(), 40);
    }
}

#[test]
fn mark_is_in_the_timestamp_member() {
    let is_json = |kind: &&PayloadKind| {
        kind.has_timestamp() && !matches!(kind, PayloadKind::Avro | PayloadKind::Protobuf)
    };
    for &kind in PayloadKind::ALL.iter().filter(is_json) {
        let spec = PayloadSpec {
            kind,
            marked: true,
            ..spec()
        };
        let mut payloads = PayloadGenerator::new(&spec, LocalTime::utc()).expect("payloads");
        let (key, value, _) = object(&mut payloads, 5);
        let expected = format!("PREFIX-{DUE_TEXT}");
        assert_eq!(text_of(&value, "timestamp"), expected, "{kind}");
        assert_eq!(
            key.contains("PREFIX-"),
            kind == PayloadKind::JsonKeyX,
            "{kind}"
        );
    }
}

#[test]
fn text_kinds_are_unchanged() {
    let mut base = payloads(PayloadKind::Base);
    base.make(0, &stamp(3));
    let value = String::from_utf8(base.value().to_vec()).expect("ASCII");
    assert!(
        value.starts_with(&format!("{DUE_TEXT}-pid-3-")) && value.len() == 30 + 16,
        "{value}"
    );
    assert_eq!(base.key(0), None);
    let mut keyed = payloads(PayloadKind::Keyed);
    keyed.make(1, &stamp(0));
    assert_eq!(keyed.key(1), Some(b"Banana".as_slice()));
}

#[test]
fn same_seed_gives_same_records() {
    for &kind in PayloadKind::ALL {
        let make = |seed| {
            let spec = PayloadSpec {
                kind,
                seed,
                ..spec()
            };
            let mut payloads = PayloadGenerator::new(&spec, LocalTime::utc()).expect("payloads");
            let record = |at: usize| {
                let name = at % payloads.names().len();
                payloads.make(name, &stamp(0));
                (
                    payloads.key(name).map(<[u8]>::to_vec),
                    payloads.value().to_vec(),
                )
            };
            (0..20).map(record).collect::<Vec<_>>()
        };
        assert_eq!(make(5), make(5), "{kind}");
        assert_ne!(make(5), make(6), "{kind}");
    }
}

#[test]
fn json2_is_json_with_the_stamp() {
    let record = RecordSpec::built_in(RecordFormat::Json, None);
    let spec = PayloadSpec {
        kind: PayloadKind::Json2,
        key: Some("Fig \"1\"".to_owned()),
        record: Some(record),
        ..spec()
    };
    let mut payloads = PayloadGenerator::new(&spec, LocalTime::utc()).expect("payloads");
    for name in [0, 39] {
        let (key, value, text) = object(&mut payloads, name);
        let members = ["timestamp", "fstValue", "sndValue", "intNum", "weir"];
        assert_members(&text, &members);
        assert_eq!(
            (text_of(&value, "sndValue"), text_of(&value, "timestamp")),
            (&*key, DUE_TEXT)
        );
        assert_filler(&value, "fstValue", 512);
        let stamp = Stamp::parse_text(text_of(&value, "weir").as_bytes());
        assert_eq!(stamp, Some(self::stamp(0)));
    }
}
