//! Lightstreamer's SDKs for remote adapters in JavaScript, Python and Java.

use std::sync::atomic::AtomicBool;

use super::INSTALL_BYTES;
use super::java::{JavaSdk, class_path};
use super::node::NodeSdk;
use super::npm::{self, Packages};
use super::python::{PythonSdk, VenvSpec};
use crate::cache;
use crate::error::Result;
use crate::host_tools;
use crate::maven::{self, MavenRequest};
use crate::operation::Operation;

/// Version of `lightstreamer-adapter` for Node.
pub const NODE_ADAPTER_VERSION: &str = "1.5.3";
/// Version of `lightstreamer-adapter` for Python.
pub const PYTHON_ADAPTER_VERSION: &str = "1.3.1";
/// Version of `com.lightstreamer:ls-adapter-remote`.
pub const JAVA_ADAPTER_VERSION: &str = "1.7.0";

const PACKAGES: Packages = Packages {
    json: include_str!("adapter/package.json"),
    lock: include_str!("adapter/package-lock.json"),
    package: "lightstreamer-adapter",
};
const REQUIREMENTS: &str = "lightstreamer-adapter==1.3.1\n";

/// Returns the adapter SDK for Node, installed with npm if it is not cached.
pub fn node_adapter(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<NodeSdk> {
    let node_bin = npm::node("to run a remote adapter for Node")?;
    let name = format!("adapter-node-{NODE_ADAPTER_VERSION}");
    let mut operation = Operation { progress, stop };
    let dir = cache::entry(&name, INSTALL_BYTES, &mut operation, |dir, operation| {
        let what = format!("the Lightstreamer adapter SDK {NODE_ADAPTER_VERSION} for Node");
        npm::install(&PACKAGES, &what, dir, operation)
    })?;
    Ok(NodeSdk { dir, node_bin })
}

/// Returns the adapter SDK for Python, installed with pip if it is not cached.
pub fn python_adapter(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<PythonSdk> {
    let venv = VenvSpec {
        name: format!("adapter-python-{PYTHON_ADAPTER_VERSION}"),
        what: format!("the Lightstreamer adapter SDK {PYTHON_ADAPTER_VERSION} for Python"),
        requirements: REQUIREMENTS,
    };
    let (dir, python_bin) = venv.find(&mut Operation { progress, stop })?;
    Ok(PythonSdk { dir, python_bin })
}

/// Returns the adapter SDK for Java, downloaded with Maven if it is not cached.
pub fn java_adapter(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<JavaSdk> {
    let java_bin = host_tools::java("to run a remote adapter for Java")?;
    let request = MavenRequest {
        name: "adapter-java",
        version: JAVA_ADAPTER_VERSION,
        what: format!("the Lightstreamer adapter SDK {JAVA_ADAPTER_VERSION} for Java"),
        size: "1 MB",
        dependencies: &[(
            "com.lightstreamer",
            "ls-adapter-remote",
            JAVA_ADAPTER_VERSION,
        )],
    };
    let libs = maven::libs(&request, &mut Operation { progress, stop })?;
    let class_path = class_path(&libs)?;
    Ok(JavaSdk {
        class_path,
        java_bin,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_files_pin_the_adapter_sdks() {
        assert!(PACKAGES.is_pinned_to(NODE_ADAPTER_VERSION));
        let python = format!("lightstreamer-adapter=={PYTHON_ADAPTER_VERSION}\n");
        assert_eq!(REQUIREMENTS, python);
    }
}
