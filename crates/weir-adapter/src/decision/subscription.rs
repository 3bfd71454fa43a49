//! Decision of the remote adapter about a subscription, in up to three steps: names of items and
//! fields, limits, acceptance.

use weir_identity::ari::{AdapterMethod, AdapterReply, AdapterRequest, TableInfo};

use super::cache::ItemCache;
use super::limits::{AdapterLimits, RequestedLimits};
use super::refusal::SubscriptionRefusal;
use crate::config::UnavailablePolicy;
use crate::outcome::{AdapterFailure, AdapterOutcome};

/// A subscription that a client has requested.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestedSubscription {
    /// `LS_user` of the session.
    pub user: Option<String>,
    /// Session ID.
    pub session: String,
    /// Number of the subscription within the session (`LS_subId`).
    pub window: i32,
    /// Item group, as the client wrote it.
    pub group: String,
    /// Field schema, as the client wrote it.
    pub schema: String,
    /// Data adapter; `None` for the default one.
    pub data_adapter: Option<String>,
    /// `true` if the adapter requests notifications about this user's subscriptions (tables).
    pub wants_tables: bool,
    /// Limits that apply in addition to the adapter's.
    pub limits: RequestedLimits,
    /// Response to the client if the adapter is unavailable.
    pub unavailable: UnavailablePolicy,
}

/// Next step of a decision.
#[derive(Debug, PartialEq)]
pub enum SubscriptionProgress {
    /// Wait for the replies to other requests.
    Wait,
    /// Send these requests.
    Send(Vec<AdapterRequest>),
    /// The adapter has named items and fields. Check them as if the client had requested them by
    /// these names, then call [`SubscriptionFlow::admit`] with the canonical names.
    Named {
        /// Item names.
        items: Vec<String>,
        /// Field names.
        fields: Vec<String>,
    },
    /// The subscription begins, with these limits. If there is a table, the adapter must be
    /// notified when the subscription ends.
    Accepted(AdapterLimits, Option<Box<TableInfo>>),
    /// The subscription is refused.
    Refused(SubscriptionRefusal),
}

/// Replies for which a decision waits.
#[derive(Debug)]
enum SubscriptionStep {
    /// Names received so far: `GIS` and `GSC`.
    Names {
        items: Option<Vec<String>>,
        fields: Option<Vec<String>>,
    },
    /// Limits of the items: `GIT` and `GUI`.
    Limits {
        /// Number of requests without a reply.
        open: usize,
    },
    /// Acceptance of the subscription: `NNT`.
    Tables(AdapterLimits, Box<TableInfo>),
    /// None: the decision is made.
    Done,
}

/// State of a decision about one subscription.
#[derive(Debug)]
pub struct SubscriptionFlow {
    wanted: RequestedSubscription,
    /// Canonical names.
    items: Vec<String>,
    /// Items whose limits are not cached: those requested with `GIT`, and those with `GUI`.
    missing: [Vec<String>; 2],
    step: SubscriptionStep,
}

impl SubscriptionFlow {
    /// Creates the decision with its first requests: `GIS` and `GSC`.
    pub fn begin(wanted: RequestedSubscription) -> (Self, [AdapterRequest; 2]) {
        let requests = [
            AdapterRequest::GetItems {
                user: wanted.user.clone(),
                group: wanted.group.clone(),
                session: wanted.session.clone(),
            },
            AdapterRequest::GetSchema {
                user: wanted.user.clone(),
                group: wanted.group.clone(),
                schema: wanted.schema.clone(),
                session: wanted.session.clone(),
            },
        ];
        let flow = Self {
            wanted,
            items: Vec::new(),
            missing: Default::default(),
            step: SubscriptionStep::Names {
                items: None,
                fields: None,
            },
        };
        (flow, requests)
    }

    /// Continues with the canonical names of the items, after their admission. Requests only what
    /// the cache does not have: `GIT` and `GUI`.
    pub fn admit(
        &mut self,
        items: Vec<String>,
        cache: &ItemCache,
        now_ms: u64,
    ) -> SubscriptionProgress {
        self.items = items;
        let missing = |is_cached: &dyn Fn(&str) -> bool| -> Vec<String> {
            let items = self.items.iter().filter(|item| !is_cached(item));
            items.cloned().collect()
        };
        let user = &self.wanted.user;
        self.missing = [
            missing(&|item| cache.item(item).is_some()),
            missing(&|item| cache.user_item(user, item, now_ms).is_some()),
        ];
        let [items, user_items] = self.missing.clone();
        let mut requests = Vec::new();
        if !items.is_empty() {
            requests.push(AdapterRequest::GetItemData { items });
        }
        if !user_items.is_empty() {
            requests.push(AdapterRequest::GetUserItemData {
                user: user.clone(),
                items: user_items,
            });
        }
        self.step = SubscriptionStep::Limits {
            open: requests.len(),
        };
        match requests.is_empty() {
            true => self.apply_limits(cache, now_ms),
            false => SubscriptionProgress::Send(requests),
        }
    }

    /// Continues with the outcome of a request. After a decision, outcomes change nothing.
    pub fn receive(
        &mut self,
        method: AdapterMethod,
        outcome: AdapterOutcome,
        cache: &mut ItemCache,
        now_ms: u64,
    ) -> SubscriptionProgress {
        let reply = match outcome {
            Ok(reply) => reply,
            Err(failure) => return self.fail(method, &failure),
        };
        match (&mut self.step, reply) {
            (SubscriptionStep::Names { items, fields }, AdapterReply::Names(names)) => {
                match method {
                    AdapterMethod::GetItems => *items = Some(names),
                    _ => *fields = Some(names),
                }
                match (items.take(), fields.take()) {
                    (Some(items), Some(_)) if items.is_empty() => {
                        self.refuse(SubscriptionRefusal::no_items())
                    }
                    (Some(items), Some(fields)) => SubscriptionProgress::Named { items, fields },
                    (known_items, known_fields) => {
                        (*items, *fields) = (known_items, known_fields);
                        SubscriptionProgress::Wait
                    }
                }
            }
            (SubscriptionStep::Limits { .. }, AdapterReply::ItemData(data)) => {
                cache.add_items(&self.missing[0], &data);
                self.count_reply(cache, now_ms)
            }
            (SubscriptionStep::Limits { .. }, AdapterReply::UserItemData(data)) => {
                cache.add_user_items(&self.wanted.user, &self.missing[1], &data, now_ms);
                self.count_reply(cache, now_ms)
            }
            (SubscriptionStep::Tables(..), AdapterReply::Tables { .. }) => {
                match std::mem::replace(&mut self.step, SubscriptionStep::Done) {
                    SubscriptionStep::Tables(limits, table) => {
                        SubscriptionProgress::Accepted(limits, Some(table))
                    }
                    _ => SubscriptionProgress::Wait,
                }
            }
            // A late reply to a request of an earlier step.
            _ => SubscriptionProgress::Wait,
        }
    }

    fn count_reply(&mut self, cache: &ItemCache, now_ms: u64) -> SubscriptionProgress {
        let SubscriptionStep::Limits { open } = &mut self.step else {
            return SubscriptionProgress::Wait;
        };
        *open -= 1;
        match *open {
            0 => self.apply_limits(cache, now_ms),
            _ => SubscriptionProgress::Wait,
        }
    }

    /// Applies the limits of all items. If the adapter wants notifications, then requests its
    /// acceptance.
    fn apply_limits(&mut self, cache: &ItemCache, now_ms: u64) -> SubscriptionProgress {
        let user = &self.wanted.user;
        let data = self.items.iter().map(|item| {
            let user_data = cache.user_item(user, item, now_ms);
            cache.item(item).zip(user_data)
        });
        let Some(data) = data.collect::<Option<Vec<_>>>() else {
            // Cache entries were evicted or have expired in the meantime: request them again.
            return self.admit(self.items.clone(), cache, now_ms);
        };
        match self.wanted.limits.restrict(&data) {
            Err(refusal) => self.refuse(refusal),
            Ok(limits) if self.wanted.wants_tables => {
                let table = self.table();
                let request = AdapterRequest::NotifyNewTables {
                    user: user.clone(),
                    session: self.wanted.session.clone(),
                    table: table.clone(),
                };
                self.step = SubscriptionStep::Tables(limits, Box::new(table));
                SubscriptionProgress::Send(vec![request])
            }
            Ok(limits) => {
                self.step = SubscriptionStep::Done;
                SubscriptionProgress::Accepted(limits, None)
            }
        }
    }

    fn table(&self) -> TableInfo {
        let wanted = &self.wanted;
        TableInfo {
            window: wanted.window,
            mode: wanted.limits.mode,
            group: wanted.group.clone(),
            data_adapter: wanted.data_adapter.clone(),
            schema: wanted.schema.clone(),
            first: 1,
            last: i32::try_from(self.items.len()).unwrap_or(i32::MAX),
            selector: None,
            items: self.items.clone(),
        }
    }

    fn fail(&mut self, method: AdapterMethod, failure: &AdapterFailure) -> SubscriptionProgress {
        if matches!(self.step, SubscriptionStep::Done) {
            return SubscriptionProgress::Wait;
        }
        let refusal = SubscriptionRefusal::of(method, failure, self.wanted.unavailable);
        self.refuse(refusal)
    }

    fn refuse(&mut self, refusal: SubscriptionRefusal) -> SubscriptionProgress {
        self.step = SubscriptionStep::Done;
        SubscriptionProgress::Refused(refusal)
    }
}
