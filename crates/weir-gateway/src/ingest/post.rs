//! Mail from an ingest worker to the shards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use weir_net::{MailSender, PostError};

use crate::connection::add;
use crate::shard::ShardMail;

/// How long to wait for a shard's full inbox before looking at the stop flag.
const PATIENCE: Duration = Duration::from_millis(100);
/// Waits for a shard after ingest was told to stop; a shard that is stuck must not keep it.
const LATE_MAX: u32 = 20;

/// The shards' inboxes.
#[derive(Clone)]
pub(super) struct Post {
    shards: Vec<MailSender<ShardMail>>,
    stop: Arc<AtomicBool>,
}

impl Post {
    pub(super) fn new(shards: Vec<MailSender<ShardMail>>, stop: Arc<AtomicBool>) -> Self {
        Self { shards, stop }
    }

    /// Waits while the shard's inbox is full: a slow shard slows reading from Kafka, nothing is
    /// dropped on the way.
    pub(super) fn send(&self, shard: u16, mail: ShardMail, waits: &AtomicU64) {
        let Some(sender) = self.shards.get(usize::from(shard)) else {
            return;
        };
        let (mut mail, mut late) = (mail, 0);
        loop {
            match sender.post(mail, PATIENCE) {
                Ok(()) | Err(PostError::Closed(_)) => return,
                Err(PostError::Full(back)) => {
                    add(waits, 1);
                    late += u32::from(self.stop.load(Ordering::Relaxed));
                    if late > LATE_MAX {
                        return;
                    }
                    mail = back;
                }
            }
        }
    }

    pub(super) fn send_to_all(&self, mail: impl Fn() -> ShardMail, waits: &AtomicU64) {
        for shard in 0..self.shards.len() {
            self.send(shard as u16, mail(), waits);
        }
    }
}
