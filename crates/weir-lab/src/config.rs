//! The configuration files of one node: `server.properties` and `log4j2.properties`.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::Path;

use crate::error::{LabError, Result};
use crate::security::LabSecurity;
use crate::state::LabNode;

/// A listener that advertises another port than its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecondListener {
    /// Port of the broker.
    pub port: u16,
    /// Port advertised to clients.
    pub advertised_port: u16,
}

/// Name of a listener in the broker's configuration, by the peers that connect to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenerName {
    /// Clients of a lab without security, and other brokers.
    Plaintext,
    /// Clients of a secured lab.
    Client,
    /// Second listener, see [`SecondListener`].
    Second,
    /// Other brokers and the readiness check of a secured lab.
    Internal,
    /// Tests of an expired server certificate.
    Expired,
    /// Tests of a server certificate for another host.
    OtherHost,
    /// Tests of SASL without TLS.
    Unencrypted,
    /// Controllers.
    Controller,
}

impl ListenerName {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Client => "CLIENT",
            Self::Second => "SECOND",
            Self::Internal => "INTERNAL",
            Self::Expired => "EXPIRED",
            Self::OtherHost => "OTHERHOST",
            Self::Unencrypted => "UNENCRYPTED",
            Self::Controller => "CONTROLLER",
        }
    }

    /// Returns `true` if the listener uses TLS or SASL in a secured lab.
    pub(crate) fn is_secured(self) -> bool {
        !matches!(self, Self::Plaintext | Self::Internal | Self::Controller)
    }
}

/// A listener of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) name: ListenerName,
    host: Ipv4Addr,
    port: u16,
    advertised_port: u16,
    /// Security protocol in Kafka's configuration, such as `SASL_SSL`.
    protocol: &'static str,
}

impl Listener {
    fn address(&self, port: u16) -> String {
        format!("{}://{}:{port}", self.name.text(), self.host)
    }
}

/// Returns the listeners of a node. The last one is the controller's.
///
/// Brokers of a secured lab connect to each other on the loopback interface only.
pub(crate) fn listeners(
    node: &LabNode,
    host: Ipv4Addr,
    security: LabSecurity,
    second: Option<SecondListener>,
) -> Vec<Listener> {
    let protocol = match (security.uses_tls(), security.uses_sasl()) {
        (true, true) => "SASL_SSL",
        (true, false) => "SSL",
        (false, _) => "PLAINTEXT",
    };
    let listener = |name, host, port, protocol| Listener {
        name,
        host,
        port,
        advertised_port: port,
        protocol,
    };
    let first = match node.secured {
        Some(_) => ListenerName::Client,
        None => ListenerName::Plaintext,
    };
    let mut all = vec![listener(first, host, node.port, protocol)];
    if let Some(second) = second {
        all.push(Listener {
            advertised_port: second.advertised_port,
            ..listener(ListenerName::Second, host, second.port, protocol)
        });
    }
    if let Some(ports) = node.secured {
        let internal = ListenerName::Internal;
        all.push(listener(
            internal,
            Ipv4Addr::LOCALHOST,
            ports.internal,
            "PLAINTEXT",
        ));
        for (name, port, protocol) in [
            (ListenerName::Expired, ports.expired, protocol),
            (ListenerName::OtherHost, ports.other_host, protocol),
            (
                ListenerName::Unencrypted,
                ports.unencrypted,
                "SASL_PLAINTEXT",
            ),
        ] {
            all.extend(port.map(|port| listener(name, host, port, protocol)));
        }
    }
    let (host, port) = (node.private_host(host), node.controller_port);
    all.push(listener(ListenerName::Controller, host, port, "PLAINTEXT"));
    all
}

/// Returns the content of a node's `server.properties`. Properties in `extra` take precedence.
pub(crate) fn server_properties(
    node: &LabNode,
    all: &[LabNode],
    host: Ipv4Addr,
    listeners: &[Listener],
    data: &Path,
    extra: &[(String, String)],
) -> String {
    let controller_host = node.private_host(host);
    let voters = all.iter();
    let voters =
        voters.map(|it| format!("{}@{controller_host}:{}", it.node_id, it.controller_port));
    let voters = voters.collect::<Vec<_>>().join(",");
    let replicas = all.len();
    let min_in_sync = if replicas < 3 { 1 } else { 2 };
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    // Clients run on the same machine, often with two cores; the network threads must not starve
    // them.
    let (network, io) = (cores.clamp(2, 8), (cores * 2).clamp(4, 16));
    let node_id = node.node_id;
    let data = data.display();
    let listeners = listener_properties(node, listeners);
    let mut text = format!(
        "# Generated by weir lab; changes are overwritten by the next start.\n\
         process.roles=broker,controller\n\
         node.id={node_id}\n\
         broker.rack=rack-{node_id}\n\
         controller.quorum.voters={voters}\n\
         {listeners}\
         log.dirs={data}\n\
         default.replication.factor={replicas}\n\
         offsets.topic.replication.factor={replicas}\n\
         transaction.state.log.replication.factor={replicas}\n\
         share.coordinator.state.topic.replication.factor={replicas}\n\
         transaction.state.log.min.isr={min_in_sync}\n\
         share.coordinator.state.topic.min.isr={min_in_sync}\n\
         num.network.threads={network}\n\
         num.io.threads={io}\n\
         {FIXED_PROPERTIES}"
    );
    for (key, value) in extra {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{key}={value}");
    }
    text
}

fn listener_properties(node: &LabNode, listeners: &[Listener]) -> String {
    let join = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(",");
    let own = join(&mut listeners.iter().map(|it| it.address(it.port)));
    let advertised = listeners.iter();
    let advertised = advertised.filter(|it| it.name != ListenerName::Controller);
    let advertised = join(&mut advertised.map(|it| it.address(it.advertised_port)));
    let pair = |it: &Listener| format!("{}:{}", it.name.text(), it.protocol);
    let protocols = join(&mut listeners.iter().map(pair));
    let brokers = match node.secured {
        Some(_) => ListenerName::Internal,
        None => ListenerName::Plaintext,
    };
    let (brokers, controllers) = (brokers.text(), ListenerName::Controller.text());
    format!(
        "listeners={own}\n\
         advertised.listeners={advertised}\n\
         listener.security.protocol.map={protocols}\n\
         controller.listener.names={controllers}\n\
         inter.broker.listener.name={brokers}\n"
    )
}

/// Returns the content of a node's `log4j2.properties`: one log file of limited size, and two
/// earlier ones.
pub(crate) fn log4j_properties(logs: &Path) -> String {
    let logs = logs.display();
    format!(
        "status = error\n\
         appender.file.type = RollingFile\n\
         appender.file.name = file\n\
         appender.file.fileName = {logs}/{BROKER_LOG}\n\
         appender.file.filePattern = {logs}/{BROKER_LOG}.%i\n\
         appender.file.layout.type = PatternLayout\n\
         appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n\n\
         appender.file.policies.type = Policies\n\
         appender.file.policies.size.type = SizeBasedTriggeringPolicy\n\
         appender.file.policies.size.size = 10MB\n\
         appender.file.strategy.type = DefaultRolloverStrategy\n\
         appender.file.strategy.max = 2\n\
         rootLogger.level = info\n\
         rootLogger.appenderRef.file.ref = file\n"
    )
}

/// Rejects broker properties that the lab sets itself, and malformed ones.
pub(crate) fn check_extra(extra: &[(String, String)]) -> Result<()> {
    for (key, value) in extra {
        let reason = if RESERVED_PROPERTIES.contains(&key.as_str()) {
            "is set by the lab itself"
        } else if key.is_empty() || key.contains(['\n', '=', ' ']) || value.contains('\n') {
            "is not a broker property; use KEY=VALUE"
        } else {
            continue;
        };
        let property = format!("{key}={value}");
        return Err(LabError::option("broker property", &property, reason));
    }
    Ok(())
}

pub(crate) const BROKER_LOG: &str = "broker.log";

const RESERVED_PROPERTIES: [&str; 8] = [
    "process.roles",
    "node.id",
    "controller.quorum.voters",
    "listeners",
    "advertised.listeners",
    "controller.listener.names",
    "inter.broker.listener.name",
    "log.dirs",
];

const FIXED_PROPERTIES: &str = "\
# Topics are created explicitly, with the partitions of the measurement.
auto.create.topics.enable=false
num.partitions=1
# Thousands of groups start at the same time and must not wait for more members.
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=8
transaction.state.log.num.partitions=4
share.coordinator.state.topic.num.partitions=4
# Thousands of connections are opened at the same time and stay open.
socket.listen.backlog.size=4096
connections.max.idle.ms=86400000
max.incremental.fetch.session.cache.slots=10000
# Disk space is limited: short segments, at most 2 GiB per partition, deleted soon.
log.segment.bytes=134217728
log.retention.bytes=2147483648
log.retention.hours=6
log.retention.check.interval.ms=15000
log.segment.delete.delay.ms=1000
log.index.size.max.bytes=2097152
log.cleaner.dedupe.buffer.size=33554432
# At the default of 0.5 s, these records take 40 % of an idle broker's CPU time.
metadata.max.idle.interval.ms=10000
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::SecuredPorts;

    const NODES: [LabNode; 3] = [node(1), node(2), node(3)];

    const fn node(node_id: i32) -> LabNode {
        LabNode {
            node_id,
            port: 19_000 + node_id as u16,
            controller_port: 19_100 + node_id as u16,
            process: None,
            secured: None,
        }
    }

    fn properties(node: &LabNode, all: &[LabNode], extra: &[(String, String)]) -> String {
        let host = Ipv4Addr::LOCALHOST;
        let listeners = listeners(node, host, LabSecurity::Plaintext, None);
        server_properties(node, all, host, &listeners, Path::new("/d"), extra)
    }

    #[test]
    fn properties_contain_voters_and_own_listeners() {
        let extra = [("num.partitions".to_owned(), "7".to_owned())];
        let text = properties(&NODES[1], &NODES, &extra);
        for line in [
            "node.id=2",
            "controller.quorum.voters=1@127.0.0.1:19101,2@127.0.0.1:19102,3@127.0.0.1:19103",
            "listeners=PLAINTEXT://127.0.0.1:19002,CONTROLLER://127.0.0.1:19102",
            "offsets.topic.replication.factor=3",
            "transaction.state.log.min.isr=2",
            "log.dirs=/d",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
        assert!(text.ends_with("num.partitions=7\n"));
    }

    #[test]
    fn single_broker_has_replication_factor_1() {
        let text = properties(&NODES[0], &NODES[..1], &[]);
        assert!(text.contains("\noffsets.topic.replication.factor=1\n"));
        assert!(text.contains("\ntransaction.state.log.min.isr=1\n"));
    }

    #[test]
    fn secured_node_has_private_and_test_listeners() {
        let host = Ipv4Addr::new(10, 1, 2, 3);
        let secured = LabNode {
            secured: Some(SecuredPorts {
                internal: 1,
                expired: Some(2),
                other_host: Some(3),
                unencrypted: Some(4),
            }),
            ..node(1)
        };
        let second = SecondListener {
            port: 5,
            advertised_port: 6,
        };
        let own = listeners(&secured, host, LabSecurity::Scram, Some(second));
        let all = [secured.clone()];
        let text = server_properties(&secured, &all, host, &own, Path::new("/d"), &[]);
        for line in [
            "controller.quorum.voters=1@127.0.0.1:19101",
            "listeners=CLIENT://10.1.2.3:19001,SECOND://10.1.2.3:5,INTERNAL://127.0.0.1:1,\
             EXPIRED://10.1.2.3:2,OTHERHOST://10.1.2.3:3,UNENCRYPTED://10.1.2.3:4,\
             CONTROLLER://127.0.0.1:19101",
            "advertised.listeners=CLIENT://10.1.2.3:19001,SECOND://10.1.2.3:6,\
             INTERNAL://127.0.0.1:1,EXPIRED://10.1.2.3:2,OTHERHOST://10.1.2.3:3,\
             UNENCRYPTED://10.1.2.3:4",
            "listener.security.protocol.map=CLIENT:SASL_SSL,SECOND:SASL_SSL,INTERNAL:PLAINTEXT,\
             EXPIRED:SASL_SSL,OTHERHOST:SASL_SSL,UNENCRYPTED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name=INTERNAL",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
    }

    #[test]
    fn reserved_properties_cannot_be_overridden() {
        let pair = |key: &str| vec![(key.to_owned(), "x".to_owned())];
        check_extra(&pair("message.max.bytes")).unwrap();
        check_extra(&pair("listeners")).unwrap_err();
        check_extra(&pair("a b")).unwrap_err();
    }
}
