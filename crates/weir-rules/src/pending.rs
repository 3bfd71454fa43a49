//! Changes by the rules in the response to a request.

use weir_wire::message::{MessageRow, Value};

use super::table::ApiAccess;

/// Changes of a response.
#[derive(Debug)]
pub struct ResponseChanges {
    pub(super) access: &'static ApiAccess,
    /// Elements for what was removed from the request.
    pub(super) add: Vec<MessageRow<'static>>,
    /// Array for them.
    pub(super) into: &'static str,
    /// The request is about all resources of a kind.
    pub(super) is_about_all: bool,
    /// The request had no element left, so the broker's are not what was asked for.
    pub(super) replaces_all: bool,
    /// The response opens a fetch session.
    pub(super) opens_session: bool,
    /// The request names topics by id, which are decided about when their names are known.
    pub(super) is_by_id: bool,
    /// Names of topics that must not be created.
    pub(super) not_created: Vec<Box<str>>,
    /// Names of the requested topics, if all are requested from the broker.
    pub(super) only: Option<Vec<Box<str>>>,
    /// Topics to add to the groups with these ids.
    pub(super) into_groups: Vec<(Value<'static>, Vec<MessageRow<'static>>)>,
}

impl ResponseChanges {
    pub(super) fn new(access: &'static ApiAccess) -> Self {
        Self {
            access,
            add: Vec::new(),
            into: "",
            is_about_all: false,
            replaces_all: false,
            opens_session: false,
            is_by_id: false,
            not_created: Vec::new(),
            only: None,
            into_groups: Vec::new(),
        }
    }

    /// Returns `true` if the response is forwarded as it is, once its start has been read.
    pub fn only_opens_session(&self) -> bool {
        self.opens_session && self.add.is_empty()
    }

    /// Returns the approximate memory in bytes.
    pub fn buffered_bytes(&self) -> usize {
        let groups = self.into_groups.iter().flat_map(|(_, rows)| rows);
        let rows: usize = self.add.iter().chain(groups).map(bytes_of).sum();
        let names = self.not_created.iter().chain(self.only.iter().flatten());
        let names: usize = names.map(|name| name.len() + 32).sum();
        rows + names + size_of::<Self>()
    }
}

fn bytes_of(row: &MessageRow<'_>) -> usize {
    let values = row.values.iter().map(|value| match value {
        Value::Bytes(Some(bytes)) | Value::Packed(Some(bytes)) => bytes.len(),
        Value::Texts(Some(texts)) => texts.iter().map(|text| text.len() + 24).sum(),
        Value::Rows(Some(rows)) => rows.iter().map(bytes_of).sum(),
        Value::Row(Some(row)) => bytes_of(row),
        _ => 0,
    });
    values.sum::<usize>() + size_of_val(&row.values[..])
}
