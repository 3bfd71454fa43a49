//! The SDKs: how each is installed and how its driver is started.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, bail, ensure};
use weir_lab::sdk::{JavaSdk, NodeSdk, PythonSdk};

use super::browser::Browser;

/// All SDKs of the suite. The last two are old releases, for old versions of the protocol.
pub(crate) const NAMES: [&str; 6] = ["node", "python", "java", "web", "node8", "python1"];

/// `true` for an old release, which runs only a few cases.
pub(crate) fn is_old(name: &str) -> bool {
    matches!(name, "node8" | "python1")
}

/// An installed SDK.
#[derive(Debug)]
pub(crate) enum Sdk {
    /// SDK with its name here.
    Node(NodeSdk, &'static str),
    /// SDK with its name here.
    Python(PythonSdk, &'static str),
    /// SDK with the directory of the compiled driver.
    Java(JavaSdk, PathBuf),
    /// SDK with the browser in which its clients run as pages, and the directory of axe-core.
    Web(NodeSdk, Browser, PathBuf),
}

impl Sdk {
    /// Returns the reason why an SDK cannot run on this machine, if there is one.
    pub(crate) fn lacks(name: &str) -> Option<String> {
        if name != "web" || std::env::var_os("WEIR_CHROMIUM").is_some() {
            return None;
        }
        weir_lab::sdk::browser()
            .err()
            .map(|error| error.to_string())
    }

    /// Returns the SDK with one of [`NAMES`] from the per-user cache. Its files are stored in
    /// `dir`.
    pub(crate) fn install(name: &str, dir: &Path) -> Result<Self> {
        let stop = AtomicBool::new(false);
        match name {
            "node" => Ok(Self::Node(weir_lab::sdk::node(&mut |_| {}, &stop)?, "node")),
            "node8" => {
                let sdk = weir_lab::sdk::old_node(&mut |_| {}, &stop)?;
                Ok(Self::Node(sdk, "node8"))
            }
            "python" => {
                let sdk = weir_lab::sdk::python(&mut |_| {}, &stop)?;
                Ok(Self::Python(sdk, "python"))
            }
            "python1" => {
                let sdk = weir_lab::sdk::old_python(&mut |_| {}, &stop)?;
                Ok(Self::Python(sdk, "python1"))
            }
            "java" => {
                let sdk = weir_lab::sdk::java(&mut |_| {}, &stop)?;
                let classes = dir.join("classes");
                compile(&sdk, &classes)?;
                Ok(Self::Java(sdk, classes))
            }
            "web" => {
                let browser = weir_lab::sdk::browser()?;
                let sdk = weir_lab::sdk::web(&mut |_| {}, &stop)?;
                let axe = weir_lab::sdk::axe(&mut |_| {}, &stop)?;
                let browser = Browser::start(&browser, dir)?;
                Ok(Self::Web(sdk, browser, axe))
            }
            _ => bail!("no SDK \"{name}\", known: {NAMES:?}"),
        }
    }

    /// Returns the name of the SDK.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Node(_, name) | Self::Python(_, name) => name,
            Self::Java(..) => "java",
            Self::Web(..) => "web",
        }
    }

    /// Returns the command of the driver. The configuration must be added as the last argument.
    pub(crate) fn command(&self) -> Command {
        match self {
            Self::Node(sdk, _) => {
                let mut command = Command::new(&sdk.node_bin);
                command
                    .env("NODE_PATH", sdk.modules())
                    .env("NODE_EXTRA_CA_CERTS", certificates().join("ca.pem"))
                    .arg(drivers().join("node/driver.js"));
                command
            }
            Self::Python(sdk, _) => {
                let mut command = Command::new(&sdk.python_bin);
                // UTF-8 logs with every locale, and no cache files next to the driver.
                command.envs([("PYTHONUTF8", "1"), ("PYTHONDONTWRITEBYTECODE", "1")]);
                command.env("SSL_CERT_FILE", certificates().join("ca.pem"));
                command.arg(drivers().join("python/driver.py"));
                command
            }
            Self::Java(sdk, classes) => {
                let mut command = java(sdk);
                let class_path = format!("{}:{}", classes.display(), sdk.class_path);
                command.args(["-cp", &class_path, "Driver"]);
                command.env("WEIR_AUTHORITY", certificates().join("ca.pem"));
                command
            }
            Self::Web(sdk, browser, _) => in_browser(sdk, browser, "driver.js"),
        }
    }

    /// Returns the command that opens a page in the browser, and the directory of the SDK. Only for
    /// the browser SDK.
    pub(crate) fn page_command(&self) -> Option<(Command, PathBuf)> {
        match self {
            Self::Web(sdk, browser, axe) => {
                let mut command = in_browser(sdk, browser, "page.js");
                command.env("WEIR_AXE", axe.join("axe-core/axe.min.js"));
                Some((command, sdk.modules()))
            }
            Self::Node(..) | Self::Python(..) | Self::Java(..) => None,
        }
    }
}

fn in_browser(sdk: &NodeSdk, browser: &Browser, script: &str) -> Command {
    let mut command = Command::new(&sdk.node_bin);
    command
        .env("NODE_PATH", sdk.modules())
        .env("WEIR_BROWSER", browser.endpoint())
        .arg(drivers().join("web").join(script));
    command
}

/// Test certificates; every SDK is configured to trust their CA.
pub(crate) fn certificates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../weir-net/tests/tls")
}

fn drivers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance")
}

/// JVM options for a fast start and little memory.
fn java(sdk: &JavaSdk) -> Command {
    let mut command = Command::new(&sdk.java_bin);
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m"]);
    // Values are UTF-8 with every locale.
    command.arg("-Dfile.encoding=UTF-8");
    command
}

/// Compiles the driver once, instead of at each start from source.
fn compile(sdk: &JavaSdk, classes: &Path) -> Result<()> {
    let output = java(sdk)
        .args(["-m", "jdk.compiler/com.sun.tools.javac.Main"])
        .args(["-Xlint:all", "-Werror", "-encoding", "UTF-8"])
        .args(["-cp", &sdk.class_path, "-d"])
        .arg(classes)
        .arg(drivers().join("java/Driver.java"))
        .output()
        .context("no Java compiler")?;
    ensure!(
        output.status.success(),
        "conformance/java/Driver.java does not compile: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
