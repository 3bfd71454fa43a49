//! The configuration files of one node: `server.properties` and `log4j2.properties`.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::Path;

use crate::error::LabError;
use crate::lab::SecondListener;

/// One node of the cluster and its two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodePorts {
    pub(crate) node_id: i32,
    pub(crate) port: u16,
    pub(crate) controller_port: u16,
}

/// The text of a node's `server.properties`; `extra` comes last and so wins.
pub(crate) fn server_properties(
    node: NodePorts,
    all: &[NodePorts],
    host: Ipv4Addr,
    data: &Path,
    extra: &[(String, String)],
) -> String {
    let voters: Vec<_> = all
        .iter()
        .map(|voter| format!("{}@{host}:{}", voter.node_id, voter.controller_port))
        .collect();
    let replicas = all.len();
    let in_sync = if replicas < 3 { 1 } else { 2 };
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let mut text = String::from("# Written by weir lab; changes are lost with the next start.\n");
    let mut set = |key: &str, value: &dyn std::fmt::Display| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{key}={value}");
    };
    set("process.roles", &"broker,controller");
    set("node.id", &node.node_id);
    set("controller.quorum.voters", &voters.join(","));
    set(
        "listeners",
        &format!(
            "PLAINTEXT://{host}:{},CONTROLLER://{host}:{}",
            node.port, node.controller_port
        ),
    );
    set(
        "advertised.listeners",
        &format!("PLAINTEXT://{host}:{}", node.port),
    );
    set("controller.listener.names", &"CONTROLLER");
    set("inter.broker.listener.name", &"PLAINTEXT");
    set("log.dirs", &data.display());
    for key in [
        "default.replication.factor",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "share.coordinator.state.topic.replication.factor",
    ] {
        set(key, &replicas);
    }
    set("transaction.state.log.min.isr", &in_sync);
    set("share.coordinator.state.topic.min.isr", &in_sync);
    // Two cores are typical of a lab; the network threads must not crowd out the clients.
    set("num.network.threads", &cores.clamp(2, 8));
    set("num.io.threads", &(cores * 2).clamp(4, 16));
    text.push_str(FIXED);
    for (key, value) in extra {
        let _ = writeln!(text, "{key}={value}");
    }
    text
}

/// What goes behind a node's own properties, and so wins, for a listener `SECOND` that advertises another
/// port. What it speaks may be changed behind this.
pub(crate) fn second_listener(
    node: NodePorts,
    host: Ipv4Addr,
    second: SecondListener,
) -> [(String, String); 3] {
    let first = format!("PLAINTEXT://{host}:{}", node.port);
    let controller = format!("CONTROLLER://{host}:{}", node.controller_port);
    let own = format!("SECOND://{host}:{}", second.port);
    let told = format!("SECOND://{host}:{}", second.advertised_port);
    let protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECOND:PLAINTEXT";
    [
        (
            "listeners".to_owned(),
            format!("{first},{own},{controller}"),
        ),
        ("advertised.listeners".to_owned(), format!("{first},{told}")),
        (
            "listener.security.protocol.map".to_owned(),
            protocols.to_owned(),
        ),
    ]
}

/// The text of a node's `log4j2.properties`: one file, a few MB at most.
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

/// Refuses settings that would break what the lab itself arranges.
pub(crate) fn check_extra(extra: &[(String, String)]) -> Result<(), LabError> {
    for (key, value) in extra {
        let reason = if OURS.contains(&key.as_str()) {
            "set by the lab itself"
        } else if key.is_empty() || key.contains(['\n', '=', ' ']) || value.contains('\n') {
            "not a broker property: write KEY=VALUE"
        } else {
            continue;
        };
        return Err(LabError::Setting {
            name: "broker property",
            value: format!("{key}={value}"),
            reason: reason.to_owned(),
        });
    }
    Ok(())
}

/// File name of the broker's log in a node's log directory.
pub(crate) const BROKER_LOG: &str = "broker.log";

const OURS: [&str; 8] = [
    "process.roles",
    "node.id",
    "controller.quorum.voters",
    "listeners",
    "advertised.listeners",
    "controller.listener.names",
    "inter.broker.listener.name",
    "log.dirs",
];

/// What does not depend on the node.
const FIXED: &str = "\
# Topics are made on purpose, with the partitions that a measurement says.
auto.create.topics.enable=false
num.partitions=1
# Thousands of groups start at once and must not wait for more members.
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=8
transaction.state.log.num.partitions=4
share.coordinator.state.topic.num.partitions=4
# Thousands of connections arrive at once and stay.
socket.listen.backlog.size=4096
connections.max.idle.ms=86400000
max.incremental.fetch.session.cache.slots=10000
# A lab's disk is small: short segments, at most 2 GiB a partition, removed soon.
log.segment.bytes=134217728
log.retention.bytes=2147483648
log.retention.hours=6
log.retention.check.interval.ms=15000
log.segment.delete.delay.ms=1000
log.index.size.max.bytes=2097152
log.cleaner.dedupe.buffer.size=33554432
";

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [NodePorts; 3] = [node(1), node(2), node(3)];

    const fn node(node_id: i32) -> NodePorts {
        NodePorts {
            node_id,
            port: 19_000 + node_id as u16,
            controller_port: 19_100 + node_id as u16,
        }
    }

    #[test]
    fn every_node_knows_all_voters_and_its_own_listeners() {
        let host = Ipv4Addr::LOCALHOST;
        let extra = [("num.partitions".to_owned(), "7".to_owned())];
        let text = server_properties(NODES[1], &NODES, host, Path::new("/d"), &extra);
        for line in [
            "node.id=2",
            "controller.quorum.voters=1@127.0.0.1:19101,2@127.0.0.1:19102,3@127.0.0.1:19103",
            "listeners=PLAINTEXT://127.0.0.1:19002,CONTROLLER://127.0.0.1:19102",
            "offsets.topic.replication.factor=3",
            "transaction.state.log.min.isr=2",
            "log.dirs=/d",
        ] {
            assert!(text.lines().any(|have| have == line), "{line} in {text}");
        }
        assert!(text.ends_with("num.partitions=7\n"));
    }

    #[test]
    fn one_broker_replicates_nothing() {
        let host = Ipv4Addr::LOCALHOST;
        let text = server_properties(NODES[0], &NODES[..1], host, Path::new("/d"), &[]);
        assert!(text.contains("\noffsets.topic.replication.factor=1\n"));
        assert!(text.contains("\ntransaction.state.log.min.isr=1\n"));
    }

    #[test]
    fn the_labs_own_keys_cannot_be_overridden() {
        let pair = |key: &str| vec![(key.to_owned(), "x".to_owned())];
        check_extra(&pair("message.max.bytes")).unwrap();
        check_extra(&pair("listeners")).unwrap_err();
        check_extra(&pair("a b")).unwrap_err();
    }
}
