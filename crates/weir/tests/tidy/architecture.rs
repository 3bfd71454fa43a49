//! Files that ARCHITECTURE.md names exist, and a record passes few of them.

use crate::{quoted, read, root, settle};

const DOCUMENT: &str = "ARCHITECTURE.md";
/// Maximum number of files between a broker's response and the socket of a client.
const RECORD_PATH_MAX: usize = 10;
const RECORD_PATH_HEADER: &str = "| file | what happens to a record |";
/// Directories of paths that do not start at the root.
const SHORT_PATHS: [(&str, &str); 1] = [("shard/", "crates/weir-gateway/src/")];

/// Returns the paths of `a/{b,c}.rs`: `a/b.rs` and `a/c.rs`.
fn expand(path: &str) -> Vec<String> {
    let Some((start, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let (names, end) = rest.split_once('}').expect("braces come in pairs");
    let names = names.split(',');
    names
        .flat_map(|name| expand(&format!("{start}{name}{end}")))
        .collect()
}

/// Returns the path from the root if a text in backquotes is the path of a file or directory.
fn path_of(text: &str) -> Option<String> {
    if text.contains(' ') {
        return None;
    }
    let short =
        |(prefix, dir): &(&str, &str)| text.starts_with(prefix).then(|| format!("{dir}{text}"));
    let is_full = text.starts_with("crates/") && text.len() > "crates/".len();
    is_full
        .then(|| text.to_owned())
        .or_else(|| SHORT_PATHS.iter().find_map(short))
}

fn exists(path: &str) -> bool {
    root().join(path).exists() || root().join(format!("{path}.rs")).exists()
}

fn missing(text: &str) -> Vec<String> {
    let paths = quoted(text).filter_map(path_of);
    let mut missing: Vec<_> = paths.flat_map(|path| expand(&path)).collect();
    missing.retain(|path| !exists(path));
    missing
}

#[test]
fn files_of_the_architecture_exist() {
    settle(
        "ARCHITECTURE.md names:",
        &missing(&read(&root().join(DOCUMENT))),
    );
}

#[test]
fn missing_files_are_found() {
    let text = "`crates/weir/src/{main,absent}.rs` and `shard/none.rs`, `crates/weir/src`";
    assert_eq!(
        missing(text),
        [
            "crates/weir/src/absent.rs",
            "crates/weir-gateway/src/shard/none.rs"
        ]
    );
}

#[test]
fn records_pass_at_most_ten_files() {
    let text = read(&root().join(DOCUMENT));
    let (_, rest) = text
        .split_once(RECORD_PATH_HEADER)
        .expect("ARCHITECTURE.md has the table of the record's path");
    let rows = rest
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let files: Vec<_> = rows.filter_map(|row| quoted(row).next()).collect();
    let named = |file: &&str| path_of(file).is_some();
    assert!(!files.is_empty() && files.iter().all(named), "{files:?}");
    assert!(files.len() <= RECORD_PATH_MAX, "{files:?}");
}
