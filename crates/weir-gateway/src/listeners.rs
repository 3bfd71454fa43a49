//! The listen addresses for clients, with one listening socket per shard.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_net::listener::listen_shared;
use weir_net::server::Listener;

use crate::error::GatewayError;
use crate::tls::TlsFiles;

/// Listening sockets and their bound addresses.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) listen: SocketAddr,
    pub(crate) tls_listen: Option<SocketAddr>,
    /// Sockets by shard.
    pub(crate) listeners: Vec<Vec<Listener>>,
}

impl Listeners {
    /// Binds `listen`, which uses TLS if TLS has no separate address, and the TLS address.
    pub(crate) fn open(
        listen: SocketAddr,
        tls: Option<&TlsFiles>,
        shards: usize,
    ) -> Result<Self, GatewayError> {
        let mut listeners: Vec<Vec<Listener>> = (0..shards).map(|_| Vec::new()).collect();
        let alone = tls.filter(|tls| tls.config.listen.is_none());
        let listen = open(listen, "--listen", alone, &mut listeners)?;
        let separate = tls.and_then(|tls| Some((tls, tls.config.listen?)));
        let tls_listen = match separate {
            Some((tls, address)) => Some(open(address, "tls.listen", Some(tls), &mut listeners)?),
            None => alone.map(|_| listen),
        };
        Ok(Self {
            listen,
            tls_listen,
            listeners,
        })
    }
}

/// Returns the URLs that clients connect to.
pub fn client_addresses(listen: SocketAddr, tls: Option<SocketAddr>) -> String {
    match tls {
        Some(tls) if tls == listen => format!("wss://{tls}/lightstreamer"),
        Some(tls) => format!("ws://{listen}/lightstreamer or wss://{tls}/lightstreamer"),
        None => format!("ws://{listen}/lightstreamer"),
    }
}

fn open(
    address: SocketAddr,
    key: &'static str,
    tls: Option<&TlsFiles>,
    listeners: &mut [Vec<Listener>],
) -> Result<SocketAddr, GatewayError> {
    let fail = |error| GatewayError::Listen {
        address,
        key,
        error,
    };
    let sockets = listen_shared(address, listeners.len()).map_err(fail)?;
    let address = sockets[0].local_addr().map_err(fail)?;
    for (socket, listeners) in sockets.into_iter().zip(listeners) {
        let tls = tls.map(|tls| Arc::clone(&tls.acceptor));
        listeners.push(Listener { socket, tls });
    }
    Ok(address)
}
