//! Tests of rejected records and batches.

use super::*;

fn rejection(records: &[Record], toml: &str) -> BatchRejection {
    let mut batch = encode(records, Compression::None);
    let (outcome, ..) = filter_batch(&mut batch, toml, &mut FilterBuffers::default());
    outcome.expect_err("rejected")
}

fn is_untouched(records: &[Record], toml: &str) -> bool {
    let mut batch = encode(records, Compression::None);
    filter_batch(&mut batch, toml, &mut FilterBuffers::default()).0 == Ok(BatchOutcome::Untouched)
}

const JSON: &str = "[[filter]]\ntype = \"require\"\njson = true\n";

#[test]
fn every_rejected_record_is_listed() {
    let record = |index, value: &[u8]| at_index(index, record_of(Some(value)));
    let records = [
        record(0, b"{}"),
        record(1, b"{"),
        record(2, b"[1, 2.5e3, \"x\"]"),
        record(3, b"\xff"),
        record(4, b"1 2"),
    ];
    let BatchRejection::Records(rows) = rejection(&records, JSON) else {
        panic!("rejected for another reason");
    };
    let indexes: Vec<_> = rows.iter().map(|(index, _)| *index).collect();
    assert_eq!(indexes, [1, 3, 4]);
    assert!(rows[0].1.starts_with("value is not JSON: EOF"), "{rows:?}");
    assert_eq!(rows[1].1, "value is not JSON: not UTF-8");
    assert!(is_untouched(&records[..1], JSON));
}

#[test]
fn requirements_on_values_ignore_tombstones() {
    let size = "[[filter]]\ntype = \"require\"\nvalue_bytes_max = 2\n";
    let header = "[[filter]]\ntype = \"require\"\nheaders = [\"trace\"]\n";
    assert!(is_untouched(&[record_of(None)], JSON) && is_untouched(&[record_of(None)], size));
    assert!(is_untouched(&[record_of(Some(b"ab"))], size));
    assert_eq!(
        rejection(&[record_of(Some(b"abc"))], size),
        BatchRejection::Records(vec![(
            0,
            "value has 3 bytes, at most 2 are allowed".to_owned()
        )])
    );
    let missing = BatchRejection::Records(vec![(0, "header \"trace\" is missing".to_owned())]);
    assert_eq!(rejection(&[record_of(None)], header), missing);
    let mut with_header = record_of(None);
    with_header
        .headers
        .insert(StrBytes::from_static_str("trace"), None);
    assert!(is_untouched(&[with_header], header));
}

#[test]
fn requirements_apply_to_output_of_earlier_filters() {
    let toml = table("set-header", "name = \"trace\"\nvalue = \"1\"")
        + "[[filter]]\ntype = \"require\"\nheaders = [\"trace\"]\n";
    let (outcome, batch) = forwarded(&[record_of(Some(b"x"))], Compression::None, &toml);
    assert_eq!(outcome, BatchOutcome::Rebuilt);
    assert_eq!(decode(&batch)[0].headers.len(), 1);
}

#[test]
fn decompression_bombs_are_rejected_early() {
    let zeros = vec![0_u8; 300_000];
    for compression in &COMPRESSIONS[1..] {
        let mut batch = encode(&[record_of(Some(&zeros))], *compression);
        let (outcome, ..) = filter_batch(
            &mut batch,
            &table("lower-case", ""),
            &mut limited_buffers(100_000),
        );
        assert!(
            matches!(outcome, Err(BatchRejection::TooLarge(_))),
            "{outcome:?}"
        );
    }
}

#[test]
fn filters_cannot_grow_batches_beyond_limit() {
    let records: Vec<_> = (0..100)
        .map(|index| at_index(index, record_of(Some(b"x"))))
        .collect();
    let toml = table(
        "set-header",
        &format!("name = \"n\"\nvalue = {:?}", "v".repeat(1000)),
    );
    let mut batch = encode(&records, Compression::None);
    let (outcome, ..) = filter_batch(&mut batch, &toml, &mut limited_buffers(50_000));
    assert!(
        matches!(outcome, Err(BatchRejection::TooLarge(_))),
        "{outcome:?}"
    );
    let mut batch = encode(&records, Compression::None);
    let (outcome, ..) = filter_batch(&mut batch, &toml, &mut limited_buffers(500_000));
    assert_eq!(outcome, Ok(BatchOutcome::Rebuilt));
}

#[test]
fn wrong_checksum_differs_from_invalid_records() {
    let mut batch = encode(&[record_of(Some(b"ABC"))], Compression::None);
    let last = batch.len() - 2;
    batch[last] ^= 1;
    let (outcome, ..) = filter_batch(
        &mut batch,
        &table("lower-case", ""),
        &mut FilterBuffers::default(),
    );
    assert_eq!(outcome, Err(BatchRejection::Corrupt));
    batch[60] = 2; // one record more than the batch has
    weir_wire::records::set_crc(&mut batch);
    let (outcome, ..) = filter_batch(
        &mut batch,
        &table("lower-case", ""),
        &mut FilterBuffers::default(),
    );
    assert!(
        matches!(outcome, Err(BatchRejection::Invalid(_))),
        "{outcome:?}"
    );
}
