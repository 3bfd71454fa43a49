//! Passes commit, features and target to the binary, for `weir --version`.
//!
//! A development build does not name the commit, so that a commit rebuilds nothing. A release build
//! takes it from the first of these: the variable `WEIR_COMMIT`, the file that `git archive` fills
//! in, the Git repository.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ARCHIVE_FILE}");
    println!("cargo::rerun-if-env-changed=WEIR_COMMIT");
    println!("cargo::rustc-env=WEIR_BUILD_FEATURES={}", features());
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=WEIR_BUILD_TARGET={target}");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given_commit().or_else(archived_commit);
    let commit = match commit {
        Some(commit) => commit,
        None if is_release => git_commit(&root).unwrap_or_else(|| "unknown".to_owned()),
        None => "not recorded in development builds".to_owned(),
    };
    println!("cargo::rustc-env=WEIR_BUILD_COMMIT={commit}");
}

/// Returns the cargo features of this build, in the alphabetical order of their variables.
fn features() -> String {
    let mut features: Vec<String> = std::env::vars()
        .filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase()))
        .filter(|name| name != "default")
        .collect();
    features.sort_unstable();
    match features.is_empty() {
        true => "none".to_owned(),
        false => features.join(", "),
    }
}

/// File whose placeholders `git archive` replaces.
const ARCHIVE_FILE: &str = "archive-commit.txt";

fn given_commit() -> Option<String> {
    std::env::var("WEIR_COMMIT")
        .ok()
        .filter(|commit| !commit.is_empty() && !commit.contains('\n'))
}

fn archived_commit() -> Option<String> {
    let text = std::fs::read_to_string(ARCHIVE_FILE).ok()?;
    let text = text.trim();
    (!text.is_empty() && !text.contains('$')).then(|| text.to_owned())
}

/// Returns the commit of the repository with its date, and a mark for changed files.
fn git_commit(root: &Path) -> Option<String> {
    // A source directory without `.git` may be below another project's repository.
    if !root.join(".git").exists() {
        return None;
    }
    watch(root);
    let commit = git(
        root,
        &["show", "-s", "--format=%h (%cs)", "--abbrev=12", "HEAD"],
    )?;
    let changes = git(root, &["status", "--porcelain", "--untracked-files=no"])?;
    match changes.is_empty() {
        true => Some(commit),
        false => Some(format!("{commit}, with changes")),
    }
}

/// Lets cargo run this script again after a commit, a checkout and a change of the sources.
fn watch(root: &Path) {
    let mut names = vec!["HEAD".to_owned(), "logs/HEAD".to_owned()];
    names.extend(git(root, &["symbolic-ref", "--quiet", "HEAD"]));
    let paths = names
        .iter()
        .filter_map(|name| git(root, &["rev-parse", "--git-path", name]))
        .map(|path| root.join(path));
    let sources = ["crates", "plans", "Cargo.lock", "Cargo.toml"].map(|name| root.join(name));
    // Cargo would run the script each time for a path that does not exist.
    let exists = |path: &PathBuf| path.exists();
    for path in paths.chain(sources).filter(exists) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

fn git(root: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // The sources may belong to another user than the one who builds them.
    command.args(["-c", "safe.directory=*"]).args(args);
    let output = command.current_dir(root).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim().to_owned();
    output.status.success().then_some(text)
}
