//! The workflow that measures pull requests: external code has no access to the write token, and
//! its scripts work as written.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn workflow() -> String {
    fs::read_to_string(root().join(".github/workflows/proxy-performance.yml")).unwrap()
}

/// Returns the block below a line by its deeper indentation, without comments.
fn below(text: &str, line: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = text.lines().skip_while(|found| *found != line).skip(1);
    let depth = indent(line);
    let mut block = String::new();
    for line in lines.by_ref() {
        if !line.trim().is_empty() && indent(line) <= depth {
            break;
        }
        if !line.trim_start().starts_with('#') {
            block.push_str(line);
            block.push('\n');
        }
    }
    assert!(!block.is_empty(), "nothing below {line:?}");
    block
}

fn job(name: &str) -> String {
    below(&workflow(), &format!("  {name}:"))
}

fn permissions(job: &str) -> Vec<String> {
    let block = below(job, "    permissions:");
    block.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn jobs_with_write_token_run_no_external_code() {
    let text = workflow();
    assert!(text.contains("\npermissions: {}\n"), "nothing by default");
    // With this trigger, the code of a pull request would run with the permissions of the
    // repository.
    assert!(!text.contains("pull_request_target"));
    assert!(
        !text.contains("${{ secrets"),
        "the job's own token is enough"
    );
    let jobs = below(&text, "jobs:");
    let names: Vec<&str> = jobs
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .map(|line| line.trim().trim_end_matches(':'))
        .collect();
    assert_eq!(names, ["allow", "measure", "compare", "post"]);
    assert_eq!(permissions(&job("allow")), ["pull-requests: read"]);
    assert_eq!(permissions(&job("measure")), ["contents: read"]);
    assert_eq!(
        permissions(&job("compare")),
        ["contents: read", "actions: read"]
    );
    assert_eq!(permissions(&job("post")), ["pull-requests: write"]);
    for name in ["allow", "post"] {
        let job = job(name);
        for word in ["checkout", "cargo", "scripts/", "target/"] {
            assert!(!job.contains(word), "{word} in {name}");
        }
    }
}

#[test]
fn external_code_gets_no_token_and_matches_the_review() {
    let allow = job("allow");
    for word in ["OWNER", "MEMBER", "COLLABORATOR"] {
        assert!(allow.contains(&format!("\"{word}\"")), "{word}");
    }
    assert!(
        !allow.contains("CONTRIBUTOR\""),
        "who once had something merged"
    );
    let measure = job("measure");
    assert!(measure.contains("ref: ${{ needs.allow.outputs.commit }}"));
    assert!(measure.contains("needs: allow\n"));
    assert!(!measure.contains("github.token") && !measure.contains("GH_TOKEN"));
    let compare = job("compare");
    assert!(compare.contains("ref: ${{ github.event.repository.default_branch }}"));
    assert!(
        !compare.contains("needs.allow"),
        "it knows nothing of the pull request"
    );
    for job in [&measure, &compare] {
        assert!(job.contains("persist-credentials: false"));
    }
}

#[test]
fn scripts_contain_no_user_input_and_no_cache() {
    for file in fs::read_dir(root().join(".github/workflows")).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        let mut code = code.filter(|line| line.contains("cache"));
        assert_eq!(code.next(), None, "{path:?}: measured code could write it");
        let mut script = None;
        for line in text.lines() {
            let indent = line.len() - line.trim_start().len();
            if script.is_some_and(|depth| indent <= depth && !line.trim().is_empty()) {
                script = None;
            }
            let begins = line
                .trim_start()
                .trim_start_matches("- ")
                .starts_with("run:");
            if begins {
                script = Some(indent);
            }
            assert!(
                script.is_none() || !line.contains("${{"),
                "{path:?}: {line}"
            );
        }
    }
}

/// Returns the script of the step with this name or id.
fn script(job: &str, step: &str) -> String {
    let step = below(job, step);
    let run = step.lines().find(|line| line.trim() == "run: |");
    below(&step, run.expect("a script"))
}

/// A directory for running scripts, with replacement programs first in PATH.
struct ScriptDir(tempfile::TempDir);

impl ScriptDir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.0.path().join("bin").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, script: &str, variables: &[(&str, &str)]) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}/bin:{path}", self.0.path().display());
        let output = self.0.path().join("output");
        fs::write(&output, "").unwrap();
        Command::new("bash")
            .args(["-e", "-c", script])
            .current_dir(&self.0)
            .env("PATH", path)
            .env("GITHUB_OUTPUT", &output)
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap()
    }
}

#[test]
fn commits_pushed_after_the_comment_are_rejected() {
    let job = job("allow");
    let script = script(&job, "      - id: head");
    let sha = "0123456789abcdef0123456789abcdef01234567";
    let allowed = |repository: &str, commit: &str, pushed: &str| {
        let place = ScriptDir::new();
        place.program("gh", &format!("echo '{repository} {commit} {pushed}'\n"));
        let variables = [
            ("EVENT", "issue_comment"),
            ("REPOSITORY", "weir/weir"),
            ("COMMIT", "of the default branch"),
            ("PULL", "7"),
            ("COMMENTED", "2026-11-22T10:00:00Z"),
        ];
        let output = place.run(&script, &variables);
        output.status.success().then(|| place.read("output"))
    };
    assert_eq!(
        allowed("some/fork", sha, "2026-11-22T09:59:59Z").expect("allowed"),
        format!("repository=some/fork\ncommit={sha}\n")
    );
    let refused = [
        ("some/fork", sha, "2026-11-22T10:00:00Z"),
        ("some/fork", sha, "2026-11-22T10:00:01Z"),
        ("some/fork", "main", "2026-11-22T09:00:00Z"),
        ("some/fork;x", sha, "2026-11-22T09:00:00Z"),
        // A deleted fork.
        ("", sha, ""),
    ];
    for (repository, commit, pushed) in refused {
        let outcome = allowed(repository, commit, pushed);
        assert_eq!(outcome, None, "{repository} {commit} {pushed}");
    }
}

#[test]
fn properties_are_separate_arguments_and_limits_are_results() {
    let job = job("measure");
    let script = script(&job, "      - name: Measure");
    let place = ScriptDir::new();
    place.program(
        "weir",
        "mkdir -p runs/1; printf '%s\\n' \"$@\" >runs/1/run.json; exit $CODE\n",
    );
    fs::create_dir_all(place.0.path().join("target/release")).unwrap();
    let (from, to) = ("bin/weir", "target/release/weir");
    fs::rename(place.0.path().join(from), place.0.path().join(to)).unwrap();
    let variables = |code| {
        [
            ("MESSAGES", "1000"),
            ("SIZE", "100"),
            ("PROPERTIES", "acks=all linger.ms=*"),
            ("CODE", code),
        ]
    };
    assert!(place.run(&script, &variables("1")).status.success());
    let arguments = place.read("result/run.json");
    let wanted = "--kafka-property\nacks=all\n--kafka-property\nlinger.ms=*\n--out\nruns\n";
    assert!(arguments.ends_with(wanted), "{arguments}");
    fs::remove_dir_all(place.0.path().join("result")).unwrap();
    assert!(!place.run(&script, &variables("4")).status.success());
}
