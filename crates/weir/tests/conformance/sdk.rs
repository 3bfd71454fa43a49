//! The SDKs: how each is installed and how its driver is started.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail};
use weir_lab::sdk::{NodeSdk, PythonSdk};

/// Every SDK of the suite.
pub(crate) const NAMES: [&str; 2] = ["node", "python"];

/// An installed SDK.
#[derive(Debug, Clone)]
pub(crate) enum Sdk {
    Node(NodeSdk),
    Python(PythonSdk),
}

impl Sdk {
    /// The SDK with one of [`NAMES`], from the per-user cache.
    pub(crate) fn install(name: &str) -> Result<Self> {
        let stop = AtomicBool::new(false);
        match name {
            "node" => Ok(Self::Node(weir_lab::sdk::node(&mut |_| {}, &stop)?)),
            "python" => Ok(Self::Python(weir_lab::sdk::python(&mut |_| {}, &stop)?)),
            _ => bail!("no SDK \"{name}\", known: {NAMES:?}"),
        }
    }

    /// Its name, which is also its folder in `conformance/`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Node(_) => "node",
            Self::Python(_) => "python",
        }
    }

    /// Starts its driver; the configuration is to be added as the last argument.
    pub(crate) fn command(&self) -> Command {
        let drivers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
        let folder = drivers.join(self.name());
        match self {
            Self::Node(sdk) => {
                let mut command = Command::new(&sdk.node_bin);
                command
                    .env("NODE_PATH", sdk.modules())
                    .arg(folder.join("driver.js"));
                command
            }
            Self::Python(sdk) => {
                let mut command = Command::new(&sdk.python_bin);
                // Whatever the locale is, values in the log are UTF-8; no files beside the driver.
                command.envs([("PYTHONUTF8", "1"), ("PYTHONDONTWRITEBYTECODE", "1")]);
                command.arg(folder.join("driver.py"));
                command
            }
        }
    }
}
