//! Sources of numbers: stored runs, and the generated parts of documents, which
//! `bench/published-pages --check` compares with stored runs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use flate2::read::GzDecoder;
use regex::Regex;
use serde::Deserialize;
use weir_stats::metric;
use weir_stats::run::{Cell, CellStatus, Run};

use super::library::LibrarySource;
use super::text;
use crate::{read, root};

/// Sources with a name, which other sources of the same section use.
pub(super) type Names = BTreeMap<String, Source>;

/// Where numbers come from. Paths are relative to `bench/runs`, except those of pages.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Source {
    /// A source of the section, by its name.
    Named(String),
    /// A number that was chosen, not measured.
    Given {
        given: f64,
    },
    /// A metric over the valid cells of all runs below a directory.
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
        #[serde(default)]
        by: Middle,
    },
    /// Number of the valid cells of an architecture.
    Windows {
        run: String,
        windows: String,
    },
    /// Number in a JSON file by its pointer, or several members of the object there.
    Json {
        file: String,
        pointer: String,
        #[serde(default)]
        members: Vec<String>,
        #[serde(default = "one")]
        times: f64,
    },
    /// Numbers in the first group of a pattern, in the lines of a page or of a text file.
    Lines {
        /// Page with generated tables, relative to the repository.
        #[serde(default)]
        page: String,
        /// Heading in the page; empty: everywhere.
        #[serde(default)]
        under: String,
        #[serde(default)]
        file: String,
        matches: String,
        #[serde(default)]
        pick: Pick,
        #[serde(default = "one")]
        times: f64,
    },
    Library(LibrarySource),
    /// Quotient of two sources, of their medians unless `pairs` says otherwise.
    Ratio {
        ratio: Box<[Self; 2]>,
        #[serde(default)]
        pairs: Option<Middle>,
        #[serde(default = "one")]
        times: f64,
    },
    /// Difference of two sources.
    Minus {
        minus: Box<[Self; 2]>,
    },
    /// The lowest of several sources.
    Lowest {
        lowest: Vec<Self>,
    },
    /// The highest of several sources.
    Highest {
        highest: Vec<Self>,
    },
}

/// How several values become one.
#[derive(Deserialize, Clone, Copy, Default)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Middle {
    #[default]
    Median,
    /// Geometric mean, as in comparisons.
    Mean,
}

/// Which of several numbers counts.
#[derive(Deserialize, Clone, Copy, Default, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Pick {
    /// There must be only one.
    #[default]
    Only,
    Lowest,
    Highest,
    Sum,
}

pub(super) fn one() -> f64 {
    1.0
}

impl Middle {
    fn of(self, mut values: Vec<f64>) -> Result<f64, String> {
        if values.is_empty() {
            return Err("no valid cell has this metric".to_owned());
        }
        let count = values.len();
        match self {
            Self::Mean => {
                let sum: f64 = values.iter().map(|value| value.ln()).sum();
                Ok((sum / count as f64).exp())
            }
            Self::Median => {
                values.sort_by(f64::total_cmp);
                let (low, high) = (values[(count - 1) / 2], values[count / 2]);
                Ok(f64::midpoint(low, high))
            }
        }
    }
}

impl Pick {
    fn of(self, values: &[f64]) -> Result<f64, String> {
        match (self, values) {
            (_, []) => Err("no line matches".to_owned()),
            (Self::Sum, _) => Ok(values.iter().sum()),
            (Self::Only, [value]) => Ok(*value),
            (Self::Only, _) => Err(format!("{} lines match", values.len())),
            (Self::Lowest, _) => Ok(values.iter().copied().fold(f64::INFINITY, f64::min)),
            (Self::Highest, _) => Ok(values.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        }
    }
}

impl Source {
    /// Returns the numbers of this source.
    pub(super) fn numbers(&self, names: &Names) -> Result<Vec<f64>, String> {
        match self {
            Self::Named(name) => {
                let source = names.get(name);
                let source = source.ok_or_else(|| format!("there is no source \"{name}\""))?;
                source.numbers(names)
            }
            Self::Json {
                file,
                pointer,
                members,
                times,
            } if !members.is_empty() => {
                let all = members.iter();
                all.map(|member| json(file, &format!("{pointer}/{member}"), *times))
                    .collect()
            }
            Self::Library(library) => library.numbers(),
            _ => Ok(vec![self.value(names)?]),
        }
    }

    fn value(&self, names: &Names) -> Result<f64, String> {
        match self {
            Self::Named(_) | Self::Library(_) => match self.numbers(names)?.as_slice() {
                [value] => Ok(*value),
                other => Err(format!("{} numbers instead of one", other.len())),
            },
            Self::Given { given } => Ok(*given),
            Self::Metric { by, .. } => by.of(self.values(names)?),
            Self::Windows { run, windows } => Ok(cells(run, windows)?.len() as f64),
            Self::Json {
                file,
                pointer,
                times,
                ..
            } => json(file, pointer, *times),
            Self::Lines {
                page,
                under,
                file,
                matches,
                pick,
                times,
            } => {
                let text = match page.as_str() {
                    "" => stored(file)?,
                    page => text::generated(&read(&root().join(page)), under),
                };
                let found = pick.of(&numbers_in_lines(&text, matches)?);
                Ok(found.map_err(|error| format!("{matches}: {error}"))? * times)
            }
            Self::Ratio {
                ratio,
                pairs,
                times,
            } => {
                let Some(middle) = pairs else {
                    return Ok(ratio[0].value(names)? / ratio[1].value(names)? * times);
                };
                let pairs = ratio[0].values(names)?.into_iter();
                let pairs = pairs.zip(ratio[1].values(names)?);
                Ok(middle.of(pairs.map(|(a, b)| a / b).collect())? * times)
            }
            Self::Minus { minus } => Ok(minus[0].value(names)? - minus[1].value(names)?),
            Self::Lowest { lowest: all } => Pick::Lowest.of(&values_of(all, names)?),
            Self::Highest { highest: all } => Pick::Highest.of(&values_of(all, names)?),
        }
    }

    /// Returns the values of the single cells.
    fn values(&self, names: &Names) -> Result<Vec<f64>, String> {
        let (run, name, of, clients, parameters, times) = match self {
            Self::Metric {
                run,
                metric,
                of,
                clients,
                parameters,
                times,
                by: _,
            } => (run, metric, of, clients, parameters, times),
            Self::Named(name) if names.contains_key(name) => return names[name].values(names),
            _ => return Ok(vec![self.value(names)?]),
        };
        let all = cells(run, of)?;
        let wanted = all.iter().filter(|cell| {
            let same = |wanted: &BTreeMap<_, _>| cell.parameters == *wanted;
            clients.is_none_or(|n| cell.clients == n) && parameters.as_ref().is_none_or(same)
        });
        let values = wanted.filter_map(|cell| metric::all_of(cell).get(name.as_str()).copied());
        Ok(values.map(|value| value * times).collect())
    }
}

fn values_of(sources: &[Source], names: &Names) -> Result<Vec<f64>, String> {
    sources.iter().map(|source| source.value(names)).collect()
}

fn numbers_in_lines(text: &str, pattern: &str) -> Result<Vec<f64>, String> {
    let pattern = Regex::new(pattern).map_err(|error| error.to_string())?;
    let found = text.lines().filter_map(|line| pattern.captures(line));
    let number = |digits: &str| {
        digits
            .replace(',', "")
            .parse()
            .map_err(|_| digits.to_owned())
    };
    found.map(|found| number(&found[1])).collect()
}

fn json(file: &str, pointer: &str, times: f64) -> Result<f64, String> {
    let value: serde_json::Value =
        serde_json::from_str(&stored(file)?).map_err(|error| error.to_string())?;
    let number = value.pointer(pointer).and_then(serde_json::Value::as_f64);
    Ok(number.ok_or_else(|| format!("{file} has no number at {pointer}"))? * times)
}

fn stored(file: &str) -> Result<String, String> {
    let path = root().join("bench/runs").join(file);
    let bytes = fs::read(&path).map_err(|error| format!("{file}: {error}"))?;
    let mut text = String::new();
    let result = match path.extension() {
        Some(extension) if extension == "gz" => {
            GzDecoder::new(&bytes[..]).read_to_string(&mut text)
        }
        _ => (&bytes[..]).read_to_string(&mut text),
    };
    result.map_err(|error| format!("{file}: {error}"))?;
    Ok(text)
}

/// Returns the valid cells of an architecture (`of`, or `of/variant`), in all runs below a
/// directory.
fn cells(run: &str, of: &str) -> Result<Vec<Cell>, String> {
    let wanted = |cell: &Cell| {
        let name = match &cell.variant {
            Some(variant) => format!("{}/{variant}", cell.architecture),
            None => cell.architecture.clone(),
        };
        cell.status == CellStatus::Valid && name == of
    };
    let runs = runs_below(run)?;
    let all = runs.iter().flat_map(|run| &run.cells);
    Ok(all.filter(|cell| wanted(cell)).cloned().collect())
}

thread_local! {
    static READ: RefCell<BTreeMap<String, Rc<Vec<Run>>>> = RefCell::default();
}

/// Returns all runs below a directory. Each is parsed once.
pub(super) fn runs_below(dir: &str) -> Result<Rc<Vec<Run>>, String> {
    if let Some(runs) = READ.with_borrow(|read| read.get(dir).cloned()) {
        return Ok(runs);
    }
    let mut files = Vec::new();
    find_runs(&root().join("bench/runs").join(dir), &mut files)?;
    files.sort();
    let parsed = files.iter().map(|file| {
        let reader = fs::File::open(file).map_err(|error| error.to_string())?;
        serde_json::from_reader(GzDecoder::new(reader))
            .map_err(|error| format!("{}: {error}", file.display()))
    });
    let runs = Rc::new(parsed.collect::<Result<Vec<Run>, String>>()?);
    READ.with_borrow_mut(|read| read.insert(dir.to_owned(), Rc::clone(&runs)));
    Ok(runs)
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
