//! The Node SDK, installed with npm.
//!
//! Its package depends on a git address of `xmlhttprequest`. The embedded `package-lock.json`
//! replaces it with the published release, so that only the package registry is needed. `overrides`
//! in `package.json` would do the same, but npm 9.2 of Debian and Ubuntu fails with them.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::INSTALL_BYTES;
use super::npm::{self, Packages};
use crate::cache;
use crate::error::LabError;

/// Version of `lightstreamer-client-node`.
pub const NODE_SDK_VERSION: &str = "9.2.2";

/// Version of the last release that uses TLCP 2.1.0.
pub const OLD_NODE_SDK_VERSION: &str = "8.0.5";

/// The Node SDK and the program to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSdk {
    /// Directory with `node_modules`; a script finds the SDK with `NODE_PATH=<dir>/node_modules`.
    pub dir: PathBuf,
    /// The `node` program.
    pub node_bin: PathBuf,
}

impl NodeSdk {
    /// Returns the directory for `NODE_PATH`.
    #[must_use]
    pub fn modules(&self) -> PathBuf {
        self.dir.join("node_modules")
    }
}

/// Returns the Node SDK, installed with npm if it is not cached.
///
/// # Errors
/// Fails if `node` is missing or too old, `npm` is missing, the download fails, or `stop` is set.
pub fn node(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<NodeSdk, LabError> {
    release(NODE_SDK_VERSION, &PACKAGES, progress, stop)
}

/// Returns the Node SDK in a release that uses TLCP 2.1.0, see [`node`].
///
/// # Errors
/// Fails if `node` is missing or too old, `npm` is missing, the download fails, or `stop` is set.
pub fn old_node(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<NodeSdk, LabError> {
    release(OLD_NODE_SDK_VERSION, &OLD_PACKAGES, progress, stop)
}

fn release(
    version: &str,
    packages: &Packages,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<NodeSdk, LabError> {
    let node_bin = npm::node("to run the Lightstreamer client SDK for Node")?;
    let name = format!("sdk-node-{version}");
    let dir = cache::entry(&name, INSTALL_BYTES, progress, stop, |dir, progress| {
        let what = format!("the Lightstreamer client SDK {version} for Node");
        npm::install(packages, &what, dir, progress, stop)
    })?;
    Ok(NodeSdk { dir, node_bin })
}

const PACKAGES: Packages = Packages {
    json: include_str!("node/package.json"),
    lock: include_str!("node/package-lock.json"),
    package: "lightstreamer-client-node",
};

const OLD_PACKAGES: Packages = Packages {
    json: include_str!("node8/package.json"),
    lock: include_str!("node8/package-lock.json"),
    package: "lightstreamer-client-node",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_package_files_pin_the_sdk_version() {
        assert!(PACKAGES.is_pinned_to(NODE_SDK_VERSION));
        assert!(OLD_PACKAGES.is_pinned_to(OLD_NODE_SDK_VERSION));
    }
}
