//! Errors: [`RequestError`] for invalid requests of a client, with the error line to send;
//! [`LineError`] and [`DecodeError`] for invalid lines of a server, found by the client end.

use std::borrow::Cow;

use crate::codes::{ControlCode, SessionCode};
use crate::server::{write_conerr, write_error, write_reqerr};

/// Error line that must carry the code of a refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorLine {
    /// `CONERR`: the request was a `create_session` or `bind_session`.
    ConErr,
    /// `REQERR` with this request id.
    ReqErr(Box<str>),
    /// `ERROR`: there is no usable request id. Official SDKs end their session on it.
    Error,
}

/// A request that cannot be executed, with the data of its error line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request refused with code {code}: {message}")]
pub struct RequestError {
    line: ErrorLine,
    code: i32,
    message: Cow<'static, str>,
}

impl RequestError {
    pub(crate) fn new(line: ErrorLine, fault: RequestFault) -> Self {
        Self {
            line,
            code: fault.code,
            message: fault.message,
        }
    }

    /// Returns the kind of error line that must be sent.
    pub fn error_line(&self) -> &ErrorLine {
        &self.line
    }

    /// Returns the code: a session code for `CONERR`, else a control code.
    pub fn code(&self) -> i32 {
        self.code
    }

    /// Returns the message without escaping.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the request id, if one could be read.
    pub fn request_id(&self) -> Option<&str> {
        match &self.line {
            ErrorLine::ReqErr(id) => Some(id),
            ErrorLine::ConErr | ErrorLine::Error => None,
        }
    }

    /// Appends the error line.
    pub fn write(&self, out: &mut Vec<u8>) {
        let message = &self.message;
        match &self.line {
            ErrorLine::ConErr => write_conerr(out, SessionCode::from_code(self.code), message),
            ErrorLine::ReqErr(id) => {
                write_reqerr(out, id, ControlCode::from_code(self.code), message)
            }
            ErrorLine::Error => write_error(out, ControlCode::from_code(self.code), message),
        }
    }
}

/// Code and message, independent of the kind of error line.
#[derive(Debug)]
pub(crate) struct RequestFault {
    pub(crate) code: i32,
    pub(crate) message: Cow<'static, str>,
}

impl RequestFault {
    pub(crate) fn with_standard_text(code: ControlCode) -> Self {
        Self {
            code: code.code(),
            message: Cow::Borrowed(code.text()),
        }
    }

    pub(crate) fn control(code: ControlCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: code.code(),
            message: message.into(),
        }
    }

    pub(crate) fn session(code: SessionCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code: code.code(),
            message: message.into(),
        }
    }

    /// Returns code 67, which both catalogues share.
    pub(crate) fn missing(parameter: &str) -> Self {
        let message = format!("{}: missing {parameter}", ControlCode::MALFORMED.text());
        Self::control(ControlCode::MALFORMED, message)
    }

    /// Returns code 65, which both catalogues share.
    pub(crate) fn bad_value(parameter: &str, value: &str) -> Self {
        Self::bad(ControlCode::BAD_VALUE, parameter, value)
    }

    /// Returns `code` with a message that contains the parameter and the start of its value.
    pub(crate) fn bad(code: ControlCode, parameter: &str, value: &str) -> Self {
        Self::control(
            code,
            format!("{}: {parameter}={}", code.text(), shortened(value)),
        )
    }

    /// Returns code 65 for a lone CR or LF. The message omits the value, which may be a password.
    pub(crate) fn line_break(parameter: &str) -> Self {
        let code = ControlCode::BAD_VALUE;
        let parameter = shortened(parameter);
        Self::control(code, format!("{}: line break in {parameter}", code.text()))
    }
}

/// Returns the start of a peer's text, to keep error messages short.
pub fn shortened(text: &str) -> Cow<'_, str> {
    const SHOWN_CHARS: usize = 60;
    match text.char_indices().nth(SHOWN_CHARS) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// A line of a server that violates the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum LineError {
    #[error("line {tag} ends before its argument {argument}")]
    Missing {
        tag: &'static str,
        argument: &'static str,
    },
    #[error("line {tag} has an invalid argument {argument}")]
    Bad {
        tag: &'static str,
        argument: &'static str,
    },
    #[error("line is not UTF-8")]
    NotUtf8,
}

/// A `U` payload that cannot be applied to the item's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum DecodeError {
    /// The first update of an item must contain every field.
    #[error("first update leaves field {field} unchanged")]
    UnchangedInFirst { field: usize },
    /// The payload does not cover the fields of the field schema exactly.
    #[error("update covers {found} fields instead of {expected}")]
    FieldCount { expected: usize, found: usize },
    #[error("field {field} has an invalid \"^\" token")]
    BadMark { field: usize },
    #[error("field {field} contains a {format} diff, which was not negotiated")]
    NotNegotiated { field: usize, format: char },
    #[error("field {field} contains a {format} diff that cannot be applied")]
    BadDiff { field: usize, format: char },
    #[error("field {field} contains a {format} diff of null")]
    DiffOfNull { field: usize, format: char },
    /// A TLCP-diff of a value that a JSON Patch has set.
    #[error("field {field} contains a T diff after a JSON Patch")]
    DiffAfterPatch { field: usize },
    #[error("field {field} has an invalid escape sequence")]
    BadEscape { field: usize },
    #[error("field {field} is not UTF-8")]
    NotUtf8 { field: usize },
}
