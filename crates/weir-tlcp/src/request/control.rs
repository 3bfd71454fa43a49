//! Control requests, one per line of a `control` request.

use std::borrow::Cow;

use bounded_static::ToStatic;

use super::SessionRef;
use super::params::{LineParams, decimal, digits};
use super::values::Bandwidth;
use crate::codes::{ControlCode, SessionCode};
use crate::error::RequestFault;

/// One control request.
#[derive(Clone, Debug, PartialEq, ToStatic)]
pub struct Control<'a> {
    /// `LS_session`; if absent, the session of the connection.
    pub session: Option<SessionRef<'a>>,
    /// `LS_reqId`, letters and digits; absent only inside a combo request.
    pub request_id: Option<Cow<'a, str>>,
    /// `LS_ack`: success is confirmed with `REQOK`. Errors are always reported.
    pub ack: bool,
    /// `LS_cause` (undocumented): reason of the request, for diagnostics.
    pub cause: Option<Cow<'a, str>>,
    /// Operation.
    pub op: ControlOp<'a>,
}

/// `LS_op` and its parameters.
#[derive(Clone, Debug, PartialEq, ToStatic)]
#[allow(missing_docs)] // named after their parameters
pub enum ControlOp<'a> {
    /// `add`: subscribe.
    Add(Add<'a>),
    /// `delete`: unsubscribe.
    Delete { sub_id: u32 },
    /// `reconf`: change a subscription's frequency.
    Reconf {
        sub_id: u32,
        /// `LS_requested_max_frequency`; `None` = no change.
        requested_max_frequency: Option<Frequency>,
    },
    /// `constrain`: change the session's bandwidth.
    Constrain {
        /// `LS_requested_max_bandwidth`; `None` = no change.
        requested_max_bandwidth: Option<Bandwidth>,
    },
    /// `force_rebind`: end the stream with `LOOP`.
    ForceRebind {
        /// `LS_polling_millis`: expected time until the next bind.
        polling_ms: Option<u64>,
        close_socket: bool,
    },
    /// `destroy`: end the session with `END`.
    Destroy {
        /// Code of `END`: 31, or the client's value (0 and below; a positive one becomes 0).
        cause_code: i32,
        /// Message of `END`.
        cause_message: Cow<'a, str>,
        close_socket: bool,
    },
}

/// A subscription request.
#[derive(Clone, Debug, PartialEq, ToStatic)]
#[allow(missing_docs)] // named after their parameters
pub struct Add<'a> {
    /// `LS_subId`, from 1.
    pub sub_id: u32,
    /// `LS_group`, not empty.
    pub group: Cow<'a, str>,
    /// `LS_schema`, not empty.
    pub schema: Cow<'a, str>,
    pub mode: Mode,
    /// `LS_data_adapter`; `None` = `DEFAULT`.
    pub data_adapter: Option<Cow<'a, str>>,
    pub selector: Option<Cow<'a, str>>,
    /// `LS_requested_buffer_size`; ignored except in MERGE and DISTINCT.
    pub requested_buffer_size: Option<BufferSize>,
    /// `LS_requested_max_frequency`; ignored in RAW.
    pub requested_max_frequency: Frequency,
    /// `LS_snapshot`; ignored in RAW.
    pub snapshot: Snapshot,
}

/// `LS_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ToStatic)]
pub enum Mode {
    /// Every record as it arrives.
    Raw,
    /// Current values; updates are conflated for lagging clients.
    Merge,
    /// A list of events.
    Distinct,
    /// A table, keyed by a field.
    Command,
}

/// `LS_requested_buffer_size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToStatic)]
pub enum BufferSize {
    /// No limit.
    Unlimited,
    /// Maximum number of pending updates per item.
    Limited(u32),
}

/// `LS_requested_max_frequency`.
#[derive(Clone, Copy, Debug, PartialEq, ToStatic)]
pub enum Frequency {
    /// No limit; conflation and drops are allowed.
    Unlimited,
    /// No limit; updates are never dropped silently.
    Unfiltered,
    /// Maximum updates per second and item, above 0.
    PerSecond(f64),
}

/// `LS_snapshot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToStatic)]
pub enum Snapshot {
    /// No snapshot.
    No,
    /// Snapshot requested.
    Yes,
    /// Maximum number of events (DISTINCT).
    Length(u32),
}

impl Mode {
    /// Returns the protocol's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "RAW",
            Self::Merge => "MERGE",
            Self::Distinct => "DISTINCT",
            Self::Command => "COMMAND",
        }
    }

    /// Returns the mode of a word, which must be in upper case.
    pub fn from_word(word: &str) -> Option<Self> {
        let all = [Self::Raw, Self::Merge, Self::Distinct, Self::Command];
        all.into_iter().find(|mode| mode.as_str() == word)
    }
}

impl<'a> ControlOp<'a> {
    pub(super) fn read(params: &LineParams<'a>) -> Result<Self, RequestFault> {
        let op = params
            .filled("LS_op")
            .ok_or_else(|| RequestFault::missing("LS_op"))?;
        match &*op {
            "add" => Add::read(params).map(Self::Add),
            "delete" => Ok(Self::Delete {
                sub_id: sub_id(params)?,
            }),
            "reconf" => Ok(Self::Reconf {
                sub_id: sub_id(params)?,
                requested_max_frequency: params
                    .word("LS_requested_max_frequency", Frequency::read_change)?,
            }),
            "constrain" => Ok(Self::Constrain {
                requested_max_bandwidth: Bandwidth::read(params)?,
            }),
            "force_rebind" => Ok(Self::ForceRebind {
                polling_ms: params.number("LS_polling_millis")?.map(u64::from),
                close_socket: params.flag("LS_close_socket", false)?,
            }),
            "destroy" => Self::read_destroy(params),
            "register" | "reset_badge" | "activate" | "pn_reconf" | "deactivate" => Err(
                RequestFault::with_standard_text(ControlCode::MPN_UNAVAILABLE),
            ),
            other => Err(RequestFault::bad_value("LS_op", other)),
        }
    }

    fn read_destroy(params: &LineParams<'a>) -> Result<Self, RequestFault> {
        let close_socket = params.flag("LS_close_socket", false)?;
        let (cause_code, cause_message) = match params.word("LS_cause_code", signed)? {
            None => {
                let default = SessionCode::DESTROYED_BY_CLIENT;
                (default.code(), Cow::Borrowed(default.text()))
            }
            Some(code) => {
                // The specification requires the word `null` for an absent message.
                let message = params
                    .text("LS_cause_message")
                    .unwrap_or(Cow::Borrowed("null"));
                (code.min(0), message)
            }
        };
        Ok(Self::Destroy {
            cause_code,
            cause_message,
            close_socket,
        })
    }
}

impl<'a> Add<'a> {
    /// Errors of this subscription have code 21, 23 or 24, which SDKs report to the subscription.
    /// On 65 and 67 they end the whole session.
    fn read(params: &LineParams<'a>) -> Result<Self, RequestFault> {
        let sub_id = sub_id(params)?;
        let word = params.text("LS_mode").unwrap_or_default();
        let mode = Mode::from_word(&word)
            .ok_or_else(|| RequestFault::bad(ControlCode::MODE_NOT_ALLOWED, "LS_mode", &word))?;
        let filled = |name, code| {
            params
                .filled(name)
                .ok_or_else(|| RequestFault::bad(code, name, ""))
        };
        let group = filled("LS_group", ControlCode::BAD_GROUP)?;
        let schema = filled("LS_schema", ControlCode::BAD_SCHEMA)?;
        let mut add = Self {
            sub_id,
            group,
            schema,
            mode,
            data_adapter: params.text("LS_data_adapter"),
            selector: params.text("LS_selector"),
            requested_buffer_size: None,
            requested_max_frequency: Frequency::Unlimited,
            snapshot: Snapshot::No,
        };
        if matches!(mode, Mode::Merge | Mode::Distinct) {
            add.requested_buffer_size =
                params.word("LS_requested_buffer_size", BufferSize::read)?;
        }
        if mode != Mode::Raw {
            add.requested_max_frequency = params
                .word("LS_requested_max_frequency", Frequency::read)?
                .unwrap_or(Frequency::Unlimited);
            add.snapshot = params
                .word("LS_snapshot", Snapshot::read)?
                .unwrap_or(Snapshot::No);
        }
        Ok(add)
    }
}

impl BufferSize {
    fn read(text: &str) -> Option<Self> {
        match text {
            "unlimited" => Some(Self::Unlimited),
            number => digits(number)?.parse().ok().map(Self::Limited),
        }
    }
}

impl Frequency {
    fn read(text: &str) -> Option<Self> {
        match text {
            "unfiltered" => Some(Self::Unfiltered),
            other => Self::read_change(other),
        }
    }

    fn read_change(text: &str) -> Option<Self> {
        match text {
            "unlimited" => Some(Self::Unlimited),
            number => decimal(number).map(Self::PerSecond),
        }
    }
}

impl Snapshot {
    fn read(text: &str) -> Option<Self> {
        match text {
            "false" => Some(Self::No),
            "true" => Some(Self::Yes),
            number => digits(number)?.parse().ok().map(Self::Length),
        }
    }
}

/// Reads any positive 32-bit integer; ids need not be consecutive.
fn sub_id(params: &LineParams<'_>) -> Result<u32, RequestFault> {
    let id = params
        .number("LS_subId")?
        .ok_or_else(|| RequestFault::missing("LS_subId"))?;
    if id == 0 {
        return Err(RequestFault::bad_value("LS_subId", "0"));
    }
    Ok(id)
}

fn signed(text: &str) -> Option<i32> {
    digits(text.strip_prefix('-').unwrap_or(text))?;
    text.parse().ok()
}
