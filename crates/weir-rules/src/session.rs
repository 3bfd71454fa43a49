//! The rights of one connection.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weir_identity::acl::{AclOperation, AclRule, AclSubject, DecisionCache, ResourceType};

use super::rules::AccessRules;
use crate::audit::ClusterAudit;

/// Group and member of a share session.
type ShareSession = (Box<[u8]>, Box<[u8]>);

/// A client of a cluster with access rules.
#[derive(Debug)]
pub struct AccessSession {
    pub(super) rules: Arc<AccessRules>,
    pub(super) subject: AclSubject,
    cache: DecisionCache,
    /// Fetch session that this connection opened with rights on all its topics.
    pub(super) fetch_session: Option<i32>,
    /// Groups and members of share sessions that this connection opened in the same way.
    share_sessions: HashSet<ShareSession>,
    /// The client may write to all topics with all transactional ids.
    pub(super) writes_all: bool,
    /// The client may write to all topics.
    pub(super) writes_all_topics: bool,
    /// Audit log and address of the client; `None` without an audit log.
    pub audit: Option<(Arc<ClusterAudit>, SocketAddr)>,
    /// Error code of the last denial, until it is counted.
    pub(super) error: Option<i16>,
}

impl AccessSession {
    /// Creates the session of a client, or `None` if all is allowed.
    pub fn new(
        rules: &Arc<AccessRules>,
        principals: Box<[Box<str>]>,
        address: IpAddr,
    ) -> Option<Self> {
        let subject = AclSubject::new(Arc::clone(&rules.set), principals, address);
        let may_write = |kind| subject.allows_all(AclOperation::Write, kind);
        let writes_all_topics = may_write(ResourceType::Topic);
        let writes_all = writes_all_topics && may_write(ResourceType::TransactionalId);
        (!subject.is_super_user()).then(|| Self {
            rules: Arc::clone(rules),
            cache: DecisionCache::default(),
            fetch_session: None,
            share_sessions: HashSet::new(),
            writes_all,
            writes_all_topics,
            audit: None,
            error: None,
            subject,
        })
    }

    pub(super) fn allows(
        &mut self,
        operation: AclOperation,
        kind: ResourceType,
        name: &str,
    ) -> bool {
        self.cache.allows(&self.subject, operation, kind, name)
    }

    pub(super) fn allows_cluster(&mut self, operation: AclOperation) -> bool {
        self.allows(operation, ResourceType::Cluster, AclRule::CLUSTER)
    }

    /// Records the fetch session of a response to a request that opened one. `0` is none.
    pub fn note_fetch_session(&mut self, id: i32) {
        self.fetch_session = (id != 0).then_some(id);
    }

    /// Records that a share session has been opened.
    pub(super) fn open_share_session(&mut self, group: &[u8], member: &[u8]) {
        if self.share_sessions.len() >= SHARE_SESSIONS_MAX {
            self.share_sessions.clear();
        }
        self.share_sessions.insert((group.into(), member.into()));
    }

    pub(super) fn has_share_session(&self, group: &[u8], member: &[u8]) -> bool {
        self.share_sessions.contains(&(group.into(), member.into()))
    }
}

/// Share sessions of one connection; when there are more, clients open theirs again.
const SHARE_SESSIONS_MAX: usize = 100;
