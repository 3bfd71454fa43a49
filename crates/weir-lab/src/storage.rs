//! Formatting the storage of brokers.
//!
//! Kafka's storage tool takes a JVM about a second. It writes `meta.properties`, with the ids of
//! the cluster, the node and the directory, and `bootstrap.checkpoint`, with the features of the
//! release and the SCRAM credentials. The checkpoint is the same for all nodes of a cluster, and
//! without credentials for all clusters of a release. So the tool runs once per release and user,
//! or once per cluster with credentials. For all other nodes the file is copied.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use rand::distr::{Alphanumeric, SampleString as _};

use crate::broker::Launch;
use crate::class_archive;
use crate::disk::{self, write_private};
use crate::error::{LabError, Result};
use crate::host_tools;
use crate::operation::Operation;
use crate::state::{self, LabState};

const CHECKPOINT: &str = "bootstrap.checkpoint";
/// Prefix of broker properties that may change the features of a new cluster.
const UNSTABLE: &str = "unstable.";

/// Formats the storage of all nodes. Their `server.properties` must exist.
///
/// `credentials` are further arguments of the tool. They are secret, so all are passed in a file.
pub(crate) fn format(
    launch: &Launch,
    state: &LabState,
    credentials: &[String],
    operation: &Operation<'_>,
) -> Result<()> {
    let stored = stored_checkpoint(state, credentials);
    let known = stored.as_deref().and_then(|file| fs::read(file).ok());
    // A crash of the machine may leave an empty file.
    let known = known.filter(|checkpoint| !checkpoint.is_empty());
    let (checkpoint, others) = match (known, state.nodes.split_first()) {
        (_, None) => return Ok(()),
        (Some(known), Some(_)) => (known, &state.nodes[..]),
        (None, Some((first, others))) => {
            run_tool(launch, state, first.node_id, credentials, operation)?;
            let file = state::data_dir(&launch.dir, first.node_id).join(CHECKPOINT);
            let written = fs::read(&file).map_err(|error| LabError::file(&file, error))?;
            if let Some(stored) = stored {
                store(&stored, &written);
            }
            (written, others)
        }
    };
    let mut others = others.iter();
    others.try_for_each(|node| write(launch, state, node.node_id, &checkpoint))
}

/// Returns the file with the checkpoint of this release, or `None` if the cluster needs one
/// of its own.
fn stored_checkpoint(state: &LabState, credentials: &[String]) -> Option<PathBuf> {
    let is_own = |(name, _): &(String, String)| name.starts_with(UNSTABLE);
    if !credentials.is_empty() || state.properties.iter().any(is_own) {
        return None;
    }
    let name = format!("kafka-{}-{CHECKPOINT}", state.kafka_version);
    Some(disk::cache_dir().ok()?.join(name))
}

/// Stores a checkpoint for later labs. A failure costs them a second.
fn store(file: &Path, checkpoint: &[u8]) {
    let unfinished = file.with_extension(format!("{}.unfinished", new_id()));
    let stored = fs::write(&unfinished, checkpoint).and_then(|()| fs::rename(&unfinished, file));
    if let Err(error) = stored {
        tracing::debug!(%error, file = %file.display(), "failed to store a checkpoint of Kafka");
    }
}

/// Writes what the tool would write.
fn write(launch: &Launch, state: &LabState, node_id: i32, checkpoint: &[u8]) -> Result<()> {
    let data = state::data_dir(&launch.dir, node_id);
    let properties = meta_properties(&state.cluster_id, node_id);
    let files = || -> io::Result<()> {
        fs::create_dir_all(&data)?;
        fs::write(data.join(CHECKPOINT), checkpoint)?;
        // Storage is formatted once this file exists.
        fs::write(data.join("meta.properties"), properties)
    };
    files().map_err(|error| LabError::file(&data, error))
}

fn meta_properties(cluster_id: &str, node_id: i32) -> String {
    let directory_id = new_id();
    format!("version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={directory_id}\n")
}

/// Returns a random id in Kafka's form: 16 bytes in base64.
pub(crate) fn new_id() -> String {
    // The last character contains only two bits.
    Alphanumeric.sample_string(&mut rand::rng(), 21) + "A"
}

fn run_tool(
    launch: &Launch,
    state: &LabState,
    node_id: i32,
    credentials: &[String],
    operation: &Operation<'_>,
) -> Result<()> {
    let mut arguments: Vec<String> = FORMAT_JVM.map(str::to_owned).into();
    arguments.extend(class_archive::argument(launch.class_archive.as_deref()));
    arguments.extend(launch.common_arguments(node_id));
    let tool = [
        "kafka.tools.StorageTool",
        "format",
        "-t",
        &state.cluster_id,
        "-c",
    ];
    arguments.extend(tool.map(str::to_owned));
    arguments.push(launch.properties_file(node_id).display().to_string());
    arguments.extend_from_slice(credentials);
    let file = state::node_dir(&launch.dir, node_id).join("format.arguments");
    write_private(&file, &argument_file(&arguments))?;
    let mut command = Command::new(&launch.java);
    command.arg(format!("@{}", file.display()));
    let formatted = host_tools::run(&mut command, "formatting storage", operation);
    disk::remove(&file)?;
    let (status, output) = formatted?;
    if status.success() {
        return Ok(());
    }
    if output.contains("No space left on device") {
        return Err(LabError::full(&launch.dir));
    }
    let line = output.lines().rev().find(|line| !line.trim().is_empty());
    let detail = line.unwrap_or("no output").trim().to_owned();
    Err(LabError::Format(node_id, detail))
}

/// Returns the text of a file from which `java` reads `arguments`.
fn argument_file(arguments: &[String]) -> String {
    let quoted = |argument: &String| {
        let escaped = argument.replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{escaped}\"\n")
    };
    arguments.iter().map(quoted).collect()
}

/// The JVM arguments of the storage tool, which runs for about a second.
const FORMAT_JVM: [&str; 4] = [
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_for_java() {
        let arguments = ["a b".to_owned(), r#"c"\d"#.to_owned()];
        assert_eq!(argument_file(&arguments), "\"a b\"\n\"c\\\"\\\\d\"\n");
    }

    #[test]
    fn properties_of_a_directory_have_an_id_of_their_own() {
        let (one, other) = (meta_properties("c", 1), meta_properties("c", 1));
        assert!(one.starts_with("version=1\ncluster.id=c\nnode.id=1\ndirectory.id="));
        assert_ne!(one, other);
    }
}
