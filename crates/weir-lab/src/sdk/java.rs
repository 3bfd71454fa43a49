//! The SDK for Java SE, through Maven.

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

/// The SDK for Java SE and what runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JavaSdk {
    /// The jars of the SDK and all it needs.
    pub class_path: String,
    /// The `java` program, 17 or newer.
    pub java_bin: PathBuf,
}

/// The SDK for Java SE, resolved by Maven if it is not cached yet.
///
/// # Errors
/// A missing or old `java`, a missing `mvn`, no network, or `stop` was set.
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

/// The jars of a directory, in an order that does not depend on the disk.
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
    let wanted = MavenRequest {
        what: what.clone(),
        size: "10 MB",
        dependencies: vec![("com.lightstreamer", "ls-javase-client", JAVA_SDK_VERSION)],
    };
    maven::fetch(&wanted, dir, progress, stop).map_err(|trouble| match trouble {
        MavenError::Lab(error) => error,
        MavenError::NotFound { artifact } => LabError::Fetch {
            what,
            detail: format!("no artifact {artifact}"),
        },
    })
}
