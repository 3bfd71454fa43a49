//! What each filter makes of records, whatever the compression.

use super::*;

/// A filter the long way.
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
    fn records_become_what_the_model_says(
        records in run(), codec in 0_usize..5, picks in prop::collection::vec(0_usize..5, 1..4),
    ) {
        let models = models();
        let mut expected = records.clone();
        let mut toml = String::new();
        for &pick in &picks {
            toml.push_str(&models[pick].0);
            expected.iter_mut().for_each(models[pick].1);
        }
        let before = encode(&records, ALL[codec]);
        let (outcome, after) = passed(&records, ALL[codec], &toml);
        let found = decode(&after);
        prop_assert_eq!(&found, &decode(&encode(&expected, ALL[codec])));
        // Header, but for length and checksum: offsets, attributes, timestamps, producer, sequence, count.
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
    fn equal_length_edits_of_plain_batches_are_made_in_place(values in prop::collection::vec("[a-z ]{0,30}[A-Z]", 1..6)) {
        let records: Vec<_> = (0..).zip(&values).map(|(place, value)| at(place, one(Some(value.as_bytes())))).collect();
        let (outcome, after) = passed(&records, Compression::None, &table("lower-case", ""));
        prop_assert_eq!(outcome, BatchOutcome::Edited);
        for (record, value) in decode(&after).iter().zip(&values) {
            let expected = value.to_lowercase();
            prop_assert_eq!(record.value.as_deref(), Some(expected.as_bytes()));
        }
    }

    #[test]
    fn changed_bytes_never_panic(
        records in run(), codec in 0_usize..5,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut batch = encode(&records, ALL[codec]);
        for (at, value) in edits {
            let at = at.index(batch.len());
            batch[at] = value;
        }
        // Else only the checksum would be tested.
        if matches!(weir_kafka::records::front(&batch), weir_kafka::records::FirstBatch::Batch(bytes) if bytes == batch.len()) {
            weir_kafka::records::seal(&mut batch);
        }
        let toml: String = models().iter().map(|(toml, _)| toml.as_str()).collect();
        let (outcome, out, _) = through(&mut batch, &toml, &mut bounded(1 << 20));
        if outcome == Ok(BatchOutcome::Rebuilt) {
            let view = weir_kafka::records::Batches::new(&out).next().expect("one").expect("good");
            prop_assert_eq!(view.verify_crc(), Ok(()));
        }
    }
}

#[test]
fn text_of_several_bytes_keeps_its_letters_and_its_end() {
    let cases: [(&str, &str, &str); 6] = [
        ("lower-case", "ÄRGER ÜBER ΟΔΟΣ", "ärger über οδος"),
        ("lower-case", "İSTANBUL", "i\u{307}stanbul"),
        ("lower-case", "ȺB", "ⱥb"),
        ("upper-case", "straße ŉ", "STRASSE ʼN"),
        ("upper-case", "héllo 🦀", "HÉLLO 🦀"),
        ("lower-case", "", ""),
    ];
    for compression in ALL {
        for (kind, before, after) in cases {
            let (_, batch) = passed(
                &[one(Some(before.as_bytes()))],
                compression,
                &table(kind, ""),
            );
            let value = decode(&batch)[0].value.clone();
            assert_eq!(value.as_deref(), Some(after.as_bytes()), "{kind} {before}");
        }
    }
}

#[test]
fn tombstones_and_bytes_that_are_no_text_pass_as_they_are() {
    let toml = table("lower-case", "") + &table("upper-case", "");
    for value in [None, Some(&b"\xff\xfeABC"[..]), Some(b"")] {
        let mut batch = encode(&[one(value)], Compression::None);
        let before = batch.clone();
        let mut workspace = FilterBuffers::default();
        let (outcome, _, _) = through(&mut batch, &toml, &mut workspace);
        assert_eq!((outcome, &batch), (Ok(BatchOutcome::Untouched), &before));
        let unreadable = workspace.take_tally().values_unreadable;
        assert_eq!(
            unreadable,
            if value.is_some_and(|it| !it.is_empty()) {
                2
            } else {
                0
            }
        );
    }
}

#[test]
fn headers_of_one_name_become_one_and_others_keep_their_order() {
    // The codec can not write a name twice, so these are bytes.
    let mut headers = vec![8];
    for (name, value) in [("by", "1"), ("x", "2"), ("by", "3"), ("y", "4")] {
        weir_kafka::records::put_varint_bytes(&mut headers, Some(name.as_bytes()));
        weir_kafka::records::put_varint_bytes(&mut headers, Some(value.as_bytes()));
    }
    let mut out = Vec::new();
    assert_eq!(
        super::super::headers::with(&headers, "by", b"z", &mut out),
        Ok(true)
    );
    assert_eq!(out, b"\x06\x02x\x022\x02y\x024\x04by\x02z");
    let again = out.clone();
    out.clear();
    assert_eq!(
        super::super::headers::with(&again, "by", b"z", &mut out),
        Ok(false)
    );
    out.clear();
    assert_eq!(
        super::super::headers::without(&headers, "by", &mut out),
        Ok(true)
    );
    assert_eq!(out, b"\x04\x02x\x022\x02y\x024");
    out.clear();
    assert_eq!(
        super::super::headers::without(&headers, "z", &mut out),
        Ok(false)
    );
}

#[test]
fn control_batches_are_not_opened() {
    let mut record = one(Some(b"ABC"));
    (record.control, record.transactional) = (true, true);
    let (outcome, _) = passed(&[record], Compression::None, &table("lower-case", ""));
    assert_eq!(outcome, BatchOutcome::Untouched);
}

#[test]
fn java_reads_what_is_packed_anew() {
    // What Java's readers insist on, seen in the bytes; whole clients are tested elsewhere.
    let records = [one(Some(&[b'A'; 100_000]))];
    let (_, batch) = passed(&records, Compression::Lz4, &table("lower-case", ""));
    let flags = batch[61 + 4];
    assert_eq!(
        flags & 0b0010_0000,
        0b0010_0000,
        "independent blocks: {flags:08b}"
    );
    let mut batch = encode(&records, Compression::Snappy);
    let framed = batch[61..].starts_with(b"\x82SNAPPY\0");
    let (outcome, out, _) = through(
        &mut batch,
        &table("lower-case", ""),
        &mut FilterBuffers::default(),
    );
    assert_eq!(outcome, Ok(BatchOutcome::Rebuilt));
    assert_eq!(out[61..].starts_with(b"\x82SNAPPY\0"), framed);
}
