//! Property: answer, confidence, noise, thresholds and main table are the same in `run.json`,
//! `report.md`, `report.html`, `cells.csv` and on the terminal. `agreement_kinds.rs` has the other
//! kinds of runs.

mod common;

use std::collections::BTreeMap;

use common::agreement::{Formats, by_id, head_agrees, plain, text_of, with_class};
use common::page::Page;
use proptest::prelude::*;
use roxmltree::Node;
use weir_stats::run::{
    Cell, CellStatus, Confidence, DeliveryTotals, LatencySummary, RoleUsage, Run, RunOutcome,
    SCHEMA, STAGE_RESPONSE, ThresholdCounts, ThresholdResult, ThresholdStatus,
};
use weir_stats::{answer, interval};

/// Measurements of one cell, before its status.
#[derive(Debug, Clone)]
struct Values {
    mean_us: f64,
    /// Median and p99 relative to the mean; no p99 with few samples.
    shape: (f64, Option<f64>),
    cpu_us: f64,
    cores: f64,
    lost: u64,
    delivered_per_s: f64,
    fate: u8,
}

fn values() -> impl Strategy<Value = Values> {
    let shape = (0.5..1.0_f64, prop::option::weighted(0.8, 1.0..20.0_f64));
    let cost = (0.5..500.0_f64, 0.05..4.0_f64);
    (
        2.0..6.5_f64,
        shape,
        cost,
        0..3_u64,
        10.0..90_000.0_f64,
        0..20_u8,
    )
        .prop_map(
            |(log_us, shape, (cpu_us, cores), lost, delivered_per_s, fate)| Values {
                mean_us: 10_f64.powf(log_us),
                shape,
                cpu_us,
                cores,
                lost,
                delivered_per_s,
                fate,
            },
        )
}

fn cell(architecture: &str, clients: u64, repetition: u64, it: &Values) -> Cell {
    let mut cell = Cell {
        architecture: architecture.to_owned(),
        clients,
        repetition,
        hold_s: 10.0,
        offered_records_per_s: 100.0,
        ..Cell::default()
    };
    match it.fate {
        0 | 1 => {
            cell.status = CellStatus::Invalid {
                reasons: vec!["schedule lag above its limit".to_owned()],
            };
        }
        2 => {
            cell.status = CellStatus::Skipped {
                reason: "too many ports".to_owned(),
            };
            return cell;
        }
        3 | 4 => cell.not_sustained = Some("mean response above its limit".to_owned()),
        _ => {}
    }
    let summary = LatencySummary {
        count: 10_000,
        mean_us: Some(it.mean_us),
        stddev_us: Some(it.mean_us * 0.4),
        p50_us: Some(it.mean_us * it.shape.0),
        p99_us: it.shape.1.map(|factor| it.mean_us * factor),
        max_us: Some(it.mean_us * 25.0),
        ..LatencySummary::default()
    };
    cell.latency.insert(STAGE_RESPONSE.to_owned(), summary);
    cell.delivery = Some(DeliveryTotals {
        expected: 10_000,
        delivered: 10_000 - it.lost,
        lost: it.lost,
        delivered_per_s: Some(it.delivered_per_s),
        received_mbit_per_s: Some(it.delivered_per_s / 100.0),
        ..DeliveryTotals::default()
    });
    let role = |role: &str, cpu_us: f64, cores: f64| RoleUsage {
        role: role.to_owned(),
        cpu_us_per_delivered: Some(cpu_us),
        cpu_cores_mean: Some(cores),
        ..RoleUsage::default()
    };
    cell.roles = match architecture {
        "gateway" | "floor" => vec![
            role("broker", 1.0, 0.1),
            role(architecture, it.cpu_us, it.cores),
        ],
        _ => vec![role("broker", it.cpu_us, it.cores)],
    };
    cell
}

fn thresholds() -> impl Strategy<Value = Vec<ThresholdResult>> {
    let status = prop_oneof![
        Just(ThresholdStatus::Passed),
        Just(ThresholdStatus::Failed),
        Just(ThresholdStatus::Undecided),
        Just(ThresholdStatus::NotChecked),
    ];
    prop::collection::vec((status, 0.1..9.0_f64), 0..4).prop_map(|found| {
        let result = |(index, (status, actual)): (usize, (ThresholdStatus, f64))| {
            let is_checked = status != ThresholdStatus::NotChecked;
            ThresholdResult {
                expression: format!("gateway.metric{index} / floor.metric{index} <= 1.35"),
                scope: "1000 clients".to_owned(),
                actual: is_checked.then_some(actual),
                limit: 1.35,
                unit: "x".to_owned(),
                status,
                reason: (!is_checked).then(|| "this level was not measured".to_owned()),
            }
        };
        found.into_iter().enumerate().map(result).collect()
    })
}

const SUBJECTS: [&str; 4] = ["gateway", "floor", "standalone", "groups"];
const LEVELS: [u64; 3] = [100, 1_000, 25_000];

fn run() -> impl Strategy<Value = Run> {
    let size = (1..=SUBJECTS.len(), 1..=LEVELS.len(), 1..=4_usize);
    size.prop_flat_map(|(subjects, levels, repetitions)| {
        let cells = prop::collection::vec(values(), subjects * levels * repetitions);
        (
            Just((subjects, levels, repetitions)),
            cells,
            thresholds(),
            any::<bool>(),
        )
    })
    .prop_map(
        |((subjects, levels, repetitions), values, thresholds, is_stopped)| {
            let mut values = values.iter();
            let mut cells = Vec::new();
            for clients in &LEVELS[..levels] {
                for repetition in 1..=repetitions as u64 {
                    let own = SUBJECTS[..subjects].iter().zip(values.by_ref());
                    cells.extend(own.map(|(name, it)| cell(name, *clients, repetition, it)));
                }
            }
            concluded(cells, thresholds, is_stopped)
        },
    )
}

/// Returns the run with everything that follows from its results, as the runner writes it.
fn concluded(cells: Vec<Cell>, thresholds: Vec<ThresholdResult>, is_stopped: bool) -> Run {
    let mut run = Run {
        schema: SCHEMA.to_owned(),
        plan: "keyed".to_owned(),
        title: "Generated".to_owned(),
        question: "Which is it?".to_owned(),
        verdict: "a verdict".to_owned(),
        outcome: match () {
            () if !cells.iter().any(Cell::is_valid) => RunOutcome::Invalid,
            () if is_stopped => RunOutcome::Interrupted,
            () if ThresholdCounts::of(&thresholds).failed > 0 => RunOutcome::ThresholdFailed,
            () => RunOutcome::Complete,
        },
        cells,
        thresholds,
        ..Run::default()
    };
    run.confidence = Confidence::of(&run);
    run.answer = answer::answer(&run);
    run.headline = answer::headline(&run);
    run
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(64)
    })]

    #[test]
    fn formats_agree(run in run()) {
        let formats = Formats::of(run);
        let page = Page::new(&formats.page);
        let document = page.document();
        let root = document.root();
        head_agrees(&formats, root)?;
        thresholds_agree(&formats, root)?;
        tables_agree(&formats, root)?;
    }
}

fn thresholds_agree(formats: &Formats, root: Node<'_, '_>) -> Result<(), TestCaseError> {
    let run = &formats.json;
    let items: Vec<Node<'_, '_>> = match with_class(root, "thresholds") {
        Some(list) => list.children().filter(|it| it.has_tag_name("li")).collect(),
        None => Vec::new(),
    };
    prop_assert_eq!(items.len(), run.thresholds.len());
    let markdown = plain(&formats.markdown);
    for (it, item) in run.thresholds.iter().zip(items) {
        let words = it.status.words();
        let (class, mark) = match it.status {
            ThresholdStatus::Passed => ("ok", '✓'),
            ThresholdStatus::Failed => ("bad", '✗'),
            ThresholdStatus::Undecided => ("warn", '?'),
            ThresholdStatus::NotChecked => ("warn", '–'),
        };
        let shown = text_of(item);
        prop_assert!(shown.contains(words) && shown.contains(mark), "{}", shown);
        prop_assert_eq!(item.attribute("class"), Some(class));
        let line = |text: &str| -> String {
            let found = text.lines().find(|line| line.contains(&it.expression));
            found.unwrap_or_default().to_owned()
        };
        let (listed, printed) = (line(&markdown), line(&formats.terminal));
        prop_assert!(listed.contains(words), "{}: {}", words, listed);
        prop_assert!(
            printed.trim_start().starts_with(mark),
            "{}: {}",
            words,
            printed
        );
        // The same measured value everywhere.
        let of = |text: &str| -> Option<String> {
            let rest = text.split("measured ").nth(1)?;
            rest.split(' ').next().map(str::to_owned)
        };
        let measured = of(&listed);
        prop_assert_eq!(measured.is_some(), it.actual.is_some(), "{}", listed);
        prop_assert_eq!(&of(&shown), &measured);
        prop_assert_eq!(&of(&printed), &measured);
    }
    Ok(())
}

/// Rows by clients and subject: columns with values, or the reason why there are none.
type Rows = BTreeMap<(u64, String), SubjectValues>;

#[derive(Debug, Clone, PartialEq)]
enum SubjectValues {
    Values(BTreeMap<String, String>),
    None(String),
}

/// Columns that every format has, with the factor from the unit of `cells.csv`, except times.
const COLUMNS: [&str; 8] = [
    "mean",
    "sd",
    "p50",
    "p99",
    "max",
    "delivered/s",
    "CPU",
    "lost",
];

fn row(headings: &[String], fields: &[String]) -> SubjectValues {
    if fields.len() < headings.len() {
        return SubjectValues::None(fields.last().cloned().unwrap_or_default());
    }
    let named = headings.iter().zip(fields);
    let named = named.map(|(heading, field)| {
        // Intervals follow the ratio, in other words in each format.
        let field = field.split(' ').next().unwrap_or_default().to_owned();
        (heading.clone(), field)
    });
    SubjectValues::Values(
        named
            .filter(|(it, _)| COLUMNS.contains(&it.as_str()))
            .collect(),
    )
}

fn heading(text: &str) -> String {
    let text = text.trim();
    match text {
        "own" | "CPU µs/rec" => "CPU".to_owned(),
        _ => {
            let times = ["mean ", "sd ", "p50 ", "p99 ", "max "].into_iter();
            let mut found = times.filter(|name| text.starts_with(name));
            found.next().unwrap_or(text).trim().to_owned()
        }
    }
}

fn clients_of(label: &str) -> u64 {
    let digits: String = label.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

fn markdown_rows(markdown: &str) -> Rows {
    let start = markdown
        .find("\n| clients | architecture | mean |")
        .unwrap();
    let lines = markdown[start + 1..]
        .lines()
        .take_while(|line| line.starts_with('|'));
    let cells = |line: &str| -> Vec<String> {
        let fields = line.trim_matches('|').split('|');
        fields.map(|field| plain(field).trim().to_owned()).collect()
    };
    let mut lines = lines.map(cells);
    let headings: Vec<String> = lines.next().unwrap()[2..]
        .iter()
        .map(|it| heading(it))
        .collect();
    lines.next();
    let rows = lines.map(|mut fields| {
        let key = (clients_of(&fields[0]), fields[1].clone());
        while fields.last().is_some_and(String::is_empty) {
            fields.pop();
        }
        (key, row(&headings, &fields[2..]))
    });
    rows.collect()
}

fn page_rows(root: Node<'_, '_>) -> Rows {
    let section = by_id(root, "results").unwrap();
    let table = section
        .descendants()
        .find(|it| it.has_tag_name("table"))
        .unwrap();
    let rows = || table.descendants().filter(|it| it.has_tag_name("tr"));
    let elements = |row: Node<'_, '_>| -> Vec<String> {
        row.children()
            .filter(Node::is_element)
            .map(field_text)
            .collect()
    };
    let headings: Vec<String> = rows().nth(1).map(elements).unwrap()[1..]
        .iter()
        .map(|it| heading(it))
        .collect();
    let (mut found, mut clients) = (Rows::new(), 0);
    for it in rows().skip(2) {
        let fields = elements(it);
        if it.attribute("class") == Some("level") {
            clients = clients_of(&fields[0]);
            continue;
        }
        let (name, level) = match fields[0].split_once(", ") {
            Some((name, level)) => (name, clients_of(level)),
            None => (fields[0].as_str(), clients),
        };
        // A badge may follow the name.
        let name = name.split(' ').next().unwrap_or_default();
        found.insert((level, name.to_owned()), row(&headings, &fields[1..]));
    }
    found
}

/// Returns the text of a field without badges and smaller additions.
fn field_text(node: Node<'_, '_>) -> String {
    let texts = node
        .children()
        .filter(Node::is_text)
        .filter_map(|it| it.text());
    texts.collect::<Vec<_>>().concat().trim().to_owned()
}

fn terminal_rows(terminal: &str) -> Rows {
    let (mut rows, mut clients, mut headings) = (Rows::new(), 0, Vec::new());
    for line in terminal.lines() {
        let fields: Vec<String> = line
            .split("  ")
            .map(|field| field.trim().to_owned())
            .filter(|field| !field.is_empty())
            .collect();
        match fields.first().map(String::as_str) {
            Some("architecture") => headings = fields[1..].iter().map(|it| heading(it)).collect(),
            Some(name) if SUBJECTS.contains(&name) => {
                rows.insert((clients, name.to_owned()), row(&headings, &fields[1..]));
            }
            Some(label) if label.ends_with(" clients") => clients = clients_of(label),
            _ => {}
        }
    }
    rows
}

fn tables_agree(formats: &Formats, root: Node<'_, '_>) -> Result<(), TestCaseError> {
    let markdown = markdown_rows(&formats.markdown);
    prop_assert!(!markdown.is_empty());
    prop_assert_eq!(&page_rows(root), &markdown);
    prop_assert_eq!(&terminal_rows(&formats.terminal), &markdown);
    let unit = formats
        .markdown
        .split("due time of a record, in ")
        .nth(1)
        .unwrap();
    let unit_us = match unit.split('.').next() {
        Some("µs") => 1.0,
        Some("ms") => 1e3,
        _ => 1e6,
    };
    for ((clients, name), shown) in &markdown {
        let cells = csv_cells(&formats.csv, *clients, name);
        prop_assert!(!cells.is_empty());
        let valid: Vec<_> = cells.iter().filter(|it| it["status"] == "valid").collect();
        let SubjectValues::Values(shown) = shown else {
            prop_assert!(valid.is_empty(), "{} at {} has results", name, clients);
            continue;
        };
        prop_assert!(!valid.is_empty(), "{} at {} has no result", name, clients);
        let role = if ["gateway", "floor"].contains(&name.as_str()) {
            name
        } else {
            "broker"
        };
        let cpu = format!("{role}_cpu_us_per_delivered");
        let columns = [
            ("mean", "response_mean_us", unit_us),
            ("sd", "response_stddev_us", unit_us),
            ("p50", "response_p50_us", unit_us),
            ("p99", "response_p99_us", unit_us),
            ("max", "response_max_us", unit_us),
            ("delivered/s", "delivered_per_s", 1.0),
            ("CPU", cpu.as_str(), 1.0),
        ];
        for (column, field, unit) in columns {
            let values: Vec<f64> = valid
                .iter()
                .filter_map(|it| it[field].parse().ok())
                .collect();
            let expected = interval::repetition_mean(&values).map(|value| value / unit);
            let shown = shown[column].replace(',', "").parse::<f64>().ok();
            prop_assert_eq!(shown.is_some(), expected.is_some(), "{}", column);
            if let (Some(shown), Some(expected)) = (shown, expected) {
                // Three digits, below 10 two decimals.
                prop_assert!(
                    (shown - expected).abs() <= expected * 0.006 + 0.0051,
                    "{} of {} at {}: {} instead of {}",
                    column,
                    name,
                    clients,
                    shown,
                    expected
                );
            }
        }
        let lost: u64 = valid
            .iter()
            .map(|it| it["lost"].parse::<u64>().unwrap())
            .sum();
        prop_assert_eq!(&shown["lost"], &lost.to_string());
    }
    Ok(())
}

/// Returns the rows of one subject at one level, by heading.
fn csv_cells(csv: &str, clients: u64, name: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned));
    let headings: Vec<String> = lines.next().unwrap().collect();
    let rows = lines.map(|fields| headings.iter().cloned().zip(fields).collect());
    let is_own = |row: &BTreeMap<String, String>| {
        row["architecture"] == name && row["clients"] == clients.to_string()
    };
    rows.filter(is_own).collect()
}
