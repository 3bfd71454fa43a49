//! Access rules for whole frames of one connection.

use std::net::IpAddr;
use std::sync::Arc;

use weir_wire::WireError;
use weir_wire::message;

use super::apis;
use super::check::Denial;
use super::decide::{self, RequestDecision};
use super::pending::ResponseChanges;
use super::response;
use super::rules::{AccessRules, PRODUCE};
use super::session::AccessSession;
use super::table::{CLUSTER_DENIED, GROUP_DENIED, TOKEN_DENIED, TOPIC_DENIED, TRANSACTION_DENIED};
use crate::audit::{AuditDetails, AuditKind, client_id};
use weir_filters::TopicNames;
use weir_identity::Principal;
use weir_identity::acl::{AclDecision, ResourceType};

/// The rights of a connection under the current rules.
#[derive(Debug, Default)]
pub struct AccessState {
    current: Option<CurrentSession>,
}

#[derive(Debug)]
struct CurrentSession {
    rules: Arc<AccessRules>,
    /// Principal that has logged in at the proxy.
    principal: Option<Arc<Principal>>,
    /// `None` if all is allowed.
    session: Option<Box<AccessSession>>,
}

impl AccessState {
    /// Returns the session of a principal under these rules, or `None` if all is allowed.
    /// `principals` are those of the client as `User:name`.
    pub fn session(
        &mut self,
        rules: Option<&Arc<AccessRules>>,
        principal: Option<&Arc<Principal>>,
        principals: impl FnOnce() -> Box<[Box<str>]>,
        address: IpAddr,
    ) -> Option<&mut AccessSession> {
        let rules = rules?;
        let is_current = self.current.as_ref().is_some_and(|one| {
            let is_same = match (one.principal.as_ref(), principal) {
                (Some(one), Some(principal)) => Arc::ptr_eq(one, principal),
                (one, principal) => one.is_none() && principal.is_none(),
            };
            is_same && Arc::ptr_eq(&one.rules, rules)
        });
        if !is_current {
            let session = AccessSession::new(rules, principals(), address);
            self.current = Some(CurrentSession {
                rules: Arc::clone(rules),
                principal: principal.map(Arc::clone),
                session: session.map(Box::new),
            });
        }
        self.current.as_mut()?.session.as_deref_mut()
    }
}

/// A connection's rights while frames are processed.
pub struct Access<'a> {
    /// Rights of the client.
    pub session: &'a mut AccessSession,
    /// Names of topic ids.
    pub names: &'a TopicNames,
}

impl Access<'_> {
    /// Returns `true` if a decision about requests of the API needs the whole request.
    pub fn needs_whole_request(&self, key: i16) -> bool {
        match key {
            PRODUCE => !self.session.writes_all,
            _ => !OPEN.contains(&key),
        }
    }

    /// Decides about the body of a request, whose header after the correlation id is `header`.
    /// `names_requested` is `true` if the names of its topics have been requested. Returns `None`
    /// for an unknown API or version.
    ///
    /// # Errors
    /// The body is malformed.
    pub fn check(
        &mut self,
        (key, version): (i16, i16),
        header: &[u8],
        body: &[u8],
        names_requested: bool,
    ) -> Result<Option<RequestDecision>, WireError> {
        let known = message::api(key).filter(|api| api.versions.contains(&version));
        let Some((api, access)) = known.zip(apis::access(key)) else {
            return Ok(None);
        };
        let known = (api, access);
        let checked = decide::check(
            self.session,
            self.names,
            known,
            version,
            body,
            names_requested,
        );
        let (verdict, denied) = checked?;
        if matches!(verdict, RequestDecision::LookUp(_)) {
            return Ok(Some(verdict));
        }
        self.session.rules.counts.add(key, denied.is_some());
        if let Some(denial) = denied {
            let is_dry_run = self.session.rules.is_dry_run;
            let is_closed = matches!(verdict, RequestDecision::Close);
            let error = denial.error.unwrap_or_else(|| denial_error(denial.kind));
            let error = (!is_dry_run && !is_closed).then_some(error);
            self.note_denial(api.name, header, &denial, error);
            if is_dry_run {
                return Ok(Some(RequestDecision::Forward(None)));
            }
            self.session.error = error;
        }
        Ok(Some(match verdict {
            RequestDecision::Forward(_) if self.session.rules.is_dry_run => {
                RequestDecision::Forward(None)
            }
            other => other,
        }))
    }

    /// Writes a denial to the audit log and to the log.
    fn note_denial(
        &self,
        api: &'static str,
        header: &[u8],
        denial: &Denial,
        error_code: Option<i16>,
    ) {
        let Denial {
            operation,
            kind,
            name,
            ..
        } = denial;
        let subject = &self.session.subject;
        let principal = subject.principals().first();
        let principal = principal.map_or("", |one| &**one);
        let is_dry_run = self.session.rules.is_dry_run;
        if let Some((audit, client)) = &self.session.audit {
            let rule = match subject.decide(*operation, *kind, name) {
                AclDecision::Denied(rule) => rule.origin.clone(),
                _ => NO_RULE.into(),
            };
            let details = AuditDetails {
                client_id: client_id(header),
                api: Some(api),
                operation: Some(operation.to_string().into()),
                resource_type: Some(kind.to_string().into()),
                resource: Some(name.clone()),
                decision: Some(if is_dry_run { "dry_run" } else { "denied" }),
                rule: Some(rule),
                error_code,
                ..AuditDetails::default()
            };
            let principal = (!principal.is_empty()).then_some(principal);
            audit.record(AuditKind::Denied, *client, principal, details);
        }
        tracing::debug!(
            principal, api, %operation, %kind, name = &**name, is_dry_run, "request denied"
        );
    }

    /// Returns the error code in the response to the last request, if something was denied.
    pub fn take_error(&mut self) -> Option<i16> {
        self.session.error.take()
    }

    /// Applies `pending` to the body of a response and returns the changed body.
    ///
    /// # Errors
    /// The body is malformed.
    pub fn apply(
        &mut self,
        pending: ResponseChanges,
        key: i16,
        version: i16,
        body: &[u8],
    ) -> Result<Vec<u8>, WireError> {
        let Some(api) = message::api(key) else {
            return Ok(body.to_vec());
        };
        response::apply(pending, self.session, self.names, api, version, body)
    }

    /// Records the fetch session that a response opens. Returns `None` if more of its body is
    /// needed.
    pub fn note_fetch_session(&mut self, body: &[u8]) -> Option<()> {
        // After throttle time and error.
        let id = body.get(6..10)?.first_chunk::<4>()?;
        self.session.note_fetch_session(i32::from_be_bytes(*id));
        Some(())
    }
}

/// Rule in the audit log for operations that are denied because no rule allows them.
const NO_RULE: &str = "none";

/// Returns the error code of denials of a kind of resource.
fn denial_error(kind: ResourceType) -> i16 {
    match kind {
        ResourceType::Topic => TOPIC_DENIED,
        ResourceType::Group => GROUP_DENIED,
        ResourceType::TransactionalId => TRANSACTION_DENIED,
        ResourceType::DelegationToken => TOKEN_DENIED,
        ResourceType::Cluster | ResourceType::User => CLUSTER_DENIED,
    }
}

/// APIs that need no right: SaslHandshake, ApiVersions, SaslAuthenticate, delegation tokens that
/// brokers check themselves, and telemetry.
const OPEN: [i16; 7] = [17, 18, 36, 39, 40, 71, 72];
