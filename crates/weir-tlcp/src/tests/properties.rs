//! Properties over random values, requests and bytes, with the bodies of the fuzz targets.

use crate::client::{
    AddParams, CreateParams, ItemState, Lines, push_add_line, write_create_session,
};
use crate::request::{ControlOp, Mode, Request, parse_http_request, parse_ws_message};
use crate::{PROTOCOL, fuzz};
use proptest::prelude::*;

/// Generates texts of characters that need escaping, and some ordinary ones.
fn special_text() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        prop::sample::select(
            "#$^%|,\r\n\0\t\u{1f}PT0123456789 &=+;\"'é€😀x"
                .chars()
                .collect::<Vec<_>>()
        ),
        any::<char>(),
    ];
    prop_oneof![
        prop::collection::vec(character, 0..12).prop_map(String::from_iter),
        // Long enough for the scan in blocks.
        ("[a-z ]{20,80}", "[|%#\r]{0,2}", "[a-z]{0,40}").prop_map(|(a, b, c)| a + &b + &c),
    ]
}

/// Generates a series of value lists of equal length, with many equal values in consecutive lists.
fn updates() -> impl Strategy<Value = Vec<Vec<Option<String>>>> {
    (1usize..14).prop_flat_map(|fields| {
        let value = prop::option::weighted(0.8, special_text());
        let step = prop::collection::vec(prop::option::weighted(0.3, value), fields);
        prop::collection::vec(step, 1..6).prop_map(move |steps| {
            let mut current: Vec<Option<String>> = vec![None; fields];
            steps
                .into_iter()
                .map(|step| {
                    for (value, change) in current.iter_mut().zip(step) {
                        if let Some(new) = change {
                            *value = new;
                        }
                    }
                    current.clone()
                })
                .collect()
        })
    })
}

/// Generates bytes that often resemble TLCP, so that they pass the first checks.
fn tlcp_bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "wsok",
        "create_session",
        "bind_session",
        "control",
        "msg",
        "heartbeat",
        "\r\n",
        "\r",
        "\n",
        "&",
        "=",
        "%",
        "%2C",
        "%zz",
        "LS_reqId=1",
        "LS_op=add",
        "LS_op=destroy",
        "LS_subId=1",
        "LS_mode=RAW",
        "LS_group=a",
        "LS_schema=b",
        "LS_session=S1",
        "LS_polling=true",
        "LS_message=x",
        "LS_cause_code=-1",
        "U,1,1,",
        "CONOK,S1,1,1,*",
        "END,1,x",
        "SUBOK,1,1,1",
        ",",
        "|",
        "#",
        "$",
        "^",
        "^3",
        "^P",
        "^T",
        "1",
        "é",
    ]);
    let bytes = prop_oneof![
        8 => piece.prop_map(|text: &str| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(bytes, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn encoded_updates_round_trip(lists in updates()) {
        let mut item = ItemState::new(lists[0].len());
        let mut previous: Option<&Vec<Option<String>>> = None;
        for list in &lists {
            fuzz::round_trip(&mut item, previous.map(Vec::as_slice), list);
            previous = Some(list);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in tlcp_bytes()) {
        fuzz::request(&bytes);
        fuzz::line(&bytes);
        fuzz::update(&bytes);
    }

    #[test]
    fn subscriptions_round_trip(
        group in special_text().prop_filter("empty groups are refused", |text| !text.is_empty()),
        schema in special_text().prop_filter("empty schemas are refused", |text| !text.is_empty()),
        sub_id in 1u32..,
        request_id: u64,
    ) {
        let mut out = b"control\r\n".to_vec();
        push_add_line(&mut out, request_id, &AddParams::raw(sub_id, &group, &schema));
        let text = String::from_utf8(out).expect("requests are UTF-8");
        let mut found = Vec::new();
        parse_ws_message(&text, &mut |request| found.push(request));
        prop_assert_eq!(found.len(), 1);
        let Some(Ok(Request::Control(control))) = found.pop() else {
            return Err(TestCaseError::fail(text));
        };
        let expected = request_id.to_string();
        prop_assert_eq!(control.request_id.as_deref(), Some(&*expected));
        let ControlOp::Add(add) = control.op else {
            return Err(TestCaseError::fail(text));
        };
        prop_assert_eq!((add.sub_id, add.mode), (sub_id, Mode::Raw));
        prop_assert_eq!((&*add.group, &*add.schema), (&*group, &*schema));
    }

    #[test]
    fn session_requests_round_trip(user in special_text(), password in special_text()) {
        let params = CreateParams {
            user: Some(&user),
            password: Some(&password),
            ..CreateParams::default()
        };
        let adds = [AddParams::raw(1, "g", "s"), AddParams::raw(2, "g", "s")];
        let mut out = Vec::new();
        write_create_session(&mut out, &params, &adds);
        let text = String::from_utf8(out).expect("requests are UTF-8");
        let mut seen = 0;
        parse_ws_message(&text, &mut |request| {
            let Ok(Request::CreateSession(create)) = request else {
                panic!("not a session request: {text}");
            };
            assert_eq!(create.user.as_deref(), Some(&*user));
            assert_eq!(create.password.as_ref().map(|secret| secret.reveal()), Some(&*password));
            assert_eq!(create.controls.len(), 2);
            seen += 1;
        });
        prop_assert_eq!(seen, 1);
    }

    #[test]
    fn batches_split_at_cr_lf(groups in prop::collection::vec(special_text(), 1..20)) {
        let mut body = Vec::new();
        for (at, group) in groups.iter().enumerate() {
            if at > 0 {
                body.extend_from_slice(b"\r\n");
            }
            push_add_line(&mut body, at as u64, &AddParams::raw(1, group, "s"));
        }
        let body = String::from_utf8(body).expect("requests are UTF-8");
        let query = format!("LS_protocol={PROTOCOL}&LS_session=S1");
        let mut ids = Vec::new();
        parse_http_request("control", &query, &body, &mut |line| ids.push(match line {
            Ok(Request::Control(control)) => control.request_id.unwrap_or_default().into_owned(),
            Ok(other) => panic!("not a control request: {other:?}"),
            Err(error) => error.request_id().unwrap_or_default().to_owned(),
        }));
        let expected: Vec<_> = (0..groups.len()).map(|at| at.to_string()).collect();
        prop_assert_eq!(ids, expected);
    }

    #[test]
    fn chunked_streams_yield_same_lines(bytes in tlcp_bytes(), cut: prop::sample::Index) {
        let whole: Vec<_> = Lines::new(&bytes).map(<[u8]>::to_vec).collect();
        let (front, back) = bytes.split_at(cut.index(bytes.len() + 1));
        let mut lines = Lines::new(front);
        let mut found: Vec<_> = lines.by_ref().map(<[u8]>::to_vec).collect();
        let joined = [lines.remainder(), back].concat();
        found.extend(Lines::new(&joined).map(<[u8]>::to_vec));
        prop_assert_eq!(found, whole);
    }
}
