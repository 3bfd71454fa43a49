use super::super::filtering::FilterStage;
use super::super::in_flight::InFlightRequests;
use super::*;
use crate::config::ProxyLimits;
use crate::versions::SupportedVersions;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use weir_filters::{FilterBuffers, FilterChain, TopicNames};
use weir_rules::{AccessState, AclConfig};

fn limits() -> ProxyLimits {
    ProxyLimits {
        request_bytes: 4096,
        buffered_frame_bytes: 4096,
        in_flight_requests: 8,
        ..ProxyLimits::default()
    }
}

/// Returns a request with `body` after a version 1 header.
fn request(key: i16, version: i16, id: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = ((8 + 2 + body.len()) as i32).to_be_bytes().to_vec();
    frame.extend(key.to_be_bytes());
    frame.extend(version.to_be_bytes());
    frame.extend(id.to_be_bytes());
    frame.extend([0xff, 0xff]);
    frame.extend_from_slice(body);
    frame
}

struct Run {
    stream: RequestStream,
    in_flight: InFlightRequests,
    software: Option<Box<str>>,
    requests: u64,
    requests_until: u64,
    limits: ProxyLimits,
    out: Vec<u8>,
}

impl Run {
    fn new() -> Self {
        Self {
            stream: RequestStream::default(),
            in_flight: InFlightRequests::default(),
            software: None,
            requests: 0,
            requests_until: u64::MAX,
            limits: limits(),
            out: Vec::new(),
        }
    }

    fn feed(&mut self, input: &[u8]) -> Result<(), StreamError> {
        self.feed_through(&FilterChain::default(), input)
    }

    fn feed_through(&mut self, filters: &FilterChain, input: &[u8]) -> Result<(), StreamError> {
        self.feed_with(filters, None, input)
    }

    fn feed_with(
        &mut self,
        filters: &FilterChain,
        access: Option<Access<'_>>,
        input: &[u8],
    ) -> Result<(), StreamError> {
        let supported = SupportedVersions::new(|_| None);
        let mut context = RequestContext {
            supported: &supported,
            limits: &self.limits,
            in_flight: &mut self.in_flight,
            software: &mut self.software,
            login: None,
            requests: &mut self.requests,
            requests_until: self.requests_until,
            filtering: FilterStage {
                filters,
                buffers: &mut FilterBuffers::default(),
                delayed: &mut None,
            },
            access,
        };
        let mut input = input.to_vec();
        let mut segments = Segments::default();
        let outcome = self.stream.feed(&mut input, &mut context, &mut segments);
        segments
            .slices(&input)
            .for_each(|slice| self.out.extend_from_slice(slice));
        outcome
    }

    fn waiting(&mut self) -> Vec<(i32, bool)> {
        let mut all = Vec::new();
        while let Some(entry) = self.in_flight.pop() {
            all.push((
                entry.correlation_id,
                matches!(entry.response, ResponseSource::Broker),
            ));
        }
        all
    }
}

/// Returns a Produce v3 request.
fn produce(id: i32, acks: i16) -> Vec<u8> {
    let mut body = vec![0, 2, b't', b'x'];
    body.extend(acks.to_be_bytes());
    body.extend([1; 40]);
    request(PRODUCE, 3, id, &body)
}

#[test]
fn produce_requests_without_acks_are_not_in_flight() {
    let mut run = Run::new();
    let sent = [produce(1, 1), produce(2, 0), produce(3, -1)].concat();
    run.feed(&sent).expect("forwards");
    assert_eq!(run.out, sent);
    assert_eq!(run.waiting(), [(1, true), (3, true)]);
    assert_eq!(run.requests, 3);
}

#[test]
fn unsupported_api_versions_request_gets_response() {
    let mut run = Run::new();
    let next = request(3, 12, 9, &[0; 30]);
    let sent = request(API_VERSIONS, 99, 7, &[5; 50]);
    run.feed(&[sent, next.clone()].concat()).expect("responds");
    assert_eq!(
        run.out, next,
        "a request with a response from the proxy is not forwarded"
    );
    let response = run.in_flight.pop_ready().expect("a response of the proxy");
    let unsupported = [0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5];
    assert_eq!(response[4..], unsupported);
    assert_eq!(run.waiting(), [(9, true)]);
}

/// Returns a SaslHandshake v0 request.
fn handshake(id: i32, mechanism: &str) -> Vec<u8> {
    let length = (mechanism.len() as i16).to_be_bytes();
    request(
        SASL_HANDSHAKE,
        0,
        id,
        &[&length[..], mechanism.as_bytes()].concat(),
    )
}

fn token(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as i32).to_be_bytes()[..], bytes].concat()
}

#[test]
fn raw_sasl_tokens_pass_until_first_request() {
    // This token has the API key of DescribeTransactions; the user name is "A".
    let plain = token(b"\0A\0secret-secret");
    let scram = [
        token(b"n,,n=user,r=nonce"),
        token(b"c=biws,r=nonce,p=proof"),
    ]
    .concat();
    let kerberos = [token(&[0x60; 700]), token(b""), token(&[5, 4, 4, 0xff])].concat();
    let next = request(3, 12, 9, &[0; 30]);
    let cases = [
        ("PLAIN", plain, 1),
        ("SCRAM-SHA-512", scram, 2),
        ("GSSAPI", kerberos, 3),
    ];
    for (mechanism, tokens, count) in cases {
        let sent = [handshake(1, mechanism), tokens].concat();
        for piece_bytes in [1, 7, usize::MAX] {
            let mut run = Run::new();
            for piece in sent.chunks(piece_bytes) {
                run.feed(piece).expect("forwards");
            }
            assert_eq!(run.out, sent);
            assert_eq!(run.in_flight.len(), 1 + count, "{mechanism}");
            // The broker has responded to all but one. A request means that there is no further
            // token.
            (0..count).for_each(|_| drop(run.in_flight.pop()));
            for piece in [next.clone(), produce(10, 1)].concat().chunks(piece_bytes) {
                run.feed(piece).expect("forwards");
            }
            assert_eq!(
                run.out.len(),
                sent.len() + next.len() + produce(10, 1).len()
            );
            let is_last_forgotten = mechanism != "PLAIN";
            assert_eq!(run.in_flight.len(), if is_last_forgotten { 2 } else { 3 });
        }
    }
    let mut run = Run::new();
    let error = run.feed(&request(SASL_HANDSHAKE, 0, 1, &[0x7f; 2000]));
    assert!(matches!(
        error,
        Err(StreamError::Client(WireError::FrameTooLarge { .. }))
    ));
}

#[test]
fn unsupported_requests_close_the_connection() {
    for (key, version) in [
        (1, 19),
        (55, 3),
        (58, 0),
        (20_000, 0),
        (-1, 0),
        (3, -1),
        (18, -1),
    ] {
        let outcome = Run::new().feed(&request(key, version, 1, &[0; 20]));
        let is_rejected = matches!(outcome, Err(StreamError::NotSupported { .. }));
        assert!(is_rejected, "API key {key}, version {version}: {outcome:?}");
    }
}

#[test]
fn invalid_frame_sizes_close_the_connection() {
    for prefix in [-1_i32, 0, 7, 4097, i32::MAX] {
        let mut frame = prefix.to_be_bytes().to_vec();
        frame.extend([0; 16]);
        let outcome = Run::new().feed(&frame);
        assert!(matches!(outcome, Err(StreamError::Client(_))), "{prefix}");
    }
}

#[test]
fn requests_beyond_limit_are_stored() {
    let mut run = Run::new();
    let sent: Vec<Vec<u8>> = (0..20).map(|id| request(3, 1, id, &[0; 4])).collect();
    run.feed(&sent.concat()).expect("forwards");
    assert_eq!(run.out, sent[..8].concat());
    assert!(run.stream.has_backlog());
    for _ in 0..3 {
        run.in_flight.pop();
    }
    let backlog = run.stream.take_backlog();
    run.feed(&backlog).expect("forwards");
    assert_eq!(run.out, sent[..11].concat());
    assert!(run.stream.has_backlog());
}

#[test]
fn client_software_is_recorded() {
    let mut body = vec![0, 6];
    body.extend(b"mykaf");
    body.extend([4, b'1', b'.', b'2', 0]);
    let sent = request(API_VERSIONS, 3, 1, &body);
    let mut run = Run::new();
    for byte in &sent {
        run.feed(&[*byte]).expect("forwards");
    }
    assert_eq!(run.software.as_deref(), Some("mykaf 1.2"));
    assert_eq!(run.out, sent);
    assert_eq!(run.stream.buffered_bytes(), 0);
}

#[test]
fn missing_bytes_of_a_request_are_known() {
    let mut run = Run::new();
    let sent = request(3, 1, 1, &[0; 100]);
    assert_eq!(run.stream.missing(), 0);
    run.feed(&sent[..3]).expect("forwards");
    assert_eq!(run.stream.missing(), 9);
    assert!(run.stream.is_mid_head());
    run.feed(&sent[3..50]).expect("forwards");
    assert_eq!(run.stream.missing(), sent.len() - 50);
    assert!(run.stream.is_mid_request() && !run.stream.is_mid_head());
    run.feed(&sent[50..]).expect("forwards");
    assert!(!run.stream.is_mid_request());
}

fn any_request() -> impl Strategy<Value = Vec<u8>> {
    let other = (
        2_i16..16,
        0..3_i16,
        any::<i32>(),
        prop::collection::vec(any::<u8>(), 0..200),
    )
        .prop_filter("supported", |(key, ..)| ![4, 5, 6, 7].contains(key))
        .prop_map(|(key, version, id, body)| request(key, version, id, &body));
    let produce = (any::<i32>(), -1_i16..2).prop_map(|(id, acks)| produce(id, acks));
    prop_oneof![other, produce]
}

proptest! {
    #[test]
    fn split_requests_are_forwarded_unchanged(
        requests in prop::collection::vec(any_request(), 0..12),
        cuts in prop::collection::vec(1_usize..300, 1..20),
        per_turn in 1_u64..5,
    ) {
        let sent = requests.concat();
        let mut run = Run::new();
        run.limits.in_flight_requests = 100;
        let (mut left, mut cuts) = (sent.as_slice(), cuts.iter().cycle());
        while !left.is_empty() {
            let (now, later) = left.split_at(cuts.next().map_or(1, |cut| *cut).min(left.len()));
            run.requests_until = run.requests + per_turn;
            run.feed(now)?;
            while run.stream.has_backlog() {
                prop_assert_eq!(run.requests, run.requests_until);
                run.requests_until += per_turn;
                let backlog = run.stream.take_backlog();
                run.feed(&backlog)?;
            }
            left = later;
        }
        prop_assert_eq!(&run.out, &sent);
        prop_assert!(!run.stream.is_mid_request());
        prop_assert_eq!(run.stream.buffered_bytes(), 0);
        prop_assert_eq!(run.requests as usize, requests.len());
    }

    #[test]
    fn arbitrary_bytes_use_bounded_memory(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..10),
    ) {
        let mut run = Run::new();
        for piece in pieces {
            if run.feed(&piece).is_err() {
                break;
            }
            prop_assert!(run.stream.buffered_bytes() <= 8192);
            prop_assert!(run.in_flight.len() <= run.limits.in_flight_requests);
        }
    }
}

/// Returns filters on both directions of all topics.
fn lower_case() -> FilterChain {
    let toml = "type = \"lower-case\"\non = [\"produce\", \"fetch\"]";
    FilterChain::new(&[toml::from_str(toml).expect("a filter")]).expect("valid")
}

/// Returns a Fetch request of version 18 for a topic without partitions.
fn fetch_by_id(id: i32, topic: u8) -> Vec<u8> {
    let mut body = vec![0; 22];
    body.extend([2]);
    body.extend([topic; 16]);
    body.extend([1, 0, 1, 1, 0]);
    request(FETCH, 18, id, &body)
}

#[test]
fn produce_request_in_pieces_is_one_decision() {
    let rule = "[[rule]]\nprincipals = [\"User:a\"]\noperations = [\"write\"]\ntopics = [\"t\"]\n";
    let mut body = vec![0xff, 0xff, 0, 1, 0, 0, 0, 0];
    // One topic without partitions.
    body.extend([0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 0]);
    let sent = request(PRODUCE, 3, 1, &body);
    for filters in [FilterChain::default(), lower_case()] {
        let config: AclConfig = toml::from_str(rule).expect("rules");
        let rules = Arc::new(config.build(Path::new("")).expect("valid"));
        let (mut run, mut state) = (Run::new(), AccessState::default());
        let names = TopicNames::default();
        for piece in sent.chunks(1) {
            let principals = || Box::new(["User:a".into()]) as Box<[Box<str>]>;
            let address = [127, 0, 0, 1].into();
            let session = state.session(Some(&rules), None, principals, address);
            let session = session.expect("no super user");
            let access = Access {
                session,
                names: &names,
            };
            let fed = run.feed_with(&filters, Some(access), piece);
            fed.expect("forwards");
        }
        assert_eq!(run.out, sent);
        assert_eq!(rules.counts.rows().collect::<Vec<_>>(), [(PRODUCE, [1, 0])]);
    }
}

#[test]
fn requests_wait_for_the_names_of_their_topics() {
    for piece in [1, 7, usize::MAX] {
        let filters = lower_case();
        let mut run = Run::new();
        let first = request(API_VERSIONS, 0, 1, &[]);
        let unknown = fetch_by_id(2, 5);
        let sent = [&first[..], &unknown].concat();
        for piece in sent.chunks(piece) {
            run.feed_through(&filters, piece).expect("forwards");
        }
        // The request for the name comes instead of the client's request.
        let mut lookup = Vec::new();
        topic_ids::put_metadata_request(&mut lookup, 0, &[u128::from_be_bytes([5; 16])]);
        assert_eq!(run.out, [&first[..], &lookup].concat());
        assert!(run.in_flight.has_lookup());
        assert_eq!(run.stream.needed_bytes(), unknown.len());

        // The name stays unknown: the broker will report that to the client.
        assert!(run.in_flight.pop().is_some() && run.in_flight.pop().is_some());
        let backlog = run.stream.take_backlog();
        run.feed_through(&filters, &backlog).expect("forwards");
        assert_eq!(run.out, [&first[..], &lookup, &unknown].concat());
        assert!(!run.stream.has_backlog() && run.stream.needed_bytes() == 0);
    }
}

#[test]
fn invalid_requests_by_id_close_the_connection() {
    let filters = lower_case();
    let whole = fetch_by_id(2, 5);
    for end in 12..whole.len() - 4 {
        let mut cut = whole[..end].to_vec();
        cut[..4].copy_from_slice(&(end as i32 - 4).to_be_bytes());
        let outcome = Run::new().feed_through(&filters, &cut);
        assert!(
            matches!(outcome, Err(StreamError::Client(_))),
            "{end}: {outcome:?}"
        );
    }
    // Without filters, the request is not read.
    assert_eq!(Run::new().feed(&whole), Ok(()));
}
