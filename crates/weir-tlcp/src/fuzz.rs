//! Bodies of the fuzz targets, also run by property tests. Not part of the API.

use crate::client::{ItemState, Line, Lines, explicit_field, field_tokens, parse_line};
use crate::diff::{
    DiffBudget, DiffFormat, DiffOrder, DiffOutcome, DiffSettings, FieldDiffs, apply_json_patch,
    apply_tlcp_diff, push_json_patch, push_tlcp_diff,
};
use crate::request::{Diffs, parse_http_request, parse_ws_message};
use crate::server::{push_delta_payload, push_delta_payload_by, push_full_payload};
use crate::text::push_value;

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
    let mut item = ItemState::accepting(3, Diffs::ANY);
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

/// Two texts, separated by `0xff`: a diff from the first to the second gives the second, in either
/// form, and the second one as a diff is refused or applied without harm.
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
        assert_eq!(diff.len(), full, "a diff that is too long leaves nothing");
    }
}

/// Two texts, separated by `0xff`: a patch from the first to the second gives the second without
/// its white space, and the second one as a patch is refused or applied without harm. Returns the
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

/// A series of values of one field, sent with whatever diffs the rules allow, against a client that
/// refuses what an SDK would. Values are separated by `0xff`; one that begins with `0xfe` is null.
pub fn diffs(data: &[u8], formats: &[DiffFormat], portable: bool) {
    let settings = DiffSettings {
        order: DiffOrder::of(formats.iter().copied()),
        json_patch_min_bytes: 0,
        tlcp_diff_min_bytes: 0,
        portable,
        ..DiffSettings::default()
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
        item.apply(&payload)
            .expect("a client can apply what is sent");
        let as_read = |text: &str| apply_json_patch(text, "[]").unwrap_or_else(|| text.to_owned());
        match patched {
            // Only white space and the spelling of escapes may differ, and the latter does not here.
            true => assert_eq!(item.value(1).map(as_read), new.as_deref().map(as_read)),
            false => assert_eq!(item.value(1), new.as_deref()),
        }
        previous = Some(new);
    }
}
