//! Tests of the command line itself; none needs a broker.

mod support;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
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

#[test]
#[allow(clippy::print_stdout, reason = "says what was skipped")]
fn manual_pages_are_valid() {
    let dir = tempfile::tempdir().unwrap();
    stdout(&["man", dir.path().to_str().unwrap()]);
    let page = dir.path().join("weir-gateway-run.1");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains("\\fB\\-\\-adapters\\fR \\fIFILE\\fR\n"),
        "{page}"
    );
    let Ok(groff) = Command::new("groff").arg("--version").output() else {
        println!("skipped: groff is not installed");
        return;
    };
    assert!(groff.status.success());
    let mut checked = 0;
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let mut groff = Command::new("groff");
        let output = groff
            .args(["-man", "-Tutf8", "-ww"])
            .arg(&path)
            .output()
            .unwrap();
        let warnings = text(&output.stderr);
        assert!(warnings.is_empty(), "{}: {warnings}", path.display());
        checked += 1;
    }
    assert!(checked > 30, "{checked} pages");
}

#[test]
fn completions_offer_plans_and_files() {
    let zsh = stdout(&["completions", "zsh"]);
    let plan = zsh
        .lines()
        .find(|line| line.contains("{compadd -- "))
        .unwrap();
    assert!(
        plan.contains(" keyed ") && plan.contains("_files -g"),
        "{plan}"
    );
    let fish = stdout(&["completions", "fish"]);
    let plan = "__fish_seen_subcommand_from run\" -a \"";
    let line = fish.lines().find(|line| line.contains(plan)).unwrap();
    assert!(line.contains("proxy-overhead"), "{line}");

    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("weir.bash"),
        stdout(&["completions", "bash"]),
    )
    .unwrap();
    std::fs::write(dir.path().join("zebra.toml"), "").unwrap();
    assert_eq!(
        complete(dir.path(), &["weir", "bench", "run", "key"]),
        "keyed"
    );
    assert_eq!(
        complete(dir.path(), &["weir", "gateway", "run", "--adap"]),
        "--adapters"
    );
    let file = ["weir", "gateway", "run", "--adapters", "zeb"];
    assert_eq!(complete(dir.path(), &file), "zebra.toml");
    // No plan: bash completes the name of a file.
    assert_eq!(complete(dir.path(), &["weir", "bench", "run", "zeb"]), "");
    let script = std::fs::read_to_string(dir.path().join("weir.bash")).unwrap();
    assert!(script.contains("complete -F _weir -o nosort -o bashdefault -o default weir"));
}

/// Returns what bash offers for the last of these words.
fn complete(dir: &Path, words: &[&str]) -> String {
    let script = format!(
        "cd {} && . ./weir.bash && COMP_WORDS=({}) COMP_CWORD={} && \
         _weir weir {} {} && echo \"${{COMPREPLY[*]}}\"",
        dir.display(),
        words.join(" "),
        words.len() - 1,
        words[words.len() - 1],
        words[words.len() - 2],
    );
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).trim().to_owned()
}

/// Runs `weir gateway check` with variables of the environment.
fn check(args: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    run(&[&["gateway", "check"], args].concat(), variables)
}

/// Runs a command with variables. Returns its exit code and everything it prints.
fn run(args: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = weir(args).envs(variables.iter().copied()).output().unwrap();
    let printed = text(&output.stdout) + &text(&output.stderr);
    (output.status.code(), printed)
}

#[test]
fn options_come_from_the_environment() {
    let adapters = [("WEIR_GATEWAY_ADAPTERS", "from-environment.xml")];
    let (code, printed) = check(&[], &adapters);
    assert_eq!(code, Some(2));
    assert!(printed.contains("from-environment.xml"), "{printed}");

    // The command line takes precedence.
    let (_, printed) = check(&["--adapters", "typed.xml"], &adapters);
    assert!(printed.contains("typed.xml"), "{printed}");
    assert!(!printed.contains("from-environment.xml"), "{printed}");

    // An empty variable is none.
    let (_, printed) = check(&[], &[("WEIR_GATEWAY_ADAPTERS", "")]);
    assert!(printed.contains("no configuration"), "{printed}");

    // An error names the variable that it comes from.
    let wrong = [adapters[0], ("WEIR_GATEWAY_KAFKA_READER", "other")];
    let (_, printed) = check(&[], &wrong);
    let note = "note: WEIR_GATEWAY_KAFKA_READER is set in the environment\n";
    assert!(printed.ends_with(note), "{printed}");
}

#[test]
fn options_come_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("options.toml");
    std::fs::write(&file, "[gateway]\nadapters = \"from-file.xml\"\n").unwrap();
    let file = file.to_str().unwrap();
    let (code, printed) = check(&["--options-file", file], &[]);
    assert_eq!(code, Some(2));
    assert!(printed.contains("from-file.xml"), "{printed}");
    let variable = ("WEIR_OPTIONS_FILE", file);
    let (_, printed) = check(&[], &[variable]);
    assert!(printed.contains("from-file.xml"), "{printed}");

    // The environment takes precedence over the file, the command line over both.
    let environment = [variable, ("WEIR_GATEWAY_ADAPTERS", "from-environment.xml")];
    let (_, printed) = check(&[], &environment);
    assert!(printed.contains("from-environment.xml"), "{printed}");
    let (_, printed) = check(&["--adapters", "typed.xml"], &environment);
    assert!(printed.contains("typed.xml"), "{printed}");
    assert!(!printed.contains("from-"), "{printed}");

    // Errors name the file.
    std::fs::write(file, "[gateway]\nkafka-reader = \"other\"\n").unwrap();
    let (code, printed) = check(&[], &[variable]);
    assert_eq!(code, Some(2));
    let note = format!("note: WEIR_GATEWAY_KAFKA_READER is set in {file}\n");
    assert!(printed.ends_with(&note), "{printed}");
    std::fs::write(file, "[gateway]\nadapter = \"misspelt.xml\"\n").unwrap();
    let (code, printed) = check(&[], &[variable]);
    assert_eq!(code, Some(2));
    let error = format!("weir: --options-file {file}: \n  adapter in [gateway] is not an option");
    assert!(printed.starts_with(&error), "{printed}");
}

#[test]
fn plan_options_come_from_the_environment() {
    let plan = ["bench", "run", "client-libraries"];
    let cells = ("WEIR_BENCH_CELLS", "produce.warm/100x10");
    let list = ("WEIR_BENCH_LIST_CELLS", "true");
    let (code, printed) = run(&plan, &[cells, list, ("WEIR_BENCH_QUICK", "false")]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("\nproduce.warm/100x10 "), "{printed}");
    let (code, printed) = run(&plan, &[list, ("WEIR_BENCH_LEVELS", "5")]);
    assert_eq!(code, Some(2), "{printed}");
    assert!(
        printed.contains("does not support this option"),
        "{printed}"
    );
}

#[test]
fn help_shows_no_values_of_variables() {
    let secret = [
        ("WEIR_GATEWAY_KAFKA_PROPERTY", "sasl.password=hunter2"),
        ("WEIR_GATEWAY_ADAPTERS", "hunter2.xml"),
    ];
    for option in ["-h", "--help"] {
        let (code, help) = check(&[option], &secret);
        assert!(code == Some(0) && help.contains("--adapters"), "{help}");
        assert!(!help.contains("hunter2"), "{help}");
    }
}

/// Returns the help of a command on a terminal with 80 columns.
fn help(args: &[&str]) -> String {
    let (code, help) = run(args, &[("COLUMNS", "80")]);
    assert_eq!(code, Some(0), "{args:?}: {help}");
    help
}

/// Returns the subcommands that a help lists.
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    // A continued description is indented further.
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn short_help_fits_one_screen() {
    let mut checked = 0;
    let mut commands: Vec<Vec<String>> = vec![Vec::new()];
    let mut too_long = Vec::new();
    while let Some(command) = commands.pop() {
        let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
        args.push("-h");
        let short = help(&args);
        let lines = short.lines().count();
        if lines > 40 {
            too_long.push(format!("{args:?}: {lines} lines\n{short}"));
        }
        checked += 1;
        for name in subcommands(&short) {
            commands.push(command.iter().cloned().chain([name]).collect());
        }
    }
    assert!(checked > 30, "{checked} commands");
    assert!(too_long.is_empty(), "{}", too_long.join("\n"));
}

#[test]
fn tables_fit_the_terminal_without_breaking_words() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/adapters.xml");
    let check = [
        "gateway",
        "check",
        "--offline",
        "--adapters",
        example.to_str().unwrap(),
    ];
    for args in [
        &check[..],
        &["bench", "run", "keyed", "--dry-run"],
        &["bench", "run", "client-libraries", "--list-cells"],
        &["bench", "list"],
    ] {
        let shown = |columns| run(args, &[("COLUMNS", columns)]).1;
        let (narrow, wide) = (shown("80"), shown("500"));
        let words = |text: &str| {
            let mut words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
            words.sort_unstable();
            words
        };
        // A narrow table may have become a list, with a heading in each row.
        let (narrow_words, wide_words) = (words(&narrow), words(&wide));
        let is_whole = |word: &&String| wide_words.binary_search(word).is_ok();
        let broken: Vec<_> = narrow_words.iter().filter(|word| !is_whole(word)).collect();
        assert!(broken.is_empty(), "{args:?}: {broken:?}\n{narrow}");
        assert!(narrow_words.len() >= wide_words.len(), "{args:?}: {narrow}");
        let paths = |line: &&str| !line.contains("/adapters.xml");
        for line in narrow.lines().filter(paths) {
            let length = line.chars().count();
            assert!(length <= 80, "{args:?}, {length} columns: {line}");
        }
    }
}

#[test]
fn help_of_a_plan_has_only_its_options() {
    let all = help(&["bench", "run", "--help"]);
    assert!(
        all.contains("--levels") && all.contains("--disk-cap"),
        "{all}"
    );
    let clients = help(&["bench", "run", "keyed", "--help"]);
    assert!(
        clients.contains("--levels <") && !clients.contains("--disk-cap"),
        "{clients}"
    );
    let libraries = help(&["bench", "run", "--help", "client-libraries"]);
    assert!(
        !libraries.contains("--levels <") && libraries.contains("--disk-cap"),
        "{libraries}"
    );
    for plan in [
        "keyed",
        "broker-sweep",
        "proxy-overhead",
        "client-libraries",
    ] {
        let short = help(&["bench", "run", plan, "-h"]);
        assert!(short.lines().count() <= 40, "{short}");
    }
}

#[test]
fn log_lines_are_json_if_requested() {
    let mut command = weir(&["proxy", "run", "--upstream", "127.0.0.1:1"]);
    command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command
        .env("WEIR_LOG_FORMAT", "json")
        .stderr(Stdio::piped());
    let mut proxy = command.spawn().unwrap();
    let lines = BufReader::new(proxy.stderr.take().unwrap()).lines();
    let found = lines.map(|line| line.unwrap()).find_map(|line| {
        let event: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        let members = event.as_object().unwrap().keys();
        assert_eq!(
            members.collect::<Vec<_>>(),
            ["fields", "level", "message", "target", "time"]
        );
        (event["target"] == "weir_proxy::health").then_some(event)
    });
    proxy.kill().unwrap();
    proxy.wait().unwrap();
    let event = found.unwrap();
    assert_eq!(event["level"], "warn");
    assert_eq!(event["message"], "broker does not respond, retrying");
    assert_eq!(event["fields"]["broker"], "127.0.0.1:1");
    assert_eq!(event["fields"]["error"], "connection refused");
}

#[test]
fn gateways_name_unresponsive_brokers() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/adapters.xml");
    let adapters = std::fs::read_to_string(example).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("adapters.xml");
    std::fs::write(&file, adapters.replace("localhost:9092", "127.0.0.1:1")).unwrap();
    for reader in ["lean", "librdkafka"] {
        let mut command = weir(&["gateway", "run", "--kafka-reader", reader]);
        command.arg("--adapters").arg(&file);
        command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        command
            .env("WEIR_LOG_FORMAT", "json")
            .stderr(Stdio::piped());
        let mut gateway = command.spawn().unwrap();
        let lines = BufReader::new(gateway.stderr.take().unwrap()).lines();
        let mut events = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let found = events.find(|event| {
            assert_ne!(event["target"], "librdkafka", "{event}");
            event["message"] == "Kafka connection not ready, retrying"
        });
        gateway.kill().unwrap();
        gateway.wait().unwrap();
        let error = found.unwrap()["fields"]["error"].to_string();
        let expected = "no broker responds at 127.0.0.1:1 (connection refused)";
        assert!(error.contains(expected), "{reader}: {error}");
    }
}
