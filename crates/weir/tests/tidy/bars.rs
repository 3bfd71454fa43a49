//! Bars do not become laxer in silence: `plans/bars.toml` compared with its versions in git.

use std::collections::BTreeMap;
use std::process::Command;

use toml::{Table, Value};

use crate::{read, root};

const FILE: &str = "plans/bars.toml";

/// One bar: its value, and how many history entries it has.
#[derive(Debug, Clone, PartialEq)]
struct Bar {
    /// Larger is laxer.
    laxness: f64,
    history: usize,
}

/// Parses a version of the file. A removed bar is in `[[removed]]`, with its reason.
fn bars(text: &str) -> Result<BTreeMap<String, Bar>, String> {
    let file: Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let list = |key: &str| {
        file.get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let mut bars = BTreeMap::new();
    for bar in list("removed") {
        let id = require(bar, "id")?;
        ["date", "run", "reason"]
            .iter()
            .try_for_each(|key| require(bar, key).map(drop))?;
        let gone = Bar {
            laxness: f64::INFINITY,
            history: usize::MAX,
        };
        bars.insert(id, gone);
    }
    for bar in list("bars") {
        let id = require(bar, "id")?;
        let number = |key: &str| {
            let value = bar.get(key)?;
            value
                .as_float()
                .or_else(|| Some(value.as_integer()? as f64))
        };
        let lower = || number("at_least").or_else(|| number("lower_bound_at_least"));
        let laxness = number("at_most").or_else(|| Some(-lower()?));
        let laxness = laxness.ok_or_else(|| format!("bar \"{id}\" has no value"))?;
        let history = bar.get("history").and_then(Value::as_array);
        let history = history.map_or(&[][..], Vec::as_slice);
        for entry in history {
            for key in ["date", "change", "run", "reason"] {
                require(entry, key).map_err(|error| format!("bar \"{id}\": {error}"))?;
            }
        }
        let parsed = Bar {
            laxness,
            history: history.len(),
        };
        if bars.insert(id.clone(), parsed).is_some() {
            return Err(format!("two bars have the id \"{id}\""));
        }
    }
    Ok(bars)
}

/// Returns a text that must not be absent or empty.
fn require(table: &Value, key: &str) -> Result<String, String> {
    let text = table.get(key).and_then(Value::as_str).unwrap_or_default();
    match text {
        "" => Err(format!("{key} is missing")),
        text => Ok(text.to_owned()),
    }
}

/// Returns the bars that are laxer than before, or gone, without a new history entry.
fn silently_laxer(old: &BTreeMap<String, Bar>, new: &BTreeMap<String, Bar>) -> Vec<String> {
    let mut found = Vec::new();
    for (id, before) in old {
        match new.get(id) {
            None => found.push(format!("bar \"{id}\" was removed")),
            Some(now) if now.laxness > before.laxness && now.history <= before.history => {
                let (from, to) = (before.laxness.abs(), now.laxness.abs());
                found.push(format!(
                    "bar \"{id}\" went from {from} to {to} without history"
                ));
            }
            Some(_) => {}
        }
    }
    found
}

fn git(arguments: &[&str]) -> String {
    let output = Command::new("git")
        // A clone may belong to another user than the one who tests it.
        .args(["-c", "safe.directory=*"])
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("git is needed to read the history of the bars");
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("bars.toml is UTF-8")
}

#[test]
fn bars_become_laxer_only_with_a_history_entry() {
    let commits = git(&["log", "--reverse", "--format=%H", "--", FILE]);
    let stored = commits
        .lines()
        .map(|commit| git(&["show", &format!("{commit}:{FILE}")]));
    let versions = stored.chain([read(&root().join(FILE))]);
    let versions: Vec<_> = versions.map(|text| bars(&text).unwrap()).collect();
    assert!(versions.last().is_some_and(|bars| bars.len() >= 20));
    let steps = versions.windows(2);
    let findings: Vec<String> = steps
        .flat_map(|step| silently_laxer(&step[0], &step[1]))
        .collect();
    assert!(findings.is_empty(), "{FILE}: {findings:#?}");
}

/// Ensures that the test above can fail.
#[test]
fn laxer_bars_are_found() {
    let text = |value: &str, history: usize| {
        let entry = "[[bars.history]]\ndate=\"d\"\nchange=\"c\"\nrun=\"r\"\nreason=\"w\"\n";
        bars(&format!(
            "[[bars]]\nid=\"a\"\n{value}\n{}",
            entry.repeat(history)
        ))
        .unwrap()
    };
    let found = |old, new| silently_laxer(&old, &new).len();
    assert_eq!(found(text("at_most = 1.1", 0), text("at_most = 1.2", 0)), 1);
    assert_eq!(found(text("at_most = 1.1", 0), text("at_most = 1.2", 1)), 0);
    assert_eq!(
        found(text("at_most = 1.2", 0), text("at_most = 1", 0)),
        0,
        "stricter"
    );
    let lower = "lower_bound_at_least";
    let lax = |value: f64| text(&format!("{lower} = {value}"), 0);
    assert_eq!(found(lax(0.92), lax(0.9)), 1);
    assert_eq!(found(text("at_most = 1", 0), BTreeMap::new()), 1, "removed");
    let removed = bars("[[removed]]\nid=\"a\"\ndate=\"d\"\nrun=\"r\"\nreason=\"w\"").unwrap();
    assert_eq!(found(text("at_most = 1", 0), removed), 0);
    assert!(bars("[[bars]]\nid = \"a\"").is_err(), "no value");
    assert!(bars("[[bars]]\nid=\"a\"\nat_most=1\n[[bars.history]]\ndate=\"d\"").is_err());
}
