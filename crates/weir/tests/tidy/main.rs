//! House rules as an ordinary test: crate graph, module circles, words, line lengths, leftovers,
//! links, names.

mod architecture;
mod bars;
mod dependencies;
mod figures;
mod modules;
mod parameters;
mod published;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository.
fn root() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = crate_dir.ancestors().nth(2);
    root.expect("crates/weir lies two levels below the root")
        .to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file of the project: what git tracks or would track.
fn files() -> Vec<String> {
    let output = Command::new("git")
        // A clone may belong to another user than the one who tests it.
        .args(["-c", "safe.directory=*", "ls-files", "--cached", "--others"])
        .arg("--exclude-standard")
        .current_dir(root())
        .output()
        .expect("git is needed to build and test Weir");
    assert!(
        output.status.success(),
        "git ls-files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("our file names are UTF-8");
    let mut files: Vec<_> = text
        .lines()
        .filter(|path| root().join(path).is_file())
        .map(str::to_owned)
        .collect();
    files.sort_unstable();
    files.dedup();
    files
}

/// Returns the Rust files of all crates except those of this test.
fn rust_files() -> Vec<String> {
    files()
        .into_iter()
        .filter(|path| path.starts_with("crates/") && path.ends_with(".rs"))
        .filter(|path| !path.contains("tests/tidy/"))
        .collect()
}

fn crates() -> BTreeSet<String> {
    files()
        .iter()
        .filter_map(|path| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
        .filter(|name| !name.contains('/'))
        .map(str::to_owned)
        .collect()
}

/// Fails with all findings at once.
fn settle(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}\n  {}", findings.join("\n  "));
}

/// Words of `text` in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The crate table of ARCHITECTURE.md: crate to the crates of ours it may use.
fn allowed_edges() -> BTreeMap<String, BTreeSet<String>> {
    let text = read(&root().join("ARCHITECTURE.md"));
    let rows = text.lines().filter(|line| line.starts_with("| `weir"));
    let mut table = BTreeMap::new();
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split('|').collect();
        assert_eq!(
            cells.len(),
            4,
            "ARCHITECTURE.md: a row without four cells: {row}"
        );
        let name = quoted(cells[0])
            .next()
            .expect("the row starts with a quoted name");
        let uses = match cells[2].trim() {
            "all of the above" => table.keys().cloned().collect(),
            uses => quoted(uses).map(str::to_owned).collect(),
        };
        table.insert(name.to_owned(), uses);
    }
    assert!(
        !table.is_empty(),
        "ARCHITECTURE.md: the crate table is gone"
    );
    table
}

/// Our crates that a manifest names, each with whether it is for tests only.
fn dependencies(manifest: &str) -> Vec<(String, bool)> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            if let Some((kind, name)) = section.rsplit_once("dependencies.") {
                found.push((name.to_owned(), kind.ends_with("dev-")));
            }
        } else if section.ends_with("dependencies") {
            let end = line.find(['.', ' ', '=']).unwrap_or(line.len());
            found.push((
                line[..end].to_owned(),
                section.ends_with("dev-dependencies"),
            ));
        }
    }
    found.retain(|(name, _)| name.starts_with("weir"));
    found
}

#[test]
fn crate_graph_is_the_table_of_the_architecture() {
    let allowed = allowed_edges();
    let mut findings = Vec::new();
    for name in crates() {
        let Some(allowed) = allowed.get(&name) else {
            findings.push(format!("{name} has no row in ARCHITECTURE.md"));
            continue;
        };
        for (dependency, for_tests) in dependencies(&manifest(&name)) {
            // Tests may start a broker, and turn on all features of their own crate.
            let serves_tests = for_tests && (dependency == "weir-lab" || dependency == name);
            if !serves_tests && !allowed.contains(&dependency) {
                findings.push(format!("{name} depends on {dependency}"));
            }
        }
    }
    for name in allowed.keys().filter(|name| !crates().contains(*name)) {
        findings.push(format!("{name} is in the table but not in crates/"));
    }
    settle(
        "the crate graph differs from the table in ARCHITECTURE.md:",
        &findings,
    );
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    let findings: Vec<_> = crates()
        .into_iter()
        .filter(|name| name != UNSAFE)
        .filter(|name| !manifest(name).contains("[lints]\nworkspace = true"))
        .collect();
    settle("these crates lack `[lints] workspace = true`:", &findings);
}

/// The crate that may make one unsafe call (decision 0042).
const UNSAFE: &str = "weir-flush";

fn manifest(name: &str) -> String {
    read(&root().join("crates").join(name).join("Cargo.toml"))
}

/// The entries of a manifest's tables whose names end so.
fn entries(manifest: &str, table: &str) -> BTreeSet<String> {
    let lines = manifest.lines().skip_while(|line| !line.ends_with(table));
    let lines = lines.skip(1).take_while(|line| !line.starts_with('['));
    lines
        .filter(|line| line.contains(" = "))
        .map(str::to_owned)
        .collect()
}

fn packages() -> dependencies::Packages {
    let manifests = crates().into_iter().map(|name| {
        let text = manifest(&name);
        (name, text)
    });
    dependencies::Packages::read(manifests, &read(&root().join("Cargo.lock")))
}

/// Link-time optimization takes the level of the last crate for the whole program.
#[test]
fn release_optimizes_the_whole_program_for_speed() {
    let manifest: toml::Table = toml::from_str(&read(&root().join("Cargo.toml"))).expect("TOML");
    let release = manifest["profile"]["release"].as_table().expect("a table");
    assert!(!release.contains_key("opt-level"), "the default is 3");
    let packages = release["package"].as_table().expect("a table");
    assert_eq!(packages["weir"]["opt-level"].as_integer(), Some(2));
    let hot = [
        "weir-fanout",
        "weir-filters",
        "weir-gateway",
        "weir-mapping",
        "weir-net",
    ];
    for name in hot.iter().chain(&["weir-proxy", "weir-tlcp", "weir-wire"]) {
        assert!(
            !packages.contains_key(*name),
            "{name} is on the path of records"
        );
    }
}

#[test]
fn at_most_300_packages_are_locked() {
    let count = packages().locked_count;
    assert!(count <= 300, "Cargo.lock lists {count} packages");
}

#[test]
fn heavy_packages_are_optional() {
    let prefixes = [
        "kube",
        "k8s-openapi",
        "opentelemetry",
        "tracing-opentelemetry",
    ];
    let features = ["gssapi", "gssapi-vendored", "sasl"];
    let findings = packages().not_optional(&prefixes, &features);
    settle("make these a feature that is off by default:", &findings);
}

#[test]
fn oracles_serve_tests_only() {
    // Other implementations of what our code does, and tools of tests.
    const ORACLES: &[&str] = &["boon", "json-patch", "proptest", "syn", "tungstenite"];
    let findings = packages().used_outside_tests(ORACLES);
    settle("move these to [dev-dependencies]:", &findings);
}

#[test]
fn librdkafka_has_three_users() {
    let users = packages().used_outside_tests(&["rdkafka"]);
    let crates = ["weir-drivers", "weir-flush", "weir-kafka"];
    assert_eq!(users, crates.map(|name| format!("{name} uses rdkafka")));
}

#[test]
fn gateway_needs_no_package_of_the_benchmarking_tool() {
    const TOOL: &[&str] = &[
        "weir-bench",
        "weir-drivers",
        "weir-lab",
        "weir-load",
        "weir-report",
    ];
    // Packages that serve the tool only, although foundations use them: as features there.
    const FEATURES: &[&str] = &["hdrhistogram", "schemars", "statrs", "tokio"];
    let findings: Vec<_> = packages()
        .strangers("weir-gateway", TOOL, FEATURES)
        .into_iter()
        .collect();
    settle(
        "the gateway needs these packages, but only the tool uses them:",
        &findings,
    );
}

#[test]
fn no_crate_has_more_than_20_000_lines() {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for path in rust_files() {
        let name = path.split('/').nth(1).unwrap_or_default();
        if path.starts_with(&format!("crates/{name}/src/")) {
            *lines.entry(name.to_owned()).or_default() += read(&root().join(&path)).lines().count();
        }
    }
    assert_eq!(lines.len(), crates().len(), "every crate has lines");
    let large = lines.iter().filter(|(_, lines)| **lines > 20_000);
    let findings: Vec<_> = large
        .map(|(name, lines)| format!("{name}: {lines} lines"))
        .collect();
    settle("split these crates:", &findings);
}

#[test]
fn files_of_a_crate_form_no_circles() {
    let mut findings = Vec::new();
    for name in crates() {
        let src = root().join("crates").join(&name).join("src");
        for circle in modules::circles(&src) {
            let files: Vec<_> = circle
                .iter()
                .map(|file| file.display().to_string())
                .collect();
            findings.push(format!("{name}: {} -> {}", files.join(" -> "), files[0]));
        }
    }
    settle("move what is shared to a file of its own:", &findings);
}

/// Returns `true` for files that are data, generated or from elsewhere.
fn is_data(path: &str) -> bool {
    // Old names, too, in the list of renamed ones.
    const PATHS: [&str; 4] = [
        "bench/runs/",
        "plans/published/",
        "fuzz/seeds/",
        "docs/renamed-0.2.md",
    ];
    const ENDS: [&str; 5] = [".json", ".lock", "LICENSE", "NOTICE", "package-lock.json"];
    PATHS.iter().any(|prefix| path.starts_with(prefix))
        || ENDS.iter().any(|end| path.ends_with(end))
        || path.to_lowercase().contains("uplot")
        || path.contains("tests/tidy/")
}

#[test]
fn texts_use_words_of_the_field() {
    let test = words::WordTest::new();
    let mut findings = Vec::new();
    let mut checked = 0;
    for path in files().into_iter().filter(|path| !is_data(path)) {
        // Binary files have no words.
        if let Ok(text) = fs::read_to_string(root().join(&path)) {
            findings.extend(test.findings(&path, &text));
            checked += 1;
        }
    }
    assert!(checked > 700, "{checked} files");
    settle("see CONTRIBUTING.md, \"Words\":", &findings);
}

#[test]
fn lines_have_at_most_100_characters() {
    let mut findings = Vec::new();
    for path in files().into_iter().filter(|path| !is_data(path)) {
        let is_markdown = path.ends_with(".md");
        if !is_markdown && !path.ends_with(".rs") {
            continue;
        }
        let mut fenced = false;
        for (number, line) in (1..).zip(read(&root().join(&path)).lines()) {
            fenced ^= is_markdown && line.trim_start().starts_with("```");
            let is_table = line.trim_start().starts_with('|');
            let has_link = line.contains("](") || line.contains("://");
            let is_exempt = is_markdown && (fenced || is_table || has_link);
            if !is_exempt && line.chars().count() > 100 {
                findings.push(format!("{path}:{number}"));
            }
        }
    }
    settle("lines over 100 characters:", &findings);
}

/// No script runs documentation tests: a test belongs into a test module.
#[test]
fn comments_contain_no_rust_code_blocks() {
    let mut findings = Vec::new();
    for path in rust_files() {
        let mut is_open = false;
        for (number, line) in (1..).zip(read(&root().join(&path)).lines()) {
            let comment = ["//!", "///"]
                .iter()
                .find_map(|mark| line.trim_start().strip_prefix(mark));
            let Some(language) = comment.and_then(|text| text.trim().strip_prefix("```")) else {
                continue;
            };
            if !is_open && matches!(language, "" | "rust" | "should_panic" | "no_run") {
                findings.push(format!("{path}:{number}"));
            }
            is_open = !is_open;
        }
    }
    settle(
        "give these code blocks a language, for example `text`:",
        &findings,
    );
}

#[test]
fn one_call_is_unsafe() {
    let (everywhere, there) = (read(&root().join("Cargo.toml")), manifest(UNSAFE));
    for table in ["lints.rust]", "lints.clippy]"] {
        let mut expected = entries(&everywhere, table);
        if expected.remove("unsafe_code = \"forbid\"") {
            expected.insert("unsafe_code = \"deny\"".to_owned());
        }
        assert!(!expected.is_empty(), "Cargo.toml has no [workspace.{table}");
        assert_eq!(entries(&there, table), expected, "{UNSAFE}: [{table}");
    }
    let files = rust_files();
    let own = files
        .iter()
        .filter(|path| path.starts_with(&format!("crates/{UNSAFE}/")));
    let calls: usize = own
        .map(|path| read(&root().join(path)).matches("unsafe {").count())
        .sum();
    assert_eq!(calls, 1, "unsafe blocks in {UNSAFE}");
}

#[test]
fn no_file_grows_past_800_lines() {
    let findings: Vec<_> = rust_files()
        .into_iter()
        .map(|path| (read(&root().join(&path)).lines().count(), path))
        .filter(|(lines, _)| *lines > 800)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    settle("look for a piece that wants its own file:", &findings);
}

#[test]
fn no_leftovers() {
    const LEFTOVERS: [&str; 8] = [
        "todo!",
        "unimplemented!",
        "dbg!",
        "#[ignore",
        "FIXME",
        "XXX",
        "TODO",
        "thread::sleep(Duration::from_secs",
    ];
    let mut findings = Vec::new();
    for path in rust_files() {
        for (number, line) in read(&root().join(&path)).lines().enumerate() {
            for leftover in LEFTOVERS.iter().filter(|word| line.contains(*word)) {
                findings.push(format!("{path}:{}: {leftover}", number + 1));
            }
        }
    }
    settle("finish these:", &findings);
}

#[test]
fn pure_crates_stay_pure() {
    const PURE: [&str; 7] = [
        "crates/weir-tlcp/src/",
        "crates/weir-formats/src/",
        "crates/weir-mapping/src/",
        "crates/weir-identity/src/",
        "crates/weir-stats/src/",
        "crates/weir-wire/src/",
        "crates/weir-fanout/src/",
    ];
    const BANNED: [&str; 9] = [
        "std::net",
        "std::fs",
        "std::thread",
        "std::process",
        "Instant",
        "SystemTime",
        "tokio::",
        "rand::",
        "mio::",
    ];
    let mut findings = Vec::new();
    for path in rust_files() {
        if !PURE.iter().any(|prefix| path.starts_with(prefix)) {
            continue;
        }
        for (number, line) in read(&root().join(&path)).lines().enumerate() {
            let code = line.split("//").next().unwrap_or(line);
            for word in BANNED.iter().filter(|word| has_word(code, word)) {
                findings.push(format!("{path}:{}: {word}", number + 1));
            }
        }
    }
    settle(
        "pure crates take time, bytes and randomness as arguments:",
        &findings,
    );
}

/// Whether `word` stands in `code` and does not continue another identifier before it.
fn has_word(code: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(inside) && (word.ends_with(':') || !after.is_some_and(inside))
    })
}

const DECISION_PARTS: [&str; 5] = ["Decision", "Reason", "Cost", "Rejected", "Revisit when"];

#[test]
fn decisions_are_numbered_complete_and_listed() {
    let index = read(&root().join("docs/decisions/README.md"));
    let mut findings = Vec::new();
    let decisions: Vec<_> = files()
        .into_iter()
        .filter_map(|path| path.strip_prefix("docs/decisions/").map(str::to_owned))
        .filter(|name| name != "README.md")
        .collect();
    for (place, name) in decisions.iter().enumerate() {
        let number = format!("{:04}", place + 1);
        if !name.starts_with(&format!("{number}-")) {
            findings.push(format!(
                "{name}: {number} should come here (numbers have no gaps)"
            ));
        }
        let text = read(&root().join("docs/decisions").join(name));
        let heading = text.lines().next().unwrap_or_default();
        let title = heading.strip_prefix(&format!("# {}: ", &name[..4]));
        let row = title.map(|title| format!("]({name}) | {title} "));
        if row.is_none_or(|row| !index.contains(&row)) {
            findings.push(format!(
                "{name}: docs/decisions/README.md must list it with its title"
            ));
        }
        let missing = DECISION_PARTS
            .iter()
            .filter(|part| !text.contains(&format!("\n**{part}")));
        findings.extend(missing.map(|part| format!("{name} has no part \"{part}\"")));
    }
    settle("docs/decisions:", &findings);
}

/// The binary and tests may use texts as errors.
#[test]
fn errors_of_libraries_have_types() {
    let is_library = |path: &&String| {
        let is_test = path.ends_with("tests.rs") || path.contains("/tests/");
        path.contains("/src/") && !path.starts_with("crates/weir/") && !is_test
    };
    let mut findings = Vec::new();
    for path in rust_files().iter().filter(is_library) {
        let text = read(&root().join(path));
        let (code, _) = text.split_once("\nmod tests {").unwrap_or((&text, ""));
        let is_text = |line: &&str| line.contains(", String>") && line.contains("Result<");
        let found = code.lines().filter(is_text);
        // The value type of a map is not an error type.
        let found = found.filter(|line| !line.contains("Map<"));
        findings.extend(found.map(|line| format!("{path}: {}", line.trim())));
    }
    settle("errors that are texts instead of types:", &findings);
}

#[test]
fn every_conformance_case_is_documented() {
    let cases = read(&root().join("crates/weir/tests/conformance/cases.rs"));
    let document = read(&root().join("docs/conformance.md"));
    let start = cases.find("const CASES").expect("cases are listed");
    let end = cases.find("const OF_OLD").expect("old releases follow");
    let name = |line: &str| {
        let rest = line.trim().strip_prefix("(\"")?;
        Some(rest.split_once("\", ")?.0.to_owned())
    };
    let names: Vec<_> = cases[start..end].lines().filter_map(name).collect();
    assert!(names.len() > 50, "{names:?}");
    let is_absent = |name: &&String| !document.contains(&format!("`{name}`"));
    let findings: Vec<_> = names.iter().filter(is_absent).cloned().collect();
    settle("docs/conformance.md has no row for", &findings);
}

/// Raw logs and reports can be made again; `bench/archive` keeps the rest.
#[test]
fn kept_runs_are_small() {
    let runs: Vec<_> = files()
        .into_iter()
        .filter(|path| path.starts_with("bench/runs/"))
        .collect();
    let size = |path: &String| fs::metadata(root().join(path)).map_or(0, |data| data.len());
    let bytes: u64 = runs.iter().map(size).sum();
    assert!(bytes > 0 && bytes < 2 << 20, "{bytes} bytes in bench/runs");
    let raw = |path: &&String| {
        ![".gz", ".md", ".json", ".txt"]
            .iter()
            .any(|end| path.ends_with(end))
    };
    let findings: Vec<String> = runs.iter().filter(raw).cloned().collect();
    settle("bench/runs keeps run.json.gz and summaries", &findings);
}

#[test]
fn relative_links_in_markdown_resolve() {
    let mut findings = Vec::new();
    for path in files().into_iter().filter(|path| path.ends_with(".md")) {
        let text = read(&root().join(&path));
        let dir = root().join(&path);
        let dir = dir.parent().expect("a file lies in a directory");
        for target in links(&text) {
            let target = target.split(['#', ' ']).next().unwrap_or_default();
            let foreign = target.contains("://") || target.starts_with("mailto:");
            if !target.is_empty() && !foreign && !dir.join(target).exists() {
                findings.push(format!("{path}: {target}"));
            }
        }
    }
    settle("these links lead nowhere:", &findings);
}

/// Link targets outside code: what stands between `](` and `)`.
fn links(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut targets = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Even pieces between backquotes are text, odd ones code.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for rest in prose.split("](").skip(1) {
            targets.extend(rest.split_once(')').map(|(target, _)| target.to_owned()));
        }
    }
    targets
}

#[test]
fn markdown_tables_have_equal_rows() {
    let mut findings = Vec::new();
    for path in files().into_iter().filter(|path| path.ends_with(".md")) {
        let text = read(&root().join(&path));
        let wrong = broken_tables(&text).into_iter();
        findings.extend(wrong.map(|(line, what)| format!("{path}:{line}: {what}")));
    }
    settle("these tables are not shown as tables:", &findings);
}

/// Lines of tables, outside code, that do not belong to a table or have too few or too many cells.
fn broken_tables(text: &str) -> Vec<(usize, String)> {
    let mut findings = Vec::new();
    let mut fenced = false;
    // Rows so far and cells of the first of them.
    let (mut rows, mut cells) = (0, 0);
    for (line, text) in (1..).zip(text.lines().chain([""])) {
        let text = text.trim();
        fenced ^= text.starts_with("```");
        if fenced || !text.starts_with('|') {
            if rows == 1 {
                findings.push((line - 1, "a row without a heading".to_owned()));
            }
            rows = 0;
            continue;
        }
        rows += 1;
        let found = table_cells(text);
        let is_rule = found.iter().all(|cell| {
            let dashes = cell.trim().trim_start_matches(':').trim_end_matches(':');
            !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-')
        });
        match rows {
            1 => cells = found.len(),
            2 if !is_rule => findings.push((line, "no line of dashes under the heading".into())),
            _ if found.len() != cells => {
                findings.push((line, format!("{} cells instead of {cells}", found.len())));
            }
            _ => {}
        }
    }
    findings
}

/// The cells of a row: what stands between bars that have no backslash before them.
fn table_cells(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut escaped = false;
    for c in row.strip_prefix('|').unwrap_or(row).chars() {
        match c {
            '|' if !escaped => cells.push(String::new()),
            c => cells.last_mut().expect("there is always one").push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    // Text after the closing bar is not a cell.
    if cells.last().is_some_and(|last| last.trim().is_empty()) {
        cells.pop();
    }
    cells
}

#[test]
fn broken_tables_are_found() {
    let good = "| a | b |\n|---|--:|\n| `x \\| y` | 2 |\n\ntext\n```\n| no table\n```\n";
    assert_eq!(broken_tables(good), []);
    let rows = [
        ("| a | b |\n|---|---|\n\n| 1 | 2 |\n", 4),
        ("| a | b |\n|---|---|\n| 1 |\n", 3),
        ("| a | b |\n|---|---|\n| `x | y` | 2 |\n", 3),
        ("| a | b |\n| 1 | 2 |\n", 2),
    ];
    for (text, line) in rows {
        let lines: Vec<_> = broken_tables(text).iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [line], "{text}");
    }
}

#[test]
fn no_machine_paths_or_registry_hosts() {
    // In pieces, so that this file does not find itself.
    let banned = [
        concat!("/wo", "rk/"),
        concat!("/home", "/"),
        concat!("repo1.", "maven"),
        concat!("registry.", "npmjs"),
        concat!("static.", "crates"),
        concat!("index.", "crates"),
        concat!("files.", "pythonhosted"),
        concat!("pypi.", "org"),
        concat!("deb.", "debian"),
    ];
    let mut findings = Vec::new();
    for path in files() {
        let locked = ["Cargo.lock", "package-lock.json"]
            .iter()
            .any(|name| path.ends_with(name));
        // Binary files (seeds of fuzz targets) are not text and name nothing.
        let Ok(text) = fs::read_to_string(root().join(&path)) else {
            continue;
        };
        for (number, line) in text.lines().enumerate().filter(|_| !locked) {
            for host in banned.iter().filter(|host| line.contains(*host)) {
                findings.push(format!("{path}:{}: {host}", number + 1));
            }
        }
    }
    settle(
        "a clone on another machine has no use for these:",
        &findings,
    );
}

#[test]
fn every_metric_is_documented() {
    let docs: String = files()
        .iter()
        .filter(|path| path.starts_with("docs/") && path.ends_with(".md"))
        .map(|path| read(&root().join(path)))
        .collect();
    let mut findings = Vec::new();
    for path in files() {
        let metrics = [
            "crates/weir-gateway/src/metrics",
            "crates/weir-proxy/src/metrics",
            "crates/weir-proxy/src/counters",
            "crates/weir-filters/src/counters",
        ];
        if !metrics.iter().any(|prefix| path.starts_with(prefix)) || !path.ends_with(".rs") {
            continue;
        }
        for name in metric_names(&read(&root().join(&path))) {
            // Counters are defined without the suffix that they are written with.
            if !has_word(&docs, &name) && !has_word(&docs, &format!("{name}_total")) {
                findings.push(format!("{path}: {name}"));
            }
        }
    }
    settle("these metrics are missing in docs/:", &findings);
}

/// String literals of the form `"weir_..."`.
fn metric_names(code: &str) -> BTreeSet<String> {
    code.split('"')
        .skip(1)
        .step_by(2)
        .filter(|text| text.starts_with("weir_"))
        .filter(|text| {
            text.chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        })
        .map(str::to_owned)
        .collect()
}
