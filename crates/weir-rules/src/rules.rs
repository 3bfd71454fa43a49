//! The access rules of a cluster.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_identity::acl::AclSet;
use weir_wire::message;

use super::apis;

/// The access rules of a cluster.
#[derive(Debug)]
pub struct AccessRules {
    /// The rules.
    pub set: Arc<AclSet>,
    /// Denials are only counted and logged.
    pub is_dry_run: bool,
    /// Brokers create topics that clients request.
    pub auto_create_topics: bool,
    /// Decisions so far.
    pub counts: DecisionCounts,
}

impl AccessRules {
    /// Returns the highest version of an API that can be checked, -1 for none.
    pub fn version_max(key: i16) -> i16 {
        let known = apis::access(key).and_then(|_| message::api(key));
        match key {
            // Its responses are reduced to what is offered.
            API_VERSIONS => i16::MAX,
            // Brokers would resolve a regular expression with their own rules.
            CONSUMER_GROUP_HEARTBEAT => 0,
            _ => known.map_or(-1, |api| *api.versions.end()),
        }
    }

    /// Returns the lowest version of an API that can be checked.
    pub fn version_min(key: i16) -> i16 {
        match key {
            // Brokers offer versions that they reject, because librdkafka expects them.
            PRODUCE => 0,
            _ => message::api(key).map_or(0, |api| *api.versions.start()),
        }
    }
}

/// Produce. With acks=0 there is no response.
pub(crate) const PRODUCE: i16 = 0;
const API_VERSIONS: i16 = 18;
const CONSUMER_GROUP_HEARTBEAT: i16 = 68;

/// Requests by API key: those that were allowed, and those of which something was denied.
pub struct DecisionCounts([[AtomicU64; 2]; KEYS]);

/// Number of API keys that are counted.
const KEYS: usize = 96;

impl Default for DecisionCounts {
    fn default() -> Self {
        Self([const { [const { AtomicU64::new(0) }; 2] }; KEYS])
    }
}

impl DecisionCounts {
    pub(super) fn add(&self, key: i16, is_denied: bool) {
        let row = usize::try_from(key).ok().and_then(|key| self.0.get(key));
        if let Some(row) = row {
            row[usize::from(is_denied)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns key and counts of the APIs that were requested.
    pub fn rows(&self) -> impl Iterator<Item = (i16, [u64; 2])> {
        let rows = self.0.iter().enumerate();
        let rows = rows.map(|(key, row)| {
            let counts = [&row[0], &row[1]].map(|count| count.load(Ordering::Relaxed));
            (key as i16, counts)
        });
        rows.filter(|(_, counts)| *counts != [0, 0])
    }
}

impl fmt::Debug for DecisionCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.rows()).finish()
    }
}
