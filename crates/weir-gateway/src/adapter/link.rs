//! How outcomes and notifications of the remote adapter reach the shards.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use weir_adapter::{
    AdapterConfig, AdapterError, AdapterOutcome, AdapterServer, AdapterSink, NotificationTicket,
    ServerOptions,
};
use weir_identity::ari::{AdapterNotification, Parameter};
use weir_net::MailboxSender;
use weir_tlcp::server::SessionId;

use super::calls::{AdapterEvent, AdapterToken};
use crate::shard::ShardEvent;

/// Maximum wait for a shard's inbox. Replies are not read meanwhile.
const POST_TIMEOUT: Duration = Duration::from_secs(10);

/// Inboxes of the shards, once they exist.
pub(crate) type ShardInboxes = Arc<OnceLock<Vec<MailboxSender<ShardEvent>>>>;

struct ShardSink(ShardInboxes);

impl ShardSink {
    /// Posts an event to a shard; the first one gets those for unknown shards.
    fn post(&self, shard: u16, event: AdapterEvent) {
        let inboxes = self.0.get().map_or(&[][..], |inboxes| inboxes);
        let inbox = inboxes.get(usize::from(shard)).or_else(|| inboxes.first());
        if let Some(inbox) = inbox {
            // A shard that accepts nothing until the timeout is reported by the watchdog.
            let _ = inbox.post(ShardEvent::Adapter(Box::new(event)), POST_TIMEOUT);
        }
    }
}

impl AdapterSink<AdapterToken> for ShardSink {
    fn complete(&mut self, token: AdapterToken, outcome: AdapterOutcome) {
        self.post(token.shard, AdapterEvent::Complete(token.call, outcome));
    }

    fn notified(&mut self, ticket: NotificationTicket, notification: AdapterNotification) {
        let location = match &notification {
            AdapterNotification::ForceSessionEnd { session, .. }
            | AdapterNotification::ForceUnsubscription { session, .. } => {
                SessionId::location_of(session)
            }
            _ => return,
        };
        let shard = location.map_or(0, |location| location.shard);
        self.post(shard, AdapterEvent::Notified(ticket, notification));
    }
}

/// Starts the connection to the adapter.
pub(crate) fn start(
    config: AdapterConfig,
    set_id: &str,
    inboxes: ShardInboxes,
) -> Result<AdapterServer<AdapterToken>, AdapterError> {
    let instance = format!("{:016x}", rand::random::<u64>());
    let options = ServerOptions {
        parameters: vec![
            Parameter::new("adapters_conf.id", set_id),
            Parameter::new("server.instance_id", &instance),
            Parameter::new("proxy.instance_id", instance),
        ],
    };
    AdapterServer::start(config, options, ShardSink(inboxes))
}
