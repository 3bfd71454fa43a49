//! The functions behind the fuzz targets. Property tests run them, too. Not part of the API.

use weir_wire::WireError;

use super::{
    AddressMapper, BrokerNode, FilterStage, InFlightRequests, RequestContext, RequestStream,
    ResponseContext, ResponseSource, ResponseStream, SIZE_BYTES, Segments, StreamError,
};
use crate::config::{HostPort, ProxyLimits};
use crate::versions::{
    API_VERSIONS, DESCRIBE_CLUSTER, DESCRIBE_QUORUM, FETCH, FIND_COORDINATOR, METADATA, PRODUCE,
    SHARE_ACKNOWLEDGE, SHARE_FETCH, SupportedVersions,
};
use crate::wire::in_flight::InFlightRequest;
use weir_filters::{FilterBuffers, FilterChain, FilterConfig};

/// Sends a response through the proxy without filters. The first bytes select the API, its version,
/// and the size of the pieces in which it arrives.
pub fn response(data: &[u8]) {
    let Some(([api, version, piece], body)) = data.split_first_chunk() else {
        return;
    };
    let key = WITH_ADDRESSES[usize::from(*api) % WITH_ADDRESSES.len()];
    let frame = framed(&[&[0, 0, 0, 7], body].concat());
    let mut in_flight = InFlightRequests::default();
    in_flight.push(InFlightRequest {
        access: None,
        correlation_id: 7,
        key,
        version: i16::from(version % 19),
        response: ResponseSource::Broker,
    });
    let (mut stream, mut out) = (ResponseStream::default(), Vec::new());
    let mut arrived = 0;
    for piece in frame.chunks(usize::from(*piece).max(1)) {
        arrived += piece.len();
        let mut segments = Segments::default();
        let mut piece = piece.to_vec();
        let mut context = ResponseContext {
            supported: &SupportedVersions::new(|_| None),
            limits: &limits(),
            in_flight: &mut in_flight,
            mapper: &mut OneAddress,
            responses: &mut 0,
            rewritten: &mut 0,
            filtering: FilterStage {
                filters: &FilterChain::default(),
                buffers: &mut FilterBuffers::default(),
                delayed: &mut None,
            },
            access: None,
        };
        let outcome = stream.feed(&mut piece, &mut context, &mut segments);
        assert!(stream.buffered_bytes() <= 2 * arrived);
        if let Err(error) = outcome {
            assert!(matches!(error, StreamError::Broker(_)), "{error}");
            return;
        }
        segments
            .slices(&piece)
            .for_each(|slice| out.extend_from_slice(slice));
    }
    assert!(in_flight.is_empty() && stream.is_between());
    check_frame(&out);
}

/// Sends a request by topic id through filters. The first bytes select the API, its version, and
/// the size of the pieces.
pub fn request(data: &[u8]) {
    let Some(([api, version, piece], body)) = data.split_first_chunk() else {
        return;
    };
    let (key, version) = match api % 2 {
        0 => (PRODUCE, 13),
        _ => (FETCH, 13 + i16::from(version % 6)),
    };
    // The header has no client id and no tagged fields.
    let (key, version) = (key.to_be_bytes(), version.to_be_bytes());
    let head = [&key[..], &version, &[0, 0, 0, 7, 0xff, 0xff, 0]].concat();
    let frame = framed(&[&head, body].concat());
    let filters = lower_case();
    let mut in_flight = InFlightRequests::default();
    let (mut stream, mut sent) = (RequestStream::default(), 0);
    let mut pieces: Vec<_> = frame
        .chunks(usize::from(*piece).max(1))
        .map(<[u8]>::to_vec)
        .collect();
    pieces.reverse();
    while let Some(mut piece) = pieces.pop() {
        let mut segments = Segments::default();
        let mut context = RequestContext {
            supported: &SupportedVersions::new(|_| None),
            limits: &limits(),
            in_flight: &mut in_flight,
            software: &mut None,
            login: None,
            requests: &mut 0,
            requests_until: u64::MAX,
            filtering: FilterStage {
                filters: &filters,
                buffers: &mut FilterBuffers::default(),
                delayed: &mut None,
            },
            access: None,
        };
        let outcome = stream.feed(&mut piece, &mut context, &mut segments);
        assert!(stream.buffered_bytes() <= 2 * frame.len());
        if let Err(error) = outcome {
            assert!(matches!(error, StreamError::Client(_)), "{error}");
            return;
        }
        sent += segments.slices(&piece).map(<[u8]>::len).sum::<usize>();
        if in_flight.has_lookup() {
            // At most an entry per topic id of the request.
            assert!(sent <= 2 * frame.len() + 64, "{sent}");
            in_flight.pop();
            pieces.push(stream.take_backlog());
        }
    }
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut frame = (body.len() as i32).to_be_bytes().to_vec();
    frame.extend_from_slice(body);
    frame
}

fn check_frame(frame: &[u8]) {
    let size = super::frame_total(frame, usize::MAX);
    assert_eq!(size, Ok::<_, WireError>(Some(frame.len())));
    assert!(frame.len() >= SIZE_BYTES);
}

fn limits() -> ProxyLimits {
    ProxyLimits {
        request_bytes: 1 << 20,
        buffered_frame_bytes: 1 << 20,
        ..ProxyLimits::default()
    }
}

fn lower_case() -> FilterChain {
    let toml = "type = \"lower-case\"\non = [\"produce\", \"fetch\"]";
    // Invariant: the filter is valid, which the tests check.
    let config: FilterConfig = toml::from_str(toml).expect("configuration is valid");
    FilterChain::new(&[config]).expect("the filter is valid")
}

/// One address for all brokers.
struct OneAddress;

impl AddressMapper for OneAddress {
    fn address_of(&mut self, _: BrokerNode<'_>) -> Option<HostPort> {
        Some(HostPort::new("proxy", 9192))
    }
}

/// The APIs whose responses the proxy reads.
const WITH_ADDRESSES: [i16; 9] = [
    FETCH,
    METADATA,
    PRODUCE,
    FIND_COORDINATOR,
    DESCRIBE_CLUSTER,
    DESCRIBE_QUORUM,
    SHARE_FETCH,
    SHARE_ACKNOWLEDGE,
    API_VERSIONS,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fetch_walk::tests as fetch;
    use proptest::prelude::*;

    const RESPONSE: &[u8] = include_bytes!("../../../../fuzz/seeds/proxy_response/1");
    const REQUEST: &[u8] = include_bytes!("../../../../fuzz/seeds/proxy_request/1");

    #[test]
    fn seeds_are_valid_inputs() {
        let topics = [vec![
            fetch::partition(1, fetch::NOT_LEADER, 30),
            fetch::partition(2, 0, 0),
        ]];
        let frame = fetch::frame(&fetch::response(&topics, &["kafka.internal"]));
        assert_eq!(
            RESPONSE,
            [&[0, fetch::VERSION as u8, 40], &frame[8..]].concat()
        );
        response(RESPONSE);
        // A Fetch request of version 18 for a topic without partitions.
        let body = [&[0; 21][..], &[2], &[5; 16], &[1, 0, 1, 1, 0]].concat();
        assert_eq!(REQUEST, [&[1, 5, 9], &body[..]].concat());
        request(REQUEST);
    }

    proptest! {
        #[test]
        fn arbitrary_and_changed_frames_close_the_connection_or_pass(
            bytes in prop::collection::vec(any::<u8>(), 3..200),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            response(&bytes);
            request(&bytes);
            for (seed, run) in [(RESPONSE, response as fn(&[u8])), (REQUEST, request)] {
                let mut changed = seed.to_vec();
                for (at, byte) in &changes {
                    let at = at.index(changed.len());
                    changed[at] = *byte;
                }
                run(&changed);
            }
        }
    }
}
