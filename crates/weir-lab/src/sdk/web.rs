//! The SDK for browsers, installed with npm, and the browser of this machine.

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

/// The SDK for browsers and the programs to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebSdk {
    /// Directory with `node_modules`: the SDK and the WebSocket package for browser automation.
    pub dir: PathBuf,
    /// The `node` program.
    pub node_bin: PathBuf,
    /// The program of Chromium or a browser based on it.
    pub browser_bin: PathBuf,
}

impl WebSdk {
    /// Returns the directory for `NODE_PATH`.
    #[must_use]
    pub fn modules(&self) -> PathBuf {
        self.dir.join("node_modules")
    }
}

/// Returns the SDK for an installed browser, installed with npm if it is not cached.
///
/// # Errors
/// Fails if `node` is missing or too old, `npm` is missing, the download fails, or `stop` is set.
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

/// Returns the browser given by `WEIR_CHROMIUM`, otherwise one with a known name in `PATH`.
///
/// # Errors
/// Fails if no browser is found.
pub fn browser() -> Result<PathBuf, LabError> {
    let missing = |looked: String| LabError::MissingTool {
        tool: "browser",
        looked,
        purpose: "to run the Lightstreamer client SDK for browsers".to_owned(),
        remedy: "install Chromium (Debian: apt install chromium) or set WEIR_CHROMIUM",
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

/// Program names of Chromium and browsers based on it.
const BROWSERS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
const PACKAGES: Packages = Packages {
    json: include_str!("web/package.json"),
    lock: include_str!("web/package-lock.json"),
    package: "lightstreamer-client-web",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_package_files_pin_the_sdk_version() {
        assert!(PACKAGES.is_pinned_to(WEB_SDK_VERSION));
    }
}
