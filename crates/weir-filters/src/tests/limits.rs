//! Tests of the limits on filter work, and of pausing it.

use std::cell::Cell;
use std::time::Duration;

use kafka_protocol::messages::fetch_response::PartitionData;
use weir_wire::records::{
    BATCH_HEADER_BYTES, BatchCompressor, Codec, SnappyFraming, set_length_and_crc,
};

use super::frames::{HEAD, Partitions, fetched, produced, request, responses, values};
use super::*;
use crate::work::{FilterWork, WorkProgress};
use crate::{Direction, FrameOutput, WorkMeter};

const CODECS: [Codec; 4] = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
const LOWER: &str =
    "[[filter]]\ntype = \"lower-case\"\ntopics = [\"low\"]\non = [\"produce\", \"fetch\"]\n";

/// Returns a batch of empty records of seven bytes each. `packed` replaces their compressed form.
fn empty_records(count: usize, codec: Codec, packed: Option<&[u8]>) -> Vec<u8> {
    let mut out = encode(&[record_of(None)], Compression::None);
    out.truncate(BATCH_HEADER_BYTES);
    out[22] = codec as u8;
    out[23..27].copy_from_slice(&(count as i32 - 1).to_be_bytes());
    out[57..61].copy_from_slice(&(count as i32).to_be_bytes());
    let plain = [12, 0, 0, 0, 1, 1, 0].repeat(count);
    let form = SnappyFraming::Bare;
    match packed {
        Some(packed) => out.extend_from_slice(packed),
        None => BatchCompressor::default()
            .compress(codec, form, &plain, &mut out)
            .expect("packs"),
    }
    set_length_and_crc(&mut out);
    out
}

thread_local! {
    static CLOCK_US: Cell<u64> = const { Cell::new(0) };
}

/// A clock that advances by a millisecond with every call.
fn clock_us() -> u64 {
    CLOCK_US.set(CLOCK_US.get() + 1_000);
    CLOCK_US.get()
}

fn limited(limits: FilterLimits) -> FilterBuffers {
    FilterBuffers::new(limits)
}

fn small() -> FilterLimits {
    FilterLimits {
        batch_bytes: 1 << 20,
        frame_bytes: 2 << 20,
        frame_records: 50_000,
        frame_cpu: Duration::from_secs(1),
    }
}

#[test]
fn compression_bombs_are_rejected_with_every_codec() {
    for codec in CODECS {
        for (count, limits) in [
            (
                200_000,
                FilterLimits {
                    frame_records: 1_000_000,
                    ..small()
                },
            ),
            (60_000, small()),
        ] {
            let bomb = empty_records(count, codec, None);
            assert!(codec == Codec::Snappy || bomb.len() < 10_000);
            let good = empty_records(2, codec, None);
            let topics: Partitions<'_> = &[("low", &[(0, bomb), (1, good)])];
            let mut frame = request(topics, -1, 9);
            let mut buffers = limited(limits);
            let result = filters(LOWER)
                .produce(&mut frame, HEAD.len(), 9, &mut buffers)
                .expect("a request");
            let response = result.rejected.expect("the bomb").response(9);
            let code = [0, 0, 0, 0, 0, 10];
            assert!(
                response.windows(6).any(|part| part == code),
                "MESSAGE_TOO_LARGE"
            );
            assert_eq!(
                produced(buffers.frame(), 9)[0].1,
                1,
                "the other partition is forwarded"
            );
            let counts = buffers.take_counts();
            assert_eq!((counts.partitions_rejected, counts.limited), (1, 1));
        }
    }
}

#[test]
fn event_loop_defers_bombs_and_many_batches() {
    let lower = filters(LOWER);
    let mut buffers = FilterBuffers::default();
    let cases = [
        empty_records(100_000, Codec::Zstd, None),
        empty_records(0, Codec::None, None).repeat(3_000),
        vec![0; 300_000],
    ];
    for records in cases {
        let mut frame = request(&[("low", &[(0, records)])], -1, 9);
        let before = frame.clone();
        let done = lower.filter_now(Direction::Produce, &mut frame, HEAD.len(), 9, &mut buffers);
        assert!(matches!(done, Ok(Err(_))));
        assert!(frame == before, "nothing is changed yet");
        buffers.begin_iteration();
    }
    // All frames of an iteration share its units.
    let mut done = 0;
    loop {
        let records = empty_records(2_000, Codec::Zstd, None);
        let mut frame = request(&[("low", &[(0, records)])], -1, 9);
        let at = HEAD.len();
        match lower.filter_now(Direction::Produce, &mut frame, at, 9, &mut buffers) {
            Ok(Ok(_)) => done += 1,
            Ok(Err(_)) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!((2..20).contains(&done), "{done}");
}

#[test]
fn memory_of_large_frames_is_released() {
    let mut buffers = FilterBuffers::default();
    let records = empty_records(900_000, Codec::Zstd, None);
    let mut frame = request(&[("low", &[(0, records)])], -1, 9);
    let toml = table("set-header", "name = \"n\"\nvalue = \"v\"");
    let result = filters(&toml).produce(&mut frame, HEAD.len(), 9, &mut buffers);
    assert_eq!(result.expect("a request").output, FrameOutput::Rebuilt);
    assert!(buffers.batch_buffers.held_bytes() > 10 << 20);
    buffers.shrink();
    let retained = buffers.batch_buffers.held_bytes();
    assert!(retained <= 5 << 20, "{retained} bytes are retained");
}

/// Returns error code and record values of each partition of a response.
fn rows(frame: &[u8]) -> Vec<(i16, Vec<String>)> {
    let row = |it: &PartitionData| (it.error_code, values(it.records.as_deref()));
    responses(frame, 11).iter().map(row).collect()
}

#[test]
fn consumers_get_batches_before_an_undecodable_one() {
    let good = || encode(&[record_of(Some(b"A"))], Compression::None);
    let bomb = empty_records(60_000, Codec::Zstd, None);
    let topics: Partitions<'_> = &[(
        "low",
        &[
            (0, [good(), good(), bomb.clone(), good()].concat()),
            (1, bomb.clone()),
            (2, good()),
        ],
    )];
    let mut frame = fetched(topics, 11);
    let mut buffers = limited(small());
    let result = filters(LOWER).fetch(&mut frame, HEAD.len(), 11, &mut buffers);
    assert_eq!(result.expect("a response").output, FrameOutput::Rebuilt);
    let a = || "a".to_owned();
    let expected = [(0, vec![a(), a()]), (0, vec![]), (0, vec![a()])];
    assert_eq!(rows(buffers.frame()), expected);
    assert_eq!(buffers.take_counts().partitions_cut, 2);

    // A response that begins with the batch reports the error.
    let topics: Partitions<'_> = &[("low", &[(1, bomb), (2, good())])];
    let mut frame = fetched(topics, 11);
    let result = filters(LOWER).fetch(&mut frame, HEAD.len(), 11, &mut buffers);
    assert_eq!(result.expect("a response").output, FrameOutput::Rebuilt);
    assert_eq!(rows(buffers.frame()), [(2, vec![]), (0, vec![a()])]);
}

#[test]
fn fetch_responses_beyond_limits_end_early() {
    let records = empty_records(20_000, Codec::Lz4, None);
    let topics: Partitions<'_> = &[(
        "low",
        &[
            (0, records.clone()),
            (1, records.clone()),
            (2, records.clone()),
            (3, records),
        ],
    )];
    let mut frame = fetched(topics, 11);
    let mut buffers = limited(small());
    let result = filters(LOWER).fetch(&mut frame, HEAD.len(), 11, &mut buffers);
    assert_eq!(result.expect("a response").output, FrameOutput::Rebuilt);
    let counts: Vec<_> = rows(buffers.frame())
        .into_iter()
        .map(|(error, values)| (error, values.len()))
        .collect();
    // The limit is checked before each batch.
    assert_eq!(counts, [(0, 20_000), (0, 20_000), (0, 20_000), (0, 0)]);
}

#[test]
fn rejected_batch_rejects_its_whole_partition() {
    let strict = filters(
        "[[filter]]\ntype = \"require\"\njson = true\n\
         [[filter]]\ntype = \"set-header\"\nname = \"n\"\nvalue = \"v\"\n",
    );
    let batch = |value: &[u8]| encode(&[record_of(Some(value))], Compression::None);
    let topics: Partitions<'_> = &[(
        "t",
        &[(0, [batch(b"1"), batch(b"x")].concat()), (1, batch(b"2"))],
    )];
    let mut frame = request(topics, -1, 9);
    let mut buffers = FilterBuffers::default();
    let result = strict.produce(&mut frame, HEAD.len(), 9, &mut buffers);
    assert_eq!(result.expect("a request").output, FrameOutput::Rebuilt);
    let left = produced(buffers.frame(), 9);
    assert_eq!(left, [("t".to_owned(), 1, vec!["2".to_owned()])]);
}

#[test]
fn cpu_limit_stops_input_without_output() {
    // Gzip members and zstd frames with empty content.
    let gzip: &[u8] = &[
        31, 139, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let zstd: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x01, 0x00, 0x00];
    for (codec, piece) in [(Codec::Gzip, gzip), (Codec::Zstd, zstd)] {
        let records = empty_records(1, codec, Some(&piece.repeat(50_000)));
        let mut frame = request(&[("low", &[(0, records)])], -1, 9);
        let mut buffers = FilterBuffers::default();
        let mut work = FilterWork::new(Direction::Produce, HEAD.len(), 9).expect("a version");
        let (turn, left) = (Duration::from_secs(60), Duration::from_millis(3));
        buffers.set_meter(WorkMeter::timed(clock_us, usize::MAX, turn, left));
        let step = work.advance(&filters(LOWER), &mut frame, &mut buffers);
        assert_eq!(step, Ok(WorkProgress::Done));
        let result = work.finish(&frame, &mut buffers);
        assert_eq!(result.output, FrameOutput::Nothing);
        assert_eq!(buffers.take_counts().limited, 1, "{codec:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn paused_work_has_the_same_result(
        batches in prop::collection::vec((batch_records(), 0_usize..5, 0_i32..3), 1..8),
        pause_ms in 2_u64..7,
    ) {
        let mut partitions: Vec<(i32, Vec<u8>)> = (0..3).map(|index| (index, Vec::new())).collect();
        for (records, codec, partition) in &batches {
            partitions[*partition as usize].1.extend(encode(records, COMPRESSIONS[*codec]));
        }
        let chain = filters(&(table("set-header", "name = \"n\"\nvalue = \"v\"") + STRICT));
        let topics: Partitions<'_> = &[("a", &partitions), ("b", &partitions)];
        let mut whole = request(topics, -1, 9);
        let mut frame = whole.clone();
        let (mut one, mut other) = (FilterBuffers::default(), FilterBuffers::default());
        let expected = chain.produce(&mut whole, HEAD.len(), 9, &mut one).expect("a request");

        let mut work = FilterWork::new(Direction::Produce, HEAD.len(), 9).expect("a version");
        let mut iterations = 0;
        loop {
            let pause = Duration::from_millis(pause_ms);
            other.set_meter(WorkMeter::timed(clock_us, usize::MAX, pause, Duration::from_secs(60)));
            if work.advance(&chain, &mut frame, &mut other) == Ok(WorkProgress::Done) {
                break;
            }
            iterations += 1;
            prop_assert!(iterations < 100);
        }
        let result = work.finish(&frame, &mut other);
        prop_assert_eq!(&result, &expected);
        match result.output {
            FrameOutput::Rebuilt => prop_assert_eq!(one.frame(), other.frame()),
            FrameOutput::InPlace => prop_assert_eq!(whole, frame),
            FrameOutput::Nothing => {}
        }
    }
}

const STRICT: &str = "[[filter]]\ntype = \"require\"\nvalue_bytes_max = 25\n";
