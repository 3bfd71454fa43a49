//! One parameter line: `name=value` pairs, percent-decoded on access, the last duplicate wins.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::SessionRef;
use crate::codes::ControlCode;
use crate::error::RequestFault;
use crate::text::percent_decode;

/// The pairs of one line. Every line parses; [`Params::check`] reports what was wrong with it, so
/// that a request id in front of the fault can still be used for the answer.
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
        // Lines end with CR LF; a lone CR or LF is neither an end nor allowed inside a value.
        if let Some(at) = memchr::memchr2(b'\r', b'\n', line.as_bytes()) {
            let pair = line[..at].rsplit('&').next().unwrap_or_default();
            let name = pair.split('=').next().unwrap_or_default();
            params.fault = Some(RequestFault::line_break(name));
        }
        for pair in line.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some((name, value)) => params.pairs.push((percent_decode(name), value)),
                None => params.fault = Some(RequestFault::plain(ControlCode::MALFORMED)),
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

    /// The text, but absent if empty.
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

    /// A decimal number of at most 32 bits without sign.
    pub(super) fn number(&self, name: &str) -> Result<Option<u32>, RequestFault> {
        self.word(name, |text| digits(text)?.parse().ok())
    }

    /// A value that `read` understands.
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

/// The text if it is digits only; `parse` alone would also take a plus sign.
pub(super) fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

/// A decimal number above zero, with a dot at most: no sign, exponent, infinity.
pub(super) fn decimal(text: &str) -> Option<f64> {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = plain.then(|| text.parse().ok())??;
    (number.is_finite() && number > 0.0).then_some(number)
}
