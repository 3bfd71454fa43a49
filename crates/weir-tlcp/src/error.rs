//! Errors by whose fault they are: [`RequestError`] (the client's, with the answer it must get),
//! [`LineError`] and [`DecodeError`] (the server's, seen by our client end).

use std::borrow::Cow;

use crate::codes::{ControlCode, SessionCode};
use crate::server::{write_conerr, write_error, write_reqerr};

/// Which line must carry a refused request's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorLine {
    /// `CONERR`: the request was a `create_session` or `bind_session`.
    ConErr,
    /// `REQERR` with this request id.
    ReqErr(Box<str>),
    /// `ERROR`: no usable request id. Official SDKs end their session on it.
    Error,
}

/// A request that cannot be executed, with everything needed to answer it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request refused with code {code}: {message}")]
pub struct RequestError {
    answer: ErrorLine,
    code: i32,
    message: Cow<'static, str>,
}

impl RequestError {
    pub(crate) fn new(answer: ErrorLine, fault: RequestFault) -> Self {
        Self {
            answer,
            code: fault.code,
            message: fault.message,
        }
    }

    /// The line that must carry the answer.
    pub fn answer(&self) -> &ErrorLine {
        &self.answer
    }

    /// The code: of the session catalogue if the answer is `CONERR`, else of the control one.
    pub fn code(&self) -> i32 {
        self.code
    }

    /// The message, not escaped.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The request id, if one could be read.
    pub fn request_id(&self) -> Option<&str> {
        match &self.answer {
            ErrorLine::ReqErr(id) => Some(id),
            ErrorLine::ConErr | ErrorLine::Error => None,
        }
    }

    /// Appends the answer line.
    pub fn write(&self, out: &mut Vec<u8>) {
        let message = &self.message;
        match &self.answer {
            ErrorLine::ConErr => write_conerr(out, SessionCode::from_code(self.code), message),
            ErrorLine::ReqErr(id) => {
                write_reqerr(out, id, ControlCode::from_code(self.code), message)
            }
            ErrorLine::Error => write_error(out, ControlCode::from_code(self.code), message),
        }
    }
}

/// A code and a message that do not know their line yet.
#[derive(Debug)]
pub(crate) struct RequestFault {
    pub(crate) code: i32,
    pub(crate) message: Cow<'static, str>,
}

impl RequestFault {
    pub(crate) fn plain(code: ControlCode) -> Self {
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

    /// 67, the same number and meaning in both catalogues.
    pub(crate) fn missing(parameter: &str) -> Self {
        let message = format!("{}: missing {parameter}", ControlCode::MALFORMED.text());
        Self::control(ControlCode::MALFORMED, message)
    }

    /// 65, the same number and meaning in both catalogues.
    pub(crate) fn bad_value(parameter: &str, value: &str) -> Self {
        Self::bad(ControlCode::BAD_VALUE, parameter, value)
    }

    /// `code` with a message that names the parameter and the start of its value.
    pub(crate) fn bad(code: ControlCode, parameter: &str, value: &str) -> Self {
        Self::control(
            code,
            format!("{}: {parameter}={}", code.text(), shortened(value)),
        )
    }

    /// 65 for a lone CR or LF. The value stays unnamed: it may be a password.
    pub(crate) fn line_break(parameter: &str) -> Self {
        let code = ControlCode::BAD_VALUE;
        let parameter = shortened(parameter);
        Self::control(code, format!("{}: line break in {parameter}", code.text()))
    }
}

/// The start of a peer's text, so that answers stay short.
pub fn shortened(text: &str) -> Cow<'_, str> {
    const SHOWN_CHARS: usize = 60;
    match text.char_indices().nth(SHOWN_CHARS) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// A line of a server that does not follow the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Too few arguments.
    #[error("line {tag} ends before its argument {argument}")]
    Missing {
        /// Tag of the line.
        tag: &'static str,
        /// Name of the missing argument.
        argument: &'static str,
    },
    /// An argument that is not the number or word it must be.
    #[error("line {tag} has a bad argument {argument}")]
    Bad {
        /// Tag of the line.
        tag: &'static str,
        /// Name of the bad argument.
        argument: &'static str,
    },
    /// Bytes that are not UTF-8.
    #[error("line is not UTF-8")]
    NotUtf8,
}

/// A `U` payload that cannot be applied to the item's previous values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The first update of an item must carry every field.
    #[error("first update leaves field {field} unchanged")]
    UnchangedInFirst {
        /// Field position, from 1.
        field: usize,
    },
    /// The payload does not cover exactly the fields of the schema.
    #[error("update covers {found} fields instead of {expected}")]
    FieldCount {
        /// Number of fields of the schema.
        expected: usize,
        /// Number of fields covered; counting stops at the first one too many.
        found: usize,
    },
    /// `^` followed by neither a count from 1 nor a known diff tag.
    #[error("field {field} has an unknown mark")]
    BadMark {
        /// Field position, from 1.
        field: usize,
    },
    /// A diff, although this client has not asked for that format.
    #[error("field {field} carries a {format} diff, which was not negotiated")]
    NotNegotiated {
        /// Field position, from 1.
        field: usize,
        /// `P` (JSON Patch) or `T` (TLCP-diff).
        format: char,
    },
    /// A diff that does not fit the previous value.
    #[error("field {field} carries a {format} diff that cannot be applied")]
    BadDiff {
        /// Field position, from 1.
        field: usize,
        /// As above.
        format: char,
    },
    /// A diff although the previous value is null.
    #[error("field {field} carries a {format} diff of null")]
    DiffOfNull {
        /// Field position, from 1.
        field: usize,
        /// As above.
        format: char,
    },
    /// A TLCP-diff of a value that was set by a JSON Patch.
    #[error("field {field} carries a T diff after a JSON Patch")]
    DiffAfterPatch {
        /// Field position, from 1.
        field: usize,
    },
    /// `%` without two hex digits.
    #[error("field {field} has a bad escape")]
    BadEscape {
        /// Field position, from 1.
        field: usize,
    },
    /// Bytes that are not UTF-8.
    #[error("field {field} is not UTF-8")]
    NotUtf8 {
        /// Field position, from 1.
        field: usize,
    },
}
