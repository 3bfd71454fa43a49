//! The cells of `make published` cover the published tables: `bench/published.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde::Deserialize;

use crate::{read, root, settle};

const FILE: &str = "bench/published.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CellList {
    cell: Vec<ListedCell>,
    table: Vec<PublishedTable>,
    kept: Vec<KeptRun>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedCell {
    name: String,
    minutes: u32,
    #[serde(default)]
    weir: Vec<String>,
    #[serde(default)]
    script: Vec<String>,
}

/// A published table or series, and what stands next to it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedTable {
    publication: String,
    title: String,
    /// Files in `plans/published`; none: a publication without numbers there.
    #[serde(default)]
    file: String,
    /// First columns of its rows.
    #[serde(default)]
    rows: Vec<String>,
    #[serde(default)]
    cells: Vec<String>,
    /// What this machine cannot show.
    reason: Option<String>,
    /// What would show it.
    #[serde(default)]
    command: Option<String>,
}

/// A stored run that is not one of a cell.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptRun {
    publication: String,
    run: String,
}

impl ListedCell {
    /// Returns the loads that the cell runs, of all its options: clients, rates and sizes.
    fn loads(&self) -> BTreeSet<u64> {
        let lists = self.weir.windows(2).filter(|pair| {
            matches!(
                pair[0].as_str(),
                "--levels" | "--rates" | "--record-sizes" | "--target-rates" | "--fetch-sizes"
            )
        });
        let lists = lists.map(|pair| pair[1].as_str());
        let numbers = lists.chain(self.script.get(2).map(String::as_str));
        numbers
            .flat_map(|list| list.split(','))
            .filter_map(|number| match number.strip_suffix('k') {
                Some(thousands) => Some(thousands.parse::<u64>().ok()? * 1000),
                None => number.parse().ok(),
            })
            .collect()
    }
}

/// Rows of a published file: first columns, loads (clients and rates), `true` if a value is there.
fn published_rows(file: &str, keys: usize, loads: &[usize]) -> Vec<(Vec<String>, Vec<u64>)> {
    let text = read(&root().join("plans/published").join(file));
    let rows = text.lines().skip(1).map(|line| {
        let columns: Vec<&str> = line.split(',').collect();
        let key = columns[..keys].iter().map(|&column| column.to_owned());
        let load = loads.iter().map(|&column| columns[column].parse().unwrap());
        (key.collect(), load.collect())
    });
    rows.collect()
}

#[test]
fn published_tables_have_cells_or_reasons() {
    let list: CellList = toml::from_str(&read(&root().join(FILE)))
        .unwrap_or_else(|error| panic!("{FILE}: {}", error.message()));
    let cells: BTreeMap<&str, &ListedCell> = list
        .cell
        .iter()
        .map(|cell| (cell.name.as_str(), cell))
        .collect();
    assert_eq!(cells.len(), list.cell.len(), "names are not unique");
    let mut findings = list_findings(&list, &cells);
    for (file, keys, loads) in [
        ("latency.csv", 2, &[2][..]),
        ("throughput.csv", 2, &[2]),
        ("filtering.csv", 2, &[2, 3]),
        ("client-libraries.csv", 2, &[]),
    ] {
        for (key, load) in published_rows(file, keys, loads) {
            let has_row = |table: &&PublishedTable| {
                table.file.split(", ").any(|one| one == file) && key.starts_with(&table.rows)
            };
            let Some(table) = list.table.iter().find(has_row) else {
                findings.push(format!("{file}: {key:?} is in no table"));
                continue;
            };
            let of_table = table.cells.iter().filter_map(|name| cells.get(&**name));
            let run: BTreeSet<u64> = of_table.flat_map(|cell| cell.loads()).collect();
            // The only client of the filtering tests is no level of the command.
            let missing = load.iter().find(|load| **load != 1 && !run.contains(load));
            if let (Some(missing), None) = (missing, &table.reason) {
                let title = &table.title;
                findings.push(format!(
                    "{file}: {title}: {missing} is in no cell, without a reason"
                ));
            }
        }
    }
    settle("published rows without ours:", &findings);
}

/// README shows no other runs than the pages of the published experiments do.
#[test]
fn readme_cites_published_experiments_only() {
    let list: CellList = toml::from_str(&read(&root().join(FILE)))
        .unwrap_or_else(|error| panic!("{FILE}: {}", error.message()));
    let cells = list
        .cell
        .iter()
        .map(|cell| format!("published/{}", cell.name));
    let kept = list
        .kept
        .iter()
        .filter_map(|kept| kept.run.split('/').next());
    let shown: BTreeSet<String> = cells.chain(kept.map(str::to_owned)).collect();
    let readme = read(&root().join("README.md"));
    let cited: Vec<&str> = readme
        .split("(bench/runs/")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .collect();
    assert!(cited.len() > 5, "{cited:?}");
    let others = cited.iter().filter(|run| !shown.contains(**run));
    let others: Vec<String> = others.map(|run| format!("README.md: {run}")).collect();
    settle(
        "runs that no page of a published experiment shows:",
        &others,
    );
}

/// Tables and charts of the documentation are those of the stored runs.
#[test]
fn pages_show_the_stored_runs() {
    let script = root().join("bench/published-pages");
    let output = Command::new("python3").arg(script).arg("--check").output();
    let output = output.expect("python3 runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}{errors}");
}

fn list_findings(list: &CellList, cells: &BTreeMap<&str, &ListedCell>) -> Vec<String> {
    let mut findings = Vec::new();
    for cell in &list.cell {
        let name = &cell.name;
        if !(1..=90).contains(&cell.minutes) {
            findings.push(format!("{name} does not fit into a call"));
        }
        if cell.weir.is_empty() == cell.script.is_empty() {
            findings.push(format!("{name} needs one command"));
        }
        if !list.table.iter().any(|table| table.cells.contains(name)) {
            findings.push(format!("{name} belongs to no published table"));
        }
    }
    for kept in &list.kept {
        let (run, publication) = (&kept.run, &kept.publication);
        let is_known = list
            .table
            .iter()
            .any(|table| table.publication == *publication);
        if !is_known || !root().join("bench/runs").join(run).is_dir() {
            findings.push(format!("{publication} {run} is not stored"));
        }
    }
    for table in &list.table {
        let title = format!("{} {}", table.publication, table.title);
        for name in &table.cells {
            if !cells.contains_key(name.as_str()) {
                findings.push(format!("{title}: there is no cell {name}"));
            }
        }
        if table.cells.is_empty() && table.reason.is_none() {
            findings.push(format!("{title}: neither cells nor a reason"));
        }
        if table.command.is_some() && table.reason.is_none() {
            findings.push(format!("{title}: a command without a reason"));
        }
    }
    findings
}
