//! The SDKs for Node and for browsers, installed with npm, and the browser of this machine.
//!
//! The package of the Node SDK depends on a git address of `xmlhttprequest`. The embedded
//! `package-lock.json` replaces it with the published release, so that only the package registry is
//! needed. `overrides` in `package.json` would do the same, but npm 9.2 of Debian and Ubuntu fails
//! with them.

use std::env;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::INSTALL_BYTES;
use super::npm::{self, Packages};
use crate::cache;
use crate::error::{LabError, Result};
use crate::host_tools;
use crate::operation::Operation;

/// Version of `lightstreamer-client-node`.
pub const NODE_SDK_VERSION: &str = "9.2.2";

/// Version of the last release that uses TLCP 2.1.0.
pub const OLD_NODE_SDK_VERSION: &str = "8.0.5";

/// Version of `lightstreamer-client-web`.
pub const WEB_SDK_VERSION: &str = "9.2.3";

/// Version of `axe-core`.
pub const AXE_VERSION: &str = "4.14.1";

/// An SDK in JavaScript and the program to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSdk {
    /// Directory with `node_modules`; a script finds the SDK with `NODE_PATH=<dir>/node_modules`.
    pub dir: PathBuf,
    /// The `node` program.
    pub node_bin: PathBuf,
}

impl NodeSdk {
    /// Returns the directory for `NODE_PATH`.
    pub fn modules(&self) -> PathBuf {
        self.dir.join("node_modules")
    }
}

/// Returns the Node SDK, installed with npm if it is not cached.
pub fn node(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<NodeSdk> {
    let names = ["node", NODE_SDK_VERSION, "Node"];
    release(names, &PACKAGES, &mut Operation { progress, stop })
}

/// Returns the Node SDK in a release that uses TLCP 2.1.0, see [`node`].
pub fn old_node(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<NodeSdk> {
    let names = ["node", OLD_NODE_SDK_VERSION, "Node"];
    release(names, &OLD_PACKAGES, &mut Operation { progress, stop })
}

/// Returns the SDK for browsers with the WebSocket package for browser automation, installed with
/// npm if it is not cached.
pub fn web(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<NodeSdk> {
    let names = ["web", WEB_SDK_VERSION, "browsers"];
    release(names, &WEB_PACKAGES, &mut Operation { progress, stop })
}

/// Returns the directory for `NODE_PATH` with axe-core, which checks pages for accessibility,
/// installed with npm if it is not cached.
pub fn axe(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<PathBuf> {
    let name = format!("axe-core-{AXE_VERSION}");
    let mut operation = Operation { progress, stop };
    let dir = cache::entry(&name, INSTALL_BYTES, &mut operation, |dir, operation| {
        let what = format!("axe-core {AXE_VERSION}");
        npm::install(&AXE_PACKAGES, &what, dir, operation)
    })?;
    Ok(dir.join("node_modules"))
}

fn release(
    [kind, version, platform]: [&str; 3],
    packages: &Packages,
    operation: &mut Operation<'_>,
) -> Result<NodeSdk> {
    let purpose = format!("to run the Lightstreamer client SDK for {platform}");
    let node_bin = npm::node(&purpose)?;
    let name = format!("sdk-{kind}-{version}");
    let dir = cache::entry(&name, INSTALL_BYTES, operation, |dir, operation| {
        let what = format!("the Lightstreamer client SDK {version} for {platform}");
        npm::install(packages, &what, dir, operation)
    })?;
    Ok(NodeSdk { dir, node_bin })
}

/// Returns the browser given by `WEIR_CHROMIUM`, otherwise one with a known name in `PATH`.
pub fn browser() -> Result<PathBuf> {
    let named = env::var_os("WEIR_CHROMIUM").filter(|path| !path.is_empty());
    let (found, looked) = match named.map(PathBuf::from) {
        Some(path) => {
            let looked = format!(" at WEIR_CHROMIUM ({})", path.display());
            let found = Some(path).filter(|path| host_tools::is_program(path));
            (found, looked)
        }
        None => {
            let looked = format!(" in PATH as {}", BROWSERS.join(", "));
            (BROWSERS.into_iter().find_map(host_tools::find), looked)
        }
    };
    found.ok_or_else(|| LabError::MissingTool {
        tool: "browser",
        looked,
        purpose: "to run the Lightstreamer client SDK for browsers".to_owned(),
        remedy: "install Chromium (Debian: apt install chromium) or set WEIR_CHROMIUM",
    })
}

const BROWSERS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
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
const WEB_PACKAGES: Packages = Packages {
    json: include_str!("web/package.json"),
    lock: include_str!("web/package-lock.json"),
    package: "lightstreamer-client-web",
};
const AXE_PACKAGES: Packages = Packages {
    json: include_str!("axe/package.json"),
    lock: include_str!("axe/package-lock.json"),
    package: "axe-core",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_package_files_pin_the_sdk_version() {
        assert!(PACKAGES.is_pinned_to(NODE_SDK_VERSION));
        assert!(WEB_PACKAGES.is_pinned_to(WEB_SDK_VERSION));
        assert!(OLD_PACKAGES.is_pinned_to(OLD_NODE_SDK_VERSION));
        assert!(AXE_PACKAGES.is_pinned_to(AXE_VERSION));
    }
}
