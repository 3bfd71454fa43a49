//! Stamps of records: due time, producer, sequence number and send time.
//!
//! Binary headers serve plain consumers, one text header serves gateway clients. The published
//! tests use a local timestamp of 23 characters at the start of the value instead.

/// Header with the due time: unsigned 64-bit big-endian Unix nanoseconds.
pub const DUE_HEADER: &str = "weir-due-ns";
/// Header with producer index (u32) and sequence number (u64), both big-endian.
pub const SEQ_HEADER: &str = "weir-seq";
/// Header with the whole stamp as text, because the extraction language reads headers as UTF-8.
pub const TEXT_HEADER: &str = "weir";

/// Maximum length of the text form: three 20-digit and one 10-digit number with three dots.
pub const TEXT_STAMP_LEN_MAX: usize = 20 + 1 + 10 + 1 + 20 + 1 + 20;

/// Stamp of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Scheduled send time in Unix nanoseconds.
    pub due_unix_ns: u64,
    /// Index of the producer.
    pub producer: u32,
    /// Sequence number, counted from 0 per key and producer.
    pub seq: u64,
    /// Time at which the Kafka library accepted the record; not part of the binary headers.
    pub sent_unix_ns: Option<u64>,
}

impl Stamp {
    pub(crate) fn due_header(&self) -> [u8; 8] {
        self.due_unix_ns.to_be_bytes()
    }

    pub(crate) fn seq_header(&self) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.producer.to_be_bytes());
        bytes[4..].copy_from_slice(&self.seq.to_be_bytes());
        bytes
    }

    /// Replaces `out` by the value of the header [`TEXT_HEADER`]: `<due>.<producer>.<seq>.<sent>`.
    /// An unknown send time is written as 0.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        out.clear();
        let (producer, sent_unix_ns) = (self.producer.into(), self.sent_unix_ns.unwrap_or(0));
        for number in [self.due_unix_ns, producer, self.seq, sent_unix_ns] {
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            out.push(b'.');
        }
        out.pop();
    }

    /// Appends the text form with leading zeros: always [`TEXT_STAMP_LEN_MAX`] characters.
    pub(crate) fn push_padded_text(&self, out: &mut Vec<u8>) {
        let (producer, sent_unix_ns) = (self.producer.into(), self.sent_unix_ns.unwrap_or(0));
        let numbers = [
            (self.due_unix_ns, 20),
            (producer, 10),
            (self.seq, 20),
            (sent_unix_ns, 20),
        ];
        for (number, digits) in numbers {
            let mut buffer = itoa::Buffer::new();
            let text = buffer.format(number).as_bytes();
            out.extend_from_slice(&ZEROS[text.len()..digits]);
            out.extend_from_slice(text);
            out.push(b'.');
        }
        out.pop();
    }

    /// Parses the text form; `None` if it is malformed.
    pub fn parse_text(text: &[u8]) -> Option<Self> {
        let mut parts = text.split(|&byte| byte == b'.');
        let due_unix_ns = parse_decimal(parts.next()?)?;
        let producer = u32::try_from(parse_decimal(parts.next()?)?).ok()?;
        let seq = parse_decimal(parts.next()?)?;
        let sent = parse_decimal(parts.next()?)?;
        if parts.next().is_some() {
            return None;
        }
        Some(Self {
            due_unix_ns,
            producer,
            seq,
            sent_unix_ns: (sent != 0).then_some(sent),
        })
    }

    /// Parses the two binary headers; `None` if one has the wrong length.
    fn parse_headers(due: &[u8], seq: &[u8]) -> Option<Self> {
        let (producer, seq) = seq.split_first_chunk()?;
        Some(Self {
            due_unix_ns: parse_due(due)?,
            producer: u32::from_be_bytes(*producer),
            seq: u64::from_be_bytes(seq.try_into().ok()?),
            sent_unix_ns: None,
        })
    }

    /// Returns the stamp from the values of the three headers; each may be absent. Prefers the text
    /// form, which has the send time, to the binary pair.
    pub fn from_parts(due: Option<&[u8]>, seq: Option<&[u8]>, text: Option<&[u8]>) -> Option<Self> {
        text.and_then(Self::parse_text)
            .or_else(|| Self::parse_headers(due?, seq?))
    }
}

const ZEROS: [u8; 20] = [b'0'; 20];

pub(crate) fn parse_due(value: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(value.try_into().ok()?))
}

/// Parses at least one digit, without a sign; `None` on overflow.
pub(crate) fn parse_decimal(text: &[u8]) -> Option<u64> {
    let digits = text.first()?.is_ascii_digit().then_some(text)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stamp() -> impl Strategy<Value = Stamp> {
        (any::<u64>(), any::<u32>(), any::<u64>(), any::<u64>()).prop_map(
            |(due_unix_ns, producer, seq, sent)| Stamp {
                due_unix_ns,
                producer,
                seq,
                sent_unix_ns: (sent != 0).then_some(sent),
            },
        )
    }

    proptest! {
        #[test]
        fn text_round_trip(stamp in stamp()) {
            let mut text = Vec::new();
            stamp.write_text(&mut text);
            prop_assert!(text.len() <= TEXT_STAMP_LEN_MAX);
            prop_assert_eq!(Stamp::parse_text(&text), Some(stamp));
            text.clear();
            stamp.push_padded_text(&mut text);
            prop_assert_eq!(text.len(), TEXT_STAMP_LEN_MAX);
            prop_assert_eq!(Stamp::parse_text(&text), Some(stamp));
        }

        #[test]
        fn header_round_trip(stamp in stamp()) {
            let parsed = Stamp::parse_headers(&stamp.due_header(), &stamp.seq_header());
            prop_assert_eq!(parsed, Some(Stamp { sent_unix_ns: None, ..stamp }));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            let _ = Stamp::parse_text(&bytes);
            let _ = Stamp::parse_headers(&bytes, &bytes);
        }
    }

    #[test]
    fn text_form_is_the_documented_one() {
        let stamp = Stamp {
            due_unix_ns: 1_700_000_000_000_000_001,
            producer: 3,
            seq: 0,
            sent_unix_ns: Some(1_700_000_000_000_000_999),
        };
        let mut text = Vec::new();
        stamp.write_text(&mut text);
        assert_eq!(text, b"1700000000000000001.3.0.1700000000000000999");
    }

    #[test]
    fn malformed_texts_are_rejected() {
        for text in [
            "",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.x.4",
            "1..3.4",
            "+1.2.3.4",
            "1.4294967296.3.4",
        ] {
            assert_eq!(Stamp::parse_text(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn text_header_is_preferred() {
        let stamp = Stamp {
            due_unix_ns: 5,
            producer: 1,
            seq: 2,
            sent_unix_ns: Some(9),
        };
        let (due, seq) = (stamp.due_header(), stamp.seq_header());
        let parsed = Stamp::from_parts(Some(&due), Some(&seq), None);
        assert_eq!(
            parsed,
            Some(Stamp {
                sent_unix_ns: None,
                ..stamp
            })
        );
        let with_text = Stamp::from_parts(Some(&due), Some(&seq), Some(b"5.1.2.9"));
        assert_eq!(with_text, Some(stamp));
        assert_eq!(Stamp::from_parts(Some(&due), None, None), None);
    }
}
