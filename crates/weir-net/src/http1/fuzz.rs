//! Fuzz target of the request parser: it never panics, and the result does not depend on how the
//! bytes are split.

use std::net::SocketAddr;

use super::{BodyProgress, ParseError, ParseLimits, Parsed, parse_request, parse_request_on};

/// Parses every prefix of `data`; the first byte selects the limits.
pub fn read(data: &[u8]) {
    let [limit, stream @ ..] = data else {
        return;
    };
    let limits = ParseLimits {
        head_bytes: 64 + usize::from(*limit) * 4,
        body_bytes: usize::from(*limit) * 2,
    };
    let mut before = None;
    let mut progress = None;
    for end in 0..=stream.len().min(2_000) {
        let outcome = parse(&stream[..end], limits);
        // Incremental parsing gives the same result as parsing from the start.
        if before.is_none() {
            let incremental = parse_on(&stream[..end], limits, &mut progress);
            assert_eq!(incremental, outcome, "{end} bytes");
        }
        // Bytes that follow a complete or rejected request do not change the result.
        if let Some(before) = before {
            assert_eq!(before, outcome, "{end} bytes");
        }
        if outcome != ParseOutcome::Partial {
            before = Some(outcome);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParseOutcome {
    Partial,
    /// Length of the request and of its body.
    Complete(usize, usize),
    Rejected,
}

fn parse_on(
    bytes: &[u8],
    limits: ParseLimits,
    progress: &mut Option<Box<BodyProgress>>,
) -> ParseOutcome {
    outcome(
        bytes,
        limits,
        parse_request_on(bytes, limits, peer(), progress),
    )
}

fn parse(bytes: &[u8], limits: ParseLimits) -> ParseOutcome {
    outcome(bytes, limits, parse_request(bytes, limits, peer()))
}

fn peer() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}

fn outcome(
    bytes: &[u8],
    limits: ParseLimits,
    parsed: Result<Parsed<'_>, ParseError>,
) -> ParseOutcome {
    match parsed {
        Ok(Parsed::Partial) => ParseOutcome::Partial,
        Ok(Parsed::Complete(request, used)) => {
            assert!(used <= bytes.len());
            assert!(
                request.body.len() <= limits.body_bytes,
                "body is within the limit"
            );
            ParseOutcome::Complete(used, request.body.len())
        }
        Err(error) => {
            assert!((400..600).contains(&error.status));
            ParseOutcome::Rejected
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    const PIECES: [&str; 15] = [
        "Host: h\r\n",
        "GET / HTTP/1.1\r\n",
        "POST /x?y HTTP/1.0\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: 99999\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Connection: close\r\n",
        "\r\n",
        "\n",
        "5\r\nhello\r\n",
        "0\r\n\r\n",
        "ffffffff\r\n",
        "a;b=c\r\n0123456789\r\n",
        "hello",
        "\u{0}",
    ];

    proptest! {
        #[test]
        fn request_pieces_parse_the_same_when_split(
            limit in any::<u8>(),
            pieces in proptest::collection::vec(0..PIECES.len(), 0..10),
        ) {
            let mut data = vec![limit];
            pieces.iter().for_each(|piece| data.extend_from_slice(PIECES[*piece].as_bytes()));
            super::read(&data);
        }
    }
}
