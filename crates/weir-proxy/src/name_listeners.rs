//! The listeners of clients that select their cluster by server name. Clusters share them.

use std::net::{SocketAddr, TcpListener};

use weir_net::listener::ListenerSource;

use crate::config::ClusterConfig;
use crate::error::ProxyError;

/// Addresses of listeners: as configured, and as bound.
#[derive(Debug, Clone, Default)]
pub(crate) struct NameListeners(Vec<(SocketAddr, SocketAddr)>);

/// New sockets of a configured address, one per event loop.
pub(crate) type NameSockets = Vec<(SocketAddr, Vec<TcpListener>)>;

impl NameListeners {
    /// Returns the listeners of a configuration. Binds the addresses that are not in `current`.
    pub(crate) fn open(
        clusters: &[ClusterConfig],
        current: &Self,
        own: &[SocketAddr],
        source: &ListenerSource,
    ) -> Result<(Self, NameSockets), ProxyError> {
        let mut next = Self::default();
        let mut opened = Vec::new();
        for cluster in clusters {
            let Some(names) = &cluster.names else {
                continue;
            };
            let address = names.listen;
            if next.bound(address).is_some() {
                continue;
            }
            let bound = match current.bound(address) {
                Some(bound) => bound,
                None => {
                    let key = format!("cluster \"{}\", sni.listen", cluster.name);
                    let (bound, sockets) = bind(address, own, source, &key)?;
                    opened.push((address, sockets));
                    bound
                }
            };
            next.0.push((address, bound));
        }
        Ok((next, opened))
    }

    /// Returns the bound address of a configured one.
    pub(crate) fn bound(&self, address: SocketAddr) -> Option<SocketAddr> {
        let mut all = self.0.iter();
        all.find(|(configured, _)| *configured == address)
            .map(|(_, bound)| *bound)
    }

    /// Returns the configured addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.iter().map(|(configured, _)| *configured)
    }
}

/// Binds an address, one socket per event loop. `own` are addresses of the configuration in use,
/// whose listeners close when the new ones are open.
pub(crate) fn bind(
    address: SocketAddr,
    own: &[SocketAddr],
    source: &ListenerSource,
    key: &str,
) -> Result<(SocketAddr, Vec<TcpListener>), ProxyError> {
    let fail = |error| ProxyError::Listen {
        address,
        key: key.to_owned(),
        error,
    };
    let is_own = address.port() != 0 && own.contains(&address);
    let sockets = match is_own {
        true => source.open_again(address),
        false => source.open(address),
    };
    let sockets = sockets.map_err(fail)?;
    let bound = sockets[0].local_addr().map_err(fail)?;
    Ok((bound, sockets))
}
