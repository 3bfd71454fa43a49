//! Encoding of requests. `push_*_line` appends one parameter line, which is also an HTTP body;
//! `write_*` appends a WebSocket message.

use crate::request::Mode;
use crate::text::{push_number, push_request_value};
use crate::{CUSTOM_CLIENT_CID, PATH_PREFIX, PROTOCOL};

/// Parameters of `create_session`; `None` is not sent.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // named after the parameters of chapter 5.2
pub struct CreateParams<'a> {
    pub cid: &'a str,
    pub adapter_set: Option<&'a str>,
    pub user: Option<&'a str>,
    pub password: Option<&'a str>,
    pub supported_diffs: Option<&'a str>,
    pub keepalive_ms: Option<u64>,
    pub inactivity_ms: Option<u64>,
    pub content_length: Option<u64>,
    pub polling: Option<PollingParams>,
    /// `false` is sent as `LS_send_sync=false`.
    pub send_sync: bool,
    pub reduce_head: bool,
    pub old_session: Option<&'a str>,
    pub cause: Option<&'a str>,
}

impl Default for CreateParams<'_> {
    /// Parameters of a load client: plain values without diffs, no `SYNC`.
    fn default() -> Self {
        Self {
            cid: CUSTOM_CLIENT_CID,
            adapter_set: None,
            user: None,
            password: None,
            supported_diffs: Some(""),
            keepalive_ms: None,
            inactivity_ms: None,
            content_length: None,
            polling: None,
            send_sync: false,
            reduce_head: false,
            old_session: None,
            cause: None,
        }
    }
}

/// Times of a polling connection, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct PollingParams {
    pub interval_ms: u64,
    pub idle_ms: u64,
}

/// Parameters of `bind_session`; `None` is not sent.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // named after the parameters of chapter 5.3
pub struct BindParams<'a> {
    pub session: Option<&'a str>,
    pub recovery_from: Option<u64>,
    pub keepalive_ms: Option<u64>,
    pub content_length: Option<u64>,
    pub polling: Option<PollingParams>,
    pub send_sync: bool,
    pub cause: Option<&'a str>,
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
    pub selector: Option<&'a str>,
    pub requested_buffer_size: Option<&'a str>,
    pub requested_max_frequency: Option<&'a str>,
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
            selector: None,
            requested_buffer_size: None,
            requested_max_frequency: None,
            snapshot: None,
            ack: false,
        }
    }
}

/// Returns the target of an HTTP request, for example of `create_session`.
pub fn http_target(name: &str, session: Option<&str>) -> String {
    let mut target = format!("{PATH_PREFIX}/{name}.txt?LS_protocol={PROTOCOL}");
    if let Some(id) = session {
        target.push_str("&LS_session=");
        target.push_str(id);
    }
    target
}

/// Appends a `wsok` message.
pub fn write_wsok(out: &mut Vec<u8>) {
    out.extend_from_slice(b"wsok");
}

/// Appends a `create_session` message. With `adds` it is a combo request, without their `ack`.
pub fn write_create_session(out: &mut Vec<u8>, create: &CreateParams<'_>, adds: &[AddParams<'_>]) {
    out.extend_from_slice(b"create_session\r\n");
    push_create_line(out, create);
    for add in adds {
        out.extend_from_slice(b"\r\n");
        Pairs::new(out).add(add);
    }
}

/// Appends a `bind_session` message.
pub fn write_bind(out: &mut Vec<u8>, bind: &BindParams<'_>) {
    out.extend_from_slice(b"bind_session\r\n");
    push_bind_line(out, bind);
}

/// Appends a `control` message that subscribes. Further lines may follow after a CR LF.
pub fn write_add(out: &mut Vec<u8>, request_id: u64, add: &AddParams<'_>) {
    out.extend_from_slice(b"control\r\n");
    push_add_line(out, request_id, add);
}

/// Appends a `control` message that unsubscribes.
pub fn write_delete(out: &mut Vec<u8>, request_id: u64, sub_id: u32, ack: bool) {
    out.extend_from_slice(b"control\r\n");
    push_delete_line(out, request_id, sub_id, ack);
}

/// Appends a `control` message that destroys the session and makes the server close the socket.
pub fn write_destroy(out: &mut Vec<u8>, request_id: u64) {
    out.extend_from_slice(b"control\r\n");
    push_destroy_line(out, request_id);
}

/// Appends a `heartbeat` message.
pub fn write_heartbeat(out: &mut Vec<u8>) {
    out.extend_from_slice(b"heartbeat\r\n\r\n");
}

/// Appends the parameter line of `create_session`.
pub fn push_create_line(out: &mut Vec<u8>, create: &CreateParams<'_>) {
    let mut pairs = Pairs::new(out);
    pairs.stream(
        create.keepalive_ms,
        create.content_length,
        create.polling,
        create.send_sync,
    );
    if create.polling.is_none() {
        pairs.number("LS_inactivity_millis", create.inactivity_ms);
    }
    pairs.text("LS_adapter_set", create.adapter_set);
    pairs.text("LS_user", create.user);
    pairs.text("LS_cid", Some(create.cid));
    pairs.text("LS_supported_diffs", create.supported_diffs);
    pairs.text("LS_reduce_head", create.reduce_head.then_some("true"));
    pairs.text("LS_old_session", create.old_session);
    pairs.text("LS_cause", create.cause);
    pairs.text("LS_password", create.password);
}

/// Appends the parameter line of `bind_session`.
pub fn push_bind_line(out: &mut Vec<u8>, bind: &BindParams<'_>) {
    let mut pairs = Pairs::new(out);
    pairs.text("LS_session", bind.session);
    pairs.number("LS_recovery_from", bind.recovery_from);
    pairs.stream(
        bind.keepalive_ms,
        bind.content_length,
        bind.polling,
        bind.send_sync,
    );
    pairs.text("LS_cause", bind.cause);
}

/// Appends the parameter line of `LS_op=add`.
pub fn push_add_line(out: &mut Vec<u8>, request_id: u64, add: &AddParams<'_>) {
    let mut pairs = Pairs::new(out);
    pairs.number("LS_reqId", Some(request_id));
    pairs.add(add);
    pairs.ack(add.ack);
}

/// Appends the parameter line of `LS_op=delete`.
pub fn push_delete_line(out: &mut Vec<u8>, request_id: u64, sub_id: u32, ack: bool) {
    let mut pairs = Pairs::new(out);
    pairs.number("LS_reqId", Some(request_id));
    pairs.text("LS_op", Some("delete"));
    pairs.number("LS_subId", Some(sub_id.into()));
    pairs.ack(ack);
}

/// Appends the parameter line of `LS_op=destroy`.
pub fn push_destroy_line(out: &mut Vec<u8>, request_id: u64) {
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

    fn ack(&mut self, ack: bool) {
        self.text("LS_ack", (!ack).then_some("false"));
    }

    fn stream(
        &mut self,
        keepalive_ms: Option<u64>,
        content_length: Option<u64>,
        polling: Option<PollingParams>,
        send_sync: bool,
    ) {
        self.number("LS_content_length", content_length);
        match polling {
            Some(times) => {
                self.text("LS_polling", Some("true"));
                self.number("LS_polling_millis", Some(times.interval_ms));
                self.number("LS_idle_millis", Some(times.idle_ms));
            }
            None => {
                self.number("LS_keepalive_millis", keepalive_ms);
                self.text("LS_send_sync", (!send_sync).then_some("false"));
            }
        }
    }

    fn add(&mut self, add: &AddParams<'_>) {
        self.text("LS_op", Some("add"));
        self.number("LS_subId", Some(add.sub_id.into()));
        self.text("LS_mode", Some(add.mode.as_str()));
        self.text("LS_group", Some(add.group));
        self.text("LS_schema", Some(add.schema));
        self.text("LS_data_adapter", add.data_adapter);
        self.text("LS_selector", add.selector);
        self.text("LS_requested_buffer_size", add.requested_buffer_size);
        self.text("LS_requested_max_frequency", add.requested_max_frequency);
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
        write_add(&mut out, 1, &AddParams::raw(2, "item1", "n a"));
        let expected = "control\r\nLS_reqId=1&LS_op=add&LS_subId=2&LS_mode=RAW&LS_group=item1\
                        &LS_schema=n%20a&LS_ack=false";
        assert_eq!(String::from_utf8_lossy(&out), expected);
        assert_eq!(
            http_target("control", Some("S1")),
            "/lightstreamer/control.txt?LS_protocol=TLCP-2.5.0&LS_session=S1"
        );
    }
}
