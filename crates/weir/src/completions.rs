//! Shell completions: those of clap, and built-in plans next to plan files.

use clap_complete::Shell;

use crate::cli;
use crate::cmd::plan_name;

/// Returns the completion script for a shell.
pub(crate) fn script(shell: Shell) -> String {
    let mut written = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "weir", &mut written);
    let script = String::from_utf8_lossy(&written).into_owned();
    let names = plan_name::names().collect::<Vec<_>>().join(" ");
    match shell {
        // Completes file names if no plan matches.
        Shell::Bash => script,
        Shell::Zsh => {
            let only_plans = format!(":({names})'");
            let also_files = format!(":{{compadd -- {names}; _files -g \"*.toml(-.)\"}}'");
            script.replace(&only_plans, &also_files)
        }
        // The generator writes options only; files are completed by default.
        Shell::Fish => script + &fish_plans(&names),
        _ => script,
    }
}

fn fish_plans(names: &str) -> String {
    let of = |command: &str| {
        format!(
            "complete -c weir -n \"__fish_weir_using_subcommand bench; \
             and __fish_seen_subcommand_from {command}\" -a \"{names}\" -d 'Built-in plan'\n"
        )
    };
    ["run", "find-max"].map(of).concat()
}
