//! Session administration on the admin port (docs/session-administration.md): routes, answers and
//! their records in the audit log.

mod api_error;
mod body;
mod query;
mod revocations;
mod sessions;
mod top_items;
mod trace;

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::{Value, json};
use weir_identity::audit::{AuditEvent, AuditOutcome, AuditRecord};
use weir_net::admin::{ApiCall, Page, json_page};
use weir_net::http1::Response;

use self::api_error::ApiError;
use self::body::DisconnectBody;
use self::query::Query;
use self::revocations::RevocationBody;
use self::sessions::{Cursor, Visitor};
use self::top_items::{SESSIONS_MAX, top_items};
use crate::session_handles::SessionHandles;
use crate::shard::{SessionAction, SessionFilter, SessionRow, ShardContext};
use crate::shared_revocations::SharedRevocations;
use crate::trace::unix_ms;
use weir_access::Authenticator;

/// Sessions in a page, by default and at most.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1_000;
/// Items in a list by default.
const TOP_ITEMS: usize = 20;
/// Maximum number of sessions that are put in order.
const ORDERED_MAX: usize = 20_000;

/// JSON for an operator, or why there is none.
type Answer = Result<Value, ApiError>;

/// Answers calls of operators.
#[derive(Debug)]
pub(crate) struct SessionAdmin {
    shared: Arc<ShardContext>,
    /// `None`: revocations are not shared.
    others: Option<Arc<SharedRevocations>>,
}

impl SessionAdmin {
    pub(crate) fn new(shared: Arc<ShardContext>, others: Option<Arc<SharedRevocations>>) -> Self {
        Self { shared, others }
    }

    /// Returns the response to a call, `None` if there is no such path. All calls are audited.
    pub(crate) fn call(&self, call: &ApiCall<'_>) -> Option<Page> {
        let path = call.path.strip_prefix("/admin/v1/")?;
        let (resource, id) = match path.split_once('/') {
            Some((resource, id)) if !id.is_empty() && !id.contains('/') => (resource, Some(id)),
            Some(_) => return None,
            None => (path, None),
        };
        let answer = match (resource, id, call.method) {
            ("sessions", None, "GET") => self.list(call),
            ("sessions", Some(handle), "GET") => self.show(call, handle),
            ("sessions", Some(handle), "DELETE") => self.end_one(call, handle),
            ("items", None, "GET") => self.top_items(call),
            ("disconnect", None, "POST") => self.disconnect(call),
            ("trace", None, "GET") => self.trace(call),
            ("revocations", None, "GET") => self.revocations(call),
            ("revocations", None, "POST") => self.revoke(call),
            ("revocations", Some(id), "DELETE") => self.withdraw(call, id),
            ("revocations", None, _) => Err(ApiError::Method("GET, POST")),
            ("revocations", Some(_), _) => Err(ApiError::Method("DELETE")),
            ("sessions" | "trace" | "items", None, _) => Err(ApiError::Method("GET")),
            ("sessions", Some(_), _) => Err(ApiError::Method("GET, DELETE")),
            ("disconnect", None, _) => Err(ApiError::Method("POST")),
            _ => return None,
        };
        Some(answer.unwrap_or_else(|error| {
            self.note(call, AuditOutcome::Error, error.reason(), |record| record);
            Page::Ready(error.response())
        }))
    }

    /// Records a call with a wrong token.
    pub(crate) fn note_denied(&self, call: &ApiCall<'_>) {
        self.note(call, AuditOutcome::Deny, "wrong_token", |record| record);
    }

    /// Records a call; `reason` names what was asked for.
    fn note(
        &self,
        call: &ApiCall<'_>,
        outcome: AuditOutcome,
        reason: &'static str,
        add: impl FnOnce(AuditRecord) -> AuditRecord,
    ) {
        if let Some(log) = &self.shared.audit {
            let record = log.event(AuditEvent::Admin, outcome).reason(reason);
            let address = call.peer.ip().to_canonical().to_string();
            log.record(add(record.address(&address).actor("operator")));
        }
    }

    fn allow(&self, call: &ApiCall<'_>, reason: &'static str, session: Option<&str>) {
        let add = |record: AuditRecord| match session {
            Some(handle) => record.session(handle),
            None => record,
        };
        self.note(call, AuditOutcome::Allow, reason, add);
    }

    fn list(&self, call: &ApiCall<'_>) -> Result<Page, ApiError> {
        let known = [
            "user", "issuer", "address", "item", "limit", "after", "order",
        ];
        let query = Query::parse(call.query, &known)?;
        let filter = query.filter()?;
        let most = query.number("limit", 1..=PAGE_MAX)?.unwrap_or(PAGE);
        let start = query.get("after").map(|after| {
            let location = SessionHandles::location_of(after);
            location
                .map(Cursor::after)
                .ok_or(ApiError::Parameter("after"))
        });
        let start = start.transpose()?.unwrap_or_default();
        match (query.get("order"), query.get("after")) {
            (None, _) => {}
            (Some("slowest"), None) => return self.list_slowest(call, filter, most),
            (Some(_), _) => return Err(ApiError::Parameter("order")),
        }
        self.allow(call, "list_sessions", None);
        self.visit(filter, SessionAction::List, (start, most), |rows, rest| {
            let after = rest
                .and_then(|_| rows.last())
                .map(|row| row.session.clone());
            Ok(json!({ "sessions": rows, "after": after }))
        })
    }

    /// Lists those of the first sessions whose clients have the most to take.
    fn list_slowest(
        &self,
        call: &ApiCall<'_>,
        filter: SessionFilter,
        most: usize,
    ) -> Result<Page, ApiError> {
        self.allow(call, "list_sessions", None);
        let all = (Cursor::default(), ORDERED_MAX);
        self.visit(filter, SessionAction::List, all, move |mut rows, _| {
            rows.sort_by_key(|row| Reverse((row.queued_bytes, row.lagging)));
            rows.truncate(most);
            Ok(json!({ "sessions": rows, "after": null }))
        })
    }

    /// Lists the items with the most subscribers among the first sessions.
    fn top_items(&self, call: &ApiCall<'_>) -> Result<Page, ApiError> {
        let query = Query::parse(call.query, &["limit"])?;
        let most = query.number("limit", 1..=PAGE_MAX)?.unwrap_or(TOP_ITEMS);
        self.allow(call, "list_items", None);
        let all = (Cursor::default(), SESSIONS_MAX);
        let filter = SessionFilter::default();
        self.visit(filter, SessionAction::Show, all, move |rows, rest| {
            let items = top_items(&rows, most);
            Ok(json!({ "items": items, "sessions": rows.len(), "complete": rest.is_none() }))
        })
    }

    fn show(&self, call: &ApiCall<'_>, handle: &str) -> Result<Page, ApiError> {
        Query::parse(call.query, &[])?;
        let (filter, start) = one(handle)?;
        self.allow(call, "show_session", Some(handle));
        self.visit(filter, SessionAction::Show, (start, 1), |rows, _| {
            let row = rows.into_iter().next();
            row.map(|row| json!(row)).ok_or(ApiError::NoSession)
        })
    }

    fn end_one(&self, call: &ApiCall<'_>, handle: &str) -> Result<Page, ApiError> {
        let query = Query::parse(call.query, &["code", "message"])?;
        let code = query.get("code").map(str::parse).transpose();
        let body = DisconnectBody {
            code: code.map_err(|_| ApiError::Parameter("code"))?,
            message: query.get("message").map(str::to_owned),
            ..DisconnectBody::default()
        };
        let (filter, start) = one(handle)?;
        let action = body.action(call)?;
        self.allow(call, "disconnect_session", Some(handle));
        self.visit(filter, action, (start, 1), |rows, _| match rows.len() {
            0 => Err(ApiError::NoSession),
            count => Ok(json!({ "disconnected": count })),
        })
    }

    fn disconnect(&self, call: &ApiCall<'_>) -> Result<Page, ApiError> {
        Query::parse(call.query, &[])?;
        let body: DisconnectBody = body::read(call.body)?;
        let user = body.user.clone().filter(|user| !user.is_empty());
        let filter = SessionFilter {
            user: Some(user.ok_or(ApiError::NoUser)?),
            issuer: body.issuer.clone(),
            ..SessionFilter::default()
        };
        let action = body.action(call)?;
        self.allow(call, "disconnect_user", None);
        let all = (Cursor::default(), usize::MAX);
        self.visit(filter, action, all, |rows, _| {
            Ok(json!({ "disconnected": rows.len() }))
        })
    }

    fn auth(&self) -> Result<&Arc<Authenticator>, ApiError> {
        self.shared.auth.as_ref().ok_or(ApiError::NoAuth)
    }

    fn revocations(&self, call: &ApiCall<'_>) -> Result<Page, ApiError> {
        let list = self.auth()?.revocations(unix_ms());
        self.allow(call, "list_revocations", None);
        let rows: Vec<_> = list.iter().map(revocations::row).collect();
        Ok(Page::Ready(response(&json!({ "revocations": rows }))))
    }

    /// Revokes here at once, then for the other gateways.
    fn revoke(&self, call: &ApiCall<'_>) -> Result<Page, ApiError> {
        let entry = body::read::<RevocationBody>(call.body)?.entry()?;
        let entry = self.auth()?.revoke(entry)?;
        self.note(call, AuditOutcome::Allow, "revoke", |record| {
            record.revocation(&entry.key)
        });
        let row = revocations::row(&entry);
        let written = self.share(call, move |others| Ok(others.write(&entry)?));
        Ok(respond_after(written, move || row))
    }

    /// Withdraws a revocation, for the other gateways first: it must not be gone here only.
    fn withdraw(&self, call: &ApiCall<'_>, id: &str) -> Result<Page, ApiError> {
        let auth = Arc::clone(self.auth()?);
        let list = auth.revocations(unix_ms());
        let entry = list.into_iter().find(|entry| entry.key.id() == id);
        let entry = entry.ok_or(ApiError::NoRevocation)?;
        self.note(call, AuditOutcome::Allow, "withdraw_revocation", |record| {
            record.revocation(&entry.key)
        });
        let key = entry.key.clone();
        let written = self.share(call, move |others| Ok(others.delete(&key)?));
        Ok(respond_after(written, move || {
            auth.withdraw_revocation(&entry.key);
            revocations::row(&entry)
        }))
    }

    /// Returns what changes the revocations of the other gateways and records a failure; `None` if
    /// there are none.
    fn share(
        &self,
        call: &ApiCall<'_>,
        change: impl FnOnce(&SharedRevocations) -> Result<(), ApiError> + Send + 'static,
    ) -> Option<ShareCall> {
        let others = Arc::clone(self.others.as_ref()?);
        let log = self.shared.audit.clone();
        let address = call.peer.ip().to_canonical().to_string();
        Some(Box::new(move || {
            change(&others).inspect_err(|error| {
                if let Some(log) = log {
                    let record = log.event(AuditEvent::Admin, AuditOutcome::Error);
                    let record = record.reason(error.reason()).address(&address);
                    log.record(record.actor("operator"));
                }
            })
        }))
    }

    fn trace(&self, call: &ApiCall<'_>) -> Result<Page, ApiError> {
        let query = Query::parse(call.query, &["session", "item"])?;
        let target = query.trace_target()?;
        self.allow(call, "trace", query.get("session"));
        let shared = Arc::clone(&self.shared);
        Ok(Page::Stream(Box::new(move |stream| {
            trace::run(&shared, target, &stream)
        })))
    }

    /// Visits sessions on another thread and responds with what `answer` makes of them.
    fn visit(
        &self,
        filter: SessionFilter,
        action: SessionAction,
        (start, most): (Cursor, usize),
        answer: impl FnOnce(Vec<SessionRow>, Option<Cursor>) -> Answer + Send + 'static,
    ) -> Result<Page, ApiError> {
        let shared = Arc::clone(&self.shared);
        Ok(Page::Deferred(Box::new(move || {
            let visited = Visitor::new(&shared, filter).visit(&action, start, most);
            let answered = visited.and_then(|(rows, rest)| answer(rows, rest));
            answered.map_or_else(|error| error.response(), |found| response(&found))
        })))
    }
}

/// Changes the revocations of the other gateways; it waits for brokers.
type ShareCall = Box<dyn FnOnce() -> Result<(), ApiError> + Send>;

/// Responds with what `row` returns once the other gateways can read it.
fn respond_after(shared: Option<ShareCall>, row: impl FnOnce() -> Value + Send + 'static) -> Page {
    match shared {
        None => Page::Ready(response(&row())),
        Some(share) => Page::Deferred(Box::new(move || match share() {
            Ok(()) => response(&row()),
            Err(error) => error.response(),
        })),
    }
}

/// Returns the filter of one session and where it is.
fn one(handle: &str) -> Result<(SessionFilter, Cursor), ApiError> {
    let location = SessionHandles::location_of(handle).ok_or(ApiError::NoSession)?;
    let filter = SessionFilter {
        handle: Some(handle.to_owned()),
        ..SessionFilter::default()
    };
    Ok((filter, Cursor::at(location)))
}

fn response(value: &Value) -> Response {
    json_page(format!("{value}\n"))
}
