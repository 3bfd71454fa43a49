//! Resolves the servers that the clients of this process connect to.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};

use weir_net::client::ServerTls;
use weir_net::tls::ClientTls;

use super::options::{ClientProtocol, ClientsOptions, TlsTrust};
use crate::error::{LoadError, Result};
use crate::share::WorkerShare;

/// Servers, in the order in which the connections of this process use them.
#[derive(Debug)]
pub(super) struct Servers {
    /// Values of the `Host` header.
    pub(super) authorities: Vec<String>,
    /// Paths of requests, if the protocol has no path of its own.
    pub(super) paths: Vec<String>,
    pub(super) addresses: Vec<(SocketAddr, Option<ServerTls>)>,
}

/// Resolves the servers of this process. Client `n` of the whole run uses server `n` modulo their
/// number.
pub(super) fn local_servers(options: &ClientsOptions) -> Result<Servers> {
    let count = options.servers.len();
    if count == 0 {
        return Err(server_error("", "no server given"));
    }
    let WorkerShare { index, of } = options.share;
    let mut servers = Servers {
        authorities: Vec::new(),
        paths: Vec::new(),
        addresses: Vec::new(),
    };
    for server in (0..count).map(|n| &options.servers[(index + n * of) % count]) {
        let (server, path) = match options.kind {
            ClientProtocol::Json(_) => split_path(server),
            ClientProtocol::Tlcp { .. } | ClientProtocol::Floor => (server.clone(), String::new()),
        };
        let (authority, address) = resolve_server(&server, &options.tls)?;
        servers.paths.push(path);
        servers.authorities.push(authority);
        servers.addresses.push(address);
    }
    Ok(servers)
}

/// Splits a URL into a server, with the scheme of a WebSocket, and the path of the request.
fn split_path(url: &str) -> (String, String) {
    let (scheme, rest) = match url.split_once("://") {
        Some(("http", rest)) => ("ws://", rest),
        Some(("https", rest)) => ("wss://", rest),
        _ => ("", url),
    };
    let authority = rest.find("://").map_or(0, |at| at + 3);
    let slash = rest[authority..].find('/').map(|at| authority + at);
    let (server, path) = rest.split_at(slash.unwrap_or(rest.len()));
    let path = Some(path).filter(|path| !path.is_empty()).unwrap_or("/");
    (format!("{scheme}{server}"), path.to_owned())
}

/// Returns the authority of a URL for the `Host` header, its first address, and TLS for `wss`.
pub(crate) fn resolve_server(
    url: &str,
    trust: &TlsTrust,
) -> Result<(String, (SocketAddr, Option<ServerTls>))> {
    let (authority, address, secure) = resolve(url)?;
    let tls = secure.then(|| server_tls(url, &authority, trust));
    let tls = tls.transpose()?;
    Ok((authority, (address, tls)))
}

fn server_tls(server: &str, authority: &str, trust: &TlsTrust) -> Result<ServerTls> {
    let failed = |error: weir_net::tls::TlsError| server_error(server, &error.to_string());
    let trust = match trust {
        TlsTrust::Unset => {
            let remedy = "give --ca FILE, or --insecure to accept any certificate";
            return Err(server_error(server, remedy));
        }
        TlsTrust::CertificateAuthorities(pem) => ClientTls::with_roots_pem(pem.as_bytes()),
        TlsTrust::AnyCertificate => ClientTls::insecure(),
    };
    Ok(ServerTls {
        trust: trust.map_err(failed)?,
        name: ClientTls::server_name(authority).map_err(failed)?,
    })
}

/// Returns the authority for the `Host` header, its first address, and `true` if the scheme is
/// `wss`.
fn resolve(server: &str) -> Result<(String, SocketAddr, bool)> {
    let (authority, secure) = match server.strip_prefix("wss://") {
        Some(authority) => (authority, true),
        None => (server.strip_prefix("ws://").unwrap_or(server), false),
    };
    let authority = authority.trim_end_matches('/');
    if authority.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control()) {
        return Err(server_error(server, "a path or blanks are not allowed"));
    }
    let failed = |error: io::Error| server_error(server, &error.to_string());
    let mut addresses = authority.to_socket_addrs().map_err(failed)?;
    let address = addresses
        .next()
        .ok_or_else(|| server_error(server, "no address"))?;
    Ok((authority.to_owned(), address, secure))
}

fn server_error(server: &str, reason: &str) -> LoadError {
    let reason = format!("{reason}, write for example ws://127.0.0.1:8080");
    LoadError::option("--url", &server, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_from_urls() {
        for (url, server, path) in [
            ("ws://a:1/b?c={item}", "ws://a:1", "/b?c={item}"),
            ("http://a:1/", "ws://a:1", "/"),
            ("https://a:1", "wss://a:1", "/"),
            ("a:1/x", "a:1", "/x"),
        ] {
            assert_eq!(split_path(url), (server.to_owned(), path.to_owned()));
        }
    }
}
