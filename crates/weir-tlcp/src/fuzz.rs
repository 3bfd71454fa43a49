//! Bodies of the fuzz targets, also run by property tests. Not part of the API.

use crate::client::{ItemState, Line, Lines, explicit_field, field_tokens, parse_line};
use crate::request::{parse_http_request, parse_ws_message};
use crate::server::{push_delta_payload, push_full_payload};

/// Any bytes as a request: no panic, and every refusal renders as exactly one line.
pub fn request(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut out = Vec::new();
    let mut answers = 0;
    parse_ws_message(text, &mut |request| {
        if let Err(error) = request {
            error.write(&mut out);
            answers += 1;
        }
    });
    assert_eq!(Lines::new(&out).count(), answers);
    for name in [
        "create_session",
        "bind_session",
        "control",
        "msg",
        "heartbeat",
    ] {
        parse_http_request(
            name,
            "LS_protocol=TLCP-2.5.0&LS_session=S1",
            text,
            &mut |_| {},
        );
        parse_http_request(name, text, "", &mut |_| {});
    }
}

/// Any bytes as lines of a server: no panic, and a refused payload leaves the item as it was.
pub fn line(data: &[u8]) {
    let mut item = ItemState::new(3);
    for line in Lines::new(data) {
        if let Ok(Line::Update { payload, .. }) = parse_line(line) {
            apply(&mut item, payload);
        }
    }
    // Most random bytes are no update line, so the payload decoder gets them directly, too.
    data.split(|&byte| byte == b'\n')
        .for_each(|payload| apply(&mut item, payload));
}

fn apply(item: &mut ItemState, payload: &[u8]) {
    let before = item.clone();
    if item.apply(payload).is_err() {
        assert_eq!(*item, before);
    }
    assert!(field_tokens(payload).count() <= payload.len() + 1);
    let _ = explicit_field(payload, 2);
}

/// Bytes as a series of value lists: what is encoded decodes to the same values.
///
/// Lists are separated by `0xff`, values by `0xfe`; an empty value is null if its number is odd.
pub fn update(data: &[u8]) {
    const FIELDS: usize = 5;
    let mut previous: Option<Vec<Option<String>>> = None;
    let mut item = ItemState::new(FIELDS);
    for list in data.split(|&byte| byte == 0xff) {
        let mut new: Vec<Option<String>> = list
            .split(|&byte| byte == 0xfe)
            .take(FIELDS)
            .enumerate()
            .map(|(at, value)| {
                let text = String::from_utf8_lossy(value).into_owned();
                (at % 2 == 0 || !text.is_empty()).then_some(text)
            })
            .collect();
        new.resize(FIELDS, None);
        round_trip(&mut item, previous.as_deref(), &new);
        previous = Some(new);
    }
}

/// Encodes `new` against `previous`, applies it to `item` and compares.
pub fn round_trip(
    item: &mut ItemState,
    previous: Option<&[Option<String>]>,
    new: &[Option<String>],
) {
    let mut payload = Vec::new();
    let values = new.iter().map(Option::as_deref);
    match previous {
        None => push_full_payload(&mut payload, values),
        Some(old) => {
            let old = old.iter().map(Option::as_deref);
            let changed = push_delta_payload(&mut payload, old.clone(), values.clone());
            assert_eq!(changed, !old.eq(values));
        }
    }
    assert!(
        payload.iter().all(|&byte| byte >= b' '),
        "control characters are escaped"
    );
    item.apply(&payload).expect("own encoding decodes");
    assert!(
        item.values().eq(new.iter().map(Option::as_deref)),
        "values survive"
    );
}
