use super::*;
use crate::versions::METADATA;
use crate::wire::addresses::tests::TestAddressMapper;
use crate::wire::fetch_walk::tests as fetch;
use proptest::prelude::*;
use weir_filters::{FilterBuffers, FilterChain};

fn limits() -> ProxyLimits {
    ProxyLimits {
        request_bytes: 4096,
        buffered_frame_bytes: 4096,
        in_flight_requests: 100,
        ..ProxyLimits::default()
    }
}

fn response(id: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = ((4 + body.len()) as i32).to_be_bytes().to_vec();
    frame.extend(id.to_be_bytes());
    frame.extend_from_slice(body);
    frame
}

/// Metadata v1 with one broker, no controller and no topics.
fn metadata(id: i32, host: &str) -> Vec<u8> {
    let mut body = 1_i32.to_be_bytes().to_vec();
    body.extend(5_i32.to_be_bytes());
    body.extend((host.len() as u16).to_be_bytes());
    body.extend(host.as_bytes());
    body.extend(9092_i32.to_be_bytes());
    body.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    response(id, &body)
}

struct Run {
    stream: ResponseStream,
    in_flight: InFlightRequests,
    mapper: TestAddressMapper,
    out: Vec<u8>,
    buffered_max: usize,
}

impl Run {
    fn new() -> Self {
        Self {
            stream: ResponseStream::default(),
            in_flight: InFlightRequests::default(),
            mapper: TestAddressMapper::default(),
            out: Vec::new(),
            buffered_max: 0,
        }
    }

    fn expect_response(
        &mut self,
        key: i16,
        version: i16,
        correlation_id: i32,
        response: ResponseSource,
    ) {
        self.in_flight.push(InFlightRequest {
            access: None,
            correlation_id,
            key,
            version,
            response,
        });
    }

    fn feed(&mut self, input: &[u8]) -> Result<(), StreamError> {
        let supported = SupportedVersions::new(|_| None);
        let mut segments = Segments::default();
        let filters = FilterChain::default();
        let mut input = input.to_vec();
        let mut context = ResponseContext {
            supported: &supported,
            limits: &limits(),
            in_flight: &mut self.in_flight,
            mapper: &mut self.mapper,
            responses: &mut 0,
            rewritten: &mut 0,
            filtering: FilterStage {
                filters: &filters,
                buffers: &mut FilterBuffers::default(),
                delayed: &mut None,
            },
            access: None,
        };
        let outcome = self.stream.feed(&mut input, &mut context, &mut segments);
        self.buffered_max = self.buffered_max.max(self.stream.buffered_bytes());
        segments
            .slices(&input)
            .for_each(|slice| self.out.extend_from_slice(slice));
        outcome
    }
}

#[test]
fn raw_sasl_tokens_are_forwarded_unchanged() {
    let tokens = [&[0, 0, 0, 0][..], &[0, 0, 0, 3, 0, 0, 0], &[0, 0, 0, 9]];
    let sent = [tokens.concat(), vec![1; 9], response(5, &[7; 20])].concat();
    for piece_bytes in [1, 3, 6, usize::MAX] {
        let mut run = Run::new();
        for _ in tokens {
            run.expect_response(17, 0, 0, ResponseSource::Token);
        }
        run.expect_response(FETCH, 11, 5, ResponseSource::Broker);
        for piece in sent.chunks(piece_bytes) {
            run.feed(piece).expect("forwards");
        }
        assert_eq!(run.out, sent);
        assert!(run.in_flight.is_empty() && run.stream.is_between());
    }
}

#[test]
fn responses_come_in_request_order() {
    let mut run = Run::new();
    run.expect_response(FETCH, 11, 1, ResponseSource::Broker);
    run.expect_response(18, 9, 2, ResponseSource::Ready(Box::from(&b"first"[..])));
    run.expect_response(18, 9, 3, ResponseSource::Ready(Box::from(&b"second"[..])));
    run.expect_response(METADATA, 1, 4, ResponseSource::Broker);
    run.expect_response(18, 9, 5, ResponseSource::Ready(Box::from(&b"third"[..])));
    let fetch = response(1, &[7; 100]);
    let mut segments = Segments::default();
    run.stream.push_ready(&mut run.in_flight, &mut segments);
    assert!(segments.is_empty(), "the broker's response is first");
    run.feed(&fetch[..50]).expect("forwards");
    run.feed(&[&fetch[50..], &metadata(4, "proxy")[..]].concat())
        .expect("forwards");
    let wanted = [
        &fetch[..],
        b"first",
        b"second",
        &metadata(4, "proxy"),
        b"third",
    ]
    .concat();
    assert_eq!(run.out.len(), wanted.len());
    assert_eq!(run.out[..fetch.len() + 11], wanted[..fetch.len() + 11]);
    assert!(run.out.ends_with(b"third"));
    assert!(run.in_flight.is_empty() && run.stream.is_between());
}

#[test]
fn unexpected_responses_close_the_connection() {
    let mut run = Run::new();
    let outcome = run.feed(&response(1, b"?"));
    assert!(matches!(
        outcome,
        Err(StreamError::Unexpected { got: 1, .. })
    ));
    let mut run = Run::new();
    run.expect_response(FETCH, 11, 7, ResponseSource::Broker);
    let outcome = run.feed(&response(8, b"?"));
    assert!(matches!(
        outcome,
        Err(StreamError::Unexpected { got: 8, .. })
    ));
    for size in [-1_i32, 3] {
        let mut run = Run::new();
        run.expect_response(FETCH, 11, 7, ResponseSource::Broker);
        let frame = [size.to_be_bytes(), 7_i32.to_be_bytes()].concat();
        assert!(
            matches!(run.feed(&frame), Err(StreamError::Broker(_))),
            "{size}"
        );
    }
}

#[test]
fn buffered_responses_are_limited_and_not_preallocated() {
    let mut run = Run::new();
    run.expect_response(METADATA, 1, 7, ResponseSource::Broker);
    let head = [5000_i32.to_be_bytes(), 7_i32.to_be_bytes()].concat();
    assert!(matches!(run.feed(&head), Err(StreamError::Broker(_))));
    let mut run = Run::new();
    run.expect_response(METADATA, 1, 7, ResponseSource::Broker);
    let head = [4000_i32.to_be_bytes(), 7_i32.to_be_bytes()].concat();
    for byte in head {
        run.feed(&[byte]).expect("waits");
    }
    assert!(run.buffered_max <= 16, "{}", run.buffered_max);
    // Fetch responses have no limit because they are not buffered.
    let mut run = Run::new();
    run.expect_response(FETCH, 15, 7, ResponseSource::Broker);
    let head = [i32::MAX.to_be_bytes(), 7_i32.to_be_bytes()].concat();
    run.feed(&head).expect("forwards");
    run.feed(&[1; 1000]).expect("forwards");
    assert_eq!((run.out.len(), run.stream.buffered_bytes()), (1008, 0));
}

/// Returns the output for a Fetch response in pieces of `piece` bytes, followed by a response of
/// the proxy.
fn fetched(sent: &[u8], piece: usize) -> Vec<u8> {
    let mut run = Run::new();
    run.expect_response(FETCH, fetch::VERSION, 42, ResponseSource::Broker);
    run.expect_response(18, 9, 2, ResponseSource::Ready(Box::from(&b"next"[..])));
    for piece in sent.chunks(piece) {
        run.feed(piece).expect("forwards");
    }
    assert!(run.in_flight.is_empty() && run.stream.is_between());
    assert_eq!(run.stream.buffered_bytes(), 0);
    assert!(run.buffered_max <= 300, "{}", run.buffered_max);
    let end = run.out.len() - 4;
    assert_eq!(run.out.split_off(end), b"next");
    run.out
}

#[test]
fn leader_hints_of_streamed_responses_are_replaced() {
    for (host, fits) in [("kafka.internal", true), ("k", false)] {
        let topics = [
            vec![
                fetch::partition(1, fetch::NOT_LEADER, 5_000),
                fetch::partition(2, 0, 0),
            ],
            vec![fetch::partition(3, 0, 700)],
        ];
        let message = fetch::response(&topics, &[host]);
        let sent = fetch::frame(&message);
        for piece in [1, 2, 7, 64, 500, 4_000, usize::MAX] {
            let made = fetched(&sent, piece);
            let read = fetch::decoded(&made);
            assert_eq!(read.responses, message.responses);
            let is_whole = piece == usize::MAX;
            let wanted: &[i32] = if fits || is_whole { &[19_001] } else { &[] };
            let ports: Vec<_> = read.node_endpoints.iter().map(|it| it.port).collect();
            assert_eq!(ports, wanted, "{host} in pieces of {piece}");
            assert!(is_whole || made.len() == sent.len());
            let upstream = b"\x0fkafka.internal";
            assert!(!made.windows(upstream.len()).any(|part| part == upstream));
        }
    }
}

#[test]
fn fetch_responses_without_hints_are_unchanged() {
    for error in [0, fetch::NOT_LEADER] {
        let topics = [vec![
            fetch::partition(1, error, 900),
            fetch::partition(2, 0, 9),
        ]];
        for topics in [&topics[..], &[], &[vec![]]] {
            let sent = fetch::frame(&fetch::response(topics, &[]));
            for piece in [1, 5, 100, usize::MAX] {
                assert_eq!(fetched(&sent, piece), sent, "{error} in pieces of {piece}");
            }
        }
    }
}

#[test]
fn invalid_fetch_responses_close_the_connection() {
    let topics = [vec![fetch::partition(1, fetch::NOT_LEADER, 900)]];
    let sent = fetch::frame(&fetch::response(&topics, &["kafka"]));
    // The size of the frame ends in each field before the last.
    for size in 4..sent.len() - 4 {
        let mut forged = sent.clone();
        forged[..4].copy_from_slice(&(size as i32).to_be_bytes());
        let mut run = Run::new();
        run.expect_response(FETCH, fetch::VERSION, 42, ResponseSource::Broker);
        let outcome = run.feed(&forged[..4 + size]);
        assert!(
            matches!(outcome, Err(StreamError::Broker(_))),
            "{size}: {outcome:?}"
        );
    }
    // Addresses that are larger than the limit of buffered frames.
    let many = vec!["k"; 900];
    let large = fetch::frame(&fetch::response(&topics, &many));
    let mut run = Run::new();
    run.expect_response(FETCH, fetch::VERSION, 42, ResponseSource::Broker);
    let outcome = large.chunks(500).try_for_each(|piece| run.feed(piece));
    assert!(matches!(
        outcome,
        Err(StreamError::Broker(WireError::FrameTooLarge { .. }))
    ));
}

proptest! {
    #[test]
    fn split_responses_have_same_output(
        responses in prop::collection::vec((any::<bool>(), 0_usize..300), 0..10),
        cuts in prop::collection::vec(1_usize..400, 1..20),
    ) {
        let mut sent = Vec::new();
        let mut runs = [Run::new(), Run::new()];
        for (id, (is_metadata, size)) in responses.iter().enumerate() {
            let id = id as i32;
            let key = if *is_metadata { METADATA } else { FETCH };
            for run in &mut runs {
                run.expect_response(key, 1, id, ResponseSource::Broker);
            }
            sent.extend(match is_metadata {
                true => metadata(id, &"h".repeat(size / 2 + 1)),
                false => response(id, &vec![3; *size]),
            });
        }
        let [whole, cut] = &mut runs;
        whole.feed(&sent)?;
        let (mut left, mut cuts) = (sent.as_slice(), cuts.iter().cycle());
        while !left.is_empty() {
            let (now, later) = left.split_at(cuts.next().map_or(1, |cut| *cut).min(left.len()));
            cut.feed(now)?;
            left = later;
        }
        prop_assert_eq!(&whole.out, &cut.out);
        if responses.iter().all(|(is_metadata, _)| !is_metadata) {
            prop_assert_eq!(&whole.out, &sent);
        }
        prop_assert!(cut.stream.is_between() && cut.stream.buffered_bytes() == 0);
    }

    #[test]
    fn arbitrary_bytes_have_bounded_output(
        keys in prop::collection::vec((0_i16..95, 0_i16..19), 1..5),
        mut bytes in prop::collection::vec(any::<u8>(), 8..600),
    ) {
        let mut run = Run::new();
        for (id, (key, version)) in keys.iter().enumerate() {
            run.expect_response(*key, *version, id as i32, ResponseSource::Broker);
        }
        let size = (bytes.len() - 4) as i32;
        bytes[..4].copy_from_slice(&size.to_be_bytes());
        bytes[4..8].copy_from_slice(&0_i32.to_be_bytes());
        let _ = run.feed(&bytes);
        prop_assert!(run.out.len() <= 2 * bytes.len() + 256);
    }
}
