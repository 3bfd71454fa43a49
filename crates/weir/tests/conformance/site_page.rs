//! The documentation as a site: its pages in all windows, and its search with the keyboard.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::accessibility::{audit, reach, type_into};
use super::page::Page;
use super::pages::{SIZES, WIDTH};
use super::test_env::Case;

/// Pages that are looked at in all windows, light and dark: text, code, wide tables, a calculator.
const PAGES: [&str; 4] = [
    "index.html",
    "docs/own-topic.html",
    "docs/configuration.html",
    "docs/sizing.html",
];

/// Every page is free of serious findings of axe-core and as narrow as the window, and the search
/// works from a file.
pub(crate) fn site(case: &Case<'_>) -> Result<()> {
    let dir = case.dir().join("site");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/docs");
    let mut build = Command::new(script);
    let built = build.arg(&dir).arg(env!("CARGO_BIN_EXE_weir")).output()?;
    let errors = String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "scripts/docs: {errors}");
    let root = format!("file://{}/", dir.canonicalize()?.display());
    let page = Page::open(case, &format!("{root}index.html"))?;
    for scheme in ["light", "dark"] {
        for size in SIZES {
            let picture = case.dir().join(format!("{scheme}-{}.png", size.0));
            page.view(size, scheme, &picture)?;
            for name in PAGES {
                look(&page, &format!("{root}{name}"), size)
                    .with_context(|| format!("{name}, {scheme}, {size:?}"))?;
            }
        }
    }
    let mut others = Vec::new();
    for entry in fs::read_dir(dir.join("docs"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        others.extend(name.ends_with(".html").then_some(name));
    }
    ensure!(others.len() > 30, "{others:?}");
    for name in &others {
        look(&page, &format!("{root}docs/{name}"), SIZES[2])
            .with_context(|| format!("{name} on a phone"))?;
    }
    page.navigate(&format!("{root}docs/commands.html"))?;
    let text = "document.body.textContent";
    page.until(text, |text| {
        text.as_str()
            .is_some_and(|text| text.contains("Usage: weir gateway sessions list [OPTIONS]"))
    })?;
    page.view(SIZES[0], "light", &case.dir().join("search.png"))?;
    searches(&page, &root)?;
    page.finish(&[&root, "blob:", "data:"])
}

fn look(page: &Page, url: &str, (width, _): (u32, u32)) -> Result<()> {
    page.navigate(url)?;
    // A page without styles would be black on white, and its scripts would fail.
    page.until_is(
        "getComputedStyle(document.querySelector('.md-header')).position",
        "sticky",
    )?;
    page.until(WIDTH, |shown| {
        shown.as_u64().is_some_and(|most| most <= u64::from(width))
    })?;
    audit(page)
}

/// The first stop leads to the text; a search leads to a page.
fn searches(page: &Page, root: &str) -> Result<()> {
    page.navigate(&format!("{root}index.html"))?;
    page.press("Tab")?;
    page.until("document.activeElement.matches('.md-skip')", |is| {
        is == true
    })?;
    let input = ".md-search__input";
    reach(page, input)?;
    // Text that comes before the index is ready would be found with the next key only.
    let state = "document.querySelector('.md-search-result__meta').textContent.trim()";
    page.until_is(state, "Type to start searching")?;
    type_into(page, input, "bandwidth")?;
    // The search reads its field when a key is released.
    page.press("ArrowRight")?;
    let found = "document.querySelectorAll('.md-search-result__link').length";
    page.until(found, |count| count.as_u64() > Some(0))?;
    page.press("ArrowDown")?;
    let chosen = "document.activeElement.matches('.md-search-result__link')";
    page.until(chosen, |is| is == true)?;
    page.press("Enter")?;
    page.until("location.pathname.endsWith('index.html')", |is| is == false)?;
    let text = "document.querySelector('article')?.textContent.length ?? 0";
    page.until(text, |length| length.as_u64() > Some(500))?;
    Ok(())
}
