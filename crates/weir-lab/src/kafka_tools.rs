//! Apache Kafka's own command-line tools, for comparisons and tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use crate::cache;
use crate::error::LabError;
use crate::host_tools;
use crate::maven::{self, MavenError, MavenRequest};

/// The tools of one release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaTools {
    java: PathBuf,
    libs: PathBuf,
}

impl KafkaTools {
    /// Returns the tools of a release, downloaded with Maven if they are not cached.
    ///
    /// # Errors
    /// Fails if `java` is missing or too old, `mvn` is missing, the release does not exist, the
    /// download fails, or `stop` is set.
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

    /// Returns the command of a tool without arguments, by its Java class.
    ///
    /// An example is `org.apache.kafka.tools.ProducerPerformance`. Log output of the tool is
    /// discarded.
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
    let request = MavenRequest {
        what: format!("the tools of Apache Kafka {version}"),
        size: "60 MB",
        dependencies: vec![
            ("org.apache.kafka", "kafka-tools", version),
            ("org.slf4j", "slf4j-nop", SLF4J),
        ],
    };
    maven::fetch(&request, dir, progress, stop).map_err(|error| match error {
        MavenError::Lab(error) => error,
        MavenError::NotFound { artifact } => LabError::NoSuchVersion {
            version: version.to_owned(),
            detail: format!("no artifact {artifact}"),
        },
    })
}

/// Version of the logging interface of the tools; its no-op implementation discards all output.
const SLF4J: &str = "1.7.36";
/// Disk space required for the download: the jars and Maven's own copy.
const FETCH_BYTES: u64 = 200 << 20;

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
