//! The official, unmodified Lightstreamer SDKs for clients and remote adapters, installed once into
//! the per-user cache.

mod adapter;
mod java;
mod node;
pub mod npm;
pub mod python;

use std::fs;
use std::path::Path;

use crate::error::{LabError, Result};

pub use adapter::{
    JAVA_ADAPTER_VERSION, NODE_ADAPTER_VERSION, PYTHON_ADAPTER_VERSION, java_adapter, node_adapter,
    python_adapter,
};
pub use java::{JAVA_SDK_VERSION, JavaSdk, java};
pub use node::{
    AXE_VERSION, NODE_SDK_VERSION, NodeSdk, OLD_NODE_SDK_VERSION, WEB_SDK_VERSION, axe, browser,
    node, old_node, web,
};
pub use python::{
    OLD_PYTHON_SDK_VERSION, PYTHON_SDK_VERSION, PythonSdk, aiokafka, old_python, python,
};

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| LabError::io(format!("write {}", path.display()), error))
}

/// Disk space required for one SDK; the largest one takes 40 MB.
const INSTALL_BYTES: u64 = 100 << 20;
