//! Thousands of consumers in one thread. Each has a task, its positions, and one connection per
//! partition leader.
//!
//! Without groups, each consumer reads all partitions of one topic, by default from their ends. A
//! group member (`group`) reads the partitions assigned to it from their committed offsets.
//! Partitions that are added during the run are not read.

mod cluster;
mod command;
mod config;
mod connect_pacer;
mod connection;
mod error;
mod fetcher;
mod group;
mod link;
mod report;
mod sink;
mod socket_io;
mod state;
mod tls;
mod transport;

use std::rc::Rc;

use tokio::sync::watch;
use tokio::task::LocalSet;

use state::LeanState;

pub use command::LeanCommand;
pub use config::{LeanConfig, LeanGroups};
pub use error::LeanError;
pub use report::LeanReport;
pub use sink::{LeanRecord, LeanSink};

/// Runs the consumers on the calling task until [`LeanCommand::Stop`], or until the sender of
/// `commands` is dropped. Needs a current-thread runtime with time and I/O enabled.
///
/// # Errors
/// Only at the start: an invalid configuration, no reachable broker, or a missing topic; and a
/// rejected login or certificate at a broker that has not accepted a connection before.
pub async fn run(
    config: LeanConfig,
    sink: impl LeanSink + 'static,
    mut commands: watch::Receiver<LeanCommand>,
) -> Result<LeanReport, LeanError> {
    config.check()?;
    let shared = Rc::new(LeanState::new(config, sink, commands.clone())?);
    let stopped = async {
        // The result locks the channel until it is dropped. An error means that the sender was
        // dropped, so nothing else can stop the run.
        let _ = commands
            .wait_for(|command| *command == LeanCommand::Stop)
            .await;
    };
    let tasks = LocalSet::new();
    let outcome = tasks
        .run_until(async {
            tokio::select! {
                outcome = supervise(Rc::clone(&shared)) => outcome,
                error = shared.rejected() => Err(error),
                () = stopped => {
                    group::leave_all(&shared).await;
                    Ok(())
                }
            }
        })
        .await;
    drop(tasks);
    outcome.map(|()| shared.report.get())
}

/// Reads the metadata and starts the group members. Then starts a fetcher for each consumer and
/// leader, and again whenever leaders change. Returns only with an error.
async fn supervise<S: LeanSink + 'static>(shared: Rc<LeanState<S>>) -> Result<(), LeanError> {
    shared.cluster.start().await?;
    shared.create_consumers();
    if let Some(groups) = &shared.config.groups {
        for consumer in 0..shared.config.consumers {
            group::start(&shared, groups, consumer);
        }
    }
    let mut changes = shared.cluster.changes();
    loop {
        changes.borrow_and_update();
        for consumer in 0..shared.config.consumers {
            fetcher::start_all(&shared, consumer);
        }
        if changes.changed().await.is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct IgnoringSink;

    impl LeanSink for IgnoringSink {
        fn on_ready(&mut self, _: usize) {}
        fn on_record(&mut self, _: usize, _: &LeanRecord<'_>) {}
        fn on_error(&mut self, _: usize, _: &LeanError) {}
        fn on_bytes(&mut self, _: usize, _: usize) {}
    }

    fn run_now(config: LeanConfig) -> Result<LeanReport, LeanError> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("runtime");
        let (_sender, commands) = watch::channel(LeanCommand::Read);
        runtime.block_on(run(config, IgnoringSink, commands))
    }

    #[test]
    fn invalid_config_error_names_field() {
        let error = run_now(LeanConfig::default()).expect_err("no topic");
        assert!(error.to_string().starts_with("topic = \"\""), "{error}");
        let config = LeanConfig {
            topic: "t".to_owned(),
            connect_rate_per_s: 0,
            ..LeanConfig::default()
        };
        let error = run_now(config.clone()).expect_err("connect rate 0");
        assert_eq!(
            error.to_string(),
            "connect_rate_per_s = \"0\": must be at least 1"
        );
        let config = LeanConfig {
            kafka: config.kafka.with_property("isolation.level", "none"),
            connect_rate_per_s: 1,
            ..config
        };
        let error = run_now(config).expect_err("no isolation level");
        assert_eq!(
            error.to_string(),
            "isolation.level = \"none\": use read_uncommitted or read_committed"
        );
    }

    #[test]
    fn unreachable_broker_error_names_address() {
        let config = LeanConfig {
            kafka: weir_security::KafkaSettings::plaintext("127.0.0.1:1"),
            topic: "t".to_owned(),
            ..LeanConfig::default()
        };
        let error = run_now(config).expect_err("closed port");
        let text = error.to_string();
        assert!(
            text.starts_with("no usable Kafka broker at \"127.0.0.1:1\""),
            "{text}"
        );
    }
}
