//! What work on a frame may cost, and that stopping in between changes nothing.

use std::cell::Cell;
use std::time::Duration;

use kafka_protocol::messages::fetch_response::PartitionData;
use weir_kafka::records::{
    BATCH_HEADER_BYTES, BatchCompressor, Codec, SnappyFraming, set_length_and_crc,
};

use super::frames::{HEAD, Partitions, fetched, produced, request, responses, values};
use super::*;
use crate::filter::work::{BudgetStep, FilterBudget};
use crate::filter::{Direction, FrameOutput, MemoryMeter};

const CODECS: [Codec; 4] = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
const LOWER: &str =
    "[[filter]]\ntype = \"lower-case\"\ntopics = [\"low\"]\non = [\"produce\", \"fetch\"]\n";

/// A batch of empty records, of seven bytes each; `packed` replaces their compressed form.
fn empty_records(count: usize, codec: Codec, packed: Option<&[u8]>) -> Vec<u8> {
    let mut out = encode(&[one(None)], Compression::None);
    out.truncate(BATCH_HEADER_BYTES);
    out[22] = codec as u8;
    out[23..27].copy_from_slice(&(count as i32 - 1).to_be_bytes());
    out[57..61].copy_from_slice(&(count as i32).to_be_bytes());
    let plain = [12, 0, 0, 0, 1, 1, 0].repeat(count);
    let form = SnappyFraming::Bare;
    match packed {
        Some(packed) => out.extend_from_slice(packed),
        None => BatchCompressor::default()
            .pack(codec, form, &plain, &mut out)
            .expect("packs"),
    }
    set_length_and_crc(&mut out);
    out
}

thread_local! {
    static CLOCK_US: Cell<u64> = const { Cell::new(0) };
}

/// A clock that goes on by a millisecond whenever it is looked at.
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
fn compressed_bombs_are_refused_with_every_codec() {
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
            let mut workspace = limited(limits);
            let verdict = filters(LOWER)
                .produce(&mut frame, HEAD.len(), 9, &mut workspace)
                .expect("a request");
            let answer = verdict.rejected.expect("the bomb").answer(9);
            let code = [0, 0, 0, 0, 0, 10];
            assert!(
                answer.windows(6).any(|part| part == code),
                "MESSAGE_TOO_LARGE"
            );
            assert_eq!(produced(workspace.frame(), 9)[0].1, 1, "the other goes on");
            let tally = workspace.take_tally();
            assert_eq!((tally.partitions_refused, tally.limited), (1, 1));
        }
    }
}

#[test]
fn event_loop_leaves_bombs_and_many_batches_for_later() {
    let lower = filters(LOWER);
    let mut workspace = FilterBuffers::default();
    let cases = [
        empty_records(100_000, Codec::Zstd, None),
        empty_records(0, Codec::None, None).repeat(3_000),
        vec![0; 300_000],
    ];
    for records in cases {
        let mut frame = request(&[("low", &[(0, records)])], -1, 9);
        let before = frame.clone();
        let done = lower.at_once(
            Direction::Produce,
            &mut frame,
            HEAD.len(),
            9,
            &mut workspace,
        );
        assert!(matches!(done, Ok(Err(_))));
        assert!(frame == before, "nothing is changed yet");
        workspace.begin_turn();
    }
    // All frames of a turn share what may be done in it.
    let mut done = 0;
    loop {
        let records = empty_records(2_000, Codec::Zstd, None);
        let mut frame = request(&[("low", &[(0, records)])], -1, 9);
        let at = HEAD.len();
        match lower.at_once(Direction::Produce, &mut frame, at, 9, &mut workspace) {
            Ok(Ok(_)) => done += 1,
            Ok(Err(_)) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!((2..20).contains(&done), "{done}");
}

#[test]
fn memory_of_large_frames_is_given_back() {
    let mut workspace = FilterBuffers::default();
    let records = empty_records(900_000, Codec::Zstd, None);
    let mut frame = request(&[("low", &[(0, records)])], -1, 9);
    let toml = table("set-header", "name = \"n\"\nvalue = \"v\"");
    let verdict = filters(&toml).produce(&mut frame, HEAD.len(), 9, &mut workspace);
    assert_eq!(verdict.expect("a request").pass, FrameOutput::Rebuilt);
    assert!(workspace.tools.held_bytes() > 10 << 20);
    workspace.tidy();
    let held = workspace.tools.held_bytes();
    assert!(held <= 5 << 20, "{held} bytes are kept");
}

/// Error codes, and the values of records, of each partition of a response.
fn rows(frame: &[u8]) -> Vec<(i16, Vec<String>)> {
    let row = |it: &PartitionData| (it.error_code, values(it.records.as_deref()));
    responses(frame, 11).iter().map(row).collect()
}

#[test]
fn consumers_get_what_comes_before_a_batch_that_cannot_be_opened() {
    let good = || encode(&[one(Some(b"A"))], Compression::None);
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
    let mut workspace = limited(small());
    let verdict = filters(LOWER).fetch(&mut frame, HEAD.len(), 11, &mut workspace);
    assert_eq!(verdict.expect("a response").pass, FrameOutput::Rebuilt);
    let a = || "a".to_owned();
    let expected = [(0, vec![a(), a()]), (0, vec![]), (0, vec![a()])];
    assert_eq!(rows(workspace.frame()), expected);
    assert_eq!(workspace.take_tally().partitions_cut, 2);

    // A response that begins with it is the one that tells.
    let topics: Partitions<'_> = &[("low", &[(1, bomb), (2, good())])];
    let mut frame = fetched(topics, 11);
    let verdict = filters(LOWER).fetch(&mut frame, HEAD.len(), 11, &mut workspace);
    assert_eq!(verdict.expect("a response").pass, FrameOutput::Rebuilt);
    assert_eq!(rows(workspace.frame()), [(2, vec![]), (0, vec![a()])]);
}

#[test]
fn responses_beyond_the_limits_of_a_frame_end_early() {
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
    let mut workspace = limited(small());
    let verdict = filters(LOWER).fetch(&mut frame, HEAD.len(), 11, &mut workspace);
    assert_eq!(verdict.expect("a response").pass, FrameOutput::Rebuilt);
    let counts: Vec<_> = rows(workspace.frame())
        .into_iter()
        .map(|(error, values)| (error, values.len()))
        .collect();
    // The limit is looked at before each batch.
    assert_eq!(counts, [(0, 20_000), (0, 20_000), (0, 20_000), (0, 0)]);
}

#[test]
fn refused_batch_takes_its_whole_partition_along() {
    let strict = filters(
        "[[filter]]\ntype = \"require\"\njson = true\n[[filter]]\ntype = \"set-header\"\nname = \"n\"\nvalue = \"v\"\n",
    );
    let batch = |value: &[u8]| encode(&[one(Some(value))], Compression::None);
    let topics: Partitions<'_> = &[(
        "t",
        &[(0, [batch(b"1"), batch(b"x")].concat()), (1, batch(b"2"))],
    )];
    let mut frame = request(topics, -1, 9);
    let mut workspace = FilterBuffers::default();
    let verdict = strict.produce(&mut frame, HEAD.len(), 9, &mut workspace);
    assert_eq!(verdict.expect("a request").pass, FrameOutput::Rebuilt);
    let left = produced(workspace.frame(), 9);
    assert_eq!(left, [("t".to_owned(), 1, vec!["2".to_owned()])]);
}

#[test]
fn input_without_output_is_stopped_by_the_clock() {
    // Members of gzip, and frames of zstd, that unpack to nothing.
    let gzip: &[u8] = &[
        31, 139, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let zstd: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x01, 0x00, 0x00];
    for (codec, piece) in [(Codec::Gzip, gzip), (Codec::Zstd, zstd)] {
        let records = empty_records(1, codec, Some(&piece.repeat(50_000)));
        let mut frame = request(&[("low", &[(0, records)])], -1, 9);
        let mut workspace = FilterBuffers::default();
        let mut work = FilterBudget::new(Direction::Produce, HEAD.len(), 9).expect("a version");
        let (turn, left) = (Duration::from_secs(60), Duration::from_millis(3));
        workspace.allow(MemoryMeter::timed(clock_us, usize::MAX, turn, left));
        let step = work.advance(&filters(LOWER), &mut frame, &mut workspace);
        assert_eq!(step, Ok(BudgetStep::Done));
        let verdict = work.finish(&frame, &mut workspace);
        assert_eq!(verdict.pass, FrameOutput::Nothing);
        assert_eq!(workspace.take_tally().limited, 1, "{codec:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn work_that_pauses_gives_what_it_gives_without(
        batches in prop::collection::vec((run(), 0_usize..5, 0_i32..3), 1..8),
        pause_ms in 2_u64..7,
    ) {
        let mut partitions: Vec<(i32, Vec<u8>)> = (0..3).map(|index| (index, Vec::new())).collect();
        for (records, codec, partition) in &batches {
            partitions[*partition as usize].1.extend(encode(records, ALL[*codec]));
        }
        let chain = filters(&(table("set-header", "name = \"n\"\nvalue = \"v\"") + STRICT));
        let topics: Partitions<'_> = &[("a", &partitions), ("b", &partitions)];
        let mut whole = request(topics, -1, 9);
        let mut frame = whole.clone();
        let (mut one, mut other) = (FilterBuffers::default(), FilterBuffers::default());
        let expected = chain.produce(&mut whole, HEAD.len(), 9, &mut one).expect("a request");

        let mut work = FilterBudget::new(Direction::Produce, HEAD.len(), 9).expect("a version");
        let mut turns = 0;
        loop {
            let pause = Duration::from_millis(pause_ms);
            other.allow(MemoryMeter::timed(clock_us, usize::MAX, pause, Duration::from_secs(60)));
            if work.advance(&chain, &mut frame, &mut other) == Ok(BudgetStep::Done) {
                break;
            }
            turns += 1;
            prop_assert!(turns < 100);
        }
        let verdict = work.finish(&frame, &mut other);
        prop_assert_eq!(&verdict, &expected);
        match verdict.pass {
            FrameOutput::Rebuilt => prop_assert_eq!(one.frame(), other.frame()),
            FrameOutput::InPlace => prop_assert_eq!(whole, frame),
            FrameOutput::Nothing => {}
        }
    }
}

const STRICT: &str = "[[filter]]\ntype = \"require\"\nvalue_bytes_max = 25\n";
