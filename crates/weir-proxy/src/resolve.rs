//! Name resolution in its own thread, because the system's lookup blocks.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use weir_net::MailboxSender;

use crate::config::HostPort;
use crate::data::{LoopEvent, PairId};

/// Maximum number of pending requests. Connections beyond it are closed.
const PENDING_MAX: usize = 4096;
/// Time for which a result is reused.
const CACHE_TIME: Duration = Duration::from_secs(10);
/// Maximum number of cached names.
const NAMES_MAX: usize = 4096;
/// Maximum wait for a full event-loop inbox.
const POST_TIMEOUT: Duration = Duration::from_secs(1);

/// Host names to resolve for a connection pair.
#[derive(Debug)]
pub(crate) struct ResolveRequest {
    pub(crate) pair: PairId,
    pub(crate) hosts: Vec<HostPort>,
    pub(crate) reply: MailboxSender<LoopEvent>,
}

/// Starts the thread, which ends when the last sender is dropped.
pub(crate) fn start_resolver() -> std::io::Result<Sender<ResolveRequest>> {
    let (requests, inbox) = crossbeam_channel::bounded(PENDING_MAX);
    let thread = std::thread::Builder::new().name("weir-resolve".to_owned());
    thread.spawn(move || resolve_all(&inbox))?;
    Ok(requests)
}

fn resolve_all(inbox: &Receiver<ResolveRequest>) {
    let mut cache = HashMap::new();
    for request in inbox {
        let mut candidates = Vec::new();
        for host in &request.hosts {
            let addresses = look_up(host, &mut cache);
            candidates.extend(addresses.map(|address| (address, Arc::clone(&host.host))));
        }
        let event = LoopEvent::Resolved(request.pair, candidates);
        // If the loop does not accept the event, the pair's timer closes the pair.
        let _ = request.reply.post(event, POST_TIMEOUT);
    }
}

type CachedLookup = HashMap<(Arc<str>, u16), (Instant, Vec<SocketAddr>)>;

fn look_up(host: &HostPort, cache: &mut CachedLookup) -> impl Iterator<Item = SocketAddr> {
    let key = (Arc::clone(&host.host), host.port);
    let fresh = cache
        .get(&key)
        .filter(|(at, addresses)| at.elapsed() < CACHE_TIME && !addresses.is_empty());
    let addresses = match fresh {
        Some((_, addresses)) => addresses.clone(),
        None => {
            let addresses = host.resolve();
            if cache.len() >= NAMES_MAX {
                cache.clear();
            }
            cache.insert(key, (Instant::now(), addresses.clone()));
            addresses
        }
    };
    addresses.into_iter()
}
