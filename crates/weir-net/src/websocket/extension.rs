//! Negotiates permessage-deflate (RFC 7692, 7.1), the only supported extension.
//!
//! Neither end uses context takeover. The compressed form of a message therefore depends on nothing
//! else, all connections can share it, and no connection needs a window.

use std::num::NonZeroU8;

/// Maximum distance of references in compressed data: 256 to 32,768 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeflateWindow {
    bits: NonZeroU8,
}

impl DeflateWindow {
    /// Default window, 32,768 bytes.
    pub const LARGEST: Self = Self {
        // 15 is not 0.
        bits: NonZeroU8::new(15).unwrap(),
    };

    /// Returns `true` if a message of `bytes` bytes has no references beyond the window.
    pub fn fits(self, bytes: usize) -> bool {
        bytes <= 1 << self.bits.get()
    }

    /// Parses 8 to 15, without leading zeros.
    fn parse(text: &str) -> Option<Self> {
        let bits = match text {
            "8" | "9" | "10" | "11" | "12" | "13" | "14" | "15" => text.parse().ok()?,
            _ => return None,
        };
        Some(Self { bits })
    }
}

/// Negotiated parameters of compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeflateParams {
    /// Window of the server's messages.
    pub window: DeflateWindow,
    /// The client requested that window, so the response must name it.
    requested: bool,
}

impl DeflateParams {
    /// Selects the first acceptable offer. `offers` are the elements of the client's
    /// `Sec-WebSocket-Extensions`. Offers with an unknown, malformed or repeated parameter are not
    /// acceptable.
    pub fn of<'a>(mut offers: impl Iterator<Item = &'a str>) -> Option<Self> {
        let offer = offers.find_map(ExtensionParameters::parse)?;
        // The client may use any window because the reader supports the largest.
        Some(Self {
            window: offer.server_window.unwrap_or(DeflateWindow::LARGEST),
            requested: offer.server_window.is_some(),
        })
    }

    /// Returns the server's `Sec-WebSocket-Extensions` header.
    pub fn response(&self) -> String {
        let mut response = OFFER.to_owned();
        if self.requested {
            response += &format!("; {SERVER_WINDOW}={}", self.window.bits);
        }
        response
    }
}

/// Offer of a client, without context takeover at either end.
pub const OFFER: &str =
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// Returns `true` if a server's response is acceptable for [`OFFER`].
pub(super) fn accepts_offer(response: &str) -> bool {
    ExtensionParameters::parse(response)
        .is_some_and(|params| params.server_no_takeover && params.client_window.is_none())
}

/// An element of `Sec-WebSocket-Extensions` that is a well-formed permessage-deflate.
#[derive(Debug, Default)]
struct ExtensionParameters {
    server_no_takeover: bool,
    client_no_takeover: bool,
    server_window: Option<DeflateWindow>,
    /// `LARGEST` if no number is given.
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
                (SERVER_NO_TAKEOVER, None) => {
                    std::mem::replace(&mut found.server_no_takeover, true)
                }
                (CLIENT_NO_TAKEOVER, None) => {
                    std::mem::replace(&mut found.client_no_takeover, true)
                }
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

/// Removes the quotes of a value, if any. Returns `None` if one of them is missing.
fn unquoted(value: &str) -> Option<&str> {
    match value.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"'),
        None => Some(value),
    }
}

const NAME: &str = "permessage-deflate";
const SERVER_NO_TAKEOVER: &str = "server_no_context_takeover";
const CLIENT_NO_TAKEOVER: &str = "client_no_context_takeover";
const SERVER_WINDOW: &str = "server_max_window_bits";
const CLIENT_WINDOW: &str = "client_max_window_bits";

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = "; server_no_context_takeover; client_no_context_takeover";

    fn response(offers: &str) -> Option<String> {
        let elements = offers.split(',').map(str::trim);
        DeflateParams::of(elements).map(|params| params.response())
    }

    #[test]
    fn acceptable_offers_are_negotiated() {
        let plain = format!("permessage-deflate{BOTH}");
        for offer in [
            // Firefox, Safari, the SDK for Java; Chromium; Node.js' ws; this crate's client.
            "permessage-deflate",
            "permessage-deflate; client_max_window_bits",
            "permessage-deflate; server_no_context_takeover; client_max_window_bits=15",
            OFFER,
            "permessage-deflate;client_max_window_bits=\"10\"",
            // The first acceptable offer.
            "x-webkit-deflate-frame, permessage-deflate; some=1, permessage-deflate",
        ] {
            assert_eq!(response(offer).as_deref(), Some(plain.as_str()), "{offer}");
        }
        for bits in 8..=15 {
            let offer = format!("permessage-deflate; server_max_window_bits={bits}");
            let expected = format!("{plain}; server_max_window_bits={bits}");
            assert_eq!(response(&offer), Some(expected));
        }
    }

    #[test]
    fn invalid_offers_are_declined() {
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
            assert_eq!(response(offer), None, "{offer}");
        }
    }

    #[test]
    fn window_holds_messages_of_its_size() {
        let params =
            DeflateParams::of(["permessage-deflate; server_max_window_bits=8"].into_iter());
        let window = params.expect("valid offer").window;
        assert!(window.fits(256) && !window.fits(257));
        assert!(DeflateWindow::LARGEST.fits(32_768) && !DeflateWindow::LARGEST.fits(32_769));
        assert_eq!(size_of::<Option<DeflateWindow>>(), 1);
    }

    #[test]
    fn client_accepts_only_its_offer() {
        for accepted in [
            format!("permessage-deflate{BOTH}"),
            "permessage-deflate; server_no_context_takeover".to_owned(),
            "permessage-deflate; server_no_context_takeover; server_max_window_bits=9".to_owned(),
        ] {
            assert!(accepts_offer(&accepted), "{accepted}");
        }
        for other in [
            "permessage-deflate",
            "permessage-deflate; server_no_context_takeover; client_max_window_bits=15",
            "deflate-frame",
            "permessage-deflate; server_no_context_takeover, permessage-deflate",
        ] {
            assert!(!accepts_offer(other), "{other}");
        }
    }
}
