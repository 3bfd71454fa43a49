//! Downloads jars and their dependencies with Maven.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache;
use crate::error::{LabError, Result};
use crate::host_tools;
use crate::operation::Operation;

/// Jars to download into the cache once.
#[derive(Debug)]
pub(crate) struct MavenRequest<'a> {
    /// Name of the cache entry, without the version.
    pub(crate) name: &'static str,
    /// Version, of the first dependency, too.
    pub(crate) version: &'a str,
    pub(crate) what: String,
    /// Approximate size of the download, human-readable.
    pub(crate) size: &'static str,
    /// Group, artifact and version. The jar of the first one must exist after the download.
    pub(crate) dependencies: &'a [(&'static str, &'static str, &'a str)],
}

/// Returns the directory with the jars, downloaded if they are not cached.
pub(crate) fn libs(request: &MavenRequest<'_>, operation: &mut Operation<'_>) -> Result<PathBuf> {
    let name = format!("{}-{}", request.name, request.version);
    let build = |dir: &Path, op: &mut Operation<'_>| fetch(request, dir, op);
    let entry = cache::entry(&name, FETCH_BYTES, operation, build)?;
    Ok(entry.join("libs"))
}

fn fetch(request: &MavenRequest<'_>, dir: &Path, op: &mut Operation<'_>) -> Result<()> {
    let what = &request.what;
    let purpose = format!("to download {what}, which is not cached yet");
    let maven = host_tools::require("mvn", purpose, MAVEN_REMEDY)?;
    let size = request.size;
    (op.progress)(&format!(
        "downloading {what} with Maven (about {size}, once)"
    ));
    let pom = dir.join("pom.xml");
    fs::write(&pom, pom_text(request.dependencies))
        .map_err(|error| LabError::io(format!("write {}", pom.display()), error))?;
    let mut command = Command::new(&maven);
    command
        .args(["-q", "-B", "-U", "-Dstyle.color=never", "-f"])
        .arg(&pom)
        .arg(COPY_DEPENDENCIES)
        .arg("-DincludeScope=runtime")
        .arg(format!("-DoutputDirectory={}", dir.join("libs").display()))
        .current_dir(dir);
    let (status, output) = host_tools::run(&mut command, "downloading jars with Maven", op)?;
    let (_, artifact, version) = request.dependencies[0];
    let jar = dir.join(format!("libs/{artifact}-{version}.jar"));
    if status.success() && jar.is_file() {
        return Ok(());
    }
    Err(maven_error(request, &output))
}

/// An archive to download and unpack into the cache once.
#[derive(Debug)]
pub(crate) struct MavenArchive {
    pub(crate) group: &'static str,
    pub(crate) artifact: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) classifier: &'static str,
    pub(crate) what: &'static str,
    /// Approximate size of the download, human-readable.
    pub(crate) size: &'static str,
}

/// Returns the directory with the content of an archive, downloaded if it is not cached.
pub(crate) fn unpacked(archive: &MavenArchive, operation: &mut Operation<'_>) -> Result<PathBuf> {
    let name = format!("{}-{}", archive.artifact, archive.version);
    let build = |dir: &Path, op: &mut Operation<'_>| unpack(archive, dir, op);
    cache::entry(&name, UNPACK_BYTES, operation, build)
}

fn unpack(archive: &MavenArchive, dir: &Path, op: &mut Operation<'_>) -> Result<()> {
    let MavenArchive {
        group,
        artifact,
        version,
        kind,
        classifier,
        what,
        size,
    } = archive;
    let purpose = format!("to download {what}, which is not cached yet");
    let maven = host_tools::require("mvn", purpose, MAVEN_REMEDY)?;
    (op.progress)(&format!(
        "downloading {what} {version} with Maven (about {size}, once)"
    ));
    let mut command = Command::new(&maven);
    command
        .args(["-q", "-B", "-U", "-Dstyle.color=never", UNPACK])
        .arg(format!(
            "-Dartifact={group}:{artifact}:{version}:{kind}:{classifier}"
        ))
        .arg(format!("-DoutputDirectory={}", dir.display()))
        .current_dir(dir);
    let (status, output) = host_tools::run(&mut command, "downloading an archive with Maven", op)?;
    match status.success() {
        true => Ok(()),
        false => {
            let line = relevant_line(&output).to_owned();
            Err(LabError::Fetch(format!("{what} {version}"), line))
        }
    }
}

/// Returns the line of Maven's output that describes the error.
pub fn relevant_line(output: &str) -> &str {
    let errors = || {
        output
            .lines()
            .filter_map(|line| Some(line.split_once("[ERROR]")?.1.trim()))
    };
    let reason = errors().find_map(|line| {
        let start = REASON_STARTS.iter().find_map(|mark| line.find(mark))?;
        Some(&line[start..])
    });
    let line = reason
        .or_else(|| errors().find(|line| line.contains(".java:")))
        .or_else(|| errors().next())
        .or_else(|| output.lines().find(|line| !line.trim().is_empty()))
        .unwrap_or("Maven printed no error");
    line.split(" -> [Help").next().unwrap_or(line)
}

fn maven_error(request: &MavenRequest<'_>, output: &str) -> LabError {
    let line = relevant_line(output);
    match line.strip_prefix(NOT_FOUND) {
        Some(artifact) if request.name.starts_with("kafka") => {
            LabError::NoSuchVersion(request.version.to_owned(), artifact.to_owned())
        }
        Some(artifact) => LabError::Fetch(request.what.clone(), format!("no artifact {artifact}")),
        None => LabError::Fetch(request.what.clone(), line.to_owned()),
    }
}

/// Returns a temporary project that depends on the requested jars.
fn pom_text(dependencies: &[(&str, &str, &str)]) -> String {
    let mut lines = String::new();
    for (group, artifact, version) in dependencies {
        lines += &format!(
            "    <dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version></dependency>\n"
        );
    }
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  \
         <modelVersion>4.0.0</modelVersion>\n  \
         <groupId>weir.lab</groupId><artifactId>jars</artifactId><version>1</version>\n  \
         <packaging>pom</packaging>\n  <dependencies>\n{lines}  </dependencies>\n</project>\n"
    )
}

const COPY_DEPENDENCIES: &str =
    "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
/// The last version that does not read the archive's project file, whose parent some mirrors lack.
const UNPACK: &str = "org.apache.maven.plugins:maven-dependency-plugin:2.10:unpack";
const MAVEN_REMEDY: &str = "install Maven (Debian, Ubuntu: apt install maven)";
/// Disk space required for an archive, its content and Maven's own copy.
const UNPACK_BYTES: u64 = 500 << 20;
/// Disk space required for the largest download: the jars and Maven's own copy.
const FETCH_BYTES: u64 = 200 << 20;
const NOT_FOUND: &str = "Could not find artifact ";
/// Starts of the reason in Maven's error lines; the text before names the plugin or dependency.
const REASON_STARTS: [&str; 3] = [NOT_FOUND, "Could not transfer", "Cannot access"];

#[cfg(test)]
mod tests {
    use super::*;

    fn request(version: &str) -> MavenRequest<'_> {
        MavenRequest {
            name: "kafka",
            version,
            what: "Apache Kafka".to_owned(),
            size: "45 MB",
            dependencies: &[],
        }
    }

    #[test]
    fn missing_artifact_is_detected() {
        let output = "[ERROR] Failed to execute goal on project kafka: Could not resolve \
                    dependencies: Could not find artifact org.apache.kafka:kafka_2.13:jar:9.9.9 \
                    in central (somewhere) -> [Help 1]\n[ERROR] more\n";
        let LabError::NoSuchVersion(_, artifact) = maven_error(&request("9.9.9"), output) else {
            panic!("not detected as a missing artifact");
        };
        assert!(
            artifact.starts_with("org.apache.kafka:kafka_2.13:jar:9.9.9"),
            "{artifact}"
        );
        assert!(!artifact.contains("[Help"), "{artifact}");
    }

    #[test]
    fn unreachable_repository_is_reported() {
        let in_one_line = "[WARNING] odd\n[ERROR] Plugin x could not be resolved: Could not \
                           transfer artifact y: Connection refused -> [Help 1]\n";
        let in_several = "[ERROR] Plugin x could not be resolved:\n[ERROR] \tThe following \
                          artifacts could not be resolved: x (absent): Could not transfer \
                          artifact y: Connection refused\n[ERROR] -> [Help 1]\n";
        for output in [in_one_line, in_several] {
            let error = maven_error(&request("4.3.1"), output);
            assert!(matches!(error, LabError::Fetch(..)), "{error}");
            let text = error.to_string();
            assert!(
                text.contains("downloaded: Could not transfer artifact y: Connection refused;"),
                "{text}"
            );
        }
    }
}
