//! Fuzz targets of the WebSocket: no panics, events that do not depend on how the stream is split,
//! and lossless compression.

use super::{
    DeflateParams, Deflater, FrameError, FrameEvent, FrameRole, Inflater, WebSocketFrameReader,
    push_deflated_server_text,
};

/// Reads `data` as a stream, once whole and once in pieces. The first byte selects the role and
/// compression, the second the limit, the third the size of the pieces.
pub fn read(data: &[u8]) {
    let [rules, limit, piece, stream @ ..] = data else {
        return;
    };
    let role = if rules & 1 == 0 {
        FrameRole::Server
    } else {
        FrameRole::Client
    };
    let deflate = rules & 2 != 0;
    let limit = usize::from(*limit) * 16;
    let rules = (role, deflate, limit);
    let whole = events(rules, stream.len().max(1), stream);
    let pieces = events(rules, usize::from(*piece).max(1), stream);
    // An error in a later frame is reported only after the events before it, in both cases.
    assert_eq!(whole, pieces);
}

/// Uses `data` first as a client's offer, then as messages to compress. The first byte is the
/// level, the second the length of the messages.
pub fn deflate(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        if let Some(params) = DeflateParams::of(text.split(',').map(str::trim)) {
            let response = params.response();
            assert_eq!(
                DeflateParams::of([response.as_str()].into_iter()),
                Some(params)
            );
        }
    }
    let [level, length, messages @ ..] = data else {
        return;
    };
    let (mut deflater, mut inflater) = (Deflater::new(u32::from(level % 9) + 1), Inflater::new());
    for message in messages.chunks(usize::from(*length) * 8 + 1) {
        let Some(payload) = deflater.deflate(message) else {
            continue;
        };
        let mut frame = Vec::new();
        push_deflated_server_text(&mut frame, payload);
        let mut reader =
            WebSocketFrameReader::new(FrameRole::Client, message.len()).with_deflate(true);
        let event = reader.read(&frame);
        let Ok((used, Some(FrameEvent::Deflated(payload)))) = event else {
            panic!("{event:?}");
        };
        assert_eq!(used, frame.len());
        assert_eq!(inflater.inflate(payload, message.len()), Ok(message));
    }
}

/// An owned event.
#[derive(Debug, PartialEq, Eq)]
enum Owned {
    Text(Vec<u8>),
    Inflated(Result<Vec<u8>, FrameError>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>),
    Failed(FrameError),
}

fn events(
    (role, deflate, limit): (FrameRole, bool, usize),
    piece: usize,
    stream: &[u8],
) -> Vec<Owned> {
    let mut reader = WebSocketFrameReader::new(role, limit).with_deflate(deflate);
    let mut inflater = Inflater::new();
    let mut owned_events = Vec::new();
    for mut input in stream.chunks(piece) {
        loop {
            match reader.read(input) {
                Ok((used, Some(event))) => {
                    owned_events.push(to_owned_event(event, &mut inflater, limit));
                    input = &input[used..];
                }
                Ok((used, None)) => {
                    assert_eq!(used, input.len(), "all input is used without an event");
                    break;
                }
                Err(error) => {
                    owned_events.push(Owned::Failed(error));
                    return owned_events;
                }
            }
        }
    }
    owned_events
}

fn to_owned_event(event: FrameEvent<'_>, inflater: &mut Inflater, limit: usize) -> Owned {
    match event {
        FrameEvent::Text(bytes) => Owned::Text(bytes.to_vec()),
        FrameEvent::Deflated(bytes) => {
            let text = inflater.inflate(bytes, limit).map(<[u8]>::to_vec);
            assert!(text.as_ref().map_or(0, Vec::len) <= limit);
            Owned::Inflated(text)
        }
        FrameEvent::Ping(bytes) => Owned::Ping(bytes.to_vec()),
        FrameEvent::Pong(bytes) => Owned::Pong(bytes.to_vec()),
        FrameEvent::Close { code } => Owned::Close(code),
    }
}
