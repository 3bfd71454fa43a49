//! Environment of child processes that are this program again.

use std::process::Command;

/// First parts of the variables that set options of the command line.
pub const OPTION_PREFIXES: &[&str] = &[
    "WEIR_AGENT_",
    "WEIR_BENCH_",
    "WEIR_DEMO_",
    "WEIR_GATEWAY_",
    "WEIR_LAB_",
    "WEIR_LOAD_",
    "WEIR_OPTIONS_",
    "WEIR_PROXY_",
];

/// Removes variables that set options, so that a run measures what its command lines say.
pub fn without_weir_variables(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if OPTION_PREFIXES
            .iter()
            .any(|prefix| text.starts_with(prefix))
        {
            command.env_remove(&name);
        }
    }
    command
}
