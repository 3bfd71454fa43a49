//! Decisions about one client, with a cache.

use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::Arc;

use super::operation::{AclOperation, OperationSet, ResourceType};
use super::set::{AclDecision, AclSet};

/// A client as the rules see it: its principals and its address.
#[derive(Debug, Clone)]
pub struct AclSubject {
    set: Arc<AclSet>,
    principals: Box<[Box<str>]>,
    address: IpAddr,
}

impl AclSubject {
    /// Creates the subject of a client with these principals, each as `User:name`.
    pub fn new(set: Arc<AclSet>, principals: Box<[Box<str>]>, address: IpAddr) -> Self {
        Self {
            set,
            principals,
            address,
        }
    }

    /// Returns the principals; the first one is the client's own.
    pub fn principals(&self) -> &[Box<str>] {
        &self.principals
    }

    /// Returns the rules.
    pub fn set(&self) -> &Arc<AclSet> {
        &self.set
    }

    /// Returns `true` if every request is allowed.
    pub fn is_super_user(&self) -> bool {
        self.set.is_super_user(&self.principals)
    }

    /// Decides about an operation on a resource.
    pub fn decide(
        &self,
        operation: AclOperation,
        resource_type: ResourceType,
        name: &str,
    ) -> AclDecision<'_> {
        let (principals, address) = (&self.principals, self.address);
        self.set
            .decide(principals, address, operation, resource_type, name)
    }

    /// Decides if an operation is allowed on any resource of a type.
    pub fn decide_by_resource_type(
        &self,
        operation: AclOperation,
        resource_type: ResourceType,
    ) -> AclDecision<'_> {
        let (principals, address) = (&self.principals, self.address);
        self.set
            .decide_by_resource_type(principals, address, operation, resource_type)
    }

    /// Returns `true` if an operation is allowed on all resources of a type.
    pub fn allows_all(&self, operation: AclOperation, resource_type: ResourceType) -> bool {
        let (principals, address) = (&self.principals, self.address);
        self.set
            .allows_all(principals, address, operation, resource_type)
    }
}

/// Decisions of one client by resource. It must be cleared when the client's rules or principals
/// change.
#[derive(Debug, Default)]
pub struct DecisionCache {
    by_type: [HashMap<Box<str>, CachedDecisions>; ResourceType::ALL.len()],
}

#[derive(Debug, Clone, Copy, Default)]
struct CachedDecisions {
    known: OperationSet,
    allowed: OperationSet,
}

impl DecisionCache {
    /// Returns `true` if an operation on a resource is allowed.
    pub fn allows(
        &mut self,
        subject: &AclSubject,
        operation: AclOperation,
        resource_type: ResourceType,
        name: &str,
    ) -> bool {
        let cached = &mut self.by_type[resource_type as usize];
        if let Some(decisions) = cached.get_mut(name) {
            return decisions.get(subject, operation, resource_type, name);
        }
        if cached.len() >= NAMES_MAX {
            cached.clear();
        }
        let mut decisions = CachedDecisions::default();
        let is_allowed = decisions.get(subject, operation, resource_type, name);
        cached.insert(name.into(), decisions);
        is_allowed
    }

    /// Removes all decisions.
    pub fn clear(&mut self) {
        self.by_type = Default::default();
    }
}

impl CachedDecisions {
    fn get(
        &mut self,
        subject: &AclSubject,
        operation: AclOperation,
        resource_type: ResourceType,
        name: &str,
    ) -> bool {
        if !self.known.contains(operation) {
            self.known.insert(operation);
            if subject.decide(operation, resource_type, name).is_allowed() {
                self.allowed.insert(operation);
            }
        }
        self.allowed.contains(operation)
    }
}

/// Maximum number of names of each type in a cache; then all are removed.
const NAMES_MAX: usize = 1_000;
