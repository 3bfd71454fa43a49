//! Apache Kafka's own command-line tools, run as they are: to compare with, and to test with.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use crate::cache;
use crate::error::LabError;
use crate::host_tools;
use crate::maven::{self, MavenError, MavenRequest};

/// The tools of one release, as Java classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaTools {
    java: PathBuf,
    libs: PathBuf,
}

impl KafkaTools {
    /// The tools of a release, resolved by Maven if they are not cached yet.
    ///
    /// # Errors
    /// A missing or old `java`, a missing `mvn`, no network, no such release, or `stop` was set.
    pub fn find(
        version: &str,
        progress: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<Self, LabError> {
        let java = host_tools::java("to run Apache Kafka's tools")?;
        let name = format!("kafka-tools-{version}");
        let dir = cache::entry(&name, FETCH_BYTES, progress, stop, |dir, progress| {
            fetch(version, dir, progress, stop)
        })?;
        Ok(Self {
            java,
            libs: dir.join("libs"),
        })
    }

    /// A tool by its class, for example `org.apache.kafka.tools.ProducerPerformance`; its arguments
    /// follow. What it logs is dropped.
    #[must_use]
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

fn fetch(
    version: &str,
    dir: &Path,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<(), LabError> {
    let wanted = MavenRequest {
        what: format!("the tools of Apache Kafka {version}"),
        size: "60 MB",
        dependencies: vec![
            ("org.apache.kafka", "kafka-tools", version),
            ("org.slf4j", "slf4j-nop", SLF4J),
        ],
    };
    maven::fetch(&wanted, dir, progress, stop).map_err(|trouble| match trouble {
        MavenError::Lab(error) => error,
        MavenError::NotFound { artifact } => LabError::NoSuchVersion {
            version: version.to_owned(),
            detail: format!("no artifact {artifact}"),
        },
    })
}

/// As the tools name it; this one says nothing.
const SLF4J: &str = "1.7.36";
/// Room that a fetch needs: the jars, and Maven's own copy.
const FETCH_BYTES: u64 = 200 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perf_tools_run_and_say_what_they_take() {
        let stop = AtomicBool::new(false);
        let tools = KafkaTools::find(crate::KAFKA_VERSION, &mut |_| {}, &stop).unwrap();
        for (class, option) in [
            ("ProducerPerformance", "--num-records"),
            ("ConsumerPerformance", "--messages"),
        ] {
            let mut command = tools.command(&format!("org.apache.kafka.tools.{class}"));
            let output = command.arg("--help").output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(said.contains(option), "{class}: {said}");
        }
    }
}
