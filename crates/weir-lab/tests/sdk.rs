//! The SDKs install and load.

use std::process::Command;
use std::sync::atomic::AtomicBool;

use weir_lab::sdk;

#[test]
fn the_node_sdk_loads() {
    let sdk = sdk::node(&mut |_| (), &AtomicBool::new(false)).unwrap();
    let program = "const {LightstreamerClient} = require('lightstreamer-client-node'); \
                   console.log(LightstreamerClient.LIB_VERSION)";
    let output = Command::new(&sdk.node_bin)
        .args(["-e", program])
        .env("NODE_PATH", sdk.modules())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with(sdk::NODE_SDK_VERSION), "{output:?}");
}

#[test]
fn the_python_sdk_loads() {
    let sdk = sdk::python(&mut |_| (), &AtomicBool::new(false)).unwrap();
    let program = "from lightstreamer.client import LightstreamerClient as c; print(c.LIB_VERSION)";
    let output = Command::new(&sdk.python_bin)
        .args(["-c", program])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with(sdk::PYTHON_SDK_VERSION), "{output:?}");
}

#[test]
fn the_java_sdk_loads() {
    let sdk = sdk::java(&mut |_| (), &AtomicBool::new(false)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("Version.java");
    let text = "class Version { public static void main(String[] args) { \
                System.out.println(com.lightstreamer.client.LightstreamerClient.LIB_VERSION); } }";
    std::fs::write(&program, text).unwrap();
    let output = Command::new(&sdk.java_bin)
        .args(["-cp", &sdk.class_path])
        .arg(&program)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with(sdk::JAVA_SDK_VERSION), "{output:?}");
}

#[test]
fn the_web_sdk_is_there() {
    // Any program will do: whether there is a browser is another question.
    let program = std::env::current_exe().unwrap();
    let sdk = sdk::web(program, &mut |_| (), &AtomicBool::new(false)).unwrap();
    let package = sdk.modules().join("lightstreamer-client-web/package.json");
    let package: serde_json::Value =
        serde_json::from_slice(&std::fs::read(package).unwrap()).unwrap();
    // It has a build date behind it.
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
fn a_browser_is_the_one_named() {
    if std::env::var_os("WEIR_CHROMIUM").is_some() {
        sdk::browser().unwrap();
    }
}

/// Runs one test of this file in an environment where it must fail, and returns what it said.
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
fn missing_programs_are_named() {
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().to_str().unwrap();
    let node = failing("the_node_sdk_loads", &[("PATH", path)]);
    assert!(node.contains("tool: \"node\""), "{node}");
    let python = failing("the_python_sdk_loads", &[("PATH", path)]);
    assert!(python.contains("tool: \"python3\""), "{python}");
    let java = failing("the_java_sdk_loads", &[("PATH", path), ("JAVA_HOME", "")]);
    assert!(java.contains("tool: \"java\""), "{java}");
    let browser = failing("a_browser_is_the_one_named", &[("WEIR_CHROMIUM", path)]);
    assert!(browser.contains("at WEIR_CHROMIUM"), "{browser}");
}

#[test]
fn an_empty_cache_without_network_is_named() {
    let cache = tempfile::tempdir().unwrap();
    let cache_home = cache.path().to_str().unwrap();
    // Where nobody listens: the package tools get a refused connection at once.
    let nowhere = "http://127.0.0.1:9/";
    let common = [
        ("XDG_CACHE_HOME", cache_home),
        ("npm_config_cache", cache_home),
    ];
    let mut environment = common.to_vec();
    environment.push(("npm_config_registry", nowhere));
    let node = failing("the_node_sdk_loads", &environment);
    assert!(
        node.contains("Fetch {") && node.contains("ECONNREFUSED"),
        "{node}"
    );

    let mut environment = common.to_vec();
    environment.push(("PIP_INDEX_URL", nowhere));
    environment.push(("PIP_NO_CACHE_DIR", "1"));
    environment.push(("PIP_NO_INDEX", "0"));
    let python = failing("the_python_sdk_loads", &environment);
    assert!(
        python.contains("Fetch {") && python.contains("refused"),
        "{python}"
    );
    let left = std::fs::read_dir(cache.path().join("weir")).unwrap();
    let names: Vec<_> = left
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names.iter().all(|name| name.ends_with(".lock")),
        "{names:?}"
    );
}
