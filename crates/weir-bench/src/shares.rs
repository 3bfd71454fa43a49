//! Results of each process of the receivers, if several machines share them.

use weir_stats::NegativeCount;
use weir_stats::run::{LatencySummary, ShareResult};

use super::child::RoleInstance;
use super::result::Measured;
use super::role_group::ProcessEvents;

impl Measured<'_> {
    /// Returns the result of each process of the receivers; none if it is the only one.
    pub(super) fn shares(&self, span: (u64, u64)) -> Vec<ShareResult> {
        let busy = self.collected.busy_shares(self.receiving, span);
        let shares = self.collected.shares(self.receiving).iter().enumerate();
        let results = shares.map(|(index, share)| {
            let instance = RoleInstance {
                role: self.receiving,
                index,
            };
            let label = self.collected.label(instance);
            let busy = busy.iter().find(|(name, _)| *name == label);
            let usage = self.usage.process(instance, span);
            ShareResult {
                busy_share: busy.map(|(_, share)| *share),
                cpu_cores_mean: usage.map(|it| it.cores()),
                rss_max_bytes: usage.map(|it| it.rss_max_bytes),
                ..result(self.receiving.name(), share)
            }
        });
        results.collect()
    }
}

fn result(role: &str, share: &ProcessEvents) -> ShareResult {
    let summary = share.delivery.clone().unwrap_or_default();
    let counts = summary.counts;
    let last = share.reports.last();
    let early = last.and_then(|it| it.counters.get("early"));
    let negative = NegativeCount {
        count: early.copied().unwrap_or(0),
        ..NegativeCount::default()
    };
    let resolution_us = summary.latency_resolution_ns as f64 / 1e3;
    ShareResult {
        role: role.to_owned(),
        host: share.host.clone().unwrap_or_default(),
        clients: summary.clients,
        delivered: counts
            .deliveries_in_window
            .saturating_sub(counts.duplicated),
        lost: counts.lost,
        duplicated: counts.duplicated,
        reordered: counts.reordered,
        disconnects: summary.disconnects,
        response: LatencySummary::of(&share.response, negative, resolution_us),
        ..ShareResult::default()
    }
}
