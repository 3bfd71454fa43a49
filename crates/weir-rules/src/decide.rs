//! Decides whether a request is forwarded, edited or denied.

use weir_identity::acl::ResourceType;
use weir_wire::WireError;
use weir_wire::cluster::TopicId;
use weir_wire::message::{self, ApiDefinition, MessageRow, Value};

use super::check::{CheckResult, Denial, RequestCheck};
use super::error_element::{element_definition, first_error, text};
use super::pending::ResponseChanges;
use super::session::AccessSession;
use super::special;
use super::table::{ApiAccess, ItemCheck, message as error_text};
use weir_filters::TopicNames;

/// The decision about a request.
#[derive(Debug)]
pub enum RequestDecision {
    /// Forward the request as it is; the response may have to be changed.
    Forward(Option<Box<ResponseChanges>>),
    /// Forward this body instead.
    Edited(Vec<u8>, Box<ResponseChanges>),
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
        pending: ResponseChanges::new(access),
        is_edited: false,
        is_empty: false,
        names_requested,
        denied: None,
    };
    let result = check.run();
    let mut denied = check.denied.take();
    if let Some(denial) = &mut denied {
        denial.error = check.error_of(&result);
    }
    Ok((check.verdict(result), denied))
}

impl RequestCheck<'_, '_> {
    fn run(&mut self) -> CheckResult {
        for whole in self.access.whole {
            if let Some(error) = self.whole(whole) {
                return CheckResult::Denied(error);
            }
        }
        if let Some(result) = special::check(self) {
            return result;
        }
        let Some(items) = self.access.items.filter(|items| items.needs_right()) else {
            return CheckResult::Checked;
        };
        self.items(items)
    }

    /// Returns the first error code that the client gets.
    fn error_of(&self, result: &CheckResult) -> Option<i16> {
        let response = &self.api.response;
        if !self.has_response() {
            return None;
        }
        match result {
            CheckResult::Denied(error) => Some(*error),
            CheckResult::Respond(row) => first_error(response, row),
            CheckResult::Checked => {
                let inner = element_definition(response, self.pending.into)?;
                let mut added = self.pending.add.iter();
                added.find_map(|row| first_error(inner, row))
            }
            CheckResult::LookUp(_) => None,
        }
    }

    fn verdict(mut self, result: CheckResult) -> RequestDecision {
        match result {
            CheckResult::LookUp(ids) => RequestDecision::LookUp(ids),
            CheckResult::Respond(row) => self.respond(&row),
            CheckResult::Denied(error) => match self.has_response() {
                true => {
                    let row = self.denied_row(error);
                    self.respond(&row)
                }
                false => RequestDecision::Close,
            },
            CheckResult::Checked if !self.is_edited => {
                let pending =
                    special::reads_response(&self.pending).then(|| Box::new(self.pending));
                RequestDecision::Forward(pending)
            }
            CheckResult::Checked if !self.has_response() => RequestDecision::Close,
            CheckResult::Checked if self.is_empty && !special::is_forwarded_empty(self.api.key) => {
                let mut row = MessageRow::new(&self.api.response, self.version);
                let add = std::mem::take(&mut self.pending.add);
                row.set(
                    &self.api.response,
                    self.pending.into,
                    Value::Rows(Some(add)),
                );
                self.respond(&row)
            }
            CheckResult::Checked => {
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
            .filter(|_| !has_error || self.always_has_elements())
        {
            let rows = self.error_elements(items, error);
            row.set(response, items.into, Value::Rows(Some(rows)));
        }
        row
    }

    fn always_has_elements(&self) -> bool {
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
