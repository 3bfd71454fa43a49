//! Broker of a run: started for it, or existing.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use weir_kafka::Admin;
use weir_lab::{Lab, LabOptions};

use super::super::{BenchError, BenchOptions, Observer};
use crate::experiment::broker::local_pids;

/// Broker and its processes.
pub(super) struct LibraryBroker {
    lab: Option<Lab>,
    pub(super) admin: Admin,
    pub(super) bootstrap: String,
    /// Process ids; `None` if they are not on this machine or not known.
    pub(super) pids: Option<Vec<u32>>,
}

impl LibraryBroker {
    pub(super) fn start(
        options: &BenchOptions,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Self, BenchError> {
        if let Some(bootstrap) = &options.bootstrap {
            return Ok(Self {
                lab: None,
                admin: Admin::connect(bootstrap, ADMIN_TIMEOUT)?,
                bootstrap: bootstrap.clone(),
                pids: local_pids(bootstrap),
            });
        }
        let lab_options = LabOptions::default();
        let lab = Lab::up(&lab_options, &mut |text| observer.note(text), stop)?;
        let bootstrap = lab.bootstrap();
        Ok(Self {
            admin: Admin::connect(&bootstrap, ADMIN_TIMEOUT)?,
            bootstrap,
            pids: Some(lab.brokers().iter().map(|broker| broker.pid).collect()),
            lab: Some(lab),
        })
    }

    /// Returns the directory with its topics, if the broker was started for the run.
    pub(super) fn topics_dir(&self) -> Option<PathBuf> {
        self.lab.as_ref().map(|lab| lab.dir().to_owned())
    }

    pub(super) fn kafka_version(&self) -> Option<String> {
        self.lab.as_ref().map(|lab| lab.kafka_version().to_owned())
    }

    /// Returns `true` if the broker does not respond, in which case failures are not the drivers'
    /// fault.
    pub(super) fn is_down(&mut self) -> bool {
        match &mut self.lab {
            Some(lab) => !lab.is_running(),
            None => self.admin.broker_ids().is_err(),
        }
    }

    /// Stops the broker, if it was started for the run.
    pub(super) fn down(self) -> Result<(), BenchError> {
        match self.lab {
            Some(lab) => Ok(lab.down()?),
            None => Ok(()),
        }
    }
}

const ADMIN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20);
