//! Jars with all they depend on, through Maven.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use crate::error::LabError;
use crate::host_tools;

/// What Maven is to resolve.
#[derive(Debug)]
pub(crate) struct MavenRequest<'a> {
    /// Its name for people.
    pub(crate) what: String,
    /// About how much it is, for people.
    pub(crate) size: &'static str,
    /// Group, artifact and version; the first one's jar must be there afterwards.
    pub(crate) dependencies: Vec<(&'a str, &'a str, &'a str)>,
}

/// Why there are no jars.
#[derive(Debug)]
pub(crate) enum MavenError {
    /// The repository answers and does not have one of them.
    NotFound {
        /// As Maven names it.
        artifact: String,
    },
    /// Everything else.
    Lab(LabError),
}

/// Copies the jars to `dir/libs`.
pub(crate) fn fetch(
    wanted: &MavenRequest<'_>,
    dir: &Path,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<(), MavenError> {
    let what = &wanted.what;
    let missing = || LabError::MissingTool {
        tool: "mvn",
        looked: " in PATH".to_owned(),
        purpose: format!("to fetch {what}, which is not cached yet"),
        remedy: "install Maven (Debian, Ubuntu: apt install maven)",
    };
    let maven = host_tools::find("mvn").ok_or_else(|| MavenError::Lab(missing()))?;
    progress(&format!(
        "fetching {what} through Maven (about {}, once)",
        wanted.size
    ));
    let pom = dir.join("pom.xml");
    fs::write(&pom, pom_text(&wanted.dependencies)).map_err(|error| {
        MavenError::Lab(LabError::io(format!("write {}", pom.display()), error))
    })?;
    let mut command = Command::new(&maven);
    command
        .args(["-q", "-B", "-U", "-Dstyle.color=never", "-f"])
        .arg(&pom)
        .arg(COPY_DEPENDENCIES)
        .arg("-DincludeScope=runtime")
        .arg(format!("-DoutputDirectory={}", dir.join("libs").display()))
        .current_dir(dir);
    let (status, said) = host_tools::run(&mut command, "fetching jars through Maven", stop)
        .map_err(MavenError::Lab)?;
    let (_, artifact, version) = wanted.dependencies[0];
    let jar = dir.join(format!("libs/{artifact}-{version}.jar"));
    if status.success() && jar.is_file() {
        return Ok(());
    }
    Err(trouble(what, &said))
}

/// The line of Maven's output that matters; newer releases spread it over several.
pub fn relevant_line(said: &str) -> &str {
    let errors = || {
        said.lines()
            .filter_map(|line| line.split_once("[ERROR]").map(|(_, rest)| rest.trim()))
    };
    let telling = errors().find_map(|line| {
        let start = TELLING.iter().find_map(|mark| line.find(mark))?;
        Some(&line[start..])
    });
    let line = telling
        .or_else(|| errors().find(|line| line.contains(".java:")))
        .or_else(|| errors().next())
        .or_else(|| said.lines().find(|line| !line.trim().is_empty()))
        .unwrap_or("Maven ended without a word");
    line.split(" -> [Help").next().unwrap_or(line)
}

fn trouble(what: &str, said: &str) -> MavenError {
    let line = relevant_line(said);
    if let Some(artifact) = line.strip_prefix(NOT_FOUND) {
        return MavenError::NotFound {
            artifact: artifact.to_owned(),
        };
    }
    MavenError::Lab(LabError::Fetch {
        what: what.to_owned(),
        detail: line.to_owned(),
    })
}

/// A project that depends on what is wanted, and is thrown away.
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
const NOT_FOUND: &str = "Could not find artifact ";
/// Where Maven's reason begins; what comes before only says which plugin or dependency it was.
const TELLING: [&str; 3] = [NOT_FOUND, "Could not transfer", "Cannot access"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_artifact_is_told_apart() {
        let said = "[ERROR] Failed to execute goal on project kafka: Could not resolve \
                    dependencies: Could not find artifact org.apache.kafka:kafka_2.13:jar:9.9.9 \
                    in central (somewhere) -> [Help 1]\n[ERROR] more\n";
        let MavenError::NotFound { artifact } = trouble("Apache Kafka 9.9.9", said) else {
            panic!("not told apart");
        };
        assert!(
            artifact.starts_with("org.apache.kafka:kafka_2.13:jar:9.9.9"),
            "{artifact}"
        );
        assert!(!artifact.contains("[Help"), "{artifact}");
    }

    #[test]
    fn an_unreachable_repository_keeps_the_line_that_says_so() {
        let in_one_line = "[WARNING] odd\n[ERROR] Plugin x could not be resolved: Could not \
                           transfer artifact y: Connection refused -> [Help 1]\n";
        let in_several = "[ERROR] Plugin x could not be resolved:\n[ERROR] \tThe following \
                          artifacts could not be resolved: x (absent): Could not transfer \
                          artifact y: Connection refused\n[ERROR] -> [Help 1]\n";
        for said in [in_one_line, in_several] {
            let MavenError::Lab(error) = trouble("Apache Kafka 4.3.1", said) else {
                panic!("taken for a missing artifact");
            };
            assert!(matches!(error, LabError::Fetch { .. }), "{error}");
            let text = error.to_string();
            assert!(
                text.contains("fetched: Could not transfer artifact y: Connection refused;"),
                "{text}"
            );
        }
    }
}
