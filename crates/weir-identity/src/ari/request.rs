//! Requests of the gateway to an adapter.

use std::fmt;

use super::error::AriError;
use super::token_reader::TokenReader;
use super::token_writer::TokenWriter;
use super::version::{AdapterPeer, AriVersion, TextEncoding};
use crate::modes::{ItemMode, ItemModes};

/// Method of a request that an adapter replies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names are those of the requests
pub enum AdapterMethod {
    Init,
    NotifyUser,
    NotifyUserWithPrincipal,
    NotifyNewSession,
    GetItems,
    GetSchema,
    GetItemData,
    GetUserItemData,
    NotifyNewTables,
    NotifyTablesClose,
    NotifyUserMessage,
    NotifySessionClose,
}

impl AdapterMethod {
    /// All methods.
    pub const ALL: [Self; 12] = [
        Self::Init,
        Self::NotifyUser,
        Self::NotifyUserWithPrincipal,
        Self::NotifyNewSession,
        Self::GetItems,
        Self::GetSchema,
        Self::GetItemData,
        Self::GetUserItemData,
        Self::NotifyNewTables,
        Self::NotifyTablesClose,
        Self::NotifyUserMessage,
        Self::NotifySessionClose,
    ];

    /// Returns the name of the method in request lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "MPI",
            Self::NotifyUser => "NUS",
            Self::NotifyUserWithPrincipal => "NUA",
            Self::NotifyNewSession => "NNS",
            Self::GetItems => "GIS",
            Self::GetSchema => "GSC",
            Self::GetItemData => "GIT",
            Self::GetUserItemData => "GUI",
            Self::NotifyNewTables => "NNT",
            Self::NotifyTablesClose => "NTC",
            Self::NotifyUserMessage => "NUM",
            Self::NotifySessionClose => "NSC",
        }
    }

    /// Returns the method with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Returns the encoding of texts in its lines.
    pub(super) fn encoding(self, version: AriVersion) -> TextEncoding {
        match self {
            Self::Init => TextEncoding::Form,
            _ => version.encoding(),
        }
    }
}

/// Name and value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Name.
    pub name: String,
    /// Value; it may be null.
    pub value: Option<String>,
}

impl Parameter {
    /// Creates a parameter that is not null.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: Some(value.into()),
        }
    }
}

/// A subscription, which the protocol calls a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableInfo {
    /// Number within the session.
    pub window: i32,
    /// Mode.
    pub mode: ItemMode,
    /// Item group.
    pub group: String,
    /// Data adapter; only since version 1.9.
    pub data_adapter: Option<String>,
    /// Field schema.
    pub schema: String,
    /// First item.
    pub first: i32,
    /// Last item.
    pub last: i32,
    /// Selector.
    pub selector: Option<String>,
    /// Item names; only since version 1.9.
    pub items: Vec<String>,
}

/// Updates of one item of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are those of the protocol
pub struct TableStatistics {
    pub sent: i64,
    pub lost: i64,
    pub filtered: i64,
}

/// A request. Texts that an adapter may receive as null are optional.
#[derive(Clone, PartialEq)]
#[allow(missing_docs)] // the names are those of the protocol
pub enum AdapterRequest {
    /// First request.
    Init { parameters: Vec<Parameter> },
    /// A client requests a session.
    NotifyUser {
        user: Option<String>,
        password: Option<String>,
        headers: Vec<Parameter>,
    },
    /// The same on a port that asks for client certificates.
    NotifyUserWithPrincipal {
        user: Option<String>,
        password: Option<String>,
        principal: Option<String>,
        headers: Vec<Parameter>,
    },
    /// A session starts.
    NotifyNewSession {
        user: Option<String>,
        session: String,
        context: Vec<Parameter>,
    },
    /// Item names of a group.
    GetItems {
        user: Option<String>,
        group: String,
        session: String,
    },
    /// Field names of a schema.
    GetSchema {
        user: Option<String>,
        group: String,
        schema: String,
        session: String,
    },
    /// Properties of items.
    GetItemData { items: Vec<String> },
    /// Properties of items for a user.
    GetUserItemData {
        user: Option<String>,
        items: Vec<String>,
    },
    /// A subscription starts.
    NotifyNewTables {
        user: Option<String>,
        session: String,
        table: TableInfo,
    },
    /// A subscription ended.
    NotifyTablesClose {
        session: String,
        table: TableInfo,
        statistics: Vec<TableStatistics>,
    },
    /// A client sent a message.
    NotifyUserMessage {
        user: Option<String>,
        session: String,
        message: String,
    },
    /// A session ended.
    NotifySessionClose { session: String },
    /// The connection ends; there is no reply.
    Close { reason: String },
}

impl AdapterRequest {
    /// Returns the method; `None` for `CLOSE`.
    pub fn method(&self) -> Option<AdapterMethod> {
        Some(match self {
            Self::Init { .. } => AdapterMethod::Init,
            Self::NotifyUser { .. } => AdapterMethod::NotifyUser,
            Self::NotifyUserWithPrincipal { .. } => AdapterMethod::NotifyUserWithPrincipal,
            Self::NotifyNewSession { .. } => AdapterMethod::NotifyNewSession,
            Self::GetItems { .. } => AdapterMethod::GetItems,
            Self::GetSchema { .. } => AdapterMethod::GetSchema,
            Self::GetItemData { .. } => AdapterMethod::GetItemData,
            Self::GetUserItemData { .. } => AdapterMethod::GetUserItemData,
            Self::NotifyNewTables { .. } => AdapterMethod::NotifyNewTables,
            Self::NotifyTablesClose { .. } => AdapterMethod::NotifyTablesClose,
            Self::NotifyUserMessage { .. } => AdapterMethod::NotifyUserMessage,
            Self::NotifySessionClose { .. } => AdapterMethod::NotifySessionClose,
            Self::Close { .. } => return None,
        })
    }

    /// Appends the line of the request. `CLOSE` ignores the ID.
    pub fn encode(&self, id: &str, peer: &AdapterPeer, out: &mut String) {
        let Some(method) = self.method() else {
            return self.encode_close(out);
        };
        let mut line = TokenWriter::new(out, id, method.name());
        match self {
            Self::Init { parameters } => push_parameters(&mut line, parameters),
            Self::NotifyUser {
                user,
                password,
                headers,
            } => {
                line.optional_text(user.as_deref());
                line.optional_text(password.as_deref());
                push_parameters(&mut line, headers);
            }
            Self::NotifyUserWithPrincipal {
                user,
                password,
                principal,
                headers,
            } => {
                line.optional_text(user.as_deref());
                line.optional_text(password.as_deref());
                line.optional_text(principal.as_deref());
                push_parameters(&mut line, headers);
            }
            Self::NotifyNewSession {
                user,
                session,
                context,
            } => {
                line.optional_text(user.as_deref());
                line.text(session);
                push_parameters(&mut line, context);
            }
            Self::GetItems {
                user,
                group,
                session,
            } => {
                line.optional_text(user.as_deref());
                line.text(group);
                line.text(session);
            }
            Self::GetSchema {
                user,
                group,
                schema,
                session,
            } => {
                line.optional_text(user.as_deref());
                line.text(group);
                line.text(schema);
                line.text(session);
            }
            Self::GetItemData { items } => items.iter().for_each(|item| line.text(item)),
            Self::GetUserItemData { user, items } => {
                line.optional_text(user.as_deref());
                items.iter().for_each(|item| line.text(item));
            }
            Self::NotifyNewTables {
                user,
                session,
                table,
            } => {
                line.optional_text(user.as_deref());
                line.text(session);
                table.push(&mut line, peer);
            }
            Self::NotifyTablesClose {
                session,
                table,
                statistics,
            } => {
                line.text(session);
                table.push(&mut line, peer);
                push_statistics(&mut line, statistics, peer);
            }
            Self::NotifyUserMessage {
                user,
                session,
                message,
            } => {
                line.optional_text(user.as_deref());
                line.text(session);
                line.text(message);
            }
            Self::NotifySessionClose { session } => line.text(session),
            Self::Close { .. } => {}
        }
        line.finish();
    }

    fn encode_close(&self, out: &mut String) {
        if let Self::Close { reason } = self {
            let mut line = TokenWriter::new(out, "0", "CLOSE");
            line.text("reason");
            line.text(reason);
            line.finish();
        }
    }

    /// Decodes a line as an adapter does. Returns the ID and the request.
    pub fn decode(line: &str, version: AriVersion) -> Result<(&str, Self), AriError> {
        let mut reader = TokenReader::new(line, TextEncoding::Form);
        let id = reader.token().map_err(|_| AriError::Line)?;
        let name = reader.token().map_err(|_| AriError::Line)?;
        if name == "CLOSE" {
            let parameters = reader.list(parameter)?;
            let mut parameters = parameters.into_iter().filter(|one| one.name == "reason");
            let reason = parameters
                .next()
                .and_then(|one| one.value)
                .unwrap_or_default();
            return Ok((id, Self::Close { reason }));
        }
        let method = AdapterMethod::from_name(name).ok_or(AriError::UnknownMethod)?;
        reader.set_encoding(method.encoding(version));
        let request = Self::read(&mut reader, method, version)?;
        reader.finish()?;
        Ok((id, request))
    }

    fn read(
        reader: &mut TokenReader<'_>,
        method: AdapterMethod,
        version: AriVersion,
    ) -> Result<Self, AriError> {
        Ok(match method {
            AdapterMethod::Init => Self::Init {
                parameters: reader.list(parameter)?,
            },
            AdapterMethod::NotifyUser => Self::NotifyUser {
                user: reader.optional_text()?,
                password: reader.optional_text()?,
                headers: reader.list(parameter)?,
            },
            AdapterMethod::NotifyUserWithPrincipal => Self::NotifyUserWithPrincipal {
                user: reader.optional_text()?,
                password: reader.optional_text()?,
                principal: reader.optional_text()?,
                headers: reader.list(parameter)?,
            },
            AdapterMethod::NotifyNewSession => Self::NotifyNewSession {
                user: reader.optional_text()?,
                session: reader.text()?,
                context: reader.list(parameter)?,
            },
            AdapterMethod::GetItems => Self::GetItems {
                user: reader.optional_text()?,
                group: reader.text()?,
                session: reader.text()?,
            },
            AdapterMethod::GetSchema => Self::GetSchema {
                user: reader.optional_text()?,
                group: reader.text()?,
                schema: reader.text()?,
                session: reader.text()?,
            },
            AdapterMethod::GetItemData => Self::GetItemData {
                items: reader.list(TokenReader::text)?,
            },
            AdapterMethod::GetUserItemData => Self::GetUserItemData {
                user: reader.optional_text()?,
                items: reader.list(TokenReader::text)?,
            },
            AdapterMethod::NotifyNewTables => Self::NotifyNewTables {
                user: reader.optional_text()?,
                session: reader.text()?,
                table: TableInfo::read(reader, version)?,
            },
            AdapterMethod::NotifyTablesClose => Self::NotifyTablesClose {
                session: reader.text()?,
                table: TableInfo::read(reader, version)?,
                statistics: read_statistics(reader, version)?,
            },
            AdapterMethod::NotifyUserMessage => Self::NotifyUserMessage {
                user: reader.optional_text()?,
                session: reader.text()?,
                message: reader.text()?,
            },
            AdapterMethod::NotifySessionClose => Self::NotifySessionClose {
                session: reader.text()?,
            },
        })
    }
}

/// Prints the method only: requests contain passwords and session IDs.
impl fmt::Debug for AdapterRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.method().map_or("CLOSE", AdapterMethod::name);
        write!(f, "AdapterRequest({name})")
    }
}

impl TableInfo {
    fn push(&self, line: &mut TokenWriter<'_>, peer: &AdapterPeer) {
        line.integer(self.window);
        line.modes(Some(std::iter::once(self.mode).collect()));
        line.text(&self.group);
        if peer.version.is_1_9() {
            line.optional_text(self.data_adapter.as_deref());
        }
        line.text(&self.schema);
        line.integer(self.first);
        line.integer(self.last);
        line.optional_text(self.selector.as_deref());
        if peer.version.is_1_9() {
            // The SDK for Node.js reads tables in strides of 16 tokens and fails at items.
            let items = if peer.is_node { &[] } else { &*self.items };
            line.count(items.len());
            items.iter().for_each(|item| line.text(item));
        }
    }

    fn read(reader: &mut TokenReader<'_>, version: AriVersion) -> Result<Self, AriError> {
        let (window, mode, group) = (reader.integer()?, mode(reader)?, reader.text()?);
        let data_adapter = match version.is_1_9() {
            true => reader.optional_text()?,
            false => None,
        };
        let mut table = Self {
            window,
            mode,
            group,
            data_adapter,
            schema: reader.text()?,
            first: reader.integer()?,
            last: reader.integer()?,
            selector: reader.optional_text()?,
            items: Vec::new(),
        };
        if version.is_1_9() {
            let count = reader.count()?;
            table.items = (0..count)
                .map(|_| reader.text())
                .collect::<Result<_, _>>()?;
        }
        Ok(table)
    }
}

fn mode(reader: &mut TokenReader<'_>) -> Result<ItemMode, AriError> {
    let modes: Option<ItemModes> = reader.modes()?;
    let mut modes = modes.unwrap_or_default().iter();
    match (modes.next(), modes.next()) {
        (Some(mode), None) => Ok(mode),
        _ => Err(AriError::Value { kind: 'M' }),
    }
}

pub(super) fn push_parameters(line: &mut TokenWriter<'_>, parameters: &[Parameter]) {
    for parameter in parameters {
        line.text(&parameter.name);
        line.optional_text(parameter.value.as_deref());
    }
}

pub(super) fn parameter(reader: &mut TokenReader<'_>) -> Result<Parameter, AriError> {
    Ok(Parameter {
        name: reader.text()?,
        value: reader.optional_text()?,
    })
}

fn push_statistics(line: &mut TokenWriter<'_>, values: &[TableStatistics], peer: &AdapterPeer) {
    if peer.version.is_1_9() {
        let values = if peer.is_node { &[] } else { values };
        line.count(values.len());
        for one in values {
            line.long(one.sent);
            line.long(one.lost);
            line.long(one.filtered);
        }
    }
}

fn read_statistics(
    reader: &mut TokenReader<'_>,
    version: AriVersion,
) -> Result<Vec<TableStatistics>, AriError> {
    let count = match version.is_1_9() {
        true => reader.count()?,
        false => 0,
    };
    let values = (0..count).map(|_| {
        Ok(TableStatistics {
            sent: reader.long()?,
            lost: reader.long()?,
            filtered: reader.long()?,
        })
    });
    values.collect()
}
