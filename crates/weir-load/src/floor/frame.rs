//! One record as the WebSocket frame the gateway would send for it.

use weir_kafka::Record;
use weir_net::websocket::push_server_text;
use weir_tlcp::text::{push_number, push_value};

use crate::stamp::TEXT_HEADER;

/// Builds frames in buffers it keeps.
#[derive(Debug, Default)]
pub(super) struct FrameBuilder {
    line: Vec<u8>,
    frame: Vec<u8>,
}

impl FrameBuilder {
    /// `U,1,1,<key>|<value>|<timestamp>|<partition>|<offset>|<weir>` in a text frame, without a
    /// mask. Bytes that are not UTF-8 are replaced as everywhere in the extraction language.
    pub(super) fn build(&mut self, record: &Record<'_>) -> &[u8] {
        let stamp = record.headers.iter().find(|(name, _)| *name == TEXT_HEADER);
        self.line.clear();
        self.line.extend_from_slice(b"U,1,1,");
        push_text(&mut self.line, record.key);
        self.line.push(b'|');
        push_text(&mut self.line, record.value);
        self.line.push(b'|');
        push_number(&mut self.line, record.timestamp_ms);
        self.line.push(b'|');
        push_number(&mut self.line, record.partition);
        self.line.push(b'|');
        push_number(&mut self.line, record.offset);
        self.line.push(b'|');
        push_text(&mut self.line, stamp.and_then(|(_, value)| *value));
        self.line.extend_from_slice(b"\r\n");
        self.frame.clear();
        push_server_text(&mut self.frame, &self.line);
        &self.frame
    }
}

fn push_text(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    let text = bytes.map(String::from_utf8_lossy);
    push_value(out, text.as_deref());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: Option<&'static [u8]>, value: &'static [u8]) -> Record<'static> {
        Record {
            topic: "t",
            partition: 2,
            offset: 77,
            timestamp_ms: 1_700_000_000_000,
            key,
            value: Some(value),
            headers: [("other", None), (TEXT_HEADER, Some(b"1.2.3.4".as_slice()))]
                .into_iter()
                .collect(),
        }
    }

    #[test]
    fn the_frame_is_the_gateways() {
        let mut builder = FrameBuilder::default();
        let line = b"U,1,1,Apple|x-pid-0-y|1700000000000|2|77|1.2.3.4\r\n";
        let frame = builder.build(&record(Some(b"Apple"), b"x-pid-0-y"));
        // FIN and text, no mask, length below 126.
        assert_eq!(frame[..2], [0x81, line.len() as u8]);
        assert_eq!(frame[2..], line[..]);
    }

    #[test]
    fn absent_and_special_values_are_escaped_as_tlcp_wants() {
        let mut builder = FrameBuilder::default();
        let mut record = record(None, b"a|b");
        record.headers.clear();
        let frame = builder.build(&record);
        assert_eq!(&frame[2..], b"U,1,1,#|a%7Cb|1700000000000|2|77|#\r\n");
    }
}
