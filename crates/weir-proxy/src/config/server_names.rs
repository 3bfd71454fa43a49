//! Server names of a cluster, by which clients select it and its brokers on a shared port.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use serde::Deserialize;
use weir_net::tls::{ServerFiles, TlsAcceptor, TlsFiles, TlsFilesError};

use super::HostPort;

/// The table `[cluster.sni]`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct RawServerNames {
    /// Address for clients that select cluster and broker by server name, by default `listen` of
    /// the cluster, which then has no ports for brokers. Clusters may share it.
    pub(super) listen: Option<SocketAddr>,
    /// Names of the cluster for bootstrap.
    bootstrap: Vec<String>,
    /// Names of the brokers, with `$(nodeId)` once.
    broker: String,
    /// Port in advertised addresses, by default that of `listen`.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(min = 1)))]
    advertised_port: Option<u16>,
    /// Clients without a server name use this cluster.
    #[serde(default)]
    default: bool,
    /// Certificates for some of the names, instead of that of `tls`.
    #[serde(default)]
    certificate: Vec<RawNameCertificate>,
}

/// A table `[[cluster.sni.certificate]]`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct RawNameCertificate {
    /// Names, or `*.` and a domain for names with one label more.
    names: Vec<String>,
    /// Certificate chain, server certificate first.
    certificate: PathBuf,
    /// Private key.
    key: PathBuf,
}

/// Server names that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServerNamesError {
    #[error("sni needs TLS: add [cluster.tls]")]
    NoTls,
    #[error("sni.bootstrap is empty: give at least one name")]
    NoBootstrap,
    #[error(
        "sni: \"{0}\" is not a name: use letters, digits and dashes, and at least one dot, \
         because clients send no server name without a dot"
    )]
    Name(String),
    #[error("sni.broker = \"{0}\": write $(nodeId) exactly once")]
    Pattern(String),
    #[error("sni.advertised_port = 0: use 1 to 65535")]
    Port,
    #[error("sni.certificate: \"{0}\" is given twice")]
    Twice(String),
    #[error("sni.certificate: {0}")]
    Files(#[from] TlsFilesError),
}

/// The server names of one cluster.
#[derive(Debug)]
pub struct ServerNames {
    /// Address that clients use.
    pub listen: SocketAddr,
    /// Names for bootstrap.
    pub bootstrap: Vec<Box<str>>,
    /// Names of the brokers.
    pub broker: BrokerNames,
    /// Port in advertised addresses; 0: that of the bound address.
    pub advertised_port: u16,
    /// Clients without a server name use this cluster.
    pub is_default: bool,
    /// Certificates, those for exact names first.
    certificates: Vec<(CertificateName, Arc<TlsAcceptor>)>,
}

/// Destination of a server name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedTarget {
    /// Any broker.
    Bootstrap,
    /// The broker with this node id, which may not exist.
    Broker(i32),
}

impl RawServerNames {
    /// Checks the table. `files` are those of `[cluster.tls]`.
    pub(super) fn open(
        self,
        table: &str,
        listen: SocketAddr,
        (files, directory): (Option<&ServerFiles>, &Path),
        tls_files: &mut Vec<Arc<TlsFiles>>,
    ) -> Result<ServerNames, ServerNamesError> {
        let files = files.ok_or(ServerNamesError::NoTls)?;
        let bootstrap: Result<Vec<_>, _> = self.bootstrap.into_iter().map(name).collect();
        let bootstrap = bootstrap?;
        if bootstrap.is_empty() {
            return Err(ServerNamesError::NoBootstrap);
        }
        if self.advertised_port == Some(0) {
            return Err(ServerNamesError::Port);
        }
        let mut certificates: Vec<(CertificateName, Arc<TlsAcceptor>)> = Vec::new();
        for one in self.certificate {
            let own = ServerFiles {
                certificate: one.certificate,
                key: one.key,
                // Clients of all names need the same certificates.
                ..files.clone()
            };
            let (tls, own) = TlsFiles::server(table, own.within(directory), None)?;
            tls_files.push(Arc::new(own));
            for text in one.names {
                let name = CertificateName::parse(text.clone())?;
                if certificates.iter().any(|(other, _)| *other == name) {
                    return Err(ServerNamesError::Twice(text));
                }
                certificates.push((name, Arc::clone(&tls)));
            }
        }
        certificates.sort_by_key(|(name, _)| name.is_wildcard);
        Ok(ServerNames {
            listen: self.listen.unwrap_or(listen),
            bootstrap,
            broker: BrokerNames::parse(&self.broker)?,
            advertised_port: self.advertised_port.unwrap_or(0),
            is_default: self.default,
            certificates,
        })
    }
}

impl ServerNames {
    /// Sets the port of the bound address.
    pub(crate) fn set_port(&mut self, port: u16) {
        if self.advertised_port == 0 {
            self.advertised_port = port;
        }
    }

    /// Returns the destination of a name in lower case; `None` for names of others.
    pub(crate) fn target(&self, name: &str) -> Option<NamedTarget> {
        if self.bootstrap.iter().any(|own| **own == *name) {
            return Some(NamedTarget::Bootstrap);
        }
        self.broker.node_of(name).map(NamedTarget::Broker)
    }

    /// Returns the certificate for a name, unless it is that of `[cluster.tls]`.
    pub(crate) fn certificate(&self, name: &str) -> Option<&TlsAcceptor> {
        let mut certificates = self.certificates.iter();
        let found = certificates.find(|(own, _)| own.matches(name));
        found.map(|(_, tls)| &**tls)
    }

    /// Returns the certificates for names.
    pub(super) fn certificates(&self) -> impl Iterator<Item = &TlsAcceptor> {
        self.certificates.iter().map(|(_, tls)| &**tls)
    }

    /// Returns the advertised address of a broker.
    pub(crate) fn address_of(&self, id: i32) -> HostPort {
        HostPort::new(&self.broker.of(id), self.advertised_port)
    }

    /// Returns a name that belongs to both clusters, or a description of such names.
    pub(super) fn shared_with(&self, other: &Self) -> Option<String> {
        let names = |of: &Self, with: &Self| {
            let mut names = of.bootstrap.iter();
            let found = names.find(|name| with.target(name).is_some());
            found.map(ToString::to_string)
        };
        let overlap = || {
            let text = || format!("{} and {}", self.broker, other.broker);
            self.broker.overlaps(&other.broker).then(text)
        };
        names(self, other)
            .or_else(|| names(other, self))
            .or_else(overlap)
    }

    /// Returns a bootstrap name that is also a broker's.
    pub(super) fn ambiguous(&self) -> Option<&str> {
        let mut names = self.bootstrap.iter();
        let found = names.find(|name| self.broker.node_of(name).is_some());
        found.map(|name| &**name)
    }
}

impl fmt::Display for ServerNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bootstrap, broker) = (self.bootstrap.join(", "), &self.broker);
        write!(f, "{bootstrap}, brokers {broker}, at {}", self.listen)?;
        if self.is_default {
            f.write_str(", also without a name")?;
        }
        Ok(())
    }
}

/// A name for each node id: texts before and after the decimal number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerNames {
    before: Box<str>,
    after: Box<str>,
}

impl BrokerNames {
    fn parse(pattern: &str) -> Result<Self, ServerNamesError> {
        let wrong = || ServerNamesError::Pattern(pattern.to_owned());
        let (before, after) = pattern.split_once(NODE_ID).ok_or_else(wrong)?;
        if after.contains(NODE_ID) {
            return Err(wrong());
        }
        let names = Self {
            before: before.to_ascii_lowercase().into(),
            after: after.to_ascii_lowercase().into(),
        };
        // The longest of them.
        match name(names.of(i32::MAX)) {
            Ok(_) => Ok(names),
            Err(_) => Err(ServerNamesError::Name(pattern.to_owned())),
        }
    }

    fn of(&self, id: i32) -> String {
        format!("{}{id}{}", self.before, self.after)
    }

    fn node_of(&self, name: &str) -> Option<i32> {
        let digits = name.strip_prefix(&*self.before)?;
        let digits = digits.strip_suffix(&*self.after)?;
        let is_decimal = digits.bytes().all(|byte| byte.is_ascii_digit());
        let has_zeros = digits.len() > 1 && digits.starts_with('0');
        digits.parse().ok().filter(|_| is_decimal && !has_zeros)
    }

    /// Returns `true` if a name may match both patterns. Any digits count as a node id.
    fn overlaps(&self, other: &Self) -> bool {
        overlaps(&self.symbols(), &other.symbols())
    }

    /// Returns the characters of the pattern; `None` stands for digits.
    fn symbols(&self) -> Vec<Option<u8>> {
        let before = self.before.bytes().map(Some);
        let after = self.after.bytes().map(Some);
        before.chain([None]).chain(after).collect()
    }
}

impl fmt::Display for BrokerNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{NODE_ID}{}", self.before, self.after)
    }
}

/// Returns `true` if a text matches both lists of symbols, in which `None` is one digit or more.
/// Takes at most the product of the lengths in steps, because only digits branch.
fn overlaps(one: &[Option<u8>], other: &[Option<u8>]) -> bool {
    match (one, other) {
        ([], []) => true,
        ([Some(a), one @ ..], [Some(b), other @ ..]) => a == b && overlaps(one, other),
        ([None, rest @ ..], [None, others @ ..]) => {
            overlaps(rest, others) || overlaps(rest, other) || overlaps(one, others)
        }
        ([None, rest @ ..], [Some(byte), others @ ..])
        | ([Some(byte), others @ ..], [None, rest @ ..]) => {
            let digits = match one.first() {
                Some(None) => one,
                _ => other,
            };
            byte.is_ascii_digit() && (overlaps(rest, others) || overlaps(digits, others))
        }
        ([], _) | (_, []) => false,
    }
}

/// A name of a certificate, or the domain of a wildcard.
#[derive(Debug, PartialEq, Eq)]
struct CertificateName {
    name: Box<str>,
    is_wildcard: bool,
}

impl CertificateName {
    fn parse(text: String) -> Result<Self, ServerNamesError> {
        let (is_wildcard, host) = match text.strip_prefix("*.") {
            Some(domain) => (true, domain.to_owned()),
            None => (false, text),
        };
        let name = name(host)?;
        Ok(Self { name, is_wildcard })
    }

    fn matches(&self, name: &str) -> bool {
        match self.is_wildcard {
            true => name
                .split_once('.')
                .is_some_and(|(_, domain)| *domain == *self.name),
            false => *name == *self.name,
        }
    }
}

/// Returns a name in lower case, as clients send it in TLS.
fn name(text: String) -> Result<Box<str>, ServerNamesError> {
    let is_name = |text: &str| matches!(ServerName::try_from(text), Ok(ServerName::DnsName(_)));
    match is_name(&text) && text.trim_end_matches('.').contains('.') && !text.ends_with('.') {
        true => Ok(text.to_ascii_lowercase().into()),
        false => Err(ServerNamesError::Name(text)),
    }
}

const NODE_ID: &str = "$(nodeId)";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(bootstrap: &str, broker: &str) -> ServerNames {
        ServerNames {
            listen: ([127, 0, 0, 1], 9192).into(),
            bootstrap: vec![name(bootstrap.to_owned()).expect("a name")],
            broker: BrokerNames::parse(broker).expect("a pattern"),
            advertised_port: 0,
            is_default: false,
            certificates: Vec::new(),
        }
    }

    #[test]
    fn names_select_brokers() {
        let mut names = names("Orders.example.com", "b$(nodeId)-orders.Example.com");
        let cases = [
            ("orders.example.com", Some(NamedTarget::Bootstrap)),
            ("b0-orders.example.com", Some(NamedTarget::Broker(0))),
            (
                "b2147483647-orders.example.com",
                Some(NamedTarget::Broker(i32::MAX)),
            ),
            ("b2147483648-orders.example.com", None),
            ("b01-orders.example.com", None),
            ("b-orders.example.com", None),
            ("b+1-orders.example.com", None),
            ("b-1-orders.example.com", None),
            ("b1-orders.example.com.", None),
            ("b1-orders.example.org", None),
            ("", None),
        ];
        for (name, wanted) in cases {
            assert_eq!(names.target(name), wanted, "{name}");
        }
        names.set_port(9192);
        assert_eq!(
            names.address_of(7).to_string(),
            "b7-orders.example.com:9192"
        );
    }

    #[test]
    fn names_of_two_clusters_are_compared() {
        let a = names("a.example.com", "b$(nodeId)-a.example.com");
        let cases = [
            ("b.example.com", "b$(nodeId)-b.example.com", None),
            (
                "A.example.com",
                "c$(nodeId).example.com",
                Some("a.example.com"),
            ),
            (
                "b7-a.example.com",
                "c$(nodeId).x.com",
                Some("b7-a.example.com"),
            ),
            ("x.y", "b1$(nodeId)-a.example.com", Some("and")),
            ("x.y", "b$(nodeId)-a.example.com", Some("and")),
            ("x.y", "$(nodeId)-a.example.com", None),
            ("x.y", "b$(nodeId)-a.example.com.org", None),
        ];
        for (bootstrap, broker, wanted) in cases {
            let b = names(bootstrap, broker);
            for shared in [a.shared_with(&b), b.shared_with(&a)] {
                let found = match (&shared, wanted) {
                    (Some(found), Some(wanted)) => found.contains(wanted),
                    (None, None) => true,
                    _ => false,
                };
                assert!(found, "{bootstrap} {broker}: {shared:?}");
            }
        }
        assert_eq!(a.ambiguous(), None);
        let own = names("b7-a.example.com", "b$(nodeId)-a.example.com");
        assert_eq!(own.ambiguous(), Some("b7-a.example.com"));
    }

    #[test]
    fn unusable_names_are_rejected() {
        for text in [
            "",
            "localhost",
            "localhost.",
            "a b.c",
            "10.0.0.1",
            "*.a.b",
            "a..b",
        ] {
            name(text.to_owned()).expect_err(text);
        }
        for pattern in [
            "b.example.com",
            "b$(nodeId)",
            "$(nodeId).$(nodeId).a",
            "b$(nodeId)_!.a.b",
        ] {
            BrokerNames::parse(pattern).expect_err(pattern);
        }
        let long = format!("{}$(nodeId).a", "b".repeat(54));
        BrokerNames::parse(&long).expect_err("a label of 64 bytes");
    }

    #[test]
    fn wildcards_cover_one_label() {
        let wildcard = CertificateName::parse("*.Example.com".to_owned()).expect("a name");
        assert!(wildcard.matches("b1.example.com"));
        assert!(!wildcard.matches("example.com") && !wildcard.matches("a.b1.example.com"));
    }

    proptest! {
        #[test]
        fn patterns_with_a_common_name_overlap(
            texts in proptest::collection::vec("[b12]{0,3}", 4),
            ids in (0..130_i32, 0..130_i32),
        ) {
            let names = |before: &str, after: &str| BrokerNames {
                before: before.into(),
                after: after.into(),
            };
            let (one, other) = (names(&texts[0], &texts[1]), names(&texts[2], &texts[3]));
            let is_common = one.of(ids.0) == other.of(ids.1)
                || other.node_of(&one.of(ids.0)).is_some();
            prop_assert!(!is_common || one.overlaps(&other));
            prop_assert!(one.overlaps(&one));
            prop_assert_eq!(one.overlaps(&other), other.overlaps(&one));
        }
    }
}
