//! The SDK for browsers, through npm, and a browser of this machine.

use std::env;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::INSTALL_BYTES;
use super::npm::{self, Packages};
use crate::cache;
use crate::error::LabError;
use crate::host_tools;

/// Version of `lightstreamer-client-web`.
pub const WEB_SDK_VERSION: &str = "9.2.3";

/// The SDK for browsers and what runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSdk {
    /// Directory with `node_modules`: the SDK, and what a script speaks to the browser with.
    pub dir: PathBuf,
    /// The `node` program.
    pub node_bin: PathBuf,
    /// A Chromium, or a browser made from it.
    pub browser_bin: PathBuf,
}

impl WebSdk {
    /// The directory that `NODE_PATH` has to name.
    #[must_use]
    pub fn modules(&self) -> PathBuf {
        self.dir.join("node_modules")
    }
}

/// The SDK for browsers, installed through npm if it is not cached yet, for a browser that is there.
///
/// # Errors
/// A missing or old `node`, a missing `npm`, no network, or `stop` was set.
pub fn web(
    browser_bin: PathBuf,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<WebSdk, LabError> {
    let node_bin = npm::node("to run the Lightstreamer client SDK for browsers")?;
    let name = format!("sdk-web-{WEB_SDK_VERSION}");
    let dir = cache::entry(&name, INSTALL_BYTES, progress, stop, |dir, progress| {
        let what = format!("the Lightstreamer client SDK {WEB_SDK_VERSION} for browsers");
        npm::install(&PACKAGES, &what, dir, progress, stop)
    })?;
    Ok(WebSdk {
        dir,
        node_bin,
        browser_bin,
    })
}

/// A browser of this machine: the one that `WEIR_CHROMIUM` names, else a known name in `PATH`.
///
/// # Errors
/// There is none.
pub fn browser() -> Result<PathBuf, LabError> {
    let missing = |looked: String| LabError::MissingTool {
        tool: "browser",
        looked,
        purpose: "to run the Lightstreamer client SDK for browsers".to_owned(),
        remedy: "install Chromium (Debian: apt install chromium) or name one with WEIR_CHROMIUM",
    };
    if let Some(named) = env::var_os("WEIR_CHROMIUM").filter(|path| !path.is_empty()) {
        let path = PathBuf::from(named);
        return if host_tools::is_program(&path) {
            Ok(path)
        } else {
            Err(missing(format!(" at WEIR_CHROMIUM ({})", path.display())))
        };
    }
    let found = BROWSERS.into_iter().find_map(host_tools::find);
    found.ok_or_else(|| missing(format!(" in PATH as {}", BROWSERS.join(", "))))
}

/// Chromium and those made from it, by the names of their programs.
const BROWSERS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
const PACKAGES: Packages = Packages {
    json: include_str!("web/package.json"),
    lock: include_str!("web/package-lock.json"),
    wanted: "lightstreamer-client-web",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_version_is_the_one_named() {
        assert!(PACKAGES.names(WEB_SDK_VERSION));
    }
}
