//! Switch of an event loop to the next generation of the configuration.

use std::sync::Arc;

use super::closing::{ClosingByCluster, ClosingCounts};
use super::event_loop::address_cache;
use super::events::PairId;
use super::generation::Generation;
use super::loop_state::LoopState;
use super::pair::ConnectionPair;
use super::proxy_loop::ProxyLoop;
use crate::virtual_cluster::VirtualCluster;

/// The future of a connection under another generation.
#[derive(Debug, Clone)]
enum Continuation {
    /// It continues.
    Stays(Arc<VirtualCluster>),
    /// It continues for now. Its client may have chosen API versions that are not supported any
    /// more.
    Leaves(Arc<VirtualCluster>),
    /// It ends after its in-flight requests.
    Ends,
}

/// The clusters of the next generation, with what was found out about connections.
struct Successors<'a> {
    next: &'a [Arc<VirtualCluster>],
    /// All connections of a cluster have one of a few generations.
    known: Vec<([*const VirtualCluster; 2], Continuation)>,
}

impl<'a> Successors<'a> {
    fn new(next: &'a [Arc<VirtualCluster>]) -> Self {
        Self {
            next,
            known: Vec::new(),
        }
    }

    fn of(&mut self, pair: &ConnectionPair) -> Continuation {
        let key = [Arc::as_ptr(&pair.cluster), Arc::as_ptr(pair.offering())];
        if let Some((_, known)) = self.known.iter().find(|(one, _)| *one == key) {
            return known.clone();
        }
        let same = self.next.iter().find(|next| next.id == pair.cluster.id);
        let continuation = match same {
            Some(next) if !next.keeps_brokers_and_logins(&pair.cluster) => Continuation::Ends,
            Some(next) if next.supported.covers(&pair.offering().supported) => {
                Continuation::Stays(Arc::clone(next))
            }
            Some(next) => Continuation::Leaves(Arc::clone(next)),
            None => Continuation::Ends,
        };
        self.known.push((key, continuation.clone()));
        continuation
    }
}

impl ProxyLoop {
    /// Switches to the next generation. Connections that cannot continue with it end as soon as no
    /// request is in flight, at the latest after the drain timeout; some of them later. Returns
    /// their number.
    pub(super) fn reload(&mut self, next: Arc<Generation>) -> ClosingCounts {
        let listeners = &mut self.state.core.listeners;
        listeners.retain(|listener| next.has_listener(*listener));
        // Connections that end may still use places beyond the new ones.
        let more = next.clusters.iter().skip(self.state.addresses.len());
        self.state
            .addresses
            .extend(more.map(|one| address_cache(one)));
        let mut successors = Successors::new(&next.clusters);
        let (mut ending, mut leaving) = (Vec::new(), Vec::new());
        let is_spread = !next.reload_spread.is_zero();
        for id in self.staying() {
            let Some(pair) = self.pairs.get_mut(id) else {
                continue;
            };
            match successors.of(pair) {
                Continuation::Stays(successor) => pair.switch_to(successor),
                Continuation::Leaves(successor) if is_spread => {
                    if pair.leave_with(successor) {
                        leaving.push(id);
                    }
                }
                Continuation::Leaves(_) | Continuation::Ends => ending.push(id),
            }
        }
        let spread_ms = next.reload_spread.as_millis() as u64;
        self.state.generation = next;
        let now_ms = self.state.now_ms();
        for (place, id) in leaving.iter().enumerate() {
            if let Some(pair) = self.pairs.get_mut(*id) {
                let at_ms = now_ms + spread_ms * place as u64 / leaving.len() as u64;
                pair.leaves_ms = Some(at_ms);
                self.state.arm(pair, at_ms);
            }
        }
        for id in &ending {
            if let Some(pair) = self.pairs.get_mut(*id) {
                self.state.leave(pair);
            }
            self.forward(*id);
        }
        ClosingCounts {
            immediate: ending.len(),
            spread: leaving.len(),
        }
    }

    /// Returns the numbers of connections that a switch to these clusters would end, by the name
    /// of their cluster.
    pub(super) fn preview(&self, next: &[Arc<VirtualCluster>]) -> ClosingByCluster {
        let mut successors = Successors::new(next);
        let mut counts = ClosingByCluster::new();
        for (_, pair) in self.pairs.iter().filter(|(_, pair)| !pair.leaving) {
            let closing = match successors.of(pair) {
                Continuation::Stays(_) => continue,
                Continuation::Leaves(_) if pair.leaves_ms.is_some() => continue,
                Continuation::Leaves(_) => ClosingCounts {
                    spread: 1,
                    ..ClosingCounts::default()
                },
                Continuation::Ends => ClosingCounts {
                    immediate: 1,
                    ..ClosingCounts::default()
                },
            };
            let name = &pair.cluster.config.name;
            match counts.get_mut(name) {
                Some(known) => known.add(closing),
                None => drop(counts.insert(name.clone(), closing)),
            }
        }
        counts
    }

    /// Returns the connections that do not end already.
    fn staying(&self) -> Vec<PairId> {
        let staying = self.pairs.iter().filter(|(_, pair)| !pair.leaving);
        staying.map(|(id, _)| id).collect()
    }
}

impl LoopState {
    /// Lets a connection end as soon as no request is in flight, at the latest after the drain
    /// timeout.
    pub(super) fn leave(&mut self, pair: &mut ConnectionPair) {
        let until_ms = self.now_ms() + self.generation.drain.as_millis() as u64;
        let ends_ms = pair.ends_ms.unwrap_or(u64::MAX).min(until_ms);
        pair.leaving = true;
        pair.leaves_ms = None;
        pair.ends_ms = Some(ends_ms);
        self.counters.reload_closed += 1;
        self.arm(pair, ends_ms);
    }
}
