//! A thread that fetches the partitions of one broker over its own connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use kafka_protocol::messages::ApiKey;

use super::connection::BrokerConnection;
use super::options::LeanOptions;
use super::response::{ResponseContext, ResponseResult, read_response};
use super::shared::{LeanShared, QueueEntry};
use crate::connect_error::ConnectError;
use crate::fetch::{
    EpochOutcome, FetchPlan, FetchSession, PlannedCheck, PlannedFetch, SessionRequest,
};
use weir_wire::EncodeError;
use weir_wire::fetch_request::{self, FetchRow, SessionFetch};
use weir_wire::leader_epoch::{self, EpochQuery};

/// Starts a thread for each broker that partitions are read from, if it has none.
pub(super) fn start_all(shared: &Arc<LeanShared>) -> std::io::Result<()> {
    let now = Instant::now();
    let new = shared.with(|state| state.nodes_without_thread(now));
    new.into_iter().try_for_each(|node| spawn(shared, node))
}

/// Starts the thread. It ends when `shared` is stopped.
fn spawn(shared: &Arc<LeanShared>, node: i32) -> std::io::Result<()> {
    let fetcher = BrokerFetcher {
        shared: Arc::clone(shared),
        node,
        connection: None,
        session: FetchSession::default(),
        backoff: shared.options.reconnect_backoff.0,
        not_before: None,
        used_at: Instant::now(),
    };
    let builder = std::thread::Builder::new().name(format!("kafka-fetch-{node}"));
    // Detached: a thread that connects ends after its timeout.
    builder.spawn(move || fetcher.run()).map(drop)
}

struct BrokerFetcher {
    shared: Arc<LeanShared>,
    node: i32,
    connection: Option<BrokerConnection>,
    session: FetchSession,
    /// Pause before the next connection if it fails.
    backoff: Duration,
    /// Time before which nothing is sent: a pause, or the broker throttles this client.
    not_before: Option<Instant>,
    used_at: Instant,
}

impl BrokerFetcher {
    fn run(mut self) {
        while let Some(plan) = self.shared.wait_work(self.node, self.not_before) {
            self.not_before = None;
            match self.serve(&plan) {
                Ok(()) => self.backoff = self.shared.options.reconnect_backoff.0,
                Err(error) => {
                    self.disconnect();
                    let (node, now) = (self.node, Instant::now());
                    self.shared
                        .change(|state| state.table.leave_follower(node, now));
                    self.shared.note_failure(error);
                    self.not_before = Instant::now().checked_add(self.backoff);
                    let longest = self.shared.options.reconnect_backoff.1;
                    self.backoff = (self.backoff * 2).clamp(Duration::from_millis(1), longest);
                }
            }
        }
    }

    fn disconnect(&mut self) {
        self.connection = None;
        self.session.reset();
    }

    fn serve(&mut self, plan: &FetchPlan) -> Result<(), ConnectError> {
        if self.used_at.elapsed() > IDLE_MAX {
            // Brokers close idle connections, which is not an error.
            self.disconnect();
        }
        if self.connection.is_none() {
            self.connect()?;
        }
        self.used_at = Instant::now();
        if !plan.checks.is_empty() {
            self.check(&plan.checks)?;
        }
        if !plan.fetches.is_empty() {
            self.fetch(plan)?;
        }
        self.shared.report_ends();
        Ok(())
    }

    fn connect(&mut self) -> Result<(), ConnectError> {
        let shared = &self.shared;
        let address = shared.with(|state| state.brokers.get(&self.node).cloned());
        let unknown = || ConnectError::Io {
            broker: format!("node {}", self.node),
            reason: "its address is not known".to_owned(),
        };
        let address = address.ok_or_else(unknown)?;
        let options = &shared.options;
        let timeouts = (
            options.connect_timeout,
            options.fetch_wait + options.request_timeout,
        );
        let connection =
            BrokerConnection::open(&shared.security, &address, &options.client_id, timeouts)?;
        // After a stop, the next wait for work ends the thread.
        let _ = shared.note_socket(self.node, connection.socket()?);
        self.connection = Some(connection);
        Ok(())
    }

    /// Asks for the ends of the epochs of positions whose leader has changed.
    fn check(&mut self, checks: &[PlannedCheck]) -> Result<(), ConnectError> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let options = &self.shared.options;
        let queries = checks.iter().map(|check| EpochQuery {
            topic: &check.topic,
            partition: check.key.1,
            leader_epoch: check.leader_epoch,
            epoch: check.epoch,
        });
        let queries: Vec<_> = queries.collect();
        let request = leader_epoch::request(&queries);
        let body = connection.exchange(&options.client_id, leader_epoch::VERSION, &request)?;
        let mut ends = Vec::new();
        let read = leader_epoch::read(&body, |end| ends.push(end));
        read.map_err(|error| connection.invalid(error))?;
        let at = (Instant::now(), options.error_backoff);
        let (mut entries, mut refresh) = (Vec::new(), false);
        self.shared.change(|state| {
            for check in checks {
                let is_of = |end: &&leader_epoch::EpochEnd<'_>| {
                    end.partition == check.key.1 && *end.topic == *check.topic
                };
                let Some(end) = ends.iter().find(is_of) else {
                    continue;
                };
                refresh |= end.error != 0;
                let reported = (end.epoch, end.end_offset);
                let outcome = state.table.on_epoch_end(check, end.error, reported, at);
                if let EpochOutcome::Truncated(end) = outcome {
                    entries.push(QueueEntry::Truncated {
                        key: check.key,
                        generation: check.generation,
                        topic: Arc::clone(&check.topic),
                        end,
                    });
                }
            }
        });
        self.shared.queue(entries);
        if refresh {
            self.shared.ingest.probe_soon();
        }
        Ok(())
    }

    fn fetch(&mut self, plan: &FetchPlan) -> Result<(), ConnectError> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let shared = &self.shared;
        let options = &shared.options;
        let has_ids = plan.fetches.iter().all(|it| it.topic_id != 0)
            && connection.supports(ApiKey::Fetch, fetch_request::ID_VERSION);
        let version = match has_ids {
            true => fetch_request::ID_VERSION,
            false => fetch_request::NAME_VERSION,
        };
        let session = self.session.next(&plan.fetches);
        let rack = match plan.avoids_followers {
            true => "",
            false => &options.rack,
        };
        let mut response = shared.responses.take();
        let target = (&mut response.bytes, options.response_bytes_max);
        let (id, length) = connection.exchange_into(&options.client_id, target, |out, id| {
            write(out, (version, id), (options, rack), &session)
        })?;
        let context = ResponseContext {
            shared,
            session: &mut self.session,
            version,
            correlation_id: id,
        };
        let ResponseResult {
            entries,
            throttle,
            moved,
            refresh,
            failures,
        } = read_response(context, response, length).map_err(|error| connection.invalid(error))?;
        shared.queue(entries);
        if moved {
            start_all(shared).map_err(|error| connection.failed(error))?;
            shared.change(|_| ());
        }
        self.not_before = throttle.and_then(|throttle| Instant::now().checked_add(throttle));
        for failure in failures {
            shared.ingest.note_error(failure);
        }
        if refresh {
            shared.ingest.probe_soon();
        }
        Ok(())
    }
}

fn write(
    out: &mut BytesMut,
    numbers: (i16, i32),
    (options, rack): (&LeanOptions, &str),
    session: &SessionRequest,
) -> Result<(), EncodeError> {
    let (changed, forgotten) = (
        rows(&session.changed, options),
        rows(&session.forgotten, options),
    );
    let query = SessionFetch {
        client_id: &options.client_id,
        rack,
        max_wait_ms: i32::try_from(options.fetch_wait.as_millis()).unwrap_or(i32::MAX),
        min_bytes: options.fetch_bytes_min,
        max_bytes: options.fetch_bytes_max,
        committed_only: options.committed_only,
        session: (session.id, session.epoch),
    };
    fetch_request::write(out, numbers, &query, &changed, &forgotten)
}

fn rows<'a>(planned: &'a [PlannedFetch], options: &LeanOptions) -> Vec<FetchRow<'a>> {
    let row = |planned: &'a PlannedFetch| FetchRow {
        topic: &planned.topic,
        topic_id: planned.topic_id,
        partition: planned.key.1,
        leader_epoch: planned.leader_epoch,
        offset: planned.offset,
        max_bytes: options.partition_bytes_max,
    };
    planned.iter().map(row).collect()
}

/// Brokers close connections that are idle for ten minutes.
const IDLE_MAX: Duration = Duration::from_secs(240);

#[cfg(test)]
mod tests;
