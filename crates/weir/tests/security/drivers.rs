//! Other client libraries with the settings that a lab prints: Kafka's Java client, librdkafka and
//! franz-go, each through its driver.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use weir_lab::Lab;

use crate::support::{Process, text, weir};

const DRIVERS: [&str; 3] = ["java", "librdkafka", "franz-go"];
/// They connect, produce, and consume with and without a group.
const CHECKS: &str = "configure,produce.cold,consume.assign,consume.group";

/// Runs the checks of each driver with the client configuration of the lab.
pub(crate) fn check(lab: &Lab, dir: &Path) {
    let settings = lab.client_config();
    let started = DRIVERS.map(|driver| {
        let mut command = weir(&["bench", "check-driver", driver, "--checks", CHECKS]);
        command.arg("--kafka-config").arg(&settings);
        command.arg("--out").arg(dir.join(driver));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        (driver, Process::spawn(&mut command))
    });
    for (driver, process) in started {
        let output = process.output();
        let printed = text(&output.stdout) + &text(&output.stderr);
        if driver == "franz-go" && printed.contains("go not found") {
            let mode = lab.security();
            let reason = printed.lines().next().unwrap_or_default();
            // Written past the capture of test output, for the summary.
            let _ = writeln!(
                std::io::stderr(),
                "\nskipped: driver {driver} in mode {mode}: {reason}"
            );
            continue;
        }
        let security = lab.security();
        assert!(output.status.success(), "{driver}, {security}: {printed}");
        assert!(
            printed.contains("4 passed, 0 failed, 0 skipped"),
            "{driver}, {security}: {printed}"
        );
    }
}
