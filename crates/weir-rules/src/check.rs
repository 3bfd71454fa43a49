//! A request that is being checked, and the checks that most APIs need.

use weir_identity::acl::{AclOperation, AclRule, ResourceType};
use weir_wire::cluster::TopicId;
use weir_wire::message::{ApiDefinition, MessageRow, Value};

use super::error_element::{Element, element_definition, elements, error_element};
use super::pending::ResponseChanges;
use super::session::AccessSession;
use super::table::{ApiAccess, ItemCheck, UNKNOWN_TOPIC_ID, WholeCheck};
use weir_filters::TopicNames;

/// Result of the check of a request.
#[derive(Debug)]
pub(super) enum CheckResult {
    /// The request is allowed, without its denied elements if there were any.
    Checked,
    /// The whole request is denied with this error.
    Denied(i16),
    /// The response is known.
    Respond(MessageRow<'static>),
    /// The names of these topics are needed first.
    LookUp(Vec<TopicId>),
}

/// A denied operation on a resource.
#[derive(Debug)]
pub(super) struct Denial {
    pub(super) operation: AclOperation,
    pub(super) kind: ResourceType,
    pub(super) name: Box<str>,
    /// Error code in the response; `None` if it is not known, or there is no response.
    pub(super) error: Option<i16>,
}

/// A request that is being checked.
pub(super) struct RequestCheck<'a, 's> {
    pub(super) session: &'s mut AccessSession,
    pub(super) names: &'s TopicNames,
    pub(super) api: &'static ApiDefinition,
    pub(super) access: &'static ApiAccess,
    pub(super) version: i16,
    pub(super) row: MessageRow<'a>,
    pub(super) pending: ResponseChanges,
    /// Elements of the request were removed, or fields changed.
    pub(super) is_edited: bool,
    /// No element of the request is left.
    pub(super) is_empty: bool,
    /// The names of unknown topics have been requested.
    pub(super) names_requested: bool,
    /// The first resource that was denied.
    pub(super) denied: Option<Denial>,
}

impl RequestCheck<'_, '_> {
    /// Returns the error if the resource of the whole request is denied.
    pub(super) fn whole(&mut self, check: &'static WholeCheck) -> Option<i16> {
        let name = match check.field {
            "" => AclRule::CLUSTER.to_owned(),
            field => match self.field(field) {
                value if value.is_none() => return None,
                value => value.as_text().unwrap_or(INVALID_NAME).to_owned(),
            },
        };
        let mut operations = check.operations.iter();
        let is_allowed = operations.any(|one| self.session.allows(*one, check.kind, &name));
        (!is_allowed).then(|| {
            self.record_denial(check.operations[0], check.kind, &name);
            check.error
        })
    }

    pub(super) fn field(&self, name: &str) -> &Value<'_> {
        self.row.get(&self.api.request, name)
    }

    fn record_denial(&mut self, operation: AclOperation, kind: ResourceType, name: &str) {
        self.denied.get_or_insert_with(|| Denial {
            operation,
            kind,
            name: name.into(),
            error: None,
        });
    }

    /// Decides and remembers the first denial.
    pub(super) fn allows(
        &mut self,
        operation: AclOperation,
        kind: ResourceType,
        name: &str,
    ) -> bool {
        let is_allowed = self.session.allows(operation, kind, name);
        if !is_allowed {
            self.record_denial(operation, kind, name);
        }
        is_allowed
    }

    pub(super) fn allows_cluster(&mut self, operation: AclOperation) -> bool {
        self.allows(operation, ResourceType::Cluster, AclRule::CLUSTER)
    }

    /// Decides about the elements of an array, and removes the denied ones.
    pub(super) fn items(&mut self, check: &'static ItemCheck) -> CheckResult {
        let by_cluster = check.cluster;
        if by_cluster.is_some_and(|operation| self.session.allows_cluster(operation)) {
            return CheckResult::Checked;
        }
        if let Some(ids) = self.unknown_ids(check) {
            return CheckResult::LookUp(ids);
        }
        let errors = self.errors(check);
        self.remove(check, &errors)
    }

    /// Returns the error for each element of an array, `None` for those that are allowed.
    pub(super) fn errors(&mut self, check: &'static ItemCheck) -> Vec<Option<i16>> {
        let found = elements(&self.row, &self.api.request, check.array);
        let names: Vec<_> = found.iter().map(|one| self.name_of(*one, check)).collect();
        let names = names.into_iter().map(|name| match name {
            Some(name) if self.allows(check.operation, check.kind, &name) => None,
            Some(_) => Some(check.error),
            None => Some(UNKNOWN_TOPIC_ID),
        });
        names.collect()
    }

    /// Removes the elements with an error from an array of the request.
    pub(super) fn remove(&mut self, check: &ItemCheck, errors: &[Option<i16>]) -> CheckResult {
        let inner = element_definition(&self.api.response, check.into);
        let Some(inner) = inner.filter(|_| errors.iter().any(Option::is_some)) else {
            return CheckResult::Checked;
        };
        let version = self.version;
        let found = elements(&self.row, &self.api.request, check.array)
            .into_iter()
            .zip(errors);
        let denied = found.filter_map(|(element, error)| {
            Some(error_element(
                &check.error_element,
                element,
                inner,
                version,
                (*error)?,
            ))
        });
        self.pending.add.extend(denied);
        self.pending.into = check.into;
        self.is_edited = true;
        self.is_empty = errors.iter().all(Option::is_some);
        let mut errors = errors.iter();
        let mut keep = || errors.next().is_some_and(Option::is_none);
        match self.row.get_mut(&self.api.request, check.array) {
            Some(Value::Rows(Some(rows))) => rows.retain(|_| keep()),
            Some(Value::Texts(Some(texts))) => texts.retain(|_| keep()),
            _ => {}
        }
        CheckResult::Checked
    }

    /// Returns the ids of topics in an array whose names are not known and have not been requested.
    pub(super) fn unknown_ids(&self, check: &ItemCheck) -> Option<Vec<TopicId>> {
        if self.names_requested || check.kind != ResourceType::Topic {
            return None;
        }
        let ids = elements(&self.row, &self.api.request, check.array).into_iter();
        let mut ids: Vec<_> = ids
            .filter_map(|element| match element.value("TopicId") {
                Value::Uuid(id) => Some(id),
                _ => None,
            })
            .collect();
        self.names.retain_unknown(&mut ids);
        (!ids.is_empty()).then_some(ids)
    }

    /// Returns the name of an element's resource, `None` for the id of an unknown topic.
    pub(super) fn name_of(&self, element: Element<'_, '_>, check: &ItemCheck) -> Option<Box<str>> {
        let value = match (element, check.name) {
            (Element::Row(..), "") => Value::Absent,
            _ => element.value(check.name),
        };
        match (&value, element.value("TopicId")) {
            (Value::Absent | Value::Bytes(None), Value::Uuid(id)) => {
                self.names.name(id).as_deref().map(Box::from)
            }
            _ => Some(value.as_text().unwrap_or(INVALID_NAME).into()),
        }
    }

    /// Returns the elements of the response for all elements of the request.
    pub(super) fn error_elements(&self, check: &ItemCheck, error: i16) -> Vec<MessageRow<'static>> {
        let inner = element_definition(&self.api.response, check.into);
        let found = elements(&self.row, &self.api.request, check.array).into_iter();
        let rows = inner.map(|inner| {
            found.map(move |one| {
                error_element(&check.error_element, one, inner, self.version, error)
            })
        });
        rows.into_iter().flatten().collect()
    }
}

/// Stands for a name that is no text. No resource has it, but rules for all names apply.
const INVALID_NAME: &str = "\u{fffd}";
