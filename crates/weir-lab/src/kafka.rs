//! Apache Kafka's jars, resolved by Maven into the cache once per version.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use crate::cache;
use crate::error::LabError;
use crate::tool;

/// Checks that `version` is one that a lab can start.
pub(crate) fn check_version(version: &str) -> Result<(), LabError> {
    let wrong = |reason: &str| LabError::Setting {
        name: "kafka version",
        value: version.to_owned(),
        reason: reason.to_owned(),
    };
    let plain = version
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor)), Some(_)) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        return Err(wrong("not a release such as 4.3.1"));
    };
    if !plain {
        return Err(wrong("not a release such as 4.3.1"));
    }
    if (major, minor) < OLDEST {
        return Err(wrong("too old: the lab starts 3.9 and newer"));
    }
    Ok(())
}

/// The directory with the jars of `version`.
pub(crate) fn libs(
    version: &str,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<PathBuf, LabError> {
    let name = format!("kafka-{version}");
    let entry = cache::entry(&name, FETCH_BYTES, progress, stop, |dir, progress| {
        fetch(version, dir, progress, stop)
    })?;
    Ok(entry.join("libs"))
}

fn fetch(
    version: &str,
    dir: &Path,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<(), LabError> {
    let maven = tool::find("mvn").ok_or_else(|| LabError::MissingTool {
        tool: "mvn",
        looked: " in PATH".to_owned(),
        purpose: format!("to fetch Apache Kafka {version}, which is not cached yet"),
        remedy: "install Maven (Debian, Ubuntu: apt install maven)",
    })?;
    progress(&format!(
        "fetching Apache Kafka {version} through Maven (about 45 MB, once)"
    ));
    let pom = dir.join("pom.xml");
    fs::write(&pom, pom_text(version))
        .map_err(|error| LabError::io(format!("write {}", pom.display()), error))?;
    let mut command = Command::new(&maven);
    command
        .args(["-q", "-B", "-U", "-Dstyle.color=never", "-f"])
        .arg(&pom)
        .arg(COPY_DEPENDENCIES)
        .arg("-DincludeScope=runtime")
        .arg(format!("-DoutputDirectory={}", dir.join("libs").display()))
        .current_dir(dir);
    let (status, said) = tool::run(&mut command, "fetching Apache Kafka", stop)?;
    let server = dir.join(format!("libs/kafka_2.13-{version}.jar"));
    if status.success() && server.is_file() {
        return Ok(());
    }
    Err(fetch_error(version, &said))
}

/// Turns Maven's output into the one line that matters; newer releases spread it over several.
fn fetch_error(version: &str, said: &str) -> LabError {
    let errors = || {
        said.lines()
            .filter_map(|line| line.split_once("[ERROR]").map(|(_, rest)| rest.trim()))
    };
    let telling = errors().find_map(|line| {
        let start = TELLING.iter().find_map(|mark| line.find(mark))?;
        Some(&line[start..])
    });
    let line = telling
        .or_else(|| errors().next())
        .or_else(|| said.lines().find(|line| !line.trim().is_empty()))
        .unwrap_or("Maven ended without a word");
    let line = line.split(" -> [Help").next().unwrap_or(line);
    if let Some(artifact) = line.strip_prefix(NOT_FOUND) {
        return LabError::NoSuchVersion {
            version: version.to_owned(),
            detail: format!("no artifact {artifact}"),
        };
    }
    LabError::Fetch {
        what: format!("Apache Kafka {version}"),
        detail: line.to_owned(),
    }
}

/// A project that depends on the server and on a logger for it, and is thrown away.
fn pom_text(version: &str) -> String {
    let dependency = |group: &str, artifact: &str, version: &str| {
        format!(
            "    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version></dependency>\n"
        )
    };
    let mut dependencies = dependency("org.apache.kafka", "kafka_2.13", version);
    for artifact in ["log4j-slf4j-impl", "log4j-core"] {
        dependencies += &dependency("org.apache.logging.log4j", artifact, LOG4J);
    }
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  \
         <modelVersion>4.0.0</modelVersion>\n  \
         <groupId>weir.lab</groupId><artifactId>kafka</artifactId><version>1</version>\n  \
         <packaging>pom</packaging>\n  <dependencies>\n{dependencies}  </dependencies>\n</project>\n"
    )
}

/// Oldest major and minor release that has been tried.
const OLDEST: (u32, u32) = (3, 9);
/// What the server itself logs through; it names the interface only.
const LOG4J: &str = "2.25.4";
const COPY_DEPENDENCIES: &str =
    "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
const NOT_FOUND: &str = "Could not find artifact ";
/// Where Maven's reason begins; what comes before only says which plugin or dependency it was.
const TELLING: [&str; 3] = [NOT_FOUND, "Could not transfer", "Cannot access"];
/// Room that a fetch needs: the jars, and Maven's own copy.
const FETCH_BYTES: u64 = 200 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_cannot_be_a_release_are_refused() {
        for good in ["4.3.1", "3.9.0", "4.4.0-rc1"] {
            check_version(good).unwrap();
        }
        for bad in ["", "4.3", "latest", "2.8.1", "4.3.1/../..", "4.3.1<x>"] {
            let error = check_version(bad).unwrap_err();
            assert!(matches!(error, LabError::Setting { .. }), "{bad}: {error}");
        }
    }

    #[test]
    fn a_missing_artifact_is_a_missing_version() {
        let said = "[ERROR] Failed to execute goal on project kafka: Could not resolve \
                    dependencies: Could not find artifact org.apache.kafka:kafka_2.13:jar:9.9.9 \
                    in central (somewhere) -> [Help 1]\n[ERROR] more\n";
        let error = fetch_error("9.9.9", said);
        assert!(matches!(error, LabError::NoSuchVersion { .. }), "{error}");
        assert!(!error.to_string().contains("[Help"), "{error}");
    }

    #[test]
    fn an_unreachable_repository_keeps_the_line_that_says_so() {
        let in_one_line = "[WARNING] odd\n[ERROR] Plugin x could not be resolved: Could not \
                           transfer artifact y: Connection refused -> [Help 1]\n";
        let in_several = "[ERROR] Plugin x could not be resolved:\n[ERROR] \tThe following \
                          artifacts could not be resolved: x (absent): Could not transfer \
                          artifact y: Connection refused\n[ERROR] -> [Help 1]\n";
        for said in [in_one_line, in_several] {
            let error = fetch_error("4.3.1", said);
            assert!(matches!(error, LabError::Fetch { .. }), "{error}");
            let text = error.to_string();
            assert!(
                text.contains("fetched: Could not transfer artifact y: Connection refused;"),
                "{text}"
            );
        }
    }
}
