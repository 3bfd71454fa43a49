//! Encoding of WebSocket messages, each as one function, and of a line of a `control` message.

use crate::CUSTOM_CLIENT_CID;
use crate::request::Mode;
use crate::text::{push_number, push_request_value};

/// Parameters of `create_session`; `None` is not sent.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // named after the parameters of chapter 5.2
pub struct CreateParams<'a> {
    pub adapter_set: Option<&'a str>,
    pub user: Option<&'a str>,
    pub password: Option<&'a str>,
    pub supported_diffs: Option<&'a str>,
    pub keepalive_ms: Option<u64>,
    pub inactivity_ms: Option<u64>,
    /// `false` is sent as `LS_send_sync=false`.
    pub send_sync: bool,
    pub reduce_head: bool,
}

impl Default for CreateParams<'_> {
    /// Parameters of a load client: plain values without diffs, no `SYNC`.
    fn default() -> Self {
        Self {
            adapter_set: None,
            user: None,
            password: None,
            supported_diffs: Some(""),
            keepalive_ms: None,
            inactivity_ms: None,
            send_sync: false,
            reduce_head: false,
        }
    }
}

/// Parameters of `LS_op=add`; `None` is not sent.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // named after the parameters of chapter 5.4
pub struct AddParams<'a> {
    pub sub_id: u32,
    pub group: &'a str,
    pub schema: &'a str,
    pub mode: Mode,
    pub data_adapter: Option<&'a str>,
    pub snapshot: Option<&'a str>,
    /// `false` is sent as `LS_ack=false`.
    pub ack: bool,
}

impl<'a> AddParams<'a> {
    /// Returns a subscription in mode RAW without acknowledgement.
    pub fn raw(sub_id: u32, group: &'a str, schema: &'a str) -> Self {
        Self {
            sub_id,
            group,
            schema,
            mode: Mode::Raw,
            data_adapter: None,
            snapshot: None,
            ack: false,
        }
    }
}

/// Appends a `create_session` message. With `adds` it is a combo request, without their `ack`.
pub(crate) fn write_create_session(
    out: &mut Vec<u8>,
    create: &CreateParams<'_>,
    adds: &[AddParams<'_>],
) {
    out.extend_from_slice(b"create_session\r\n");
    let mut pairs = Pairs::new(out);
    pairs.stream(create.keepalive_ms, create.send_sync);
    pairs.number("LS_inactivity_millis", create.inactivity_ms);
    pairs.text("LS_adapter_set", create.adapter_set);
    pairs.text("LS_user", create.user);
    pairs.text("LS_cid", Some(CUSTOM_CLIENT_CID));
    pairs.text("LS_supported_diffs", create.supported_diffs);
    pairs.text("LS_reduce_head", create.reduce_head.then_some("true"));
    pairs.text("LS_password", create.password);
    for add in adds {
        out.extend_from_slice(b"\r\n");
        Pairs::new(out).add(add);
    }
}

pub(super) fn write_bind(
    out: &mut Vec<u8>,
    session: &str,
    keepalive_ms: Option<u64>,
    send_sync: bool,
) {
    out.extend_from_slice(b"bind_session\r\n");
    let mut pairs = Pairs::new(out);
    pairs.text("LS_session", Some(session));
    pairs.stream(keepalive_ms, send_sync);
}

/// Appends the line of a `control` message that subscribes.
pub(crate) fn push_add_line(out: &mut Vec<u8>, request_id: u64, add: &AddParams<'_>) {
    let mut pairs = Pairs::new(out);
    pairs.number("LS_reqId", Some(request_id));
    pairs.add(add);
    pairs.text("LS_ack", (!add.ack).then_some("false"));
}

pub(super) fn write_delete(out: &mut Vec<u8>, request_id: u64, sub_id: u32) {
    out.extend_from_slice(b"control\r\n");
    let mut pairs = Pairs::new(out);
    pairs.number("LS_reqId", Some(request_id));
    pairs.text("LS_op", Some("delete"));
    pairs.number("LS_subId", Some(sub_id.into()));
}

/// Appends a `control` message that destroys the session and makes the server close the socket.
pub(super) fn write_destroy(out: &mut Vec<u8>, request_id: u64) {
    out.extend_from_slice(b"control\r\n");
    let mut pairs = Pairs::new(out);
    pairs.number("LS_reqId", Some(request_id));
    pairs.text("LS_op", Some("destroy"));
    pairs.text("LS_close_socket", Some("true"));
}

/// Writer of `name=value` pairs, separated by `&`.
struct Pairs<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Pairs<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, first: true }
    }

    fn name(&mut self, name: &str) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b'&');
        }
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'=');
    }

    fn text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.name(name);
            push_request_value(self.out, value);
        }
    }

    fn number(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.name(name);
            push_number(self.out, value);
        }
    }

    fn stream(&mut self, keepalive_ms: Option<u64>, send_sync: bool) {
        self.number("LS_keepalive_millis", keepalive_ms);
        self.text("LS_send_sync", (!send_sync).then_some("false"));
    }

    fn add(&mut self, add: &AddParams<'_>) {
        self.text("LS_op", Some("add"));
        self.number("LS_subId", Some(add.sub_id.into()));
        self.text("LS_mode", Some(add.mode.as_str()));
        self.text("LS_group", Some(add.group));
        self.text("LS_schema", Some(add.schema));
        self.text("LS_data_adapter", add.data_adapter);
        self.text("LS_snapshot", add.snapshot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_match_sdk_format() {
        let mut out = Vec::new();
        let params = CreateParams {
            adapter_set: Some("WELCOME"),
            ..CreateParams::default()
        };
        write_create_session(&mut out, &params, &[]);
        let expected = "create_session\r\nLS_send_sync=false&LS_adapter_set=WELCOME\
                        &LS_cid=mgQkwtwdysogQz2BJ4Ji%20kOj2Bg&LS_supported_diffs=";
        assert_eq!(String::from_utf8_lossy(&out), expected);
        out.clear();
        push_add_line(&mut out, 1, &AddParams::raw(2, "item1", "n a"));
        let expected = "LS_reqId=1&LS_op=add&LS_subId=2&LS_mode=RAW&LS_group=item1\
                        &LS_schema=n%20a&LS_ack=false";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
