//! The jars of Apache Kafka and its command-line tools, downloaded with Maven into the cache once
//! per version.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use crate::error::{LabError, Result};
use crate::host_tools;
use crate::maven::{self, MavenRequest};
use crate::operation::Operation;

/// Checks that a lab supports the release `version`.
pub(crate) fn check_version(version: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    let reason = match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Some(major)), Some(Some(minor)), Some(_)) if version.chars().all(is_plain) => {
            if (major, minor) >= OLDEST {
                return Ok(());
            }
            "is too old; use 3.9 or newer"
        }
        _ => "is not a release such as 4.3.1",
    };
    Err(LabError::option("kafka version", &version, reason))
}

/// Returns the directory with the jars of `version`.
pub(crate) fn libs(version: &str, operation: &mut Operation<'_>) -> Result<PathBuf> {
    let request = MavenRequest {
        name: "kafka",
        version,
        what: format!("Apache Kafka {version}"),
        size: "45 MB",
        dependencies: &[
            ("org.apache.kafka", "kafka_2.13", version),
            ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J),
            ("org.apache.logging.log4j", "log4j-core", LOG4J),
        ],
    };
    maven::libs(&request, operation)
}

/// The command-line tools of one release, and programs with its Java libraries, for comparisons and
/// tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaTools {
    java: PathBuf,
    libs: PathBuf,
}

impl KafkaTools {
    /// Returns the tools of a release, downloaded with Maven if they are not cached.
    pub fn find(version: &str, progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<Self> {
        let java = host_tools::java("to run Apache Kafka's tools")?;
        let request = MavenRequest {
            name: "kafka-tools",
            version,
            what: format!("the tools of Apache Kafka {version}"),
            size: "60 MB",
            dependencies: &[
                ("org.apache.kafka", "kafka-tools", version),
                ("org.slf4j", "slf4j-nop", SLF4J),
            ],
        };
        let libs = maven::libs(&request, &mut Operation { progress, stop })?;
        Ok(Self { java, libs })
    }

    /// Returns the tools of a release with Kafka Streams, Connect, its file connectors and
    /// MirrorMaker, downloaded with Maven if they are not cached. They log to standard error.
    pub fn find_all(
        version: &str,
        progress: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<Self> {
        let java = host_tools::java("to run Kafka Streams and Connect")?;
        let of_kafka = |artifact| ("org.apache.kafka", artifact, version);
        let request = MavenRequest {
            name: "kafka-programs",
            version,
            what: format!("Kafka Streams, Connect and MirrorMaker {version}"),
            size: "130 MB",
            dependencies: &[
                of_kafka("kafka-streams"),
                of_kafka("connect-file"),
                of_kafka("connect-mirror"),
                of_kafka("connect-runtime"),
                of_kafka("kafka-tools"),
                of_kafka("kafka_2.13"),
                ("org.slf4j", "slf4j-simple", SLF4J),
            ],
        };
        let libs = maven::libs(&request, &mut Operation { progress, stop })?;
        Ok(Self { java, libs })
    }

    /// Returns the command of a tool without arguments, by its Java class or source file.
    ///
    /// An example is `org.apache.kafka.tools.ProducerPerformance`. Log output of tools from
    /// [`Self::find`] is discarded.
    pub fn command(&self, class: &str) -> Command {
        let mut command = Command::new(&self.java);
        command
            .args(["-Xmx512m", "-XX:+UseG1GC", "-XX:-UsePerfData"])
            .arg("-cp")
            .arg(format!("{}/*", self.libs.display()))
            .arg(class);
        command
    }
}

/// Oldest tested major and minor release.
const OLDEST: (u32, u32) = (3, 9);
/// Version of the logging implementation; the server depends only on the interface.
const LOG4J: &str = "2.25.4";
/// Version of the logging interface of the tools; its no-op implementation discards all output.
const SLF4J: &str = "1.7.36";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_versions_are_rejected() {
        for good in ["4.3.1", "3.9.0", "4.4.0-rc1"] {
            check_version(good).unwrap();
        }
        for bad in ["", "4.3", "latest", "2.8.1", "4.3.1/../..", "4.3.1<x>"] {
            let error = check_version(bad).unwrap_err();
            assert!(matches!(error, LabError::Setting { .. }), "{bad}: {error}");
        }
    }

    #[test]
    fn performance_tools_print_help() {
        let stop = AtomicBool::new(false);
        let tools = KafkaTools::find(crate::KAFKA_VERSION, &mut |_| {}, &stop).unwrap();
        for (class, option) in [
            ("ProducerPerformance", "--num-records"),
            ("ConsumerPerformance", "--messages"),
        ] {
            let mut command = tools.command(&format!("org.apache.kafka.tools.{class}"));
            let output = command.arg("--help").output().unwrap();
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            assert!(text.contains(option), "{class}: {text}");
        }
    }
}
