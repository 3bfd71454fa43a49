//! Totals of a run.

/// Totals over all consumers of one [`run`](super::run).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeanReport {
    /// Consumers that became ready.
    pub ready: usize,
    /// Connections opened, including the first of each fetcher.
    pub connections: u64,
    /// Connections lost.
    pub disconnects: u64,
    /// Fetch responses read.
    pub fetches: u64,
    /// Records delivered.
    pub records: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Errors reported to the sink.
    pub errors: u64,
    /// Assignments received by group members, including the first.
    pub assignments: u64,
    /// Commits that coordinators acknowledged.
    pub commits: u64,
}

impl LeanReport {
    /// Adds the totals of another run.
    pub fn add(&mut self, other: &Self) {
        self.ready += other.ready;
        self.connections += other.connections;
        self.disconnects += other.disconnects;
        self.fetches += other.fetches;
        self.records += other.records;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.assignments += other.assignments;
        self.commits += other.commits;
    }
}
