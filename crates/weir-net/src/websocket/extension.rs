//! Agreeing on permessage-deflate (RFC 7692, 7.1), the one extension that is spoken here.
//!
//! Both ends forget each message before the next one: then the compressed form of a message depends
//! on nothing else, all connections can share it, and none has a window to keep.

use std::num::NonZeroU8;

/// How far back compressed data may refer: 256 to 32,768 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeflateWindow {
    bits: NonZeroU8,
}

impl DeflateWindow {
    /// What holds where nothing is said.
    pub const LARGEST: Self = Self {
        // 15 is not 0.
        bits: NonZeroU8::new(15).unwrap(),
    };

    /// Whether nothing in a message of so many bytes can refer farther back.
    pub fn holds(self, bytes: usize) -> bool {
        bytes <= 1 << self.bits.get()
    }

    /// 8 to 15, without leading zeros.
    fn parse(text: &str) -> Option<Self> {
        let bits = match text {
            "8" | "9" | "10" | "11" | "12" | "13" | "14" | "15" => text.parse().ok()?,
            _ => return None,
        };
        Some(Self { bits })
    }
}

/// What a server agrees to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreement {
    /// How far back what it sends may refer.
    pub window: DeflateWindow,
    /// The client has asked for that window, so the answer must name it.
    asked: bool,
}

impl Agreement {
    /// The first offer that can be agreed to. `offers` are the elements of the client's
    /// `Sec-WebSocket-Extensions`; one with a parameter that is unknown, malformed or repeated is not
    /// agreed to.
    pub fn of<'a>(mut offers: impl Iterator<Item = &'a str>) -> Option<Self> {
        let offer = offers.find_map(ExtensionParameters::parse)?;
        // What the client compresses may refer as far back as it can: the reader has that much.
        Some(Self {
            window: offer.server_window.unwrap_or(DeflateWindow::LARGEST),
            asked: offer.server_window.is_some(),
        })
    }

    /// The server's `Sec-WebSocket-Extensions`.
    pub fn answer(&self) -> String {
        let mut answer = OFFER.to_owned();
        if self.asked {
            answer += &format!("; {SERVER_WINDOW}={}", self.window.bits);
        }
        answer
    }
}

/// What a client offers that keeps no window either.
pub const OFFER: &str =
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// Whether a server's answer to [`OFFER`] is one that the offer allows.
pub(super) fn answers_offer(answer: &str) -> bool {
    ExtensionParameters::parse(answer)
        .is_some_and(|agreed| agreed.server_forgets && agreed.client_window.is_none())
}

/// One element of `Sec-WebSocket-Extensions`, if it is a well-formed permessage-deflate.
#[derive(Debug, Default)]
struct ExtensionParameters {
    server_forgets: bool,
    client_forgets: bool,
    server_window: Option<DeflateWindow>,
    /// `LARGEST` where no number is given.
    client_window: Option<DeflateWindow>,
}

impl ExtensionParameters {
    fn parse(element: &str) -> Option<Self> {
        let mut parts = element.split(';').map(str::trim);
        if parts.next() != Some(NAME) {
            return None;
        }
        let mut found = Self::default();
        for part in parts {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name.trim_end(), Some(unquoted(value.trim_start())?)),
                None => (part, None),
            };
            let repeated = match (name, value) {
                (SERVER_FORGETS, None) => std::mem::replace(&mut found.server_forgets, true),
                (CLIENT_FORGETS, None) => std::mem::replace(&mut found.client_forgets, true),
                (SERVER_WINDOW, Some(bits)) => found
                    .server_window
                    .replace(DeflateWindow::parse(bits)?)
                    .is_some(),
                (CLIENT_WINDOW, bits) => {
                    let window = bits.map_or(Some(DeflateWindow::LARGEST), DeflateWindow::parse)?;
                    found.client_window.replace(window).is_some()
                }
                _ => return None,
            };
            if repeated {
                return None;
            }
        }
        Some(found)
    }
}

/// A value, which may stand in quotes; `None` for half of them.
fn unquoted(value: &str) -> Option<&str> {
    match value.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"'),
        None => Some(value),
    }
}

const NAME: &str = "permessage-deflate";
const SERVER_FORGETS: &str = "server_no_context_takeover";
const CLIENT_FORGETS: &str = "client_no_context_takeover";
const SERVER_WINDOW: &str = "server_max_window_bits";
const CLIENT_WINDOW: &str = "client_max_window_bits";

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = "; server_no_context_takeover; client_no_context_takeover";

    fn answer(offers: &str) -> Option<String> {
        let elements = offers.split(',').map(str::trim);
        Agreement::of(elements).map(|agreement| agreement.answer())
    }

    #[test]
    fn offers_are_answered() {
        let plain = format!("permessage-deflate{BOTH}");
        for offer in [
            // Firefox, Safari, the SDK for Java; Chromium; Node.js' ws; ours.
            "permessage-deflate",
            "permessage-deflate; client_max_window_bits",
            "permessage-deflate; server_no_context_takeover; client_max_window_bits=15",
            OFFER,
            "permessage-deflate;client_max_window_bits=\"10\"",
            // The first that can be agreed to.
            "x-webkit-deflate-frame, permessage-deflate; some=1, permessage-deflate",
        ] {
            assert_eq!(answer(offer).as_deref(), Some(plain.as_str()), "{offer}");
        }
        for bits in 8..=15 {
            let offer = format!("permessage-deflate; server_max_window_bits={bits}");
            let wanted = format!("{plain}; server_max_window_bits={bits}");
            assert_eq!(answer(&offer), Some(wanted));
        }
    }

    #[test]
    fn what_is_unknown_malformed_or_repeated_is_declined() {
        for offer in [
            "",
            "deflate-frame",
            "permessage-bzip2",
            "permessage-deflate; ",
            "permessage-deflate; memory=1",
            "permessage-deflate; server_no_context_takeover=1",
            "permessage-deflate; client_no_context_takeover; client_no_context_takeover",
            "permessage-deflate; server_max_window_bits",
            "permessage-deflate; server_max_window_bits=7",
            "permessage-deflate; server_max_window_bits=16",
            "permessage-deflate; server_max_window_bits=09",
            "permessage-deflate; server_max_window_bits=+9",
            "permessage-deflate; server_max_window_bits=\"9",
            "permessage-deflate; server_max_window_bits=9; server_max_window_bits=9",
            "permessage-deflate; client_max_window_bits=",
            "permessage-deflate; client_max_window_bits=0",
        ] {
            assert_eq!(answer(offer), None, "{offer}");
        }
    }

    #[test]
    fn a_window_holds_messages_of_its_size() {
        let agreement = Agreement::of(["permessage-deflate; server_max_window_bits=8"].into_iter());
        let window = agreement.expect("a good offer").window;
        assert!(window.holds(256) && !window.holds(257));
        assert!(DeflateWindow::LARGEST.holds(32_768) && !DeflateWindow::LARGEST.holds(32_769));
        assert_eq!(size_of::<Option<DeflateWindow>>(), 1);
    }

    #[test]
    fn a_client_takes_what_it_has_offered() {
        for agreed in [
            format!("permessage-deflate{BOTH}"),
            "permessage-deflate; server_no_context_takeover".to_owned(),
            "permessage-deflate; server_no_context_takeover; server_max_window_bits=9".to_owned(),
        ] {
            assert!(answers_offer(&agreed), "{agreed}");
        }
        for other in [
            "permessage-deflate",
            "permessage-deflate; server_no_context_takeover; client_max_window_bits=15",
            "deflate-frame",
            "permessage-deflate; server_no_context_takeover, permessage-deflate",
        ] {
            assert!(!answers_offer(other), "{other}");
        }
    }
}
