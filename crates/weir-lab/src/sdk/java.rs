//! The SDK for Java SE, installed with Maven.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::INSTALL_BYTES;
use crate::cache;
use crate::error::LabError;
use crate::host_tools;
use crate::maven::{self, MavenError, MavenRequest};

/// Version of `com.lightstreamer:ls-javase-client`.
pub const JAVA_SDK_VERSION: &str = "5.2.1";

/// The SDK for Java SE and the program to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JavaSdk {
    /// Class path with the SDK and its dependencies.
    pub class_path: String,
    /// The `java` program, 17 or newer.
    pub java_bin: PathBuf,
}

/// Returns the SDK for Java SE, downloaded with Maven if it is not cached.
///
/// # Errors
/// Fails if `java` is missing or too old, `mvn` is missing, the download fails, or `stop` is set.
pub fn java(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<JavaSdk, LabError> {
    let java_bin = host_tools::java("to run the Lightstreamer client SDK for Java SE")?;
    let name = format!("sdk-java-{JAVA_SDK_VERSION}");
    let dir = cache::entry(&name, INSTALL_BYTES, progress, stop, |dir, progress| {
        fetch(dir, progress, stop)
    })?;
    Ok(JavaSdk {
        class_path: class_path(&dir.join("libs"))?,
        java_bin,
    })
}

/// Returns the class path of all jars in a directory, sorted by name.
fn class_path(libs: &Path) -> Result<String, LabError> {
    let unreadable = |error| LabError::io(format!("read {}", libs.display()), error);
    let mut jars = Vec::new();
    for entry in fs::read_dir(libs).map_err(unreadable)? {
        jars.push(entry.map_err(unreadable)?.path().display().to_string());
    }
    jars.sort_unstable();
    Ok(jars.join(":"))
}

fn fetch(dir: &Path, progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<(), LabError> {
    let what = format!("the Lightstreamer client SDK {JAVA_SDK_VERSION} for Java SE");
    let request = MavenRequest {
        what: what.clone(),
        size: "10 MB",
        dependencies: vec![("com.lightstreamer", "ls-javase-client", JAVA_SDK_VERSION)],
    };
    maven::fetch(&request, dir, progress, stop).map_err(|error| match error {
        MavenError::Lab(error) => error,
        MavenError::NotFound { artifact } => LabError::Fetch {
            what,
            detail: format!("no artifact {artifact}"),
        },
    })
}
