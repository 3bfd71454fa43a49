//! Both ends together, examples from the standards, and rejected frames.

use proptest::prelude::*;

use super::frame::push_server_frame;
use super::*;

/// Returns all events of `stream`, read in pieces of `piece` bytes.
fn read_all(
    role: FrameRole,
    limit: usize,
    stream: &[u8],
    piece: usize,
) -> Result<Vec<String>, FrameError> {
    let mut reader = WebSocketFrameReader::new(role, limit);
    let mut events = Vec::new();
    for mut input in stream.chunks(piece) {
        loop {
            let (used, event) = reader.read(input)?;
            input = &input[used..];
            match event {
                Some(event) => events.push(show(event)),
                None => break,
            }
        }
    }
    Ok(events)
}

fn show(event: FrameEvent<'_>) -> String {
    let (kind, bytes) = match event {
        FrameEvent::Text(bytes) => ("text", bytes),
        FrameEvent::Deflated(bytes) => return format!("deflated {bytes:02x?}"),
        FrameEvent::Ping(bytes) => ("ping", bytes),
        FrameEvent::Pong(bytes) => ("pong", bytes),
        FrameEvent::Close { code } => return format!("close {code:?}"),
    };
    format!("{kind} {}", String::from_utf8_lossy(bytes))
}

fn fragment(fin: bool, opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_server_frame(&mut out, opcode, payload);
    if !fin {
        out[0] &= 0x7F;
    }
    out
}

#[test]
fn rfc_6455_examples_are_read_and_written() {
    // RFC 6455, 5.7.
    let single = [0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f];
    let masked = [
        0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
    ];
    let fragmented = [0x01, 0x03, 0x48, 0x65, 0x6c, 0x80, 0x02, 0x6c, 0x6f];
    for piece in 1..12 {
        assert_eq!(
            read_all(FrameRole::Client, 99, &single, piece).unwrap(),
            ["text Hello"]
        );
        assert_eq!(
            read_all(FrameRole::Server, 99, &masked, piece).unwrap(),
            ["text Hello"]
        );
        assert_eq!(
            read_all(FrameRole::Client, 99, &fragmented, piece).unwrap(),
            ["text Hello"]
        );
    }
    let mut out = Vec::new();
    push_client_frame(&mut out, Opcode::Text, [0x37, 0xfa, 0x21, 0x3d], b"Hello");
    assert_eq!(out, masked);
    assert_eq!(
        accept_key("dGhlIHNhbXBsZSBub25jZQ=="),
        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    );
}

#[test]
fn control_frames_are_read_between_fragments() {
    let stream = [
        fragment(false, Opcode::Text, b"ab"),
        fragment(true, Opcode::Ping, b"p"),
        fragment(false, Opcode::Continuation, b"cd"),
        fragment(true, Opcode::Pong, b"q"),
        fragment(true, Opcode::Continuation, b"ef"),
        fragment(true, Opcode::Close, &[0x03, 0xE8, b'x']),
    ]
    .concat();
    for piece in 1..stream.len() {
        let events = read_all(FrameRole::Client, 6, &stream, piece).unwrap();
        assert_eq!(
            events,
            ["ping p", "pong q", "text abcdef", "close Some(1000)"]
        );
    }
}

#[test]
fn frame_errors_have_close_code() {
    let cases: &[(&[u8], FrameError, u16)] = &[
        (&[0xC1, 0x00], FrameError::ReservedBits, 1002),
        (&[0x83, 0x00], FrameError::UnknownOpcode(3), 1002),
        (&[0x82, 0x00], FrameError::Binary, 1003),
        (&[0x81, 0x80, 0, 0, 0, 0], FrameError::Masked, 1002),
        (&[0x09, 0x00], FrameError::FragmentedControl, 1002),
        (&[0x89, 0x7E], FrameError::ControlTooLong, 1002),
        (&[0x81, 0x7E, 0x00, 0x05], FrameError::BadLength, 1002),
        (
            &[0x81, 0x7F, 0, 0, 0, 0, 0, 0, 1, 0],
            FrameError::BadLength,
            1002,
        ),
        (
            &[0x81, 0x7F, 0x80, 0, 0, 0, 0, 0, 0, 0],
            FrameError::BadLength,
            1002,
        ),
        (&[0x80, 0x00], FrameError::NothingToContinue, 1002),
        (&[0x01, 0x00, 0x81, 0x00], FrameError::MessageOpen, 1002),
        (&[0x88, 0x01, 0x03], FrameError::BadClose, 1002),
        (&[0x88, 0x02, 0x03, 0xED], FrameError::BadClose, 1002),
        (&[0x88, 0x03, 0x03, 0xE8, 0xFF], FrameError::NotUtf8, 1007),
        (&[0x81, 0x09], FrameError::TooLarge { limit: 8 }, 1009),
        (
            &[0x01, 0x01, b'a', 0x80, 0x08],
            FrameError::TooLarge { limit: 8 },
            1009,
        ),
    ];
    for (stream, error, code) in cases {
        for piece in 1..=stream.len() {
            let events = read_all(FrameRole::Client, 8, stream, piece);
            assert_eq!(
                events.unwrap_err(),
                *error,
                "{stream:x?} in pieces of {piece}"
            );
        }
        assert_eq!(error.close_code(), *code);
    }
    assert_eq!(
        read_all(FrameRole::Server, 8, &[0x81, 0x01, b'a'], 3).unwrap_err(),
        FrameError::Unmasked
    );
    let mut not_utf8 = Vec::new();
    push_client_frame(&mut not_utf8, Opcode::Text, [1, 2, 3, 4], &[b'a', 0xC3]);
    assert_eq!(
        read_all(FrameRole::Server, 8, &not_utf8, 1).unwrap_err(),
        FrameError::NotUtf8
    );
}

/// Encodes a client frame and replaces its first byte.
fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_client_frame(&mut out, Opcode::Text, [5, 6, 7, 8], payload);
    out[0] = first;
    out
}

/// Returns all texts sent by a client with compression.
fn inflate_all(limit: usize, stream: &[u8], piece: usize) -> Result<Vec<String>, FrameError> {
    let mut reader = WebSocketFrameReader::new(FrameRole::Server, limit).with_deflate(true);
    let mut inflater = Inflater::new();
    let mut events = Vec::new();
    for mut input in stream.chunks(piece) {
        loop {
            let (used, event) = reader.read(input)?;
            input = &input[used..];
            let bytes = match event {
                Some(FrameEvent::Deflated(payload)) => inflater.inflate(payload, limit)?,
                Some(FrameEvent::Text(bytes) | FrameEvent::Ping(bytes)) => bytes,
                Some(event) => panic!("{event:?}"),
                None => break,
            };
            events.push(String::from_utf8_lossy(bytes).into_owned());
        }
    }
    Ok(events)
}

#[test]
fn compressed_messages_are_read_whole_and_fragmented() {
    // RFC 7692, 7.2.3.1, with a ping between the fragments and a plain message after them.
    let whole = masked(0xC1, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]);
    let stream = [
        whole,
        masked(0x41, &[0xf2, 0x48, 0xcd]),
        masked(0x89, b"ping"),
        masked(0x80, &[0xc9, 0xc9, 0x07, 0x00]),
        masked(0x81, b"plain"),
    ]
    .concat();
    for piece in 1..=stream.len() {
        let events = inflate_all(7, &stream, piece).unwrap();
        assert_eq!(events, ["Hello", "ping", "Hello", "plain"]);
    }
}

#[test]
fn misused_compression_is_rejected() {
    let hello = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
    let first = masked(0x41, &hello[..3]);
    let bomb = Deflater::new(9).deflate(&[b'x'; 5_000]).unwrap().to_vec();
    for (stream, error, code) in [
        (masked(0xE1, &hello), FrameError::ReservedBits, 1002),
        (masked(0x91, &hello), FrameError::ReservedBits, 1002),
        (masked(0xC9, b""), FrameError::ReservedBits, 1002),
        (masked(0xC0, &hello), FrameError::ReservedBits, 1002),
        (
            [first, masked(0xC0, &hello[3..])].concat(),
            FrameError::ReservedBits,
            1002,
        ),
        (masked(0xC2, &hello), FrameError::Binary, 1003),
        (masked(0xC1, &[0xFF; 9]), FrameError::BadDeflate, 1007),
        (
            masked(0xC1, &bomb),
            FrameError::TooLarge { limit: 4_999 },
            1009,
        ),
        (
            masked(0xC1, &[0; 5_000]),
            FrameError::TooLarge { limit: 4_999 },
            1009,
        ),
    ] {
        for piece in [1, 2, 3, stream.len()] {
            assert_eq!(inflate_all(4_999, &stream, piece), Err(error));
        }
        assert_eq!(error.close_code(), code);
    }
    // Compression was not negotiated.
    assert_eq!(
        read_all(FrameRole::Server, 99, &masked(0xC1, &hello), 1),
        Err(FrameError::ReservedBits)
    );
}

#[test]
fn idle_reader_has_no_buffer() {
    let mut stream = Vec::new();
    push_client_frame(&mut stream, Opcode::Text, [9, 8, 7, 6], b"wsok");
    let mut reader = WebSocketFrameReader::new(FrameRole::Server, 100);
    assert!(matches!(
        reader.read(&stream),
        Ok((_, Some(FrameEvent::Text(b"wsok"))))
    ));
    assert!(reader.partial_is_allocated());
    assert_eq!(reader.read(&[]), Ok((0, None)));
    assert!(!reader.partial_is_allocated());
    assert!(size_of::<WebSocketFrameReader>() <= 24);
}

#[test]
fn close_frame_has_code() {
    let mut out = Vec::new();
    push_close(&mut out, None, 1001);
    assert_eq!(
        read_all(FrameRole::Client, 0, &out, 7).unwrap(),
        ["close Some(1001)"]
    );
    assert_eq!(out.len(), 2 + 2);
}

#[test]
fn client_checks_server_handshake() {
    let key = new_client_key([7; 16]);
    let mut request = Vec::new();
    client_request(
        &mut request,
        "h:1",
        "/lightstreamer",
        &key,
        "TLCP-2.5.0.lightstreamer.com",
        false,
    );
    let text = String::from_utf8(request).unwrap();
    assert!(
        text.starts_with("GET /lightstreamer HTTP/1.1\r\nHost: h:1\r\n"),
        "{text}"
    );
    assert!(text.ends_with("Sec-WebSocket-Protocol: TLCP-2.5.0.lightstreamer.com\r\n\r\n"));

    let mut plain = Vec::new();
    client_request(&mut plain, "h:1", "/", &key, "", false);
    assert!(!String::from_utf8(plain).unwrap().contains("Protocol"));

    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
         sec-websocket-accept: {}\r\nSec-WebSocket-Protocol: p\r\n\r\nrest",
        accept_key(&key)
    );
    let response = response.as_bytes();
    let end = response.len() - 4;
    for cut in 0..end {
        assert_eq!(
            parse_server_response(&response[..cut], &key, "p", false),
            Ok(None)
        );
    }
    let opened = Opened {
        bytes: end,
        deflate: false,
    };
    assert_eq!(
        parse_server_response(response, &key, "p", true),
        Ok(Some(opened))
    );
    let with = |extension: &str| {
        let line = format!("rver: x\r\nSec-WebSocket-Extensions: {extension}\r\nSec-WebSocket-P");
        let line = format!("\r\nSe{line}");
        String::from_utf8_lossy(response).replacen("\r\nSec-WebSocket-P", &line, 1)
    };
    let accepted = with("permessage-deflate; server_no_context_takeover");
    let opened = parse_server_response(accepted.as_bytes(), &key, "p", true);
    assert!(matches!(opened, Ok(Some(Opened { deflate: true, .. }))));
    for (response, offered) in [
        (&accepted, false),
        (&with("permessage-deflate"), true),
        (&with("x"), true),
    ] {
        assert_eq!(
            parse_server_response(response.as_bytes(), &key, "p", offered),
            Err(HandshakeError::WrongExtension)
        );
    }
    assert_eq!(
        parse_server_response(response, "other", "p", false),
        Err(HandshakeError::WrongAccept)
    );
    assert!(matches!(
        parse_server_response(response, &key, "q", false),
        Err(HandshakeError::WrongSubprotocol { .. })
    ));
    assert!(matches!(
        parse_server_response(response, &key, "", false),
        Err(HandshakeError::WrongSubprotocol { .. })
    ));
    let plain = String::from_utf8_lossy(response).replace("Sec-WebSocket-Protocol: p\r\n", "");
    assert!(matches!(
        parse_server_response(plain.as_bytes(), &key, "", false),
        Ok(Some(_))
    ));
    assert_eq!(
        parse_server_response(b"HTTP/1.1 503 Busy\r\n\r\n", &key, "p", false),
        Err(HandshakeError::Refused { status: 503 })
    );
    assert_eq!(
        parse_server_response(&vec![b'A'; 20_000], &key, "p", false),
        Err(HandshakeError::Malformed)
    );
}

proptest! {
    #[test]
    fn encoded_frames_decode_to_same_text(
        texts in prop::collection::vec("[a-zé]{0,300}", 1..5),
        mask: [u8; 4],
        piece in 1_usize..400,
        padding in 0_usize..70_000,
    ) {
        let mut texts = texts;
        texts.push("x".repeat(padding));
        let (mut from_client, mut from_server) = (Vec::new(), Vec::new());
        for text in &texts {
            push_client_frame(&mut from_client, Opcode::Text, mask, text.as_bytes());
            push_server_text(&mut from_server, text.as_bytes());
        }
        let expected: Vec<_> = texts.iter().map(|text| format!("text {text}")).collect();
        prop_assert_eq!(
            read_all(FrameRole::Server, 70_000, &from_client, piece),
            Ok(expected.clone())
        );
        prop_assert_eq!(read_all(FrameRole::Client, 70_000, &from_server, piece), Ok(expected));
    }

    /// Reads compressed messages with plain ones in between, split at any position.
    #[test]
    fn deflated_messages_inflate_to_same_text(
        texts in prop::collection::vec(("[a-f|é]{0,12}", 1_usize..400), 1..8),
        level in 1_u32..=9,
        piece in 1_usize..300,
    ) {
        let texts: Vec<String> = texts
            .into_iter()
            .map(|(text, count)| text.repeat(count))
            .collect();
        let mut deflater = Deflater::new(level);
        let mut stream = Vec::new();
        for text in &texts {
            stream.extend(match deflater.deflate(text.as_bytes()) {
                Some(payload) => masked(0xC1, payload),
                None => masked(0x81, text.as_bytes()),
            });
        }
        prop_assert_eq!(inflate_all(10_000, &stream, piece), Ok(texts));
    }

    #[test]
    fn arbitrary_bytes_survive_compression(
        data in prop::collection::vec(any::<u8>(), 0..3_000),
    ) {
        fuzz::deflate(&data);
    }

    #[test]
    fn arbitrary_bytes_are_read_without_panic(data in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzz::read(&data);
    }

    #[test]
    fn frame_like_bytes_are_read_without_panic(
        head: [u8; 3],
        frames in prop::collection::vec(
            (prop::sample::select(vec![0x81, 0x01, 0x00, 0x80, 0x89, 0x8A, 0x88, 0xC1, 0x41]),
             prop::collection::vec(any::<u8>(), 0..130)),
            0..6,
        ),
    ) {
        let mut data = head.to_vec();
        for (first, payload) in frames {
            let mut frame = Vec::new();
            if head[0] & 1 == 0 {
                push_client_frame(&mut frame, Opcode::Text, [3; 4], &payload);
            } else {
                push_server_frame(&mut frame, Opcode::Text, &payload);
            }
            frame[0] = first;
            data.extend_from_slice(&frame);
        }
        fuzz::read(&data);
    }
}
