//! Lines that need no session state. Each function appends one line with CR LF.

use crate::codes::{ControlCode, SessionCode};
use crate::text::{push_argument, push_number};

/// Appends `WSOK`.
pub fn write_wsok(out: &mut Vec<u8>) {
    write_tag(out, "WSOK");
}

/// Appends `CONERR`: a `create_session` or `bind_session` failed.
pub fn write_conerr(out: &mut Vec<u8>, code: SessionCode, message: &str) {
    write_failure(out, "CONERR,", code.code(), message);
}

/// Appends `REQOK`; without an id, the response to an HTTP `heartbeat`.
pub fn write_reqok(out: &mut Vec<u8>, request_id: Option<&str>) {
    match request_id {
        None => write_tag(out, "REQOK"),
        Some(id) => {
            out.extend_from_slice(b"REQOK,");
            push_argument(out, id);
            push_line_end(out);
        }
    }
}

/// Appends `REQERR`: a control request or a message was refused.
pub fn write_reqerr(out: &mut Vec<u8>, request_id: &str, code: ControlCode, message: &str) {
    out.extend_from_slice(b"REQERR,");
    push_argument(out, request_id);
    write_failure(out, ",", code.code(), message);
}

/// Appends `MSGDONE`, a data notification: a client message was processed, without a response text.
/// `sequence` is `None` for unordered messages.
pub fn write_msgdone(out: &mut Vec<u8>, sequence: Option<&str>, prog: u32) {
    out.extend_from_slice(b"MSGDONE,");
    push_argument(out, sequence.unwrap_or("*"));
    out.push(b',');
    push_number(out, prog);
    out.push(b',');
    push_line_end(out);
}

/// Appends `MSGFAIL`, a data notification: a client message was not processed. `sequence` is `None`
/// for unordered messages.
pub fn write_msgfail(
    out: &mut Vec<u8>,
    sequence: Option<&str>,
    prog: u32,
    code: ControlCode,
    message: &str,
) {
    out.extend_from_slice(b"MSGFAIL,");
    push_argument(out, sequence.unwrap_or("*"));
    out.push(b',');
    push_number(out, prog);
    write_failure(out, ",", code.code(), message);
}

/// Appends `ERROR`, only for requests without a usable id, because official SDKs end their session.
pub fn write_error(out: &mut Vec<u8>, code: ControlCode, message: &str) {
    write_failure(out, "ERROR,", code.code(), message);
}

/// Appends `END`: the session is closed.
pub fn write_end(out: &mut Vec<u8>, code: SessionCode, message: &str) {
    write_failure(out, "END,", code.code(), message);
}

/// Appends `LOOP`: the session is unbound; the client should bind again after `delay_ms`.
pub fn write_loop(out: &mut Vec<u8>, delay_ms: u64) {
    write_numbers(out, "LOOP", &[delay_ms]);
}

/// Appends `PROG`: the next data notification on this connection has the number `count` + 1.
pub fn write_prog(out: &mut Vec<u8>, count: u64) {
    write_numbers(out, "PROG", &[count]);
}

/// Appends CR LF, the end of every line.
pub fn push_line_end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

pub(super) fn write_tag(out: &mut Vec<u8>, tag: &str) {
    out.extend_from_slice(tag.as_bytes());
    push_line_end(out);
}

pub(super) fn write_numbers(out: &mut Vec<u8>, tag: &str, numbers: &[u64]) {
    out.extend_from_slice(tag.as_bytes());
    for &number in numbers {
        out.push(b',');
        push_number(out, number);
    }
    push_line_end(out);
}

pub(super) fn write_text(out: &mut Vec<u8>, tag: &str, text: &str) {
    out.extend_from_slice(tag.as_bytes());
    out.push(b',');
    push_argument(out, text);
    push_line_end(out);
}

fn write_failure(out: &mut Vec<u8>, before: &str, code: i32, message: &str) {
    out.extend_from_slice(before.as_bytes());
    push_number(out, code);
    out.push(b',');
    push_argument(out, message);
    push_line_end(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_cr_lf_and_are_escaped() {
        let mut out = Vec::new();
        write_wsok(&mut out);
        write_conerr(
            &mut out,
            SessionCode::ADAPTER_SET_UNKNOWN,
            "no such set, sorry",
        );
        write_reqok(&mut out, None);
        write_reqok(&mut out, Some("7"));
        write_reqerr(&mut out, "8", ControlCode::BAD_GROUP, "100%\r\n");
        write_msgfail(&mut out, None, 3, ControlCode::UNSUPPORTED, "a, b");
        write_msgfail(&mut out, Some("S_1"), 1, ControlCode::REFUSED, "no");
        write_msgdone(&mut out, None, 4);
        write_msgdone(&mut out, Some("S_1"), 2);
        write_error(
            &mut out,
            ControlCode::MALFORMED,
            ControlCode::MALFORMED.text(),
        );
        write_end(&mut out, SessionCode::from_code(-3), "bye");
        write_loop(&mut out, 0);
        write_prog(&mut out, 7);
        let expected = "WSOK\r\nCONERR,2,no such set%2C sorry\r\nREQOK\r\nREQOK,7\r\n\
                        REQERR,8,21,100%25%0D%0A\r\nMSGFAIL,*,3,0,a%2C b\r\n\
                        MSGFAIL,S_1,1,-1,no\r\nMSGDONE,*,4,\r\nMSGDONE,S_1,2,\r\n\
                        ERROR,67,Malformed request\r\n\
                        END,-3,bye\r\nLOOP,0\r\nPROG,7\r\n";
        assert_eq!(String::from_utf8(out).expect("UTF-8"), expected);
    }
}
