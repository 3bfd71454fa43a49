//! Parameters of one line: `name=value` pairs, percent-decoded on access. The last duplicate
//! counts.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::SessionRef;
use crate::codes::ControlCode;
use crate::error::RequestFault;
use crate::text::percent_decode;

/// Pairs of one line. Parsing always succeeds; [`LineParams::check`] reports errors later, so that
/// a request id before the invalid part is available for the error line.
pub(super) struct LineParams<'a> {
    pairs: SmallVec<[(Cow<'a, str>, &'a str); 16]>,
    fault: Option<RequestFault>,
}

impl<'a> LineParams<'a> {
    pub(super) fn parse(line: &'a str) -> Self {
        let mut params = Self {
            pairs: SmallVec::new(),
            fault: None,
        };
        // Lines end with CR LF; a lone CR or LF is neither a line end nor valid in a value.
        if let Some(at) = memchr::memchr2(b'\r', b'\n', line.as_bytes()) {
            let pair = line[..at].rsplit('&').next().unwrap_or_default();
            let name = pair.split('=').next().unwrap_or_default();
            params.fault = Some(RequestFault::line_break(name));
        }
        for pair in line.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some((name, value)) => params.pairs.push((percent_decode(name), value)),
                None => {
                    params.fault = Some(RequestFault::with_standard_text(ControlCode::MALFORMED))
                }
            }
        }
        params
    }

    pub(super) fn check(&mut self) -> Result<(), RequestFault> {
        self.fault.take().map_or(Ok(()), Err)
    }

    fn raw(&self, name: &str) -> Option<&'a str> {
        let pair = self
            .pairs
            .iter()
            .rev()
            .find(|(candidate, _)| candidate == name);
        pair.map(|(_, value)| *value)
    }

    pub(super) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.raw(name).map(percent_decode)
    }

    /// Returns the text, or `None` if it is empty.
    pub(super) fn filled(&self, name: &str) -> Option<Cow<'a, str>> {
        self.text(name).filter(|text| !text.is_empty())
    }

    pub(super) fn session(&self, name: &str) -> Option<SessionRef<'a>> {
        self.filled(name).map(SessionRef::new)
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, RequestFault> {
        match self.text(name).as_deref() {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => Err(RequestFault::bad_value(name, other)),
        }
    }

    /// Returns an unsigned decimal number of at most 32 bits.
    pub(super) fn number(&self, name: &str) -> Result<Option<u32>, RequestFault> {
        self.word(name, |text| digits(text)?.parse().ok())
    }

    /// Returns the value that `read` makes of the text, or an error if `read` returns `None`.
    pub(super) fn word<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, RequestFault> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        read(&text)
            .map(Some)
            .ok_or_else(|| RequestFault::bad_value(name, &text))
    }
}

/// Returns the text if it consists of digits; `parse` alone would also accept a plus sign.
pub(super) fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

/// Returns a positive decimal number; sign, exponent and infinity are not accepted.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = plain.then(|| text.parse().ok())??;
    (number.is_finite() && number > 0.0).then_some(number)
}
