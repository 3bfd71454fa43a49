//! Runs the commands of the README: every fenced block marked `sh test`, with the built binary, in
//! a directory that contains only the examples.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// Returns the blocks of `text` fenced as "```sh test" with their first line numbers.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line) {
            (None, "```sh test") => open = Some((index + 2, String::new())),
            (None, _) => {}
            (Some(_), "```") => blocks.extend(open.take()),
            (Some((_, block)), line) => {
                block.push_str(line);
                block.push('\n');
            }
        }
    }
    blocks
}

#[test]
fn readme_commands_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("README.md")).expect("README.md is readable");
    let blocks = blocks(&text);
    assert!(
        !blocks.is_empty(),
        "README.md has no block marked `sh test`"
    );

    let binary = Path::new(env!("CARGO_BIN_EXE_weir"));
    let mut path = vec![binary.parent().expect("a binary lies in a dir").to_owned()];
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let path = env::join_paths(path).expect("the dir's name has no separator");

    for (line, block) in blocks {
        let dir = tempfile::tempdir().expect("a temporary dir can be made");
        symlink(root.join("examples"), dir.path().join("examples"))
            .expect("a link can be made in an empty dir");
        let output = Command::new("bash")
            .args(["-eu", "-o", "pipefail", "-c", &block])
            .current_dir(dir.path())
            .env("PATH", &path)
            .output()
            .expect("bash can be started");
        assert!(
            output.status.success(),
            "README.md line {line}: {}\n{block}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
