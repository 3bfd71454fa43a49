//! Installation and loading of the client SDKs.

use std::process::Command;
use std::sync::atomic::AtomicBool;

use weir_lab::sdk;

#[test]
fn node_sdk_loads() {
    let sdk = sdk::node(&mut |_| (), &AtomicBool::new(false)).unwrap();
    let program = "const {LightstreamerClient} = require('lightstreamer-client-node'); \
                   console.log(LightstreamerClient.LIB_VERSION)";
    let output = Command::new(&sdk.node_bin)
        .args(["-e", program])
        .env("NODE_PATH", sdk.modules())
        .output()
        .unwrap();
    let version = String::from_utf8_lossy(&output.stdout);
    assert!(version.starts_with(sdk::NODE_SDK_VERSION), "{output:?}");
}

#[test]
fn python_sdk_loads() {
    let sdk = sdk::python(&mut |_| (), &AtomicBool::new(false)).unwrap();
    let program = "from lightstreamer.client import LightstreamerClient as c; print(c.LIB_VERSION)";
    let output = Command::new(&sdk.python_bin)
        .args(["-c", program])
        .output()
        .unwrap();
    let version = String::from_utf8_lossy(&output.stdout);
    assert!(version.starts_with(sdk::PYTHON_SDK_VERSION), "{output:?}");
}

#[test]
fn java_sdk_loads() {
    let sdk = sdk::java(&mut |_| (), &AtomicBool::new(false)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("Version.java");
    let text = "class Version { public static void main(String[] args) { \
                System.out.println(com.lightstreamer.client.LightstreamerClient.LIB_VERSION); } }";
    std::fs::write(&program, text).unwrap();
    let output = Command::new(&sdk.java_bin)
        .args(["-cp", &sdk.class_path])
        .arg(&program)
        .output()
        .unwrap();
    let version = String::from_utf8_lossy(&output.stdout);
    assert!(version.starts_with(sdk::JAVA_SDK_VERSION), "{output:?}");
}

#[test]
fn web_sdk_is_installed() {
    let sdk = sdk::web(&mut |_| (), &AtomicBool::new(false)).unwrap();
    let package = sdk.modules().join("lightstreamer-client-web/package.json");
    let package: serde_json::Value =
        serde_json::from_slice(&std::fs::read(package).unwrap()).unwrap();
    // The version is followed by a build date.
    let version = package["version"].as_str().unwrap();
    assert!(version.starts_with(sdk::WEB_SDK_VERSION), "{version}");
    let output = Command::new(&sdk.node_bin)
        .args(["-e", "console.log(typeof require('ws'))"])
        .env("NODE_PATH", sdk.modules())
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"function\n", "{output:?}");
}

#[test]
fn browser_variable_is_used() {
    if std::env::var_os("WEIR_CHROMIUM").is_some() {
        sdk::browser().unwrap();
    }
}

/// Runs one test of this file in an environment where it must fail, and returns its output.
fn failing(test: &str, environment: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    assert!(
        !output.status.success(),
        "{test} passed with {environment:?}"
    );
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn missing_programs_are_reported_by_name() {
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().to_str().unwrap();
    let node = failing("node_sdk_loads", &[("PATH", path)]);
    assert!(node.contains("tool: \"node\""), "{node}");
    let python = failing("python_sdk_loads", &[("PATH", path)]);
    assert!(python.contains("tool: \"python3\""), "{python}");
    let java = failing("java_sdk_loads", &[("PATH", path), ("JAVA_HOME", "")]);
    assert!(java.contains("tool: \"java\""), "{java}");
    let browser = failing("browser_variable_is_used", &[("WEIR_CHROMIUM", path)]);
    assert!(browser.contains("at WEIR_CHROMIUM"), "{browser}");
}

#[test]
fn failed_downloads_are_reported() {
    let cache = tempfile::tempdir().unwrap();
    let cache_home = cache.path().to_str().unwrap();
    // A closed port: the package tools immediately get a refused connection.
    let nowhere = "http://127.0.0.1:9/";
    let common = [
        ("XDG_CACHE_HOME", cache_home),
        ("npm_config_cache", cache_home),
    ];
    let mut environment = common.to_vec();
    environment.push(("npm_config_registry", nowhere));
    let node = failing("node_sdk_loads", &environment);
    assert!(
        node.contains("Fetch(") && node.contains("ECONNREFUSED"),
        "{node}"
    );

    let mut environment = common.to_vec();
    environment.push(("PIP_INDEX_URL", nowhere));
    environment.push(("PIP_NO_CACHE_DIR", "1"));
    environment.push(("PIP_NO_INDEX", "0"));
    let python = failing("python_sdk_loads", &environment);
    assert!(
        python.contains("Fetch(") && python.contains("refused"),
        "{python}"
    );
    let entries = std::fs::read_dir(cache.path().join("weir")).unwrap();
    let names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names.iter().all(|name| name.ends_with(".lock")),
        "{names:?}"
    );
}
