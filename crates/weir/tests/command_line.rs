//! Tests of the command line itself; none needs a broker.

mod support;

use support::{text, weir};

/// Returns the standard output of a command that succeeds.
fn stdout(args: &[&str]) -> String {
    let output = weir(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    text(&output.stdout)
}

#[test]
fn long_version_names_commit_and_features() {
    let long = stdout(&["--version"]);
    let (first, rest) = long.split_once('\n').unwrap();
    assert_eq!(first, concat!("weir ", env!("CARGO_PKG_VERSION")));
    let names: Vec<&str> = rest
        .lines()
        .map(|line| line.split_once(' ').unwrap().0)
        .collect();
    assert_eq!(names, ["commit", "features", "target"]);
    let has_gssapi = rest.lines().any(|line| line == "features  gssapi");
    assert_eq!(has_gssapi, cfg!(feature = "gssapi"), "{long}");

    assert_eq!(stdout(&["-V"]), format!("{first}\n"));
}
