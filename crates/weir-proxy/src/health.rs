//! Which brokers of a cluster answer the probe: what readiness, metrics and the log say of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::config::HostPort;

/// How often the log repeats that a broker does not answer.
const REPEAT: Duration = Duration::from_secs(60);

/// State of a cluster, as the probe found it.
#[derive(Debug, Default)]
pub(crate) struct ClusterHealth {
    answers: AtomicBool,
    brokers: Mutex<Vec<BrokerHealth>>,
}

/// State of a broker.
#[derive(Debug, Clone)]
pub(crate) struct BrokerHealth {
    pub(crate) broker: HostPort,
    /// Why it does not answer.
    pub(crate) error: Option<String>,
    /// Since when it is in this state.
    since: Instant,
    /// When the log last said that it does not answer.
    logged: Instant,
}

impl ClusterHealth {
    /// Returns `true` if any broker answered last time.
    pub(crate) fn answers(&self) -> bool {
        self.answers.load(Ordering::Relaxed)
    }

    /// Returns why the cluster does not answer.
    pub(crate) fn error(&self) -> Option<String> {
        if self.answers() {
            return None;
        }
        let rows = self.brokers();
        let silent = rows.iter().rev().find_map(|row| row.describe());
        silent.or_else(|| Some("it was not asked yet".to_owned()))
    }

    /// Returns the state of every broker.
    pub(crate) fn rows(&self) -> Vec<BrokerHealth> {
        self.brokers().clone()
    }

    /// Returns `true` if that broker did not answer last time.
    pub(crate) fn is_silent(&self, broker: &HostPort) -> bool {
        let rows = self.brokers();
        rows.iter()
            .any(|row| row.broker == *broker && row.error.is_some())
    }

    /// Returns the brokers that have not answered for `time`.
    pub(crate) fn silent_for(&self, time: Duration, now: Instant) -> Vec<HostPort> {
        let rows = self.brokers();
        let silent = rows
            .iter()
            .filter(|row| row.error.is_some() && now.duration_since(row.since) >= time);
        silent.map(|row| row.broker.clone()).collect()
    }

    /// Forgets brokers that are not among these.
    pub(crate) fn keep(&self, brokers: &[HostPort]) {
        self.brokers().retain(|row| brokers.contains(&row.broker));
    }

    /// Notes whether a broker answered, and logs a change.
    pub(crate) fn note(
        &self,
        cluster: &str,
        broker: &HostPort,
        outcome: Result<(), String>,
        now: Instant,
    ) {
        if outcome.is_ok() {
            self.answers.store(true, Ordering::Relaxed);
        }
        let error = outcome.err();
        let mut rows = self.brokers();
        let known = rows.iter_mut().find(|row| row.broker == *broker);
        let Some(row) = known else {
            if let Some(error) = &error {
                tracing::warn!(cluster, %broker, error, "broker does not answer");
            }
            rows.push(BrokerHealth {
                broker: broker.clone(),
                error,
                since: now,
                logged: now,
            });
            return;
        };
        let silent_s = now.duration_since(row.since).as_secs();
        match (&row.error, &error) {
            (Some(_), None) => tracing::info!(cluster, %broker, silent_s, "broker answers again"),
            (None, Some(error)) => {
                row.logged = now;
                tracing::warn!(cluster, %broker, error, "broker does not answer");
            }
            (Some(_), Some(error)) if now.duration_since(row.logged) >= REPEAT => {
                row.logged = now;
                tracing::warn!(cluster, %broker, error, silent_s, "broker still does not answer");
            }
            _ => {}
        }
        if row.error.is_some() != error.is_some() {
            row.since = now;
        }
        row.error = error;
    }

    /// Sums up a round of questions; `true` if every broker answered.
    pub(crate) fn end_round(&self) -> bool {
        let rows = self.brokers();
        let any = rows.iter().any(|row| row.error.is_none());
        self.answers.store(any, Ordering::Relaxed);
        rows.iter().all(|row| row.error.is_none())
    }

    fn brokers(&self) -> MutexGuard<'_, Vec<BrokerHealth>> {
        self.brokers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BrokerHealth {
    /// Returns the broker and why it does not answer, if so.
    pub(crate) fn describe(&self) -> Option<String> {
        let error = self.error.as_ref()?;
        Some(format!("{}: {error}", self.broker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_broker_that_answers_makes_the_cluster_ready() {
        let health = ClusterHealth::default();
        let [a, b] = ["a", "b"].map(|host| HostPort::new(host, 9092));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!health.answers() && health.error().is_some());
        health.note("c", &a, Err("no answer within 3 s".to_owned()), at(0));
        assert!(!health.answers(), "nobody answered yet");
        health.note("c", &b, Ok(()), at(0));
        assert!(health.answers(), "at once, not at the end of the round");
        assert!(!health.end_round() && health.answers());
        assert_eq!(health.error(), None);
        assert!(health.is_silent(&a) && !health.is_silent(&b));
        assert_eq!(
            health.rows()[0].describe().as_deref(),
            Some("a:9092: no answer within 3 s")
        );

        health.note("c", &a, Err("refused".to_owned()), at(9));
        let ten = Duration::from_secs(10);
        assert_eq!(health.silent_for(ten, at(9)), []);
        assert_eq!(
            health.silent_for(ten, at(10)),
            std::slice::from_ref(&a),
            "since the first time"
        );
        health.note("c", &a, Ok(()), at(11));
        health.note("c", &b, Err("refused".to_owned()), at(11));
        assert!(!health.end_round());
        assert_eq!(health.silent_for(ten, at(20)), []);
        health.keep(&[b]);
        assert!(!health.end_round() && !health.answers());
        assert_eq!(health.error().as_deref(), Some("b:9092: refused"));
    }
}
