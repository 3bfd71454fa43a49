//! Settings that expose credentials of clients, for `check` and the log.

use std::net::{IpAddr, SocketAddr};

use weir_identity::config::{AuthConfig, TokenSource};

use crate::admission::Origins;
use crate::tls::TlsFiles;

/// Returns remarks on how credentials reach the gateway, each with a remedy.
pub(crate) fn exposures(
    auth: &AuthConfig,
    origins: &Origins,
    (listen, tls): (SocketAddr, Option<&TlsFiles>),
) -> Vec<String> {
    let mut remarks = Vec::new();
    let is_cookie = |source: &TokenSource| matches!(source, TokenSource::Cookie(_));
    if auth.sources.iter().any(is_cookie) && *origins == Origins::Any {
        remarks.push(
            "auth.sources has a cookie, which browsers send for every page, and allowed_origins \
             allows every page: list yours"
                .to_owned(),
        );
    }
    let is_plain = tls.is_none_or(|tls| tls.config.listen.is_some());
    let sends_tokens = auth
        .sources
        .iter()
        .any(|one| *one != TokenSource::Certificate);
    if sends_tokens && is_plain && is_public(listen.ip()) {
        remarks.push(format!(
            "auth: tokens come to {listen} without TLS: serve TLS only, or set listen to an \
             address that only your TLS proxy reaches"
        ));
    }
    remarks
}

/// Returns `true` for addresses that are neither of this machine nor of a private network.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(ip) => !(ip.is_loopback() || ip.is_private() || ip.is_link_local()),
        IpAddr::V6(ip) => !(ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unspecified_and_routed_addresses_are_public() {
        for (text, public) in [
            ("0.0.0.0", true),
            ("::", true),
            ("203.0.113.7", true),
            ("2001:db8::1", true),
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("192.168.0.1", false),
            ("::1", false),
            ("fd00::1", false),
            ("fe80::1", false),
            ("::ffff:10.0.0.1", false),
        ] {
            assert_eq!(is_public(text.parse().unwrap()), public, "{text}");
        }
    }
}
