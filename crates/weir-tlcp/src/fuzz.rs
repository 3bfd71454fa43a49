//! Bodies of the fuzz targets, also run by property tests. Not a public API.

use crate::client::{ItemState, Line, Lines, explicit_field, field_tokens, parse_line};
use crate::diff::{
    DiffBudget, DiffFormat, DiffOptions, DiffOrder, DiffOutcome, FieldDiffs, apply_json_patch,
    apply_tlcp_diff, push_json_patch, push_tlcp_diff,
};
use crate::request::{Diffs, parse_http_request, parse_ws_message};
use crate::server::{push_delta_payload, push_delta_payload_by, push_full_payload};
use crate::text::push_value;

/// Parses bytes as a request: never panics, and every error is encoded as exactly one line.
pub fn request(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut out = Vec::new();
    let mut errors = 0;
    parse_ws_message(text, &mut |request| {
        if let Err(error) = request {
            error.write(&mut out);
            errors += 1;
        }
    });
    assert_eq!(Lines::new(&out).count(), errors);
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

/// Parses bytes as lines of a server: never panics, and an invalid payload changes no item.
pub fn line(data: &[u8]) {
    let mut item = ItemState::accepting(3, Diffs::ANY);
    for line in Lines::new(data) {
        if let Ok(Line::Update { payload, .. }) = parse_line(line) {
            apply(&mut item, payload);
        }
    }
    // Random bytes rarely form an update line, so they are also decoded as a payload.
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

/// Encodes and decodes a series of value lists; the values must be preserved.
///
/// Lists are separated by `0xff`, values by `0xfe`; an empty value with an odd index is null.
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

/// Encodes `new` against `previous`, applies the result to `item` and compares.
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
    item.apply(&payload).expect("encoded payload is valid");
    assert!(
        item.values().eq(new.iter().map(Option::as_deref)),
        "values are preserved"
    );
}

/// Takes two texts, separated by `0xff`. A diff from the first to the second must produce the
/// second, in both forms. The second text, applied as a diff, must not panic.
pub fn tlcp_diff(data: &[u8]) {
    let mut texts = data
        .split(|&byte| byte == 0xff)
        .map(String::from_utf8_lossy);
    let (old, new) = (
        texts.next().unwrap_or_default(),
        texts.next().unwrap_or_default(),
    );
    let _ = apply_tlcp_diff(&old, &new);
    for portable in [false, true] {
        let mut diff = String::new();
        if push_tlcp_diff(&mut diff, &old, &new, portable, usize::MAX) {
            assert_eq!(
                apply_tlcp_diff(&old, &diff).as_deref(),
                Some(&*new),
                "{diff}"
            );
        }
        let full = diff.len();
        assert!(full == 0 || !push_tlcp_diff(&mut diff, &old, &new, portable, full - 1));
        assert_eq!(
            diff.len(),
            full,
            "a diff over the limit leaves the output unchanged"
        );
    }
}

/// Takes two texts, separated by `0xff`. A patch from the first to the second must produce the
/// second without white space. The second text, applied as a patch, must not panic. Returns the
/// patch.
pub fn json_patch(data: &[u8]) -> Option<String> {
    let mut texts = data
        .split(|&byte| byte == 0xff)
        .map(String::from_utf8_lossy);
    let (old, new) = (
        texts.next().unwrap_or_default(),
        texts.next().unwrap_or_default(),
    );
    let _ = apply_json_patch(&old, &new);
    let mut patch = String::new();
    if !push_json_patch(&mut patch, &old, &new, usize::MAX) {
        assert!(patch.is_empty());
        return None;
    }
    let compact = apply_json_patch(&new, "[]");
    assert_eq!(apply_json_patch(&old, &patch), compact, "{patch}");
    let mut short = String::new();
    assert!(!push_json_patch(&mut short, &old, &new, patch.len() - 1) || short.len() < patch.len());
    Some(patch)
}

/// Sends a series of values of one field, with all diffs that the rules allow, to a strict client.
/// Values are separated by `0xff`; one that starts with `0xfe` is null.
pub fn diffs(data: &[u8], formats: &[DiffFormat], portable: bool) {
    let settings = DiffOptions {
        order: DiffOrder::of(formats.iter().copied()),
        json_patch_min_bytes: 0,
        tlcp_diff_min_bytes: 0,
        portable,
        ..DiffOptions::default()
    };
    let mut budget = DiffBudget::new(u64::from(u32::MAX), 0);
    let mut item = ItemState::accepting(1, Diffs::ANY);
    let (mut previous, mut patched) = (None, false);
    for value in data.split(|&byte| byte == 0xff) {
        let new =
            (value.first() != Some(&0xfe)).then(|| String::from_utf8_lossy(value).into_owned());
        let mut payload = Vec::new();
        let values = [new.as_deref()];
        match &previous {
            None => push_full_payload(&mut payload, values),
            Some(previous) => {
                let previous: [Option<&str>; 1] = [Option::as_deref(previous)];
                push_delta_payload_by(&mut payload, previous, values, |out, _, before, value| {
                    let mut field = FieldDiffs {
                        settings: &settings,
                        budget: &mut budget,
                        scratch: &mut String::new(),
                    };
                    match field.push(out, before, value, patched) {
                        DiffOutcome::Pushed(DiffFormat::JsonPatch) => patched = true,
                        DiffOutcome::Pushed(DiffFormat::TlcpDiff) => {}
                        _ => {
                            push_value(out, value);
                            patched = false;
                        }
                    }
                });
            }
        }
        item.apply(&payload).expect("client can apply the token");
        let as_read = |text: &str| apply_json_patch(text, "[]").unwrap_or_else(|| text.to_owned());
        match patched {
            // Only white space and escapes may differ, and escapes do not here.
            true => assert_eq!(item.value(1).map(as_read), new.as_deref().map(as_read)),
            false => assert_eq!(item.value(1), new.as_deref()),
        }
        previous = Some(new);
    }
}
