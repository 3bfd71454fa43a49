//! Tests of the HTML report: complete, self-contained and safe with hostile names.

mod common;

use std::fs;
use std::path::Path;

use common::page::Page;
use common::{NASTY, sample};
use weir_report::{RunData, render_html, write_all};

fn in_dir(check: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    sample().write(dir.path());
    check(dir.path());
}

#[test]
fn page_is_well_formed_and_shows_every_cell() {
    in_dir(|dir| {
        let data = RunData::read(dir).unwrap();
        let page = Page::of(&data);
        let document = page.document();
        let text: String = document
            .descendants()
            .filter_map(|node| node.text())
            .collect();
        for cell in &data.run.cells {
            let shown = match cell.latency.is_empty() {
                true => cell.architecture.clone(),
                false => cell.id(),
            };
            assert!(text.contains(&shown), "{shown} is missing");
        }
        let ids: Vec<&str> = document
            .descendants()
            .filter(|node| node.has_tag_name("section"))
            .filter_map(|node| node.attribute("id"))
            .collect();
        assert_eq!(
            ids,
            [
                "summary",
                "verdict",
                "results",
                "latency",
                "time",
                "cost",
                "delivery",
                "published",
                "configuration",
                "raw",
            ]
        );
    });
}

#[test]
fn numbers_do_not_wrap_apart() {
    in_dir(|dir| {
        let data = RunData::read(dir).unwrap();
        let html = render_html(&data);
        let heading = html.split("<h1>").nth(1).unwrap();
        let heading = heading.split("</h1>").next().unwrap();
        assert!(heading.contains("4,000\u{a0}clients"), "{heading}");
        let noise = html.split("class=\"noise-text\"").nth(1).unwrap();
        assert!(noise.contains("\u{a0}%"), "{noise}");
        assert!(!weir_report::render_markdown(&data.run).contains('\u{a0}'));
        assert!(!weir_report::render_table(&data.run, 80, false).contains('\u{a0}'));
    });
}

#[test]
fn links_lead_to_every_section() {
    in_dir(|dir| {
        let page = Page::of(&RunData::read(dir).unwrap());
        let document = page.document();
        let nodes = || document.descendants();
        let ids: Vec<&str> = nodes().filter_map(|node| node.attribute("id")).collect();
        let links: Vec<&str> = nodes().filter_map(|node| node.attribute("href")).collect();
        for link in &links {
            let id = link.strip_prefix('#').unwrap();
            assert!(ids.contains(&id), "{link}: {ids:?}");
        }
        for section in nodes().filter(|node| node.has_tag_name("section")) {
            let link = format!("#{}", section.attribute("id").unwrap());
            assert!(links.contains(&link.as_str()), "{link} is missing");
        }
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), ids.len(), "{ids:?}");
    });
}

#[test]
fn raw_values_are_closed_and_published_levels_meet() {
    in_dir(|dir| {
        let page = Page::of(&RunData::read(dir).unwrap());
        let document = page.document();
        let section = |id: &str| {
            let mut nodes = document.descendants();
            nodes.find(|node| node.attribute("id") == Some(id)).unwrap()
        };
        let raw = section("raw").first_element_child().unwrap();
        assert!(raw.has_tag_name("details") && raw.attribute("open").is_none());
        let text: String = section("published")
            .descendants()
            .filter_map(|node| node.text())
            .collect();
        assert!(text.contains("1,000 clients"), "{text}");
        assert!(!text.contains("32,000"), "not a level of this run: {text}");
        assert!(!text.contains("4,000 clients"), "not published: {text}");
    });
}

#[test]
fn percentiles_are_a_table_without_scripts() {
    in_dir(|dir| {
        let data = RunData::read(dir).unwrap();
        let page = Page::of(&data);
        let document = page.document();
        let without_scripts = document
            .descendants()
            .filter(|node| node.has_tag_name("noscript"));
        let headings: Vec<_> = without_scripts
            .flat_map(|node| node.descendants())
            .filter(|node| node.has_tag_name("th"))
            .filter_map(|node| node.text())
            .collect();
        for percentile in ["p50", "p90", "p95", "p99", "p99.9", "p99.99"] {
            assert!(headings.contains(&percentile), "{percentile}: {headings:?}");
        }
    });
}

#[test]
fn page_without_data_is_small() {
    in_dir(|dir| {
        let whole = render_html(&RunData::read(dir).unwrap());
        let mut run = sample().run;
        run.cells.clear();
        let shell = render_html(&RunData::without_logs(run));
        assert!(shell.len() < 150_000, "{} bytes", shell.len());
        assert!(whole.len() < 400_000, "{} bytes", whole.len());
    });
}

#[test]
fn page_without_logs_or_cells_is_well_formed() {
    let mut run = sample().run;
    Page::of(&RunData::without_logs(run.clone())).document();
    run.cells.clear();
    run.placement.clear();
    Page::of(&RunData::without_logs(run)).document();
}

#[test]
fn page_loads_nothing_and_limits_scripts() {
    in_dir(|dir| {
        let page = Page::of(&RunData::read(dir).unwrap());
        for node in page
            .document()
            .descendants()
            .filter(roxmltree::Node::is_element)
        {
            let name = node.tag_name().name();
            let active = [
                "link", "img", "iframe", "object", "embed", "base", "image", "form",
            ];
            assert!(!active.contains(&name), "{name}");
            for attribute in node.attributes() {
                let (name, value) = (attribute.name(), attribute.value());
                assert!(!name.starts_with("on"), "{name}");
                if name == "href" && value.starts_with('#') {
                    continue;
                }
                assert!(
                    !["src", "href", "style", "action"].contains(&name),
                    "{name}={value}"
                );
            }
        }
        assert_eq!(page.scripts.len(), 3);
        assert!(!page.rest.contains("url(") && !page.rest.contains("@import"));
        let policy = page.rest.split("content=\"").nth(1).unwrap();
        let policy = policy.split('"').next().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"));
        for open in ["unsafe", "http", "data:", "*"] {
            assert!(!policy.contains(open), "{policy}");
        }
    });
}

#[test]
fn data_block_has_every_curve_and_second() {
    in_dir(|dir| {
        let page = Page::of(&RunData::read(dir).unwrap());
        let data: serde_json::Value = serde_json::from_str(&page.scripts[0]).unwrap();
        let levels = data["levels"].as_array().unwrap();
        assert_eq!(levels.len(), 3);
        assert_eq!(levels[2]["label"], "10,000 clients");
        let gateway = &levels[2]["rows"][1];
        assert_eq!(
            data["subjects"][gateway["subject"].as_u64().unwrap() as usize][0],
            "gateway"
        );
        assert!(gateway["curves"]["response"].as_array().unwrap().len() > 60);
        let cells = gateway["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 2);
        for column in [
            "t_s",
            "delivered",
            "p50_us",
            "p99_us",
            "p999_us",
            "max_us",
            "lag_us",
        ] {
            assert_eq!(cells[0][column].as_array().unwrap().len(), 12, "{column}");
        }
        // Every value of the interval log is in a range of some second.
        let counts = cells[0]["heat"]["counts"].as_array().unwrap();
        let counted: u64 = counts
            .iter()
            .flat_map(|second| second.as_array().unwrap())
            .map(|count| count.as_u64().unwrap())
            .sum();
        let run = sample().run;
        let cell = run
            .cells
            .iter()
            .find(|cell| cell.id() == "gateway-10000-1")
            .unwrap();
        assert_eq!(counted, cell.response().unwrap().count);
    });
}

#[test]
fn hostile_text_is_escaped() {
    in_dir(|dir| {
        for path in write_all(dir).unwrap() {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(!text.contains('\u{1b}') || name.ends_with(".csv"), "{name}");
            if !name.ends_with(".csv") {
                assert!(!text.contains("<script>alert"), "{name}");
                assert!(!text.contains(NASTY), "{name}");
            }
        }
    });
}

#[test]
fn hostile_names_stay_in_data() {
    let mut run = sample().run;
    for cell in &mut run.cells {
        cell.architecture = format!("{} </script><script>alert(1)</script>", cell.architecture);
        cell.variant = Some(NASTY.into());
    }
    let page = Page::of(&RunData::without_logs(run));
    page.document();
    assert_eq!(page.scripts.len(), 3);
    let data: serde_json::Value = serde_json::from_str(&page.scripts[0]).unwrap();
    let name = data["subjects"][0][0].as_str().unwrap();
    assert!(
        name.contains("</script>") && !name.contains('\u{1b}'),
        "{name}"
    );
}
