//! The same run in every format, and the head that all of them share.

use std::fs;

use proptest::prelude::*;
use roxmltree::Node;
use weir_report::{RunData, render_table, write_data};
use weir_stats::answer;
use weir_stats::run::{Confidence, Run};

/// The same run in every format.
pub struct Formats {
    pub json: Run,
    pub markdown: String,
    pub page: String,
    pub csv: String,
    pub terminal: String,
}

impl Formats {
    pub fn of(run: Run) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let terminal = render_table(&run, 4_000, false);
        let json = Run::from_json(&run.to_json()).unwrap();
        write_data(&RunData::without_logs(run), dir.path()).unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        Self {
            json,
            markdown: read("report.md"),
            page: read("report.html"),
            // A comparison of client libraries has no cells.
            csv: fs::read_to_string(dir.path().join("cells.csv")).unwrap_or_default(),
            terminal,
        }
    }
}

/// Removes the escapes of Markdown.
pub fn plain(markdown: &str) -> String {
    let text = markdown.replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&amp;", "&").replace('\\', "")
}

pub fn text_of(node: Node<'_, '_>) -> String {
    let texts = node
        .descendants()
        .filter_map(|it| it.text().filter(|_| it.is_text()));
    texts.collect::<Vec<_>>().concat()
}

pub fn with_class<'a>(root: Node<'a, 'a>, class: &str) -> Option<Node<'a, 'a>> {
    let has = |it: &Node<'a, 'a>| it.attribute("class").is_some_and(|own| own == class);
    root.descendants().find(has)
}

pub fn by_id<'a>(root: Node<'a, 'a>, id: &str) -> Option<Node<'a, 'a>> {
    root.descendants().find(|it| it.attribute("id") == Some(id))
}

/// Answer, outcome, confidence and noise.
pub fn head_agrees(formats: &Formats, root: Node<'_, '_>) -> Result<(), TestCaseError> {
    let run = &formats.json;
    let expected = answer::answer(run);
    prop_assert_eq!(&run.answer, &expected);
    let first = plain(formats.markdown.lines().next().unwrap_or_default());
    prop_assert_eq!(first, format!("# {expected}"));
    prop_assert_eq!(formats.terminal.lines().next(), Some(expected.as_str()));
    let heading = root.descendants().find(|it| it.has_tag_name("h1")).unwrap();
    prop_assert_eq!(text_of(heading), expected);

    let confidence = run.confidence.text();
    prop_assert_eq!(&run.confidence, &Confidence::of(run));
    let trust = with_class(root, "trust").unwrap();
    let badges: Vec<String> = trust
        .children()
        .filter(|it| {
            it.attribute("class")
                .is_some_and(|class| class.starts_with("badge"))
        })
        .map(text_of)
        .collect();
    prop_assert_eq!(badges.len(), 2, "{:?}", badges);
    prop_assert_eq!(&badges[1], run.confidence.level.words());
    let head = format!("**{}, {confidence}.**", badges[0]);
    let markdown = formats.markdown.lines().nth(2).unwrap_or_default();
    prop_assert!(
        plain(markdown).starts_with(&head),
        "{} in {}",
        head,
        markdown
    );
    prop_assert!(text_of(trust).contains(&run.confidence.reasons.join(", ")));
    let outcome = format!("{}  a verdict", badges[0].to_uppercase());
    prop_assert_eq!(formats.terminal.lines().nth(1), Some(outcome.as_str()));
    let line = format!("  confidence  {confidence}");
    prop_assert_eq!(formats.terminal.lines().nth(2), Some(line.as_str()));

    let noise = answer::noise(run);
    prop_assert_eq!(
        text_of(with_class(root, "noise-text").unwrap()),
        noise.as_str()
    );
    prop_assert!(plain(&formats.markdown).lines().any(|line| line == noise));
    let line = format!("  noise  {}", noise.trim_start_matches("Noise: "));
    prop_assert_eq!(formats.terminal.lines().nth(3), Some(line.as_str()));
    Ok(())
}
