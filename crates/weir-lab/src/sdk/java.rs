//! The SDK for Java SE, installed with Maven.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::error::{LabError, Result};
use crate::host_tools;
use crate::maven::{self, MavenRequest};
use crate::operation::Operation;

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
pub fn java(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<JavaSdk> {
    let java_bin = host_tools::java("to run the Lightstreamer client SDK for Java SE")?;
    let request = MavenRequest {
        name: "sdk-java",
        version: JAVA_SDK_VERSION,
        what: format!("the Lightstreamer client SDK {JAVA_SDK_VERSION} for Java SE"),
        size: "10 MB",
        dependencies: &[("com.lightstreamer", "ls-javase-client", JAVA_SDK_VERSION)],
    };
    let libs = maven::libs(&request, &mut Operation { progress, stop })?;
    let class_path = class_path(&libs)?;
    Ok(JavaSdk {
        class_path,
        java_bin,
    })
}

/// Returns the class path of all jars in a directory, sorted by name.
pub(super) fn class_path(libs: &Path) -> Result<String> {
    let unreadable = |error| LabError::io(format!("read {}", libs.display()), error);
    let mut jars = Vec::new();
    for entry in fs::read_dir(libs).map_err(unreadable)? {
        jars.push(entry.map_err(unreadable)?.path().display().to_string());
    }
    jars.sort_unstable();
    Ok(jars.join(":"))
}
