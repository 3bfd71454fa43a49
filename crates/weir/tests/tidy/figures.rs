//! Figures of documents, compared with the stored runs that they come from: `bench/figures.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::Deserialize;
use weir_stats::metric;
use weir_stats::run::{Cell, CellStatus, Run};

use crate::{read, root, settle, table_cells};

const FILE: &str = "bench/figures.toml";

/// Rows of tables, with the source of each number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    row: Vec<FigureRow>,
}

/// A row: the sources of its numbers, by column title and from left to right.
#[derive(Deserialize)]
struct FigureRow {
    document: String,
    /// Text of the row in bold above it, up to its first colon; empty: none.
    #[serde(default)]
    section: String,
    /// First cell.
    name: String,
    #[serde(flatten)]
    columns: BTreeMap<String, Vec<Source>>,
}

/// Where a number comes from. Paths are relative to `bench/runs`.
#[derive(Deserialize, Clone)]
#[serde(untagged, deny_unknown_fields)]
enum Source {
    /// A number that was chosen, not measured.
    Given { given: f64 },
    /// Median of a metric over the valid cells of all runs below a directory.
    Metric {
        run: String,
        metric: String,
        of: String,
        #[serde(default)]
        clients: Option<u64>,
        /// Parameters that the cell has; absent: any.
        #[serde(default)]
        parameters: Option<BTreeMap<String, f64>>,
        /// Unit of the run divided by that of the document.
        #[serde(default = "one")]
        times: f64,
    },
    /// Number of the valid cells of an architecture.
    Windows { run: String, windows: String },
    /// Number in a JSON file, by its pointer.
    Json {
        file: String,
        pointer: String,
        #[serde(default = "one")]
        times: f64,
    },
    /// Number in a line of a text file that starts with `line`, counted from 0 after it.
    Text {
        file: String,
        line: String,
        number: usize,
        #[serde(default = "one")]
        times: f64,
    },
    /// Quotient of two sources, of their medians unless `pairs` says otherwise.
    Ratio {
        ratio: Box<[Self; 2]>,
        #[serde(default)]
        pairs: Option<Pairs>,
    },
    /// Difference of two sources.
    Minus { minus: Box<[Self; 2]> },
}

/// How the quotients of cells in the same order become one number.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Pairs {
    Median,
    /// Geometric mean, as in comparisons.
    Mean,
}

fn one() -> f64 {
    1.0
}

impl Source {
    fn value(&self) -> Result<f64, String> {
        match self {
            Self::Given { given } => Ok(*given),
            Self::Metric { .. } => median(self.values()?),
            Self::Windows { run, windows } => {
                let cells = cells(run, windows)?;
                Ok(cells.len() as f64)
            }
            Self::Json {
                file,
                pointer,
                times,
            } => {
                let value: serde_json::Value =
                    serde_json::from_str(&stored(file)?).map_err(|error| error.to_string())?;
                let number = value.pointer(pointer).and_then(serde_json::Value::as_f64);
                Ok(number.ok_or_else(|| format!("{file} has no number at {pointer}"))? * times)
            }
            Self::Text {
                file,
                line,
                number,
                times,
            } => {
                let text = stored(file)?;
                let rest = text.lines().find_map(|one| one.trim().strip_prefix(line));
                let rest = rest.ok_or_else(|| format!("{file} has no line \"{line}\""))?;
                let found = numbers(rest).get(*number).cloned();
                let found = found.ok_or_else(|| format!("{file}: \"{line}\" is too short"))?;
                Ok(found.0 * times)
            }
            Self::Ratio { ratio, pairs } => {
                let Some(pairs) = pairs else {
                    return Ok(ratio[0].value()? / ratio[1].value()?);
                };
                let cells = ratio[0].values()?.into_iter().zip(ratio[1].values()?);
                let quotients: Vec<f64> = cells.map(|(a, b)| a / b).collect();
                match pairs {
                    Pairs::Median => median(quotients),
                    Pairs::Mean => {
                        let sum: f64 = quotients.iter().map(|quotient| quotient.ln()).sum();
                        Ok((sum / quotients.len() as f64).exp())
                    }
                }
            }
            Self::Minus { minus } => Ok(minus[0].value()? - minus[1].value()?),
        }
    }

    /// Returns the values of the single cells.
    fn values(&self) -> Result<Vec<f64>, String> {
        let Self::Metric {
            run,
            metric,
            of,
            clients,
            parameters,
            times,
        } = self
        else {
            return Ok(vec![self.value()?]);
        };
        let all = cells(run, of)?;
        let wanted = all.iter().filter(|cell| {
            let same = |wanted: &BTreeMap<_, _>| cell.parameters == *wanted;
            clients.is_none_or(|n| cell.clients == n) && parameters.as_ref().is_none_or(same)
        });
        let values = wanted.filter_map(|cell| metric::all_of(cell).get(metric.as_str()).copied());
        Ok(values.map(|value| value * times).collect())
    }
}

fn stored(file: &str) -> Result<String, String> {
    let path = root().join("bench/runs").join(file);
    fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))
}

fn median(mut values: Vec<f64>) -> Result<f64, String> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => Err("no valid cell has this metric".to_owned()),
        odd if odd % 2 == 1 => Ok(values[middle]),
        _ => Ok(f64::midpoint(values[middle - 1], values[middle])),
    }
}

/// Returns the valid cells of an architecture (`of`, or `of/variant`), in all runs below a
/// directory.
fn cells(run: &str, of: &str) -> Result<Vec<Cell>, String> {
    let mut files = Vec::new();
    find_runs(&root().join("bench/runs").join(run), &mut files)?;
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let reader = fs::File::open(&file).map_err(|error| error.to_string())?;
        let run: Run = serde_json::from_reader(GzDecoder::new(reader))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let wanted = |cell: &Cell| {
            let name = match &cell.variant {
                Some(variant) => format!("{}/{variant}", cell.architecture),
                None => cell.architecture.clone(),
            };
            cell.status == CellStatus::Valid && name == of
        };
        found.extend(run.cells.into_iter().filter(wanted));
    }
    Ok(found)
}

fn find_runs(dir: &Path, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            find_runs(&path, found)?;
        } else if path.ends_with("run.json.gz") {
            found.push(path);
        }
    }
    Ok(())
}

/// Returns the numbers of a text with the number of their decimals. Digits in words and link
/// targets are not numbers.
fn numbers(text: &str) -> Vec<(f64, usize)> {
    let targets = regex::Regex::new(r"\]\([^)]*\)|\d{8}T\d{6}Z").expect("a valid pattern");
    let text = targets.replace_all(text, "]");
    let number =
        regex::Regex::new(r"(?:^|[\s(;/~+-])(\d[\d,]*(?:\.\d+)?)").expect("a valid pattern");
    let found = number.captures_iter(&text).map(|found| {
        let digits = found[1].trim_end_matches(',').replace(',', "");
        let decimals = digits.split_once('.').map_or(0, |(_, rest)| rest.len());
        (digits.parse().expect("digits and a point"), decimals)
    });
    found.collect()
}

/// A row of a document: its section, first cell and cells by column title.
struct DocumentRow {
    section: String,
    name: String,
    cells: BTreeMap<String, String>,
}

/// Returns the rows of a table with the column `Weir`.
fn rows(text: &str) -> Vec<DocumentRow> {
    let (mut titles, mut section, mut found) = (Vec::new(), String::new(), Vec::new());
    for line in text.lines() {
        let cells: Vec<String> = match line.strip_prefix('|') {
            Some(rest) => table_cells(rest)
                .iter()
                .map(|cell| cell.trim().to_owned())
                .collect(),
            None => {
                titles.clear();
                continue;
            }
        };
        if titles.is_empty() {
            titles = cells;
        } else if let Some(bold) = cells[0].strip_prefix("**") {
            section = bold.split([':', '*']).next().unwrap_or_default().to_owned();
        } else if titles.iter().any(|title| title == "Weir") && !cells[0].starts_with("---") {
            let name = cells[0].clone();
            let cells = titles.iter().cloned().zip(cells).skip(1).collect();
            let section = section.clone();
            found.push(DocumentRow {
                section,
                name,
                cells,
            });
        }
    }
    found
}

/// Compares the numbers of a cell with their sources.
fn check_cell(text: &str, sources: &[Source]) -> Vec<String> {
    let shown = numbers(text);
    if shown.len() != sources.len() {
        return vec![format!(
            "\"{text}\" has {} numbers, not {}",
            shown.len(),
            sources.len()
        )];
    }
    let differs = |((shown, decimals), source): (&(f64, usize), &Source)| match source.value() {
        Ok(value) => {
            let scale = 10_f64.powi(*decimals as i32);
            let rounded = (value * scale).round() / scale;
            ((rounded - shown).abs() > 1e-9).then(|| format!("\"{text}\": the run has {value}"))
        }
        Err(error) => Some(error),
    };
    shown.iter().zip(sources).filter_map(differs).collect()
}

/// Every number in a table of results is the one of its run, rounded.
#[test]
fn figures_match_stored_runs() {
    let figures: Figures = toml::from_str(&read(&root().join(FILE)))
        .unwrap_or_else(|error| panic!("{FILE}: {}", error.message()));
    let mut findings = Vec::new();
    let documents: BTreeSet<_> = figures
        .row
        .iter()
        .map(|row| row.document.as_str())
        .collect();
    assert!(documents.contains("README.md"), "{documents:?}");
    for document in documents {
        let shown = rows(&read(&root().join(document)));
        assert!(!shown.is_empty(), "{document} has no table of results");
        for row in shown {
            let place = format!("{document}, {}, {}", row.section, row.name);
            let sources = figures.row.iter().find(|figure| {
                (figure.document.as_str(), &figure.section, &figure.name)
                    == (document, &row.section, &row.name)
            });
            for (title, text) in &row.cells {
                let sources = sources.and_then(|one| one.columns.get(title));
                let sources = sources.map_or(&[][..], Vec::as_slice);
                let found = check_cell(text, sources).into_iter();
                findings.extend(found.map(|finding| format!("{place}: {finding}")));
            }
        }
    }
    settle(
        "figures that differ from bench/runs, or without a source in bench/figures.toml:",
        &findings,
    );
}

#[test]
fn wrong_figures_are_found() {
    let given = |value: f64| Source::Given { given: value };
    assert_eq!(check_cell("16.7 us", &[given(16.72)]), Vec::<String>::new());
    assert_eq!(
        check_cell("floor, 1,024.0 us", &[given(1024.04)]),
        Vec::<String>::new()
    );
    assert_eq!(check_cell("16.8 us", &[given(16.72)]).len(), 1);
    assert_eq!(check_cell("16.7 us", &[]).len(), 1);
    assert_eq!(check_cell("", &[given(1.0)]).len(), 1);
    assert_eq!(
        check_cell(
            "[20261121T215901Z](bench/runs/20261121T215901Z); 3",
            &[given(3.0)]
        ),
        Vec::<String>::new()
    );
    let table = "| m | Weir |\n|---|--:|\n| **Keyed:** 10 clients | |\n| CPU | 2 |\n\ntext\n";
    let rows = rows(table);
    assert_eq!(
        (rows.len(), rows[0].section.as_str(), rows[0].name.as_str()),
        (1, "Keyed", "CPU")
    );
}
