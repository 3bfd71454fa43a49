//! Sections and numbers of documents.

use regex::Regex;

const BEGIN: &str = "<!-- results:";
const END: &str = "<!-- end of results -->";

/// A number in a template.
const PLACEHOLDER: &str = "{}";

/// Returns the lines of a section, by the text of its heading or of the bold words that it begins
/// with, up to the next of its kind or above. Generated parts are left out.
pub(super) fn section(document: &str, title: &str) -> Option<String> {
    let document = written(document);
    let bold = format!("**{title}.**");
    let start = document
        .lines()
        .position(|line| heading(line) == title || line.starts_with(&bold))?;
    let level = level(document.lines().nth(start)?);
    let rest = document.lines().skip(start + 1);
    let continues = |line: &&str| match heading(line) {
        "" => level < usize::MAX || !is_bold(line),
        _ => self::level(line) > level,
    };
    let own: Vec<&str> = document
        .lines()
        .skip(start)
        .take(1)
        .chain(rest.take_while(continues))
        .collect();
    Some(own.join("\n"))
}

/// Returns the parts of a document, or of one of its sections, that are made from runs.
pub(super) fn generated(document: &str, under: &str) -> String {
    let (mut is_generated, mut is_under) = (false, under.is_empty());
    let mut kept = Vec::new();
    for line in document.lines() {
        is_generated = (is_generated || line.starts_with(BEGIN)) && line != END;
        if !under.is_empty() && !heading(line).is_empty() {
            is_under = heading(line) == under;
        }
        if is_generated && is_under {
            kept.push(line);
        }
    }
    kept.join("\n")
}

/// Returns a document without its generated parts.
pub(super) fn written(document: &str) -> String {
    let mut is_generated = false;
    let own = document.lines().filter(|line| {
        let was = is_generated;
        is_generated = (is_generated || line.starts_with(BEGIN)) && *line != END;
        !was && !is_generated
    });
    own.collect::<Vec<_>>().join("\n")
}

/// Returns whether a line begins a paragraph with bold words, as in "**Answer.**".
fn is_bold(line: &str) -> bool {
    let words = line
        .strip_prefix("**")
        .and_then(|rest| rest.split_once("**"));
    words.is_some_and(|(words, _)| words.ends_with('.'))
}

fn level(line: &str) -> usize {
    let hashes = line.chars().take_while(|c| *c == '#').count();
    if hashes == 0 { usize::MAX } else { hashes }
}

/// Returns the text of a heading, or an empty text if the line is none.
fn heading(line: &str) -> &str {
    match line.strip_prefix('#') {
        Some(rest) => rest.trim_start_matches('#').trim(),
        None => "",
    }
}

/// Returns a text in one line, without the targets of links.
pub(super) fn in_one_line(text: &str) -> String {
    let target = Regex::new(r"\]\([^)]*\)").expect("a valid pattern");
    let text = target.replace_all(text, "]");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Number with the decimals that it is shown with.
#[derive(Debug, PartialEq)]
pub(super) struct Shown {
    pub(super) value: f64,
    pub(super) decimals: usize,
}

/// Returns every place where a template occurs in a text: the place, and the numbers of its
/// placeholders.
pub(super) fn occurrences(text: &str, template: &str) -> Vec<(std::ops::Range<usize>, Vec<Shown>)> {
    let literals: Vec<String> = in_one_line(template)
        .split(PLACEHOLDER)
        .map(regex::escape)
        .collect();
    let number = r"(-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)";
    let pattern = Regex::new(&literals.join(number)).expect("an escaped pattern");
    let found = pattern.captures_iter(text).map(|found| {
        let shown = found.iter().skip(1).flatten().map(|group| {
            let digits = group.as_str().replace(',', "");
            Shown {
                decimals: digits.split_once('.').map_or(0, |(_, rest)| rest.len()),
                value: digits.parse().expect("digits and a point"),
            }
        });
        (found.get(0).expect("the match").range(), shown.collect())
    });
    found.collect()
}

/// Returns a text with a space for each character in one of the places.
pub(super) fn without(text: &str, places: &[std::ops::Range<usize>]) -> String {
    let shown = text.char_indices().map(|(at, c)| {
        let is_hidden = places.iter().any(|place| place.contains(&at));
        if is_hidden { ' ' } else { c }
    });
    shown.collect()
}

/// Returns the numbers of a text that are no part of a name, a date, a version or code.
pub(super) fn bare_numbers(text: &str) -> Vec<String> {
    let names = r"`[^`]*`|\bversion [0-9.]+|\b\d{8}T\d{6}Z|\b\d{4}-\d\d-\d\d\b|\b\d+(?:\.\d+){2,}|\[\d{3}-[a-z0-9-]+\]";
    let names = Regex::new(names).expect("a valid pattern");
    let text = names.replace_all(text, " ");
    let number = Regex::new(r"(?:^|[^\w.])(\d[\d,.]*)(\w?)").expect("a valid pattern");
    // What ends in letters is a name, such as a commit.
    let found = number
        .captures_iter(&text)
        .filter(|found| found[2].is_empty());
    found.map(|found| found[1].to_owned()).collect()
}
