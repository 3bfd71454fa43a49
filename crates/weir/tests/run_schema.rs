//! `docs/run.schema.json` against the types of `run.json` and the run files of this repository.
//!
//! The schema is derived from the types; their documentation is its descriptions. After a change:
//! `WEIR_UPDATE_FILES=1 cargo test -p weir --test run_schema`.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use support::schema;
use weir_lab::derived_file::assert_derived;

/// Returns every `run.json.gz` below `bench/runs`.
fn stored_runs() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/runs");
    let (mut found, mut dirs) = (Vec::new(), vec![root]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.ends_with("run.json.gz") {
                found.push(path);
            }
        }
    }
    found
}

fn read(path: &Path) -> Value {
    serde_json::from_reader(GzDecoder::new(fs::File::open(path).unwrap())).unwrap()
}

#[test]
fn published_schema_matches_the_types() {
    let derived = format!("{:#}\n", schema::derived());
    assert_derived("docs/run.schema.json", &derived);
}

#[test]
fn stored_runs_match_the_schema() {
    let runs = stored_runs();
    assert!(runs.len() > 3, "{runs:?}");
    for path in runs {
        let found = schema::findings(&read(&path));
        assert!(found.is_empty(), "{}: {found:#?}", path.display());
    }
}

/// Ensures that the test above can fail.
#[test]
fn schema_violations_are_found() {
    let mut runs = stored_runs().into_iter().map(|path| read(&path));
    // Runs that compare client libraries have no cells.
    let good = runs.find(|run| run["cells"][0].is_object()).unwrap();
    let changed = |pointer: &str, value: Value| {
        let mut run = good.clone();
        *run.pointer_mut(pointer).unwrap() = value;
        schema::findings(&run)
    };
    for (pointer, value) in [
        ("/schema", json!("weir.run/9")),
        ("/outcome", json!("fine")),
        ("/cells", json!({})),
        ("/cells/0/clients", json!(-1)),
        ("/cells/0/hold_s", json!("20")),
        ("/cells/0/status", json!({"state": "valid", "why": "later"})),
        ("/machine", json!({"cpu_model": "x"})),
    ] {
        assert!(!changed(pointer, value).is_empty(), "{pointer}");
    }
    let mut more = good.clone();
    more["later"] = json!(1);
    let found = schema::findings(&more);
    assert!(
        found.len() == 1 && found[0].contains("'later'"),
        "{found:?}"
    );
}
