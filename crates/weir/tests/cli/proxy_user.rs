//! Tests of `weir proxy user`.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

use super::support::{text, weir};

/// Runs a command of `weir proxy user` with a password on its standard input.
fn user(file: &Path, args: &[&str], password: &str) -> Output {
    let mut command = weir(&["proxy", "user"]);
    command.args(args).arg("--file").arg(file);
    let command = command.stdin(Stdio::piped());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that fails early does not read it.
    let _ = stdin.write_all(password.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn users_are_set_listed_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users");
    assert!(user(&file, &["set", "alice"], "pencil\n").status.success());
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let more = [
        "set",
        "bob",
        "--mechanism",
        "SCRAM-SHA-256",
        "--iterations",
        "4096",
    ];
    assert!(user(&file, &more, "eraser").status.success());
    let stored = std::fs::read_to_string(&file).unwrap();
    assert!(!stored.contains("pencil") && !stored.contains("eraser"));
    let list = text(&user(&file, &["list"], "").stdout);
    let expected = "alice SCRAM-SHA-256 iterations=8192\n\
                    alice SCRAM-SHA-512 iterations=8192\n\
                    bob SCRAM-SHA-256 iterations=4096\n";
    assert_eq!(list, expected);
    let password = dir.path().join("password");
    std::fs::write(&password, "other\n").unwrap();
    let from_file = [
        "set",
        "alice",
        "--password-file",
        password.to_str().unwrap(),
    ];
    assert!(user(&file, &from_file, "").status.success());
    assert_ne!(std::fs::read_to_string(&file).unwrap(), stored);
    assert!(user(&file, &["remove", "alice"], "").status.success());
    let list = text(&user(&file, &["list"], "").stdout);
    assert_eq!(list, "bob SCRAM-SHA-256 iterations=4096\n");
}

#[test]
fn invalid_users_and_passwords_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users");
    for (args, password, reason) in [
        (["set", "a:b"], "pencil", "invalid user name"),
        (["set", "alice"], "", "password: use 1 to 1024 bytes"),
        (["remove", "alice"], "", "No such file"),
        (["list", "--json"], "", "unexpected argument"),
    ] {
        let output = user(&file, &args, password);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(reason), "{stderr}");
        assert!(!file.exists());
    }
    std::fs::write(&file, "alice:SCRAM-SHA-256:salt=\n").unwrap();
    let output = user(&file, &["list"], "");
    let stderr = text(&output.stderr);
    assert!(stderr.contains("line 1: "), "{stderr}");
}
