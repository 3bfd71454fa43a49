//! Names to addresses, in a thread of its own, since the system's look-up blocks.

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError};
use weir_net::MailboxSender;
use weir_net::limited;
use weir_net::log::Truncated;

use crate::config::HostPort;
use crate::data::{LoopEvent, PairId};

/// Look-ups that may wait; a pair more is closed.
const QUESTIONS_MAX: usize = 4096;
/// How long an answer is used again.
const FRESH: Duration = Duration::from_secs(10);
/// Names that are kept.
const NAMES_MAX: usize = 4096;
/// How long an event loop's inbox may be full.
const POST_TIMEOUT: Duration = Duration::from_secs(1);

/// What a pair wants to know.
#[derive(Debug)]
pub(crate) struct ResolveRequest {
    pub(crate) pair: PairId,
    pub(crate) hosts: Vec<HostPort>,
    pub(crate) reply: MailboxSender<LoopEvent>,
}

/// Where questions go.
#[derive(Debug, Clone)]
pub(crate) struct Resolver {
    questions: Sender<ResolveRequest>,
}

impl Resolver {
    /// Starts the thread; it ends with the last of those who could ask.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (questions, inbox) = crossbeam_channel::bounded(QUESTIONS_MAX);
        std::thread::Builder::new()
            .name("weir-resolve".to_owned())
            .spawn(move || answer_all(&inbox))?;
        Ok(Self { questions })
    }

    /// Asks, unless too many wait already.
    pub(crate) fn try_send(
        &self,
        question: ResolveRequest,
    ) -> Result<(), TrySendError<ResolveRequest>> {
        self.questions.try_send(question)
    }
}

fn answer_all(inbox: &Receiver<ResolveRequest>) {
    let mut kept = HashMap::new();
    for question in inbox {
        let mut candidates = Vec::new();
        for host in &question.hosts {
            let addresses = look_up(host, &mut kept);
            candidates.extend(addresses.map(|address| (address, Arc::clone(&host.host))));
        }
        let mail = LoopEvent::Resolved(question.pair, candidates);
        // A loop that does not take it has the pair end by its timer.
        let _ = question.reply.post(mail, POST_TIMEOUT);
    }
}

type CachedLookup = HashMap<(Arc<str>, u16), (Instant, Vec<SocketAddr>)>;

fn look_up(host: &HostPort, kept: &mut CachedLookup) -> impl Iterator<Item = SocketAddr> {
    let key = (Arc::clone(&host.host), host.port);
    let fresh = kept
        .get(&key)
        .filter(|(at, addresses)| at.elapsed() < FRESH && !addresses.is_empty());
    let addresses = match fresh {
        Some((_, addresses)) => addresses.clone(),
        None => {
            let addresses = resolve(host);
            if kept.len() >= NAMES_MAX {
                kept.clear();
            }
            kept.insert(key, (Instant::now(), addresses.clone()));
            addresses
        }
    };
    addresses.into_iter()
}

/// The addresses of a host; none if nobody knows it.
pub(crate) fn resolve(host: &HostPort) -> Vec<SocketAddr> {
    if let Some(address) = host.numeric() {
        return vec![address];
    }
    match (&*host.host, host.port).to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(error) => {
            let host = Truncated(host);
            limited!(warn, "name not resolved", "{host}: {error}");
            Vec::new()
        }
    }
}
