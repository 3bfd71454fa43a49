//! Figures of documents, compared with the stored runs that they come from: `bench/figures`.

mod library;
mod source;
mod text;

use std::collections::BTreeSet;

use serde::Deserialize;

use self::source::{Names, Source};
use self::text::Shown;
use crate::{files, read, root, settle};

const DIR: &str = "bench/figures/";

/// The sections of a document that are compared.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    document: String,
    section: Vec<Section>,
}

/// A section: each of its numbers is in a passage or in a setting.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    /// Text of its heading, or of the bold words that it begins with.
    title: String,
    /// Words with numbers that were chosen or published, not measured here.
    #[serde(default)]
    settings: Vec<String>,
    /// Sources that several passages use.
    #[serde(default)]
    sources: Names,
    passage: Vec<Passage>,
}

/// Words of the section, with `{}` in place of each measured number, and the numbers' sources.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Passage {
    text: String,
    from: Vec<Source>,
}

fn figures() -> Vec<Figures> {
    let paths = files().into_iter();
    let paths = paths.filter(|path| path.starts_with(DIR) && path.ends_with(".toml"));
    let parsed = paths.map(|path| {
        toml::from_str(&read(&root().join(&path))).unwrap_or_else(|error| panic!("{path}: {error}"))
    });
    parsed.collect()
}

/// Compares the numbers of a passage with their sources.
fn differences(shown: &[Shown], from: &[Source], names: &Names) -> Vec<String> {
    let sources: Result<Vec<Vec<f64>>, String> =
        from.iter().map(|source| source.numbers(names)).collect();
    let stored: Vec<f64> = match sources {
        Ok(numbers) => numbers.into_iter().flatten().collect(),
        Err(error) => return vec![error],
    };
    if shown.len() != stored.len() {
        return vec![format!("{} numbers, {} sources", shown.len(), stored.len())];
    }
    let pairs = shown.iter().zip(stored);
    let differs = |(shown, stored): (&Shown, f64)| {
        let scale = 10_f64.powi(shown.decimals as i32);
        let rounded = (stored * scale).round() / scale;
        let differs = (rounded - shown.value).abs() > 1e-9;
        differs.then(|| format!("{} is {stored} in the run", shown.value))
    };
    pairs.filter_map(differs).collect()
}

/// Returns what is wrong with a section: numbers that differ, and numbers without a source.
fn findings(text: &str, section: &Section) -> Vec<String> {
    let text = text::in_one_line(text);
    let (mut places, mut findings) = (Vec::new(), Vec::new());
    for passage in &section.passage {
        let found = text::occurrences(&text, &passage.text);
        if found.len() != 1 {
            findings.push(format!("\"{}\": {} times", passage.text, found.len()));
        }
        for (place, shown) in found {
            let found = differences(&shown, &passage.from, &section.sources);
            let found = found
                .iter()
                .map(|one| format!("\"{}\": {one}", &text[place.clone()]));
            findings.extend(found);
            places.push(place);
        }
    }
    let mut rest = text::without(&text, &places);
    for setting in &section.settings {
        if !rest.contains(setting) {
            findings.push(format!("the setting \"{setting}\" does not occur"));
        }
        rest = rest.replace(setting, " ");
    }
    let bare = text::bare_numbers(&rest).into_iter();
    findings.extend(bare.map(|number| format!("{number} has no source")));
    findings
}

/// Every number of a section with results is the one of its run, rounded.
#[test]
fn figures_match_stored_runs() {
    let all = figures();
    let mut wrong = Vec::new();
    for figures in &all {
        let document = read(&root().join(&figures.document));
        for section in &figures.section {
            let place = format!("{}, {}", figures.document, section.title);
            let Some(text) = text::section(&document, &section.title) else {
                wrong.push(format!("{place}: there is no such section"));
                continue;
            };
            let found = findings(&text, section);
            wrong.extend(found.iter().map(|finding| format!("{place}: {finding}")));
        }
    }
    settle(
        "figures that differ from bench/runs, or without a source in bench/figures:",
        &wrong,
    );
}

/// What cites a run in a document is compared with it. Decisions and changes are of their time.
#[test]
fn sections_that_cite_runs_are_compared() {
    let all = figures();
    let documents = files()
        .into_iter()
        .filter(|path| path == "README.md" || path.starts_with("docs/") && path.ends_with(".md"));
    let documents = documents.filter(|path| !path.starts_with("docs/decisions/"));
    let mut findings = Vec::new();
    for path in documents {
        let document = read(&root().join(&path));
        let listed = all.iter().filter(|figures| figures.document == path);
        let sections = listed.flat_map(|figures| &figures.section);
        let compared: BTreeSet<String> = sections
            .filter_map(|section| text::section(&document, &section.title))
            .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let written = text::written(&document);
        let cites = |line: &&str| line.contains("bench/runs/2") || line.contains("bench/runs/p");
        let missing = written
            .lines()
            .filter(cites)
            .filter(|line| !compared.contains(*line));
        findings.extend(missing.map(|line| format!("{path}: {line}")));
    }
    settle(
        "these lines cite runs, but are in no section of bench/figures:",
        &findings,
    );
}

#[test]
fn wrong_figures_are_found() {
    let section = |from: &str| -> Section {
        toml::from_str(&format!(
            "title = \"Cost\"\nsettings = [\"2 cores\"]\n[[passage]]\n\
             text = \"CPU | {{}} us, {{}} %\"\nfrom = [{from}]"
        ))
        .expect("a valid section")
    };
    let text =
        "**Cost.** With 2 cores:\n\n| CPU | 1,016.7 us, -3\n  % | [20261121T215901Z](runs/7)";
    let fine = section("{ given = 1016.72 }, { given = -3.4 }");
    assert_eq!(findings(text, &fine), Vec::<String>::new());
    let wrong = [
        (text, "{ given = 1016.62 }, { given = -3 }"),
        (text, "{ given = 1016.7 }"),
        (text, "{ given = 1016.7 }, \"unknown\""),
    ];
    for (text, from) in wrong {
        assert_eq!(findings(text, &section(from)).len(), 1, "{from}");
    }
    let unnamed = format!("{text} and 7 ms");
    assert_eq!(findings(&unnamed, &fine), ["7 has no source"]);
    let several = format!("{text} and 7 8, 9 of 4392eb35");
    assert_eq!(findings(&several, &fine).len(), 3);
    let twice = format!("{text} {text}");
    assert_eq!(findings(&twice, &fine).len(), 1);
}

#[test]
fn section_ends_before_the_next_heading() {
    let document = "# A\n## Cost\none\n<!-- results: x -->\n## two\n| 3 |\n<!-- end of results -->\n\
                    ### B\nfour\n## C\n**Answer.** five\n### D\nsix\n## E\n";
    assert_eq!(
        text::section(document, "Cost").unwrap(),
        "## Cost\none\n### B\nfour"
    );
    assert_eq!(
        text::section(document, "Answer").unwrap(),
        "**Answer.** five"
    );
    assert_eq!(text::section(document, "none"), None);
    assert_eq!(text::generated(document, "two"), "## two\n| 3 |");
    assert_eq!(text::generated(document, "B"), "");
}
