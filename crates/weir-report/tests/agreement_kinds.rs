//! Property: searches, sweeps, comparisons of proxies and of client libraries have the same answer
//! and the same values in every format, with and without an A/A test.

mod common;

use std::collections::BTreeMap;

use common::agreement::{Formats, by_id, head_agrees, plain, text_of};
use common::libraries;
use common::page::Page;
use proptest::prelude::*;
use roxmltree::Node;
use weir_report::{overhead_table, render_find_max};
use weir_stats::answer;
use weir_stats::run::{
    Cell, CellStatus, Confidence, Derived, DerivedFrom, FindMax, FindMaxOutcome, FindMaxPhase,
    FindMaxStep, Run, RunOutcome, SCHEMA,
};

/// Returns the run with everything that follows from its results, as the runner writes it.
fn concluded(run: Run) -> Run {
    let mut run = Run {
        schema: SCHEMA.to_owned(),
        title: "Generated".to_owned(),
        question: "Which is it?".to_owned(),
        started_utc: "2026-11-22T04:34:32Z".to_owned(),
        verdict: "a verdict".to_owned(),
        outcome: RunOutcome::Complete,
        ..run
    };
    run.aa_test = answer::noise_floor(&run);
    run.confidence = Confidence::of(&run);
    run.answer = answer::answer(&run);
    run.headline = answer::headline(&run);
    run
}

/// Returns the fields of the rows of all tables in an element, without headings.
fn page_rows(element: Node<'_, '_>) -> Vec<Vec<String>> {
    let is_row = |it: &Node<'_, '_>| {
        it.has_tag_name("tr") && !it.ancestors().any(|above| above.has_tag_name("thead"))
    };
    let fields = |row: Node<'_, '_>| {
        let cells = row.children().filter(Node::is_element);
        cells.map(|it| text_of(it).trim().to_owned()).collect()
    };
    element.descendants().filter(is_row).map(fields).collect()
}

/// Returns the fields of the rows of all tables below a heading, without headings. Reasons end a
/// row.
fn markdown_rows(markdown: &str, title: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for part in markdown
        .split("\n## ")
        .filter(|part| part.starts_with(title))
    {
        let tables = part.split("\n\n").filter(|it| it.starts_with('|'));
        for line in tables.flat_map(|it| it.lines().skip(2)) {
            let line = line.trim_start_matches("| ").trim_end_matches(" |");
            let mut row: Vec<String> = line.split(" | ").map(|it| plain(it.trim())).collect();
            while row.last().is_some_and(String::is_empty) {
                row.pop();
            }
            rows.push(row);
        }
    }
    rows
}

fn without_empty_ends(rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let trim = |mut row: Vec<String>| {
        while row.last().is_some_and(String::is_empty) {
            row.pop();
        }
        row
    };
    rows.into_iter().map(trim).collect()
}

fn number(text: &str) -> f64 {
    let text = text.replace(',', "");
    text.trim_end_matches('×').parse().unwrap()
}

fn search() -> impl Strategy<Value = FindMax> {
    let step = (0..3_u8, 0..4_u8);
    let steps = prop::collection::vec(step, 1..8);
    let outcome = (0..3_u8, 100.0..1e6_f64, any::<bool>());
    (steps, outcome, 1.0..1e5_f64).prop_map(|(steps, (kind, value, by_rate), first)| {
        let phases = [
            FindMaxPhase::Bracket,
            FindMaxPhase::Bisect,
            FindMaxPhase::Confirm,
            FindMaxPhase::ConfirmAbove,
        ];
        let steps = steps.into_iter().enumerate();
        let steps = steps.map(|(index, (result, phase))| FindMaxStep {
            value: (first * (index + 1) as f64).round(),
            phase: phases[usize::from(phase)],
            cell: format!("gateway-{index}"),
            sustained: [Some(true), Some(false), None][usize::from(result)],
            reason: (result > 0).then(|| format!("reason {index}")),
            saturated_role: (result == 1).then(|| "broker".to_owned()),
        });
        let value = value.round();
        FindMax {
            variable: if by_rate { "rate_per_s" } else { "clients" }.to_owned(),
            architecture: "gateway".to_owned(),
            steps: steps.collect(),
            outcome: match kind {
                0 => FindMaxOutcome::Found {
                    value,
                    first_not_sustained: value + 10.0,
                    saturated_role: None,
                    saturation_reason: None,
                },
                1 => FindMaxOutcome::AtLeast {
                    value,
                    reason: "the search tries no higher load".to_owned(),
                },
                _ => FindMaxOutcome::Inconclusive {
                    reason: "late".to_owned(),
                },
            },
            summary: format!("Summary {value}."),
            again: None,
        }
    })
}

fn sweep() -> impl Strategy<Value = Run> {
    let values = (0.01..9e4_f64, 0.01..5e3_f64, 0..8_u8);
    let size = (1..4_usize, 1..4_usize, 1..4_u64, any::<bool>());
    (size, prop::collection::vec(values, 54)).prop_map(
        |((sizes, rates, repetitions, is_aa), values)| {
            let (mut values, mut cells, mut derived) = (values.into_iter(), Vec::new(), Vec::new());
            for size in &[100_u64, 1000, 10_000][..sizes] {
                for rate in &[500.0, 2000.0, 9000.0][..rates] {
                    for repetition in 1..=repetitions {
                        let both = [Some("A"), Some("A again")];
                        for variant in if is_aa { &both[..] } else { &[None] } {
                            let found = values.next().unwrap_or((1.0, 1.0, 1));
                            cells.push(producer((*size, *rate), *variant, repetition, found));
                        }
                    }
                }
                derived.push(Derived {
                    name: "knee".to_owned(),
                    of: format!("producer {size} bytes"),
                    value: Some(500.0),
                    unit: "records/s".to_owned(),
                    basis: DerivedFrom::Measured,
                    derivation: String::new(),
                });
            }
            concluded(Run {
                plan: "broker-sweep".to_owned(),
                cells,
                derived,
                ..Run::default()
            })
        },
    )
}

fn producer(
    (size, rate): (u64, f64),
    variant: Option<&str>,
    repetition: u64,
    (per_s, latency_ms, fate): (f64, f64, u8),
) -> Cell {
    let parameters = [("record_size_bytes", size as f64), ("target_per_s", rate)];
    let figures = [
        ("records_per_s", per_s),
        ("latency_mean_ms", latency_ms),
        ("latency_max_ms", latency_ms * 3.0),
    ];
    let owned = |all: &[(&str, f64)]| -> BTreeMap<String, f64> {
        all.iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect()
    };
    Cell {
        architecture: "producer".to_owned(),
        variant: variant.map(str::to_owned),
        clients: 1,
        parameters: owned(&parameters),
        repetition,
        status: match fate {
            0 => CellStatus::Skipped {
                reason: "too much data".to_owned(),
            },
            _ => CellStatus::Valid,
        },
        figures: if fate == 0 {
            BTreeMap::new()
        } else {
            owned(&figures)
        },
        ..Cell::default()
    }
}

fn proxies() -> impl Strategy<Value = Run> {
    let values = prop::collection::vec((100.0..2e5_f64, 0.05..20.0_f64), 16);
    (values, 1..5_u64, any::<bool>()).prop_map(|(values, repetitions, is_aa)| {
        let names: &[&str] = match is_aa {
            true => &["relay", "relay again"],
            false => &["direct", "relay", "pass-through", "lower-case"],
        };
        let (mut values, mut cells) = (values.into_iter(), Vec::new());
        for repetition in 1..=repetitions {
            for name in names {
                let (per_s, cpu) = values.next().unwrap();
                let mut cell = Cell {
                    architecture: "produce".to_owned(),
                    variant: Some((*name).to_owned()),
                    clients: 1,
                    repetition,
                    ..Cell::default()
                };
                cell.figures.insert("records_per_s".to_owned(), per_s);
                if *name != "direct" {
                    cell.figures.insert("cpu_s_per_gb".to_owned(), cpu);
                }
                cells.push(cell);
            }
        }
        concluded(Run {
            plan: "proxy-overhead".to_owned(),
            cells,
            ..Run::default()
        })
    })
}

fn check(
    run: Run,
    tables: impl Fn(&Formats, Node<'_, '_>) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let formats = Formats::of(run);
    let page = Page::new(&formats.page);
    let document = page.document();
    head_agrees(&formats, document.root())?;
    tables(&formats, document.root())
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(32)
    })]

    #[test]
    fn searches_agree(one in search(), other in search(), is_aa in any::<bool>()) {
        let again = is_aa.then(|| Box::new(FindMax { variable: one.variable.clone(), ..other }));
        let cells = (1..=2).map(|repetition| Cell { repetition, ..Cell::default() });
        let run = concluded(Run {
            plan: "keyed".to_owned(),
            cells: cells.collect(),
            find_max: Some(FindMax { again, ..one }),
            ..Run::default()
        });
        check(run, search_tables)?;
    }

    #[test]
    fn sweeps_agree(run in sweep()) {
        check(run, sweep_tables)?;
    }

    #[test]
    fn proxies_agree(run in proxies()) {
        check(run, proxies_tables)?;
    }
}

#[test]
fn libraries_agree() {
    for run in [libraries::fair(), libraries::legacy(), libraries::aa_test()] {
        check(concluded(run), libraries_tables).unwrap();
    }
}

/// All steps of both searches, and those of the first on the first screen.
fn search_tables(formats: &Formats, root: Node<'_, '_>) -> Result<(), TestCaseError> {
    let search = formats.json.find_max.as_ref().unwrap();
    let shown = without_empty_ends(page_rows(by_id(root, "search").unwrap()));
    let markdown = markdown_rows(&formats.markdown, "Maximum sustained load");
    prop_assert_eq!(&shown, &markdown);
    let steps: Vec<&FindMaxStep> = std::iter::once(search)
        .chain(search.again.as_deref())
        .flat_map(|it| &it.steps)
        .collect();
    prop_assert_eq!(shown.len(), steps.len());
    for (row, step) in shown.iter().zip(&steps) {
        prop_assert_eq!(number(&row[0]), step.value);
        let word = match step.sustained {
            Some(true) => "✓ yes",
            Some(false) => "✗ no",
            None => "not measured",
        };
        prop_assert_eq!(&row[2], word);
        prop_assert_eq!(&row[3], &step.cell);
    }
    let terminal = render_find_max(search);
    // Below the headings.
    let is_step = |line: &&str| line.starts_with("  ") && line.trim().starts_with(char::is_numeric);
    let printed: Vec<&str> = terminal.lines().filter(is_step).collect();
    prop_assert_eq!(printed.len(), shown.len(), "{}", terminal);
    for (line, row) in printed.iter().zip(&shown) {
        let has_both = line.contains(&row[0]) && line.contains(&row[2]);
        prop_assert!(has_both, "{} {:?}", line, row);
    }
    if let Some(summary) = by_id(root, "summary") {
        let values: Vec<f64> = page_rows(summary)
            .iter()
            .map(|row| number(&row[0]))
            .collect();
        let expected: Vec<f64> = search.steps.iter().map(|step| step.value).collect();
        prop_assert_eq!(values, expected);
    }
    Ok(())
}

/// Removes missing values: terminals omit columns that have none.
fn with_values(rows: &[Vec<String>]) -> Vec<Vec<&String>> {
    let rows = rows.iter();
    rows.map(|row| row.iter().filter(|it| *it != "–").collect())
        .collect()
}

/// The means of every cell, and the rate before the latency rises.
fn sweep_tables(formats: &Formats, root: Node<'_, '_>) -> Result<(), TestCaseError> {
    let shown = without_empty_ends(page_rows(by_id(root, "results").unwrap()));
    prop_assert_eq!(&shown, &markdown_rows(&formats.markdown, "Results"));
    let (_, printed) = formats.terminal.split_once("\nproducers\n").unwrap();
    let fields = |line: &str| -> Vec<String> {
        let fields = line.split("  ").map(|it| it.trim().to_owned());
        fields.filter(|it| !it.is_empty()).collect()
    };
    let printed: Vec<Vec<String>> = printed.lines().skip(1).map(fields).collect();
    prop_assert_eq!(with_values(&shown), with_values(&printed));
    let run = &formats.json;
    for row in &shown {
        let cells: Vec<&Cell> = run
            .cells
            .iter()
            .filter(|it| {
                let parameter = |name: &str| it.parameters[name];
                it.name() == row[0]
                    && parameter("record_size_bytes") == number(&row[1])
                    && parameter("target_per_s") == number(&row[2])
            })
            .collect();
        prop_assert!(!cells.is_empty(), "{:?}", row);
        let values = cells
            .iter()
            .filter_map(|it| it.figures.get("latency_mean_ms"));
        let values: Vec<f64> = values.copied().collect();
        match weir_stats::interval::repetition_mean(&values) {
            Some(mean) => {
                let error = (number(&row[5]) - mean).abs();
                prop_assert!(error <= mean * 0.006 + 0.0051, "{:?} {}", row, mean);
            }
            None => prop_assert_eq!(&row[3], "skipped: too much data"),
        }
    }
    let summary = page_rows(by_id(root, "summary").unwrap());
    let rates: Vec<f64> = summary.iter().map(|row| number(&row[2])).collect();
    let knees: Vec<f64> = run.derived.iter().filter_map(|it| it.value).collect();
    prop_assert_eq!(rates, knees);
    Ok(())
}

/// Throughput and CPU time of each subject at the maximum rate.
fn proxies_tables(formats: &Formats, root: Node<'_, '_>) -> Result<(), TestCaseError> {
    let run = &formats.json;
    let table = overhead_table(run).unwrap();
    let listed = markdown_rows(&table, "produce, unthrottled");
    let shown = page_rows(by_id(root, "summary").unwrap());
    prop_assert_eq!(shown.len(), listed.len());
    let mut rates = BTreeMap::new();
    for (row, listed) in shown.iter().zip(&listed) {
        prop_assert_eq!(&row[0], &listed[0]);
        let rate: f64 = number(&listed[1]);
        prop_assert!(
            (number(&row[2]) - rate).abs() <= rate * 0.001 + 0.51,
            "{:?}",
            row
        );
        if row[0] != "direct" {
            prop_assert!(
                (number(&row[3]) - number(&listed[3])).abs() < 0.051,
                "{:?}",
                row
            );
        }
        rates.insert(row[0].clone(), rate);
    }
    let ratio = match rates.get("relay again") {
        Some(again) => {
            let ratio = again / rates["relay"];
            let share = ratio.max(1.0 / ratio) - 1.0;
            let stated = run.answer.split(" differ by ").nth(1).unwrap();
            let stated = stated.split(" %").next().unwrap().parse::<f64>().unwrap() / 100.0;
            prop_assert!(
                (stated - share).abs() <= 0.0051 + share * 0.02,
                "{}",
                run.answer
            );
            return Ok(());
        }
        None => rates["pass-through"] / rates["relay"],
    };
    let stated = run.answer.split(" reaches ").nth(1).unwrap();
    let stated: f64 = stated.split(' ').next().unwrap().parse().unwrap();
    prop_assert!(
        (stated - ratio).abs() <= 0.0051 + ratio * 0.01,
        "{}",
        run.answer
    );
    Ok(())
}

/// CPU time relative to the first library, and all libraries on the first screen.
fn libraries_tables(formats: &Formats, root: Node<'_, '_>) -> Result<(), TestCaseError> {
    let run = &formats.json;
    let shown = page_rows(by_id(root, "summary").unwrap());
    let compared = run.libraries.as_ref().unwrap();
    let known = compared.drivers.iter().filter(|it| it.failed.is_none());
    let known: Vec<&str> = known.map(|it| it.name.as_str()).collect();
    let names: Vec<&str> = shown.iter().map(|row| row[0].as_str()).collect();
    prop_assert_eq!(names, known);
    let first = number(&shown[0][1]);
    for row in &shown[1..] {
        let clause = run.answer.split([';', ',']).map(str::trim);
        let mut clause = clause.skip_while(|it| !it.starts_with(&format!("{} is faster", row[0])));
        let Some(cost) = clause.nth(1).and_then(|it| it.strip_prefix("with ")) else {
            prop_assert!(compared.aa_test, "{} lacks {}", run.answer, row[0]);
            continue;
        };
        let stated: f64 = cost.split(' ').next().unwrap().parse().unwrap();
        let ratio = number(&row[1]) / first;
        prop_assert!(
            (stated - ratio).abs() <= 0.006 + ratio * 0.01,
            "{}",
            run.answer
        );
    }
    Ok(())
}
