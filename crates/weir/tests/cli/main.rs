//! End-to-end tests of the gateway and proxy commands.

mod access;
mod gateway;
mod proxy;
mod proxy_explain;
mod proxy_user;
mod quick_start;
mod registry;
mod sessions;
#[path = "../support/mod.rs"]
mod support;
mod take_over;

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_lab::{Lab, LabOptions};

/// Returns the broker of all tests of this program. It ends with the program.
fn broker() -> String {
    static LAB: OnceLock<Lab> = OnceLock::new();
    let lab = LAB.get_or_init(|| {
        let options = LabOptions {
            heap_mb: 256,
            ready_timeout: Duration::from_secs(180),
            ..LabOptions::default()
        };
        Lab::up(&options, &mut |_| {}, &AtomicBool::new(false)).unwrap()
    });
    lab.bootstrap()
}
