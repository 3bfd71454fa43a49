//! Replies of an adapter.

use super::error::AriError;
use super::request::{AdapterMethod, Parameter, parameter, push_parameters};
use super::token_reader::TokenReader;
use super::token_writer::TokenWriter;
use super::version::{AriVersion, TextEncoding};
use crate::modes::ItemModes;

/// Name of the parameter with the protocol version.
const VERSION_PARAMETER: &str = "ARI.version";

/// Properties of an item for every user.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ItemData {
    /// Length of the snapshot in mode DISTINCT; 0 for none.
    pub snapshot_length: i32,
    /// Lowest frequency of the source; 0 for no filter.
    pub source_frequency: f64,
    /// Modes; `None` for null.
    pub modes: Option<ItemModes>,
}

/// Properties of an item for one user.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UserItemData {
    /// Buffer size; 0 for unlimited.
    pub buffer_size: i32,
    /// Highest frequency; 0 for unlimited.
    pub frequency_max: f64,
    /// Modes; `None` for null.
    pub modes: Option<ItemModes>,
}

/// Result of a request.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // the names are those of the protocol
pub enum AdapterReply {
    /// The adapter is ready.
    Init {
        version: AriVersion,
        parameters: Vec<Parameter>,
    },
    /// The user is accepted.
    User {
        /// In kbit/s; 0 for unlimited.
        bandwidth_max_kbps: f64,
        wants_tables: bool,
    },
    /// The session is accepted.
    Session {
        /// In seconds; 0 or less for no limit.
        time_to_live_s: Option<i32>,
    },
    /// Item or field names.
    Names(Vec<String>),
    ItemData(Vec<ItemData>),
    UserItemData(Vec<UserItemData>),
    /// The subscription is accepted.
    Tables {
        can_unsubscribe: bool,
        wants_statistics: bool,
    },
    /// Done, without a value.
    Void,
}

/// Kind of an exception.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the names are those of the protocol
pub enum ExceptionKind {
    Generic,
    Init,
    Access,
    Unavailable,
    /// `code` is at most 0: adapters may send positive codes, which Lightstreamer clears.
    Credits {
        code: i32,
        user_message: Option<String>,
    },
    /// As [`Self::Credits`], with another session that must end first.
    ConflictingSession {
        code: i32,
        user_message: Option<String>,
        session: String,
    },
    Items,
    Schema,
    Notification,
}

/// Exception that an adapter raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterException {
    /// Kind.
    pub kind: ExceptionKind,
    /// Text for the operator.
    pub message: Option<String>,
}

/// Reply whose values are not decoded yet: the gateway first looks the request up.
#[derive(Debug, Clone)]
pub struct ReplyLine<'a> {
    /// ID of the request.
    pub id: &'a str,
    /// Method.
    pub method: AdapterMethod,
    pub(super) values: TokenReader<'a>,
}

impl ReplyLine<'_> {
    /// Decodes the values. `method` is that of the request, `entries` the number of items that it
    /// asked about.
    pub fn decode(
        mut self,
        method: AdapterMethod,
        entries: usize,
        version: AriVersion,
    ) -> Result<Result<AdapterReply, AdapterException>, AriError> {
        if self.method != method {
            return Err(AriError::OtherMethod);
        }
        let values = &mut self.values;
        values.set_encoding(method.encoding(version));
        if values.peek().is_some_and(|token| token.starts_with('E')) {
            let exception = AdapterException::read(values, method)?;
            values.finish()?;
            return Ok(Err(exception));
        }
        let reply = AdapterReply::read(values, method)?;
        values.finish()?;
        let found = match &reply {
            AdapterReply::ItemData(data) => data.len(),
            AdapterReply::UserItemData(data) => data.len(),
            _ => entries,
        };
        match found == entries {
            true => Ok(Ok(reply)),
            false => Err(AriError::Count {
                found,
                expected: entries,
            }),
        }
    }
}

impl AdapterReply {
    fn read(values: &mut TokenReader<'_>, method: AdapterMethod) -> Result<Self, AriError> {
        let is_void = values.peek() == Some("V");
        Ok(match method {
            AdapterMethod::Init => return read_init(values),
            AdapterMethod::NotifyUser | AdapterMethod::NotifyUserWithPrincipal => Self::User {
                bandwidth_max_kbps: values.decimal()?,
                wants_tables: values.flag()?,
            },
            AdapterMethod::NotifyNewSession if !is_void => Self::Session {
                time_to_live_s: Some(values.integer()?),
            },
            AdapterMethod::NotifyNewSession => {
                values.void()?;
                Self::Session {
                    time_to_live_s: None,
                }
            }
            AdapterMethod::GetItems | AdapterMethod::GetSchema => {
                Self::Names(values.list(TokenReader::text)?)
            }
            AdapterMethod::GetItemData => Self::ItemData(values.list(|values| {
                Ok(ItemData {
                    snapshot_length: values.integer()?,
                    source_frequency: values.decimal()?,
                    modes: values.modes()?,
                })
            })?),
            AdapterMethod::GetUserItemData => Self::UserItemData(values.list(|values| {
                Ok(UserItemData {
                    buffer_size: values.integer()?,
                    frequency_max: values.decimal()?,
                    modes: values.modes()?,
                })
            })?),
            AdapterMethod::NotifyNewTables if !is_void => Self::Tables {
                can_unsubscribe: values.flag()?,
                wants_statistics: values.flag()?,
            },
            AdapterMethod::NotifyNewTables => {
                values.void()?;
                Self::Tables {
                    can_unsubscribe: false,
                    wants_statistics: false,
                }
            }
            AdapterMethod::NotifyTablesClose
            | AdapterMethod::NotifyUserMessage
            | AdapterMethod::NotifySessionClose => {
                values.void()?;
                Self::Void
            }
        })
    }

    /// Appends the line of a reply, as an adapter does.
    pub fn encode(&self, id: &str, method: AdapterMethod, out: &mut String) {
        let mut line = TokenWriter::new(out, id, method.name());
        match self {
            Self::Init {
                version,
                parameters,
            } if *version == AriVersion::V180 => {
                debug_assert!(parameters.is_empty(), "1.8.0 has no parameters");
                line.token("V");
            }
            Self::Init { parameters, .. } => push_parameters(&mut line, parameters),
            Self::User {
                bandwidth_max_kbps,
                wants_tables,
            } => {
                line.decimal(*bandwidth_max_kbps);
                line.flag(*wants_tables);
            }
            Self::Session {
                time_to_live_s: Some(seconds),
            } => line.integer(*seconds),
            Self::Session {
                time_to_live_s: None,
            }
            | Self::Void => line.token("V"),
            Self::Names(names) => names.iter().for_each(|name| line.text(name)),
            Self::ItemData(data) => {
                for one in data {
                    line.integer(one.snapshot_length);
                    line.decimal(one.source_frequency);
                    line.modes(one.modes);
                }
            }
            Self::UserItemData(data) => {
                for one in data {
                    line.integer(one.buffer_size);
                    line.decimal(one.frequency_max);
                    line.modes(one.modes);
                }
            }
            Self::Tables {
                can_unsubscribe,
                wants_statistics,
            } => {
                line.flag(*can_unsubscribe);
                line.flag(*wants_statistics);
            }
        }
        line.finish();
    }
}

/// Reads the reply to the first request. Without a version it means 1.8.0.
fn read_init(values: &mut TokenReader<'_>) -> Result<AdapterReply, AriError> {
    values.set_encoding(TextEncoding::Form);
    if values.peek() == Some("V") {
        values.void()?;
        return Ok(AdapterReply::Init {
            version: AriVersion::V180,
            parameters: Vec::new(),
        });
    }
    let parameters = values.list(parameter)?;
    let version = parameters.iter().find(|one| one.name == VERSION_PARAMETER);
    let version = version
        .and_then(|one| one.value.as_deref())
        .ok_or(AriError::Version)?;
    Ok(AdapterReply::Init {
        version: AriVersion::parse(version)?,
        parameters,
    })
}

impl AdapterException {
    fn read(values: &mut TokenReader<'_>, method: AdapterMethod) -> Result<Self, AriError> {
        let letter = values.token()?;
        let letters = allowed_letters(method);
        let is_allowed = letter == "E" || letters.contains(&letter);
        if !is_allowed {
            return Err(AriError::Exception);
        }
        let message = values.bare_text()?;
        let kind = match letter {
            "EM" => ExceptionKind::Init,
            "EA" => ExceptionKind::Access,
            "ER" => ExceptionKind::Unavailable,
            "EC" => ExceptionKind::Credits {
                code: values.bare_integer()?.min(0),
                user_message: values.bare_text()?,
            },
            "EX" => ExceptionKind::ConflictingSession {
                code: values.bare_integer()?.min(0),
                user_message: values.bare_text()?,
                session: values.bare_text()?.ok_or(AriError::Value { kind: 'S' })?,
            },
            "EI" => ExceptionKind::Items,
            "ES" => ExceptionKind::Schema,
            "EN" => ExceptionKind::Notification,
            _ => ExceptionKind::Generic,
        };
        Ok(Self { kind, message })
    }

    /// Appends the line of an exception, as an adapter does.
    pub fn encode(&self, id: &str, method: AdapterMethod, out: &mut String) {
        let mut line = TokenWriter::new(out, id, method.name());
        line.token(match &self.kind {
            ExceptionKind::Generic => "E",
            ExceptionKind::Init => "EM",
            ExceptionKind::Access => "EA",
            ExceptionKind::Unavailable => "ER",
            ExceptionKind::Credits { .. } => "EC",
            ExceptionKind::ConflictingSession { .. } => "EX",
            ExceptionKind::Items => "EI",
            ExceptionKind::Schema => "ES",
            ExceptionKind::Notification => "EN",
        });
        line.bare_text(self.message.as_deref());
        match &self.kind {
            ExceptionKind::Credits { code, user_message } => {
                line.token(&code.to_string());
                line.bare_text(user_message.as_deref());
            }
            ExceptionKind::ConflictingSession {
                code,
                user_message,
                session,
            } => {
                line.token(&code.to_string());
                line.bare_text(user_message.as_deref());
                line.bare_text(Some(session));
            }
            _ => {}
        }
        line.finish();
    }
}

/// Returns the exceptions of a method besides the generic one.
fn allowed_letters(method: AdapterMethod) -> &'static [&'static str] {
    match method {
        AdapterMethod::Init => &["EM"],
        AdapterMethod::NotifyUser | AdapterMethod::NotifyUserWithPrincipal => &["EA", "EC", "ER"],
        AdapterMethod::NotifyNewSession => &["EC", "EX", "EN"],
        AdapterMethod::GetItems => &["EI"],
        AdapterMethod::GetSchema => &["EI", "ES"],
        AdapterMethod::NotifyNewTables | AdapterMethod::NotifyUserMessage => &["EC", "EN"],
        AdapterMethod::NotifyTablesClose | AdapterMethod::NotifySessionClose => &["EN"],
        AdapterMethod::GetItemData | AdapterMethod::GetUserItemData => &[],
    }
}
