//! Tests of each filter's effect on records, with every compression.

use super::*;

/// A naive implementation of a filter.
type Model = fn(&mut Record);

fn on_text(record: &mut Record, change: fn(&str) -> String) {
    let text = record
        .value
        .as_ref()
        .and_then(|value| std::str::from_utf8(value).ok());
    if let Some(text) = text.map(change) {
        record.value = Some(Bytes::from(text));
    }
}

fn set_header(record: &mut Record) {
    let name = StrBytes::from_static_str("by");
    record.headers.shift_remove(&name);
    record
        .headers
        .insert(name, Some(Bytes::from_static(b"proxy")));
}

fn mask(record: &mut Record) {
    let Some(value) = &record.value else { return };
    let json: Option<serde_json::Value> = serde_json::from_slice(value).ok();
    record.value = match json {
        None => Some(Bytes::from_static(b"\"#\"")),
        Some(json) if json.pointer("/a/b").is_some() => {
            let text = String::from_utf8_lossy(value);
            let text = text
                .replace("\"Secret\"", "\"#\"")
                .replace("\"secret\"", "\"#\"");
            Some(Bytes::from(text))
        }
        Some(_) => return,
    };
}

fn models() -> [(String, Model); 5] {
    [
        (table("lower-case", ""), |it| {
            on_text(it, |text| text.to_lowercase())
        }),
        (table("upper-case", ""), |it| {
            on_text(it, |text| text.to_uppercase())
        }),
        (
            table("set-header", "name = \"by\"\nvalue = \"proxy\""),
            set_header,
        ),
        (table("remove-header", "name = \"by\""), |it| {
            it.headers.shift_remove(&StrBytes::from_static_str("by"));
        }),
        (table("mask", "members = [\"a.b\"]\nwith = \"#\""), mask),
    ]
}

proptest! {
    #[test]
    fn filtered_records_match_the_model(
        records in batch_records(), codec in 0_usize..5,
        picks in prop::collection::vec(0_usize..5, 1..4),
    ) {
        let models = models();
        let mut expected = records.clone();
        let mut toml = String::new();
        for &pick in &picks {
            toml.push_str(&models[pick].0);
            expected.iter_mut().for_each(models[pick].1);
        }
        let before = encode(&records, COMPRESSIONS[codec]);
        let (outcome, after) = forwarded(&records, COMPRESSIONS[codec], &toml);
        let found = decode(&after);
        prop_assert_eq!(&found, &decode(&encode(&expected, COMPRESSIONS[codec])));
        // Header except length and checksum: offsets, attributes, timestamps, producer, sequence,
        // count.
        let fixed = |batch: &[u8]| [&batch[..8], &batch[12..17], &batch[21..61]].concat();
        prop_assert_eq!(fixed(&before), fixed(&after));
        let is_case = picks.iter().all(|pick| *pick == picks[0] && *pick < 2);
        if expected == records && is_case {
            prop_assert_eq!(outcome, BatchOutcome::Untouched);
        }
        if outcome == BatchOutcome::Untouched {
            prop_assert_eq!(before, after);
        }
    }

    #[test]
    fn equal_length_edits_are_in_place(
        values in prop::collection::vec("[a-z ]{0,30}[A-Z]", 1..6),
    ) {
        let values_at = (0..).zip(&values);
        let records: Vec<_> = values_at
            .map(|(index, value)| at_index(index, record_of(Some(value.as_bytes()))))
            .collect();
        let (outcome, after) = forwarded(&records, Compression::None, &table("lower-case", ""));
        prop_assert_eq!(outcome, BatchOutcome::Edited);
        for (record, value) in decode(&after).iter().zip(&values) {
            let expected = value.to_lowercase();
            prop_assert_eq!(record.value.as_deref(), Some(expected.as_bytes()));
        }
    }

    #[test]
    fn changed_batch_bytes_never_panic(
        records in batch_records(), codec in 0_usize..5,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut batch = encode(&records, COMPRESSIONS[codec]);
        for (at, value) in edits {
            let at = at.index(batch.len());
            batch[at] = value;
        }
        // Without this the test would cover only the checksum.
        let first = weir_wire::records::first_batch(&batch);
        if matches!(first, weir_wire::records::FirstBatch::Batch(bytes) if bytes == batch.len()) {
            weir_wire::records::set_crc(&mut batch);
        }
        let toml: String = models().iter().map(|(toml, _)| toml.as_str()).collect();
        let (outcome, out, _) = filter_batch(&mut batch, &toml, &mut limited_buffers(1 << 20));
        if outcome == Ok(BatchOutcome::Rebuilt) {
            let view = weir_wire::records::Batches::new(&out).next();
            let view = view.expect("one").expect("good");
            prop_assert_eq!(view.verify_crc(), Ok(()));
        }
    }
}

#[test]
fn case_conversion_handles_multi_byte_text() {
    let cases: [(&str, &str, &str); 6] = [
        ("lower-case", "ÄRGER ÜBER ΟΔΟΣ", "ärger über οδος"),
        ("lower-case", "İSTANBUL", "i\u{307}stanbul"),
        ("lower-case", "ȺB", "ⱥb"),
        ("upper-case", "straße ŉ", "STRASSE ʼN"),
        ("upper-case", "héllo 🦀", "HÉLLO 🦀"),
        ("lower-case", "", ""),
    ];
    for compression in COMPRESSIONS {
        for (kind, before, after) in cases {
            let (_, batch) = forwarded(
                &[record_of(Some(before.as_bytes()))],
                compression,
                &table(kind, ""),
            );
            let value = decode(&batch)[0].value.clone();
            assert_eq!(value.as_deref(), Some(after.as_bytes()), "{kind} {before}");
        }
    }
}

#[test]
fn tombstones_and_non_text_values_are_unchanged() {
    let toml = table("lower-case", "") + &table("upper-case", "");
    for value in [None, Some(&b"\xff\xfeABC"[..]), Some(b"")] {
        let mut batch = encode(&[record_of(value)], Compression::None);
        let before = batch.clone();
        let mut buffers = FilterBuffers::default();
        let (outcome, _, _) = filter_batch(&mut batch, &toml, &mut buffers);
        assert_eq!((outcome, &batch), (Ok(BatchOutcome::Untouched), &before));
        let undecodable = buffers.take_counts().values_undecodable;
        assert_eq!(
            undecodable,
            if value.is_some_and(|it| !it.is_empty()) {
                2
            } else {
                0
            }
        );
    }
}

#[test]
fn set_header_replaces_duplicates_and_keeps_order() {
    // The codec cannot write a name twice, so the headers are built by hand.
    let mut headers = vec![8];
    for (name, value) in [("by", "1"), ("x", "2"), ("by", "3"), ("y", "4")] {
        weir_wire::records::put_varint_bytes(&mut headers, Some(name.as_bytes()));
        weir_wire::records::put_varint_bytes(&mut headers, Some(value.as_bytes()));
    }
    let mut out = Vec::new();
    assert_eq!(
        crate::headers::with(&headers, "by", b"z", &mut out),
        Ok(true)
    );
    assert_eq!(out, b"\x06\x02x\x022\x02y\x024\x04by\x02z");
    let again = out.clone();
    out.clear();
    assert_eq!(
        crate::headers::with(&again, "by", b"z", &mut out),
        Ok(false)
    );
    out.clear();
    assert_eq!(crate::headers::without(&headers, "by", &mut out), Ok(true));
    assert_eq!(out, b"\x04\x02x\x022\x02y\x024");
    out.clear();
    assert_eq!(crate::headers::without(&headers, "z", &mut out), Ok(false));
}

#[test]
fn control_batches_are_unchanged() {
    let mut record = record_of(Some(b"ABC"));
    (record.control, record.transactional) = (true, true);
    let (outcome, _) = forwarded(&[record], Compression::None, &table("lower-case", ""));
    assert_eq!(outcome, BatchOutcome::Untouched);
}

#[test]
fn recompressed_batches_are_valid_for_java() {
    // Checks the bytes that Java readers require. Other tests use whole clients.
    let records = [record_of(Some(&[b'A'; 100_000]))];
    let (_, batch) = forwarded(&records, Compression::Lz4, &table("lower-case", ""));
    let flags = batch[61 + 4];
    assert_eq!(
        flags & 0b0010_0000,
        0b0010_0000,
        "independent blocks: {flags:08b}"
    );
    let mut batch = encode(&records, Compression::Snappy);
    let framed = batch[61..].starts_with(b"\x82SNAPPY\0");
    let (outcome, out, _) = filter_batch(
        &mut batch,
        &table("lower-case", ""),
        &mut FilterBuffers::default(),
    );
    assert_eq!(outcome, Ok(BatchOutcome::Rebuilt));
    assert_eq!(out[61..].starts_with(b"\x82SNAPPY\0"), framed);
}
