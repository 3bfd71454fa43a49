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
