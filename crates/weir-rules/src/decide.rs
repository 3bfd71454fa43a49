//! Decides whether a request is forwarded, edited or denied.

use weir_identity::acl::ResourceType;
use weir_wire::WireError;
use weir_wire::cluster::TopicId;
use weir_wire::message::{self, ApiDefinition, MessageRow, Value};

use super::check::{Denial, Finding, RequestCheck};
use super::mirror::{element_definition, first_error, text};
use super::pending::PendingAccess;
use super::session::AccessSession;
use super::special;
use super::table::{ApiAccess, ItemCheck, message as error_text};
use weir_filters::TopicNames;

/// The decision about a request.
#[derive(Debug)]
pub enum RequestDecision {
    /// Forward the request as it is; the response may have to be changed.
    Forward(Option<Box<PendingAccess>>),
    /// Forward this body instead.
    Edited(Vec<u8>, Box<PendingAccess>),
    /// Respond with this body.
    Respond(Vec<u8>),
    /// Close the connection, because the request has no response that could contain an error.
    Close,
    /// Request the names of these topics, then decide again.
    LookUp(Vec<TopicId>),
}

/// Decides about the body of a request. `names_requested` is `true` if the names of its topics have
/// been requested.
pub(super) fn check(
    session: &mut AccessSession,
    names: &TopicNames,
    (api, access): (&'static ApiDefinition, &'static ApiAccess),
    version: i16,
    body: &[u8],
    names_requested: bool,
) -> Result<(RequestDecision, Option<Denial>), WireError> {
    let flexible = api.is_flexible(version);
    let row = message::decode(&api.request, version, flexible, body)?;
    let mut check = RequestCheck {
        session,
        names,
        api,
        access,
        version,
        row,
        pending: PendingAccess::new(access),
        is_edited: false,
        is_empty: false,
        names_requested,
        denied: None,
    };
    let finding = check.run();
    let mut denied = check.denied.take();
    if let Some(denial) = &mut denied {
        denial.error = check.error_of(&finding);
    }
    Ok((check.verdict(finding), denied))
}

impl RequestCheck<'_, '_> {
    fn run(&mut self) -> Finding {
        for whole in self.access.whole {
            if let Some(error) = self.whole(whole) {
                return Finding::Denied(error);
            }
        }
        if let Some(finding) = special::check(self) {
            return finding;
        }
        let Some(items) = self.access.items.filter(|items| items.needs_right()) else {
            return Finding::Checked;
        };
        self.items(items)
    }

    /// Returns the first error code that the client gets.
    fn error_of(&self, finding: &Finding) -> Option<i16> {
        let response = &self.api.response;
        if !self.has_response() {
            return None;
        }
        match finding {
            Finding::Denied(error) => Some(*error),
            Finding::Respond(row) => first_error(response, row),
            Finding::Checked => {
                let inner = element_definition(response, self.pending.into)?;
                let mut added = self.pending.add.iter();
                added.find_map(|row| first_error(inner, row))
            }
            Finding::LookUp(_) => None,
        }
    }

    fn verdict(mut self, finding: Finding) -> RequestDecision {
        match finding {
            Finding::LookUp(ids) => RequestDecision::LookUp(ids),
            Finding::Respond(row) => self.respond(&row),
            Finding::Denied(error) => match self.has_response() {
                true => {
                    let row = self.denied_row(error);
                    self.respond(&row)
                }
                false => RequestDecision::Close,
            },
            Finding::Checked if !self.is_edited => {
                let pending =
                    special::reads_response(&self.pending).then(|| Box::new(self.pending));
                RequestDecision::Forward(pending)
            }
            Finding::Checked if !self.has_response() => RequestDecision::Close,
            Finding::Checked if self.is_empty && !special::is_forwarded_empty(self.api.key) => {
                let mut row = MessageRow::new(&self.api.response, self.version);
                let add = std::mem::take(&mut self.pending.add);
                row.set(
                    &self.api.response,
                    self.pending.into,
                    Value::Rows(Some(add)),
                );
                self.respond(&row)
            }
            Finding::Checked => {
                let flexible = self.api.is_flexible(self.version);
                let mut body = Vec::new();
                message::encode(
                    &self.row,
                    &self.api.request,
                    self.version,
                    flexible,
                    &mut body,
                );
                RequestDecision::Edited(body, Box::new(self.pending))
            }
        }
    }

    /// Returns `true` unless the request is one without a response: Produce with acks=0.
    fn has_response(&self) -> bool {
        *self.field("Acks") != Value::Int(0)
    }

    fn respond(&self, row: &MessageRow<'_>) -> RequestDecision {
        let flexible = self.api.is_flexible(self.version);
        let mut body = Vec::new();
        message::encode(row, &self.api.response, self.version, flexible, &mut body);
        RequestDecision::Respond(body)
    }

    /// Returns the response to a request that is denied as a whole.
    fn denied_row(&self, error: i16) -> MessageRow<'static> {
        let response = &self.api.response;
        let mut row = MessageRow::new(response, self.version);
        let has_error = *row.get(response, "ErrorCode") != Value::Absent;
        row.set(response, "ErrorCode", Value::Int(error.into()));
        row.set(response, "ErrorMessage", text(error_text(error)));
        special::complete_denied(self, &mut row, error);
        if let Some(items) = self
            .access
            .items
            .filter(|_| !has_error || self.mirrors_always())
        {
            let rows = self.mirrored_items(items, error);
            row.set(response, items.into, Value::Rows(Some(rows)));
        }
        row
    }

    fn mirrors_always(&self) -> bool {
        matches!(self.api.key, ELECT_LEADERS | ALTER_REASSIGNMENTS)
    }
}

impl ItemCheck {
    /// Returns `false` if the array only shapes the response to a denied request.
    fn needs_right(&self) -> bool {
        self.kind != ResourceType::Cluster
    }
}

const ELECT_LEADERS: i16 = 43;
const ALTER_REASSIGNMENTS: i16 = 45;
