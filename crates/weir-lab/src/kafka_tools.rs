//! Apache Kafka's own command-line tools, for comparisons and tests.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use crate::error::LabError;
use crate::host_tools;
use crate::maven::{self, MavenRequest};

/// The tools of one release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaTools {
    java: PathBuf,
    libs: PathBuf,
}

impl KafkaTools {
    /// Returns the tools of a release, downloaded with Maven if they are not cached.
    pub fn find(
        version: &str,
        progress: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<Self, LabError> {
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
        let libs = maven::libs(&request, progress, stop)?;
        Ok(Self { java, libs })
    }

    /// Returns the command of a tool without arguments, by its Java class.
    ///
    /// An example is `org.apache.kafka.tools.ProducerPerformance`. Log output of the tool is
    /// discarded.
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

/// Version of the logging interface of the tools; its no-op implementation discards all output.
const SLF4J: &str = "1.7.36";

#[cfg(test)]
mod tests {
    use super::*;

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
