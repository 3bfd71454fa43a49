//! HTTP/1.1 as a data port needs it: whole small requests in, whole small answers out.

mod request;
mod response;

pub use request::{HttpRequest, ParseError, ParseLimits, Parsed, parse_request};
pub use response::{Response, write_upgrade};
