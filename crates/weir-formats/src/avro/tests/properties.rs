//! Random schemas and values: the reader and a model find the same.

use proptest::collection::vec;
use proptest::prelude::*;

use super::encoder::{Data, Encoder, Type};
use super::{Text, model, schema, select};
use crate::avro::Missing;
use crate::expression::Expression;
use crate::fuzz;
use crate::json::JsonCheck;

const NAMES: [&str; 5] = ["a", "b", "ab", "x y", "é"];

fn any_type() -> impl Strategy<Value = Type> {
    let scalar = prop_oneof![
        Just(Type::Null),
        Just(Type::Boolean),
        Just(Type::Int),
        Just(Type::Long),
        Just(Type::Float),
        Just(Type::Double),
        Just(Type::Bytes),
        Just(Type::String),
        (0_usize..4).prop_map(Type::Fixed),
        (1_usize..70).prop_map(Type::Enum),
    ];
    scalar.prop_recursive(5, 30, 5, |inner| {
        prop_oneof![
            3 => prop::sample::subsequence(NAMES.to_vec(), 0..=5).prop_flat_map({
                let inner = inner.clone();
                move |names| {
                    let fields = vec(inner.clone(), names.len());
                    fields.prop_map(move |fields| {
                        let names = names.iter().map(|name| (*name).to_owned());
                        Type::Record(names.zip(fields).collect())
                    })
                }
            }),
            2 => inner.clone().prop_map(|item| Type::Array(item.into())),
            2 => inner.clone().prop_map(|value| Type::Map(value.into())),
            2 => vec(inner, 1..4).prop_map(union),
        ]
    })
}

/// Returns a union of the types that a union may have next to each other.
fn union(branches: Vec<Type>) -> Type {
    let mut unique: Vec<Type> = vec![Type::Null];
    for branch in branches {
        let is_named = matches!(branch, Type::Fixed(_) | Type::Enum(_) | Type::Record(_));
        let kind = std::mem::discriminant(&branch);
        let is_new = unique.iter().all(|b| std::mem::discriminant(b) != kind);
        if (is_named || is_new) && !matches!(branch, Type::Union(_)) {
            unique.push(branch);
        }
    }
    Type::Union(unique)
}

fn value(of: &Type) -> BoxedStrategy<Data> {
    match of {
        Type::Null => Just(Data::Null).boxed(),
        Type::Boolean => any::<bool>().prop_map(Data::Boolean).boxed(),
        Type::Int => any::<i32>().prop_map(Data::Int).boxed(),
        Type::Long => prop_oneof![any::<i64>(), -70_i64..70]
            .prop_map(Data::Long)
            .boxed(),
        Type::Float => any::<u32>()
            .prop_map(|bits| Data::Float(f32::from_bits(bits)))
            .boxed(),
        Type::Double => any::<u64>()
            .prop_map(|bits| Data::Double(f64::from_bits(bits)))
            .boxed(),
        Type::Bytes => vec(any::<u8>(), 0..6).prop_map(Data::Bytes).boxed(),
        Type::String => prop_oneof![
            "\\PC{0,80}",
            "[\"\\\\\u{0}\u{1f}\n\r\t\u{8}\u{c}\u{7f}\u{9f}€a]{0,9}"
        ]
        .prop_map(Data::String)
        .boxed(),
        Type::Fixed(size) => vec(any::<u8>(), *size).prop_map(Data::Fixed).boxed(),
        Type::Enum(count) => (0..*count).prop_map(Data::Enum).boxed(),
        Type::Record(fields) => {
            let names: Vec<_> = fields.iter().map(|(name, _)| name.clone()).collect();
            let fields: Vec<_> = fields.iter().map(|(_, field)| value(field)).collect();
            fields
                .prop_map(move |fields| Data::Record(names.iter().cloned().zip(fields).collect()))
                .boxed()
        }
        Type::Array(item) => vec(value(item), 0..5).prop_map(Data::Array).boxed(),
        Type::Map(of) => {
            let keys = prop::sample::subsequence(NAMES.to_vec(), 0..=5);
            let values = vec(value(of), 5);
            let entries = (keys, values).prop_map(|(keys, values)| {
                let keys = keys.into_iter().map(str::to_owned);
                Data::Map(keys.zip(values).collect())
            });
            entries.boxed()
        }
        Type::Union(branches) => {
            let branches = branches.iter().enumerate().map(|(i, branch)| {
                value(branch)
                    .prop_map(move |data| Data::Union(i, data.into()))
                    .boxed()
            });
            proptest::strategy::Union::new(branches).boxed()
        }
    }
}

/// Generates a schema, one of its values, and the value's encoding.
fn encoded() -> impl Strategy<Value = (Type, Data, Vec<u8>)> {
    let of = any_type().prop_flat_map(|of| {
        let data = value(&of);
        (Just(of), data, any::<u64>())
    });
    of.prop_map(|(of, data, seed)| {
        let bytes = Encoder { seed }.encode(&data);
        (of, data, bytes)
    })
}

/// Generates paths that exist in many values.
fn path() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        6 => prop::sample::select(NAMES.to_vec()).prop_map(|name| format!(".{name}")),
        1 => Just("['z']".to_owned()),
        3 => (0_u32..5).prop_map(|index| format!("[{index}]")),
    ];
    vec(step, 0..5).prop_map(|steps| format!("VALUE{}", steps.concat()))
}

fn same(found: Result<Text, Missing>, expected: &Result<Text, String>) -> Result<(), String> {
    let found = found.map_err(|missing| missing.to_string());
    match found == *expected {
        true => Ok(()),
        false => Err(format!("{found:?}, not {expected:?}")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn paths_match_model(
        (of, data, bytes) in encoded(),
        paths in vec(path(), 1..8),
        complex in any::<bool>(),
    ) {
        let schema = schema(&of.schema());
        let mut all = select(&schema, &paths);
        for extent in [JsonCheck::Needed, JsonCheck::Whole] {
            all.read(&bytes, extent).expect("a valid record");
            for (i, path) in paths.iter().enumerate() {
                let expression = Expression::parse(path).expect("valid");
                let expected = model::select(&data, &expression, complex);
                let outcome = same(all.text(i, &bytes, complex), &expected);
                prop_assert!(outcome.is_ok(), "{path}: {outcome:?}");
                let mut single = select(&schema, &[path]);
                single.read(&bytes, extent).expect("a valid record");
                let outcome = same(single.text(0, &bytes, complex), &expected);
                prop_assert!(outcome.is_ok(), "{path} alone: {outcome:?}");
            }
        }
    }

    #[test]
    fn members_match_model((of, data, bytes) in encoded(), path in path()) {
        let mut selected = select(&schema(&of.schema()), &[&path]);
        selected.read(&bytes, JsonCheck::Needed).expect("a valid record");
        let expression = Expression::parse(&path).expect("valid");
        let found = selected.members(0, &bytes).map_err(|missing| missing.to_string());
        prop_assert_eq!(found, model::members(&data, &expression));
    }

    #[test]
    fn truncated_record_fails_or_has_wanted_value(
        (of, data, bytes) in encoded(),
        path in path(),
        cut in 0_usize..100,
    ) {
        prop_assume!(!bytes.is_empty());
        let bytes = &bytes[..bytes.len() * cut / 100];
        let mut selected = select(&schema(&of.schema()), &[&path]);
        prop_assert!(selected.read(bytes, JsonCheck::Whole).is_err());
        if selected.read(bytes, JsonCheck::Needed).is_ok() {
            let expression = Expression::parse(&path).expect("valid");
            // The end of a record, array or map may be missing.
            if let Ok(found) = selected.text(0, bytes, true) {
                prop_assert_eq!(Ok(found), model::select(&data, &expression, true));
            }
        }
    }

    #[test]
    fn trailing_bytes_fail_in_whole_records(
        (of, _, mut bytes) in encoded(),
        more in vec(any::<u8>(), 1..4),
    ) {
        bytes.extend(&more);
        let mut selected = select(&schema(&of.schema()), &["VALUE"]);
        let error = selected.read(&bytes, JsonCheck::Whole).expect_err("too long");
        prop_assert!(error.contains("bytes after the record"), "{error}");
        prop_assert!(selected.read(&bytes, JsonCheck::Needed).is_ok());
    }

    #[test]
    fn flipped_bits_never_panic(
        (of, _, mut bytes) in encoded(),
        flips in vec((any::<prop::sample::Index>(), 0_u8..8), 1..5),
    ) {
        prop_assume!(!bytes.is_empty());
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        let mut input = of.schema().into_bytes();
        input.push(0);
        input.extend(bytes);
        fuzz::avro(&input);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        fuzz::avro(&bytes);
    }
}
