//! The Node SDK, through npm.
//!
//! Its package names a git address for `xmlhttprequest`. Our `package-lock.json` names the
//! published release in its place, so that the package registry alone is enough; `overrides` in
//! `package.json` would say the same, but the npm 9.2 of Debian and Ubuntu fails on them.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::INSTALL_BYTES;
use super::npm::{self, Packages};
use crate::cache;
use crate::error::LabError;

/// Version of `lightstreamer-client-node`.
pub const NODE_SDK_VERSION: &str = "9.2.2";

/// Version of the last release that speaks TLCP 2.1.0.
pub const OLD_NODE_SDK_VERSION: &str = "8.0.5";

/// The Node SDK and what runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSdk {
    /// Directory with `node_modules`; a script finds the SDK with `NODE_PATH=<dir>/node_modules`.
    pub dir: PathBuf,
    /// The `node` program.
    pub node_bin: PathBuf,
}

impl NodeSdk {
    /// The directory that `NODE_PATH` has to name.
    #[must_use]
    pub fn modules(&self) -> PathBuf {
        self.dir.join("node_modules")
    }
}

/// The Node SDK, installed through npm if it is not cached yet.
///
/// # Errors
/// A missing or old `node`, a missing `npm`, no network, or `stop` was set.
pub fn node(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<NodeSdk, LabError> {
    release(NODE_SDK_VERSION, &PACKAGES, progress, stop)
}

/// As [`node`], in a release that speaks TLCP 2.1.0.
///
/// # Errors
/// A missing or old `node`, a missing `npm`, no network, or `stop` was set.
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
    wanted: "lightstreamer-client-node",
};

const OLD_PACKAGES: Packages = Packages {
    json: include_str!("node8/package.json"),
    lock: include_str!("node8/package-lock.json"),
    wanted: "lightstreamer-client-node",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_version_is_the_one_named() {
        assert!(PACKAGES.names(NODE_SDK_VERSION));
        assert!(OLD_PACKAGES.names(OLD_NODE_SDK_VERSION));
    }
}
