//! Encodes events. Names are encoded once per frame class, and each event once for all members.

use weir_tlcp::text::push_number;

use crate::notice::ItemNotice;
use crate::schema::FieldSchema;

/// Form of an event on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventForm {
    /// Lines of `text/event-stream`, with an empty line after them.
    ServerSent,
    /// A JSON document, which is a message of a WebSocket.
    Json,
}

/// Event that is not about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventNotice<'a> {
    /// Event that is sent when nothing else was for some time.
    Heartbeat,
    /// The id of the position that the client has reached, without an event.
    Position(&'a str),
    /// Missed records of this item cannot be sent, for this reason.
    Reset(&'a str, &'a str),
    /// The client is logged in.
    Open,
    /// Records of this item follow.
    Subscribed(&'a str),
    /// No more events of this item follow.
    Unsubscribed(&'a str),
    /// A subscription, or its end, is refused for this item, with code and text of `REQERR`.
    Refused(&'a str, i32, &'a str),
    /// End of the stream, with code and text of `END` or `CONERR`.
    End(i32, &'a str),
}

impl EventNotice<'_> {
    fn name(self) -> &'static str {
        match self {
            Self::Heartbeat | Self::Position(_) => "heartbeat",
            Self::Reset(..) => "reset",
            Self::Open => "open",
            Self::Subscribed(_) => "subscribed",
            Self::Unsubscribed(_) => "unsubscribed",
            Self::Refused(..) => "refused",
            Self::End(..) => "end",
        }
    }
}

/// The kinds of events with values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValuesEvent {
    /// Values before the first update.
    Snapshot,
    /// Values after an update.
    Update,
}

/// Names of an item and its fields as a class of events contains them.
#[derive(Debug)]
pub(crate) struct EventEncoder {
    form: EventForm,
    /// The member `item`.
    item: Box<[u8]>,
    /// Names of the fields as JSON strings, in the order of the schema.
    fields: Box<[Box<[u8]>]>,
}

impl EventEncoder {
    pub(crate) fn new(form: EventForm, item: &str, schema: &FieldSchema) -> Self {
        let mut member = b"\"item\":".to_vec();
        push_text(&mut member, item);
        let name = |name| {
            let mut text = Vec::new();
            push_text(&mut text, name);
            text.into_boxed_slice()
        };
        Self {
            form,
            item: member.into(),
            fields: schema.names().map(name).collect(),
        }
    }

    /// Appends an event with the values of all fields, and an id unless that is empty.
    pub(crate) fn push_values<'a>(
        &self,
        out: &mut Vec<u8>,
        (event, id): (ValuesEvent, &str),
        values: impl Iterator<Item = Option<&'a str>>,
    ) {
        let name = match event {
            ValuesEvent::Snapshot => "snapshot",
            ValuesEvent::Update => "update",
        };
        self.begin(out, name);
        out.extend_from_slice(b",\"values\":{");
        for (index, (field, value)) in self.fields.iter().zip(values).enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(field);
            out.push(b':');
            match value {
                Some(text) => push_text(out, text),
                None => out.extend_from_slice(b"null"),
            }
        }
        out.push(b'}');
        self.form.end_with(out, id);
    }

    /// Appends an event of the item without values.
    pub(crate) fn push_notice(&self, out: &mut Vec<u8>, notice: ItemNotice) {
        let name = match notice {
            ItemNotice::Clear => "clear",
            ItemNotice::EndOfSnapshot => "end-of-snapshot",
            ItemNotice::Lost(_) => "lost",
        };
        self.begin(out, name);
        if let ItemNotice::Lost(count) = notice {
            out.extend_from_slice(b",\"count\":");
            push_number(out, count);
        }
        self.form.end(out);
    }

    fn begin(&self, out: &mut Vec<u8>, name: &str) {
        self.form.begin(out, name);
        if self.form == EventForm::Json {
            out.push(b',');
        }
        out.extend_from_slice(&self.item);
    }
}

impl EventForm {
    /// Appends the name of an event and the start of its document.
    fn begin(self, out: &mut Vec<u8>, name: &str) {
        let (before, after): (&[u8], &[u8]) = match self {
            Self::ServerSent => (b"event: ", b"\ndata: {"),
            Self::Json => (b"{\"event\":\"", b"\""),
        };
        out.extend_from_slice(before);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(after);
    }

    fn end(self, out: &mut Vec<u8>) {
        self.end_with(out, "");
    }

    /// Ends a document, with an id unless that is empty. An id needs no escapes.
    fn end_with(self, out: &mut Vec<u8>, id: &str) {
        let (before, end): (&[u8], &[u8]) = match (self, id) {
            (Self::ServerSent, "") => (b"}", b"\n\n"),
            (Self::ServerSent, _) => (b"}\nid: ", b"\n\n"),
            (Self::Json, "") => (b"", b"}"),
            (Self::Json, _) => (b",\"id\":\"", b"\"}"),
        };
        out.extend_from_slice(before);
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(end);
    }
}

/// Appends an event without values.
pub fn push_notice(out: &mut Vec<u8>, form: EventForm, notice: EventNotice<'_>) {
    match (notice, form) {
        (EventNotice::Heartbeat, EventForm::ServerSent) => {
            return out.extend_from_slice(b":\n\n");
        }
        (EventNotice::Position(id), EventForm::ServerSent) => {
            // Without data, this sets the last id and is no event.
            return out.extend_from_slice(format!("id: {id}\n\n").as_bytes());
        }
        _ => {}
    }
    form.begin(out, notice.name());
    let mut separator: &[u8] = match form {
        EventForm::ServerSent => b"",
        EventForm::Json => b",",
    };
    let mut member = |out: &mut Vec<u8>, name: &str, value: NoticeValue<'_>| {
        out.extend_from_slice(std::mem::replace(&mut separator, b","));
        push_text(out, name);
        out.push(b':');
        match value {
            NoticeValue::Text(text) => push_text(out, text),
            NoticeValue::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
        }
    };
    match notice {
        EventNotice::Heartbeat | EventNotice::Open => {}
        EventNotice::Position(id) => member(out, "id", NoticeValue::Text(id)),
        EventNotice::Reset(item, reason) => {
            member(out, "item", NoticeValue::Text(item));
            member(out, "reason", NoticeValue::Text(reason));
        }
        EventNotice::Subscribed(item) | EventNotice::Unsubscribed(item) => {
            member(out, "item", NoticeValue::Text(item));
        }
        EventNotice::Refused(item, code, text) => {
            member(out, "item", NoticeValue::Text(item));
            member(out, "code", NoticeValue::Number(code));
            member(out, "message", NoticeValue::Text(text));
        }
        EventNotice::End(code, text) => {
            member(out, "code", NoticeValue::Number(code));
            member(out, "message", NoticeValue::Text(text));
        }
    }
    form.end(out);
}

/// Value of a member of a document.
enum NoticeValue<'a> {
    Text(&'a str),
    Number(i32),
}

/// Appends a JSON string. Line ends are escaped, so that no value can end a line of the stream.
fn push_text(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| needs_escape(*byte)) {
        let (plain, escaped) = rest.split_at(at);
        out.extend_from_slice(plain);
        match escaped[0] {
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte => {
                let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&digits);
            }
        }
        rest = &escaped[1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || matches!(byte, b'"' | b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    fn encoder(form: EventForm, item: &str, fields: &[&str]) -> EventEncoder {
        EventEncoder::new(form, item, &FieldSchema::named(&fields.join(" ")))
    }

    fn update(form: EventForm, id: &str) -> String {
        let values = [Some("1.5"), None].into_iter();
        let encoder = encoder(form, "o-1", &["price", "note"]);
        text(|out| encoder.push_values(out, (ValuesEvent::Update, id), values))
    }

    #[test]
    fn update_in_both_forms() {
        assert_eq!(
            update(EventForm::ServerSent, ""),
            "event: update\n\
             data: {\"item\":\"o-1\",\"values\":{\"price\":\"1.5\",\"note\":null}}\n\n"
        );
        assert_eq!(
            update(EventForm::Json, ""),
            r#"{"event":"update","item":"o-1","values":{"price":"1.5","note":null}}"#
        );
        assert_eq!(
            update(EventForm::ServerSent, "AQx"),
            "event: update\n\
             data: {\"item\":\"o-1\",\"values\":{\"price\":\"1.5\",\"note\":null}}\n\
             id: AQx\n\n"
        );
        assert_eq!(
            update(EventForm::Json, "AQx"),
            r#"{"event":"update","item":"o-1","values":{"price":"1.5","note":null},"id":"AQx"}"#
        );
    }

    #[test]
    fn events_without_values() {
        let json = encoder(EventForm::Json, "i", &[]);
        let notice = |notice| text(|out| json.push_notice(out, notice));
        let clear = r#"{"event":"clear","item":"i"}"#;
        assert_eq!(notice(ItemNotice::Clear), clear);
        let lost = r#"{"event":"lost","item":"i","count":3}"#;
        assert_eq!(notice(ItemNotice::Lost(3)), lost);
        let end = r#"{"event":"end-of-snapshot","item":"i"}"#;
        assert_eq!(notice(ItemNotice::EndOfSnapshot), end);
    }

    #[test]
    fn events_of_the_stream() {
        let notice = |form, notice| text(|out| push_notice(out, form, notice));
        let (sse, json) = (EventForm::ServerSent, EventForm::Json);
        assert_eq!(notice(sse, EventNotice::Heartbeat), ":\n\n");
        let heartbeat = r#"{"event":"heartbeat"}"#;
        assert_eq!(notice(json, EventNotice::Heartbeat), heartbeat);
        assert_eq!(notice(sse, EventNotice::Position("AQ")), "id: AQ\n\n");
        let position = r#"{"event":"heartbeat","id":"AQ"}"#;
        assert_eq!(notice(json, EventNotice::Position("AQ")), position);
        let end = EventNotice::End(-10, "\"x\"");
        let document = r#""code":-10,"message":"\"x\""}"#;
        assert_eq!(
            notice(sse, end),
            format!("event: end\ndata: {{{document}\n\n")
        );
        assert_eq!(notice(json, end), format!("{{\"event\":\"end\",{document}"));
        assert_eq!(notice(json, EventNotice::Open), r#"{"event":"open"}"#);
        for (about, document) in [
            (EventNotice::Subscribed("i"), r#""subscribed","item":"i"}"#),
            (
                EventNotice::Unsubscribed("i"),
                r#""unsubscribed","item":"i"}"#,
            ),
            (
                EventNotice::Reset("i", "too_many"),
                r#""reset","item":"i","reason":"too_many"}"#,
            ),
            (
                EventNotice::Refused("i", 21, "no"),
                r#""refused","item":"i","code":21,"message":"no"}"#,
            ),
        ] {
            assert_eq!(notice(json, about), format!("{{\"event\":{document}"));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_one_event(item in any::<String>(), value in any::<String>()) {
            let read = |form| {
                let encoder = encoder(form, &item, &["f"]);
                let values = [Some(value.as_str())].into_iter();
                text(|out| encoder.push_values(out, (ValuesEvent::Snapshot, ""), values))
            };
            let sent = read(EventForm::ServerSent);
            let data = sent.strip_prefix("event: snapshot\ndata: ").expect("the head");
            let data = data.strip_suffix("\n\n").expect("the end");
            prop_assert!(!data.contains(['\n', '\r']));
            for document in [data, &read(EventForm::Json)] {
                let read: Value = serde_json::from_str(document).expect("JSON");
                prop_assert_eq!(&read["item"], &Value::from(item.as_str()));
                prop_assert_eq!(&read["values"]["f"], &Value::from(value.as_str()));
            }
        }
    }
}
