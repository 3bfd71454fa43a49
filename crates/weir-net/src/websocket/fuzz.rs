//! The fuzz body of the frame reader: never a panic, and events do not depend on how the stream
//! was cut.

use super::{Event, FrameError, FrameReader, Role};

/// Reads `data` as a stream once whole and once in pieces. The first byte chooses the role, the
/// second the limit, the third the size of the pieces.
pub fn read(data: &[u8]) {
    let [role, limit, piece, stream @ ..] = data else {
        return;
    };
    let role = if role & 1 == 0 {
        Role::Server
    } else {
        Role::Client
    };
    let limit = usize::from(*limit) * 16;
    let whole = events(role, limit, stream.len().max(1), stream);
    let pieces = events(role, limit, usize::from(*piece).max(1), stream);
    // Pieces may meet an error in a later frame only after the events before it, as the whole does.
    assert_eq!(whole, pieces);
}

/// An event without its borrow.
#[derive(Debug, PartialEq, Eq)]
enum Owned {
    Text(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>),
    Failed(FrameError),
}

fn events(role: Role, limit: usize, piece: usize, stream: &[u8]) -> Vec<Owned> {
    let mut reader = FrameReader::new(role, limit);
    let mut seen = Vec::new();
    for mut input in stream.chunks(piece) {
        loop {
            match reader.read(input) {
                Ok((used, Some(event))) => {
                    seen.push(own(event));
                    input = &input[used..];
                }
                Ok((used, None)) => {
                    assert_eq!(used, input.len(), "nothing is left without an event");
                    break;
                }
                Err(error) => {
                    seen.push(Owned::Failed(error));
                    return seen;
                }
            }
        }
    }
    seen
}

fn own(event: Event<'_>) -> Owned {
    match event {
        Event::Text(bytes) => Owned::Text(bytes.to_vec()),
        Event::Ping(bytes) => Owned::Ping(bytes.to_vec()),
        Event::Pong(bytes) => Owned::Pong(bytes.to_vec()),
        Event::Close { code } => Owned::Close(code),
    }
}
