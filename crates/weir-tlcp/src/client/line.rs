//! Parses the lines that a TLCP server sends.

use std::borrow::Cow;

use crate::error::LineError;
use crate::text::percent_decode;

/// A parsed line. Texts that are escaped in the protocol are decoded, except `U` payloads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // fields: arguments in the order of the TLCP specification
pub enum Line<'a> {
    /// `U`; `item` counts from 1. [`ItemState`](super::ItemState) decodes `payload`.
    Update {
        sub_id: u32,
        item: u32,
        payload: &'a [u8],
    },
    /// `WSOK`.
    WsOk,
    /// `CONOK`; `control_link` is `None` for `*`.
    ConOk {
        session_id: &'a str,
        request_limit: u64,
        keepalive_ms: u64,
        control_link: Option<&'a str>,
    },
    /// `CONERR`.
    ConErr { code: i32, message: Cow<'a, str> },
    /// `SUBOK`.
    SubOk {
        sub_id: u32,
        items: u32,
        fields: u32,
    },
    /// `SUBCMD`.
    SubCmd {
        sub_id: u32,
        items: u32,
        fields: u32,
        key_field: u32,
        command_field: u32,
    },
    /// `UNSUB`.
    Unsub { sub_id: u32 },
    /// `CONF`; `max_frequency` in updates per second, or `unlimited`.
    Conf {
        sub_id: u32,
        max_frequency: &'a str,
        filtered: bool,
    },
    /// `EOS`.
    Eos { sub_id: u32, item: u32 },
    /// `CS`.
    Cs { sub_id: u32, item: u32 },
    /// `OV`.
    Overflow { sub_id: u32, item: u32, lost: u64 },
    /// `REQOK`; has no id in the response to an HTTP `heartbeat`.
    ReqOk { request_id: Option<&'a str> },
    /// `REQERR`.
    ReqErr {
        request_id: &'a str,
        code: i32,
        message: Cow<'a, str>,
    },
    /// `ERROR`.
    Error { code: i32, message: Cow<'a, str> },
    /// `PROBE`.
    Probe,
    /// `SYNC`.
    Sync { seconds: u64 },
    /// `LOOP`.
    Loop { delay_ms: u64 },
    /// `END`.
    End { code: i32, message: Cow<'a, str> },
    /// `PROG`.
    Prog { count: u64 },
    /// `CONS`; `bandwidth` in kbps, `unlimited` or `unmanaged`.
    Cons { bandwidth: &'a str },
    /// `CLIENTIP`.
    ClientIp { ip: &'a str },
    /// `SERVNAME`.
    ServName { name: Cow<'a, str> },
    /// `NOOP`.
    Noop,
    /// `MSGDONE`; `sequence` is `None` for `*`.
    MsgDone {
        sequence: Option<&'a str>,
        prog: u32,
        response: Cow<'a, str>,
    },
    /// `MSGFAIL`; `sequence` is `None` for `*`.
    MsgFail {
        sequence: Option<&'a str>,
        prog: u32,
        code: i32,
        message: Cow<'a, str>,
    },
    /// A line with an unknown tag, which clients ignore.
    Unknown,
}

impl Line<'_> {
    /// Returns `true` for data notifications, which both ends count for recovery.
    pub fn is_data(&self) -> bool {
        matches!(
            self,
            Self::Update { .. }
                | Self::SubOk { .. }
                | Self::SubCmd { .. }
                | Self::Unsub { .. }
                | Self::Eos { .. }
                | Self::Cs { .. }
                | Self::Overflow { .. }
                | Self::Conf { .. }
                | Self::MsgDone { .. }
                | Self::MsgFail { .. }
        )
    }
}

/// Parses one line without its CR LF.
pub fn parse_line(line: &[u8]) -> Result<Line<'_>, LineError> {
    match line {
        [b'U', b',', rest @ ..] => update(rest),
        _ => other_line(std::str::from_utf8(line).map_err(|_| LineError::NotUtf8)?),
    }
}

/// Parses an update from the bytes after its tag. Most lines are updates, so this omits the UTF-8
/// check and the search for the tag.
fn update(rest: &[u8]) -> Result<Line<'_>, LineError> {
    const TAG: &str = "U";
    let (sub_id, rest) = leading_number(rest, TAG, "subscription")?;
    let (item, payload) = leading_number(rest, TAG, "item")?;
    Ok(Line::Update {
        sub_id,
        item,
        payload,
    })
}

/// Reads a number and the comma after it.
fn leading_number<'a>(
    bytes: &'a [u8],
    tag: &'static str,
    argument: &'static str,
) -> Result<(u32, &'a [u8]), LineError> {
    let mut number: u32 = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => u32::from(byte - b'0'),
            b',' if at > 0 => return Ok((number, &bytes[at + 1..])),
            _ => return Err(LineError::Bad { tag, argument }),
        };
        number = number
            .checked_mul(10)
            .and_then(|tens| tens.checked_add(digit))
            .ok_or(LineError::Bad { tag, argument })?;
    }
    Err(LineError::Missing { tag, argument })
}

/// Parses a line other than an update.
fn other_line(line: &str) -> Result<Line<'_>, LineError> {
    let (tag, rest) = match line.split_once(',') {
        Some((tag, rest)) => (tag, Some(rest)),
        None => (line, None),
    };
    let Some(tag) = TAGS.into_iter().find(|known| *known == tag) else {
        return Ok(Line::Unknown);
    };
    let mut args = Args { tag, rest };
    Ok(match tag {
        "WSOK" => Line::WsOk,
        "PROBE" => Line::Probe,
        "NOOP" => Line::Noop,
        "CONOK" => Line::ConOk {
            session_id: args.next("session")?,
            request_limit: args.number("request limit")?,
            keepalive_ms: args.number("keepalive")?,
            control_link: Some(args.last("control link")?).filter(|link| *link != "*"),
        },
        "CONERR" => Line::ConErr {
            code: args.number("code")?,
            message: args.text("message")?,
        },
        "END" => Line::End {
            code: args.number("code")?,
            message: args.text("message")?,
        },
        "ERROR" => Line::Error {
            code: args.number("code")?,
            message: args.text("message")?,
        },
        "REQOK" => Line::ReqOk { request_id: rest },
        "REQERR" => Line::ReqErr {
            request_id: args.next("request id")?,
            code: args.number("code")?,
            message: args.text("message")?,
        },
        "LOOP" => Line::Loop {
            delay_ms: args.number("delay")?,
        },
        "SYNC" => Line::Sync {
            seconds: args.number("seconds")?,
        },
        "PROG" => Line::Prog {
            count: args.number("count")?,
        },
        "CONS" => Line::Cons {
            bandwidth: args.last("bandwidth")?,
        },
        "CLIENTIP" => Line::ClientIp {
            ip: args.last("address")?,
        },
        "SERVNAME" => Line::ServName {
            name: args.text("name")?,
        },
        _ => return notification(args),
    })
}

/// Parses data notifications other than `U`.
fn notification(mut args: Args<'_>) -> Result<Line<'_>, LineError> {
    Ok(match args.tag {
        "SUBOK" => Line::SubOk {
            sub_id: args.number("subscription")?,
            items: args.number("items")?,
            fields: args.number("fields")?,
        },
        "SUBCMD" => Line::SubCmd {
            sub_id: args.number("subscription")?,
            items: args.number("items")?,
            fields: args.number("fields")?,
            key_field: args.number("key field")?,
            command_field: args.number("command field")?,
        },
        "UNSUB" => Line::Unsub {
            sub_id: args.number("subscription")?,
        },
        "CONF" => Line::Conf {
            sub_id: args.number("subscription")?,
            max_frequency: args.next("frequency")?,
            filtered: match args.last("filtering")? {
                "filtered" => true,
                "unfiltered" => false,
                _ => return Err(args.bad("filtering")),
            },
        },
        "EOS" => Line::Eos {
            sub_id: args.number("subscription")?,
            item: args.number("item")?,
        },
        "CS" => Line::Cs {
            sub_id: args.number("subscription")?,
            item: args.number("item")?,
        },
        "OV" => Line::Overflow {
            sub_id: args.number("subscription")?,
            item: args.number("item")?,
            lost: args.number("lost")?,
        },
        "MSGDONE" => Line::MsgDone {
            sequence: args.sequence()?,
            prog: args.number("prog")?,
            response: args.text("response")?,
        },
        "MSGFAIL" => Line::MsgFail {
            sequence: args.sequence()?,
            prog: args.number("prog")?,
            code: args.number("code")?,
            message: args.text("message")?,
        },
        // `U` without arguments.
        tag => {
            let argument = "subscription";
            return Err(LineError::Missing { tag, argument });
        }
    })
}

/// Tags that [`other_line`] handles.
const TAGS: [&str; 25] = [
    "WSOK", "PROBE", "NOOP", "CONOK", "CONERR", "END", "ERROR", "REQOK", "REQERR", "LOOP", "SYNC",
    "PROG", "CONS", "CLIENTIP", "SERVNAME", "SUBOK", "SUBCMD", "UNSUB", "CONF", "EOS", "CS", "OV",
    "MSGDONE", "MSGFAIL", "U",
];

/// Arguments of a line, read from the front. The last one may contain commas.
struct Args<'a> {
    tag: &'static str,
    rest: Option<&'a str>,
}

impl<'a> Args<'a> {
    /// Returns the next argument.
    fn next(&mut self, argument: &'static str) -> Result<&'a str, LineError> {
        let rest = self.last(argument)?;
        let (value, rest) = match rest.split_once(',') {
            Some((value, rest)) => (value, Some(rest)),
            None => (rest, None),
        };
        self.rest = rest;
        Ok(value)
    }

    /// Returns the rest of the line as one argument.
    fn last(&self, argument: &'static str) -> Result<&'a str, LineError> {
        let tag = self.tag;
        self.rest.ok_or(LineError::Missing { tag, argument })
    }

    /// Returns the rest of the line as one argument, percent-decoded.
    fn text(&self, argument: &'static str) -> Result<Cow<'a, str>, LineError> {
        self.last(argument).map(percent_decode)
    }

    fn number<T: std::str::FromStr>(&mut self, argument: &'static str) -> Result<T, LineError> {
        let text = self.next(argument)?;
        text.parse().map_err(|_| self.bad(argument))
    }

    fn bad(&self, argument: &'static str) -> LineError {
        let tag = self.tag;
        LineError::Bad { tag, argument }
    }

    /// Returns the sequence of a client message; `None` for `*`.
    fn sequence(&mut self) -> Result<Option<&'a str>, LineError> {
        Ok(Some(self.next("sequence")?).filter(|name| *name != "*"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_lines_parse() {
        let update = Line::Update {
            sub_id: 12,
            item: 3,
            payload: b"a,b|",
        };
        let connected = Line::ConOk {
            session_id: "S1",
            request_limit: 50_000,
            keepalive_ms: 5_000,
            control_link: None,
        };
        let refused = Line::ReqErr {
            request_id: "7",
            code: -3,
            message: "a, b, c".into(),
        };
        let failed = Line::MsgFail {
            sequence: None,
            prog: 3,
            code: 39,
            message: "2".into(),
        };
        for (text, expected) in [
            ("U,12,3,a,b|", update),
            (
                "U,1,1,",
                Line::Update {
                    sub_id: 1,
                    item: 1,
                    payload: b"",
                },
            ),
            ("WSOK", Line::WsOk),
            ("CONOK,S1,50000,5000,*", connected),
            (
                "CONERR,2,no such set%2C sorry",
                Line::ConErr {
                    code: 2,
                    message: "no such set, sorry".into(),
                },
            ),
            ("REQERR,7,-3,a, b%2C c", refused),
            ("REQOK", Line::ReqOk { request_id: None }),
            (
                "REQOK,5",
                Line::ReqOk {
                    request_id: Some("5"),
                },
            ),
            (
                "SUBOK,1,1,4",
                Line::SubOk {
                    sub_id: 1,
                    items: 1,
                    fields: 4,
                },
            ),
            (
                "SUBCMD,1,1,4,1,2",
                Line::SubCmd {
                    sub_id: 1,
                    items: 1,
                    fields: 4,
                    key_field: 1,
                    command_field: 2,
                },
            ),
            (
                "CONF,1,2.5,filtered",
                Line::Conf {
                    sub_id: 1,
                    max_frequency: "2.5",
                    filtered: true,
                },
            ),
            (
                "OV,1,2,9",
                Line::Overflow {
                    sub_id: 1,
                    item: 2,
                    lost: 9,
                },
            ),
            ("LOOP,0", Line::Loop { delay_ms: 0 }),
            (
                "END,31,",
                Line::End {
                    code: 31,
                    message: "".into(),
                },
            ),
            (
                "MSGDONE,*,1,",
                Line::MsgDone {
                    sequence: None,
                    prog: 1,
                    response: "".into(),
                },
            ),
            ("MSGFAIL,*,3,39,2", failed),
            ("PROG,5", Line::Prog { count: 5 }),
            ("SERVNAME,a%2Cb", Line::ServName { name: "a,b".into() }),
            ("NOOP,padding, more", Line::Noop),
            ("MPNOK,1,2", Line::Unknown),
            ("", Line::Unknown),
        ] {
            assert_eq!(parse_line(text.as_bytes()), Ok(expected), "{text}");
        }
    }

    #[test]
    fn malformed_lines_are_errors() {
        for text in [
            "U",
            "U,",
            "U,1",
            "U,1,1",
            "U,,1,x",
            "U,1,,x",
            "U,x,1,y",
            "U,4294967296,1,x",
            "CONOK",
            "CONOK,S1",
            "CONOK,S1,x,5000,*",
            "SUBOK,1,1",
            "CONF,1,unlimited,maybe",
            "LOOP,soon",
            "LOOP",
            "END,x,y",
            "REQERR,1",
            "MSGDONE,*,1",
        ] {
            assert!(parse_line(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(parse_line(b"CONERR,1,\xff"), Err(LineError::NotUtf8));
    }

    #[test]
    fn is_data_selects_data_notifications() {
        for (text, data) in [
            ("U,1,1,x", true),
            ("SUBOK,1,1,1", true),
            ("CONF,1,unlimited,filtered", true),
            ("UNSUB,1", true),
            ("OV,1,1,1", true),
            ("EOS,1,1", true),
            ("PROBE", false),
            ("SYNC,4", false),
            ("CONS,unlimited", false),
            ("PROG,4", false),
            ("LOOP,0", false),
        ] {
            assert_eq!(
                parse_line(text.as_bytes()).map(|line| line.is_data()),
                Ok(data),
                "{text}"
            );
        }
    }
}
