//! The state of a cluster's brokers as found by the health probe, for readiness, metrics and the
//! log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::config::HostPort;

/// Interval at which the log repeats that a broker does not respond.
const LOG_REPEAT_INTERVAL: Duration = Duration::from_secs(60);

/// State of a cluster, from the last probe.
#[derive(Debug, Default)]
pub(crate) struct ClusterHealth {
    responding: AtomicBool,
    brokers: Mutex<Vec<BrokerHealth>>,
}

#[derive(Debug, Clone)]
pub(crate) struct BrokerHealth {
    pub(crate) broker: HostPort,
    /// Reason why it does not respond.
    pub(crate) error: Option<String>,
    /// Time of the last change between responding and not responding.
    since: Instant,
    /// Time of the last log message about this broker.
    logged: Instant,
}

impl ClusterHealth {
    /// Returns `true` if any broker responded to the last probe.
    pub(crate) fn is_responding(&self) -> bool {
        self.responding.load(Ordering::Relaxed)
    }

    /// Returns why no broker responds, or `None` if one does.
    pub(crate) fn error(&self) -> Option<String> {
        if self.is_responding() {
            return None;
        }
        let rows = self.brokers();
        let unresponsive = rows.iter().rev().find_map(|row| row.describe());
        unresponsive.or_else(|| Some("not probed yet".to_owned()))
    }

    pub(crate) fn rows(&self) -> Vec<BrokerHealth> {
        self.brokers().clone()
    }

    /// Returns `true` if `broker` did not respond to the last probe.
    pub(crate) fn is_unresponsive(&self, broker: &HostPort) -> bool {
        let rows = self.brokers();
        rows.iter()
            .any(|row| row.broker == *broker && row.error.is_some())
    }

    /// Returns the brokers that have not responded for at least `time`.
    pub(crate) fn unresponsive_for(&self, time: Duration, now: Instant) -> Vec<HostPort> {
        let rows = self.brokers();
        let unresponsive = rows
            .iter()
            .filter(|row| row.error.is_some() && now.duration_since(row.since) >= time);
        unresponsive.map(|row| row.broker.clone()).collect()
    }

    pub(crate) fn retain_only(&self, brokers: &[HostPort]) {
        self.brokers().retain(|row| brokers.contains(&row.broker));
    }

    /// Records the result of a probe, an error if the broker did not respond, and logs a change.
    pub(crate) fn record(
        &self,
        cluster: &str,
        broker: &HostPort,
        error: Option<String>,
        now: Instant,
    ) {
        if error.is_none() {
            self.responding.store(true, Ordering::Relaxed);
        }
        let mut rows = self.brokers();
        let known = rows.iter_mut().find(|row| row.broker == *broker);
        let Some(row) = known else {
            if let Some(error) = &error {
                tracing::warn!(cluster, %broker, error, "broker does not respond, retrying");
            }
            rows.push(BrokerHealth {
                broker: broker.clone(),
                error,
                since: now,
                logged: now,
            });
            return;
        };
        let unresponsive_s = now.duration_since(row.since).as_secs();
        match (&row.error, &error) {
            (Some(_), None) => {
                tracing::info!(cluster, %broker, unresponsive_s, "broker responds again")
            }
            (None, Some(error)) => {
                row.logged = now;
                tracing::warn!(cluster, %broker, error, "broker does not respond, retrying");
            }
            (Some(_), Some(error)) if now.duration_since(row.logged) >= LOG_REPEAT_INTERVAL => {
                row.logged = now;
                tracing::warn!(
                    cluster,
                    %broker,
                    error,
                    unresponsive_s,
                    "broker still does not respond, retrying"
                );
            }
            _ => {}
        }
        if row.error.is_some() != error.is_some() {
            row.since = now;
        }
        row.error = error;
    }

    /// Updates the cluster's state after all brokers were probed. Returns `true` if every broker
    /// responded.
    pub(crate) fn end_round(&self) -> bool {
        let rows = self.brokers();
        let any = rows.iter().any(|row| row.error.is_none());
        self.responding.store(any, Ordering::Relaxed);
        rows.iter().all(|row| row.error.is_none())
    }

    fn brokers(&self) -> MutexGuard<'_, Vec<BrokerHealth>> {
        self.brokers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BrokerHealth {
    /// Returns the broker and why it does not respond, or `None` if it responds.
    pub(crate) fn describe(&self) -> Option<String> {
        let error = self.error.as_ref()?;
        Some(format!("{}: {error}", self.broker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_responding_broker_makes_cluster_ready() {
        let health = ClusterHealth::default();
        let [a, b] = ["a", "b"].map(|host| HostPort::new(host, 9092));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!health.is_responding() && health.error().is_some());
        health.record("c", &a, Some("no response within 3 s".to_owned()), at(0));
        assert!(!health.is_responding(), "no broker responded yet");
        health.record("c", &b, None, at(0));
        assert!(health.is_responding(), "at once, not only after all probes");
        assert!(!health.end_round() && health.is_responding());
        assert_eq!(health.error(), None);
        assert!(health.is_unresponsive(&a) && !health.is_unresponsive(&b));
        assert_eq!(
            health.rows()[0].describe().as_deref(),
            Some("a:9092: no response within 3 s")
        );

        health.record("c", &a, Some("refused".to_owned()), at(9));
        let ten = Duration::from_secs(10);
        assert_eq!(health.unresponsive_for(ten, at(9)), []);
        assert_eq!(
            health.unresponsive_for(ten, at(10)),
            std::slice::from_ref(&a),
            "from the first failure on"
        );
        health.record("c", &a, None, at(11));
        health.record("c", &b, Some("refused".to_owned()), at(11));
        assert!(!health.end_round());
        assert_eq!(health.unresponsive_for(ten, at(20)), []);
        health.retain_only(&[b]);
        assert!(!health.end_round() && !health.is_responding());
        assert_eq!(health.error().as_deref(), Some("b:9092: refused"));
    }
}
