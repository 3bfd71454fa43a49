//! Pages without a mouse, and for screen readers: axe-core, and keys as the browser sends them.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::page::Page;

/// Presses of Tab that reach every element of any page.
const TABS_MAX: usize = 400;
/// Elements that the keyboard must reach, in the order of the document.
const FOCUSABLE: &str = "[...document.querySelectorAll(\
     'a[href], button, input, select, textarea, summary, [tabindex]')]\
     .filter((one) => one.tabIndex >= 0 && !one.disabled && one.checkVisibility())";
/// Lets the next Tab begin at the start: a page continues where the keyboard was last.
const TO_START: &str = "(() => {
     const first = document.createElement('span');
     first.tabIndex = -1;
     document.body.prepend(first);
     first.focus();
     first.remove();
 })()";
/// The element with the keyboard: its place, its name, and whether the page shows that it has it.
const FOCUSED: &str = "((all) => {
     const one = document.activeElement;
     if (!one || one === document.body) return null;
     const { outlineStyle, outlineWidth } = getComputedStyle(one);
     return {
         at: all.indexOf(one),
         name: `${one.tagName} ${one.id} ${(one.ariaLabel || one.textContent).slice(0, 30)}`,
         shown: outlineStyle !== 'none' && parseFloat(outlineWidth) >= 1,
     };
 })";

/// Checks the page as it is shown now with axe-core: nothing serious or critical, which includes
/// contrast of level AA.
pub(crate) fn audit(page: &Page) -> Result<()> {
    let found = page.audit()?;
    ensure!(found["passes"].as_u64() > Some(5), "not checked: {found}");
    let all = found["violations"].as_array().context("no violations")?;
    let is_serious = |one: &&Value| one["impact"] == "serious" || one["impact"] == "critical";
    let serious: Vec<_> = all.iter().filter(is_serious).collect();
    ensure!(serious.is_empty(), "axe-core: {}", json!(serious));
    Ok(())
}

/// Goes through the page with Tab: every element is reached in the order of the document, and
/// visibly has the keyboard.
pub(crate) fn tab_order(page: &Page) -> Result<()> {
    page.evaluate(TO_START)?;
    let count = page.evaluate(&format!("{FOCUSABLE}.length"))?;
    let count = count.as_u64().context("a count")?;
    ensure!(count > 0, "nothing to reach");
    let mut reached = BTreeSet::new();
    for _ in 0..TABS_MAX {
        page.press("Tab")?;
        let focused = page.evaluate(&format!("{FOCUSED}({FOCUSABLE})"))?;
        // Scrolled areas without a control in them are reached, too.
        let Some(at) = focused["at"].as_u64() else {
            if focused.is_null() {
                break;
            }
            continue;
        };
        if reached.last().is_some_and(|last| at <= *last) {
            break;
        }
        ensure!(focused["shown"] == true, "focus is not shown: {focused}");
        reached.insert(at);
    }
    let missed: Vec<u64> = (0..count).filter(|at| !reached.contains(at)).collect();
    let names = "((all) => all.map((one) => one.outerHTML.slice(0, 80)))";
    let names = page.evaluate(&format!("{names}({FOCUSABLE})"))?;
    let missed: Vec<_> = missed.iter().map(|at| &names[*at as usize]).collect();
    ensure!(missed.is_empty(), "Tab does not reach {missed:?}");
    Ok(())
}

/// Presses Tab until an element that matches has the keyboard.
pub(crate) fn reach(page: &Page, selector: &str) -> Result<()> {
    let matches = format!("document.activeElement.matches({})", json!(selector));
    for _ in 0..TABS_MAX {
        if page.evaluate(&matches)? == true {
            return Ok(());
        }
        page.press("Tab")?;
    }
    anyhow::bail!("Tab does not reach {selector}")
}

/// Reaches an element with Tab and presses a key there.
pub(crate) fn press_on(page: &Page, selector: &str, key: &str) -> Result<()> {
    reach(page, selector)?;
    page.press(key)
}

/// Reaches a field with Tab and replaces its text.
pub(crate) fn type_into(page: &Page, selector: &str, text: &str) -> Result<()> {
    reach(page, selector)?;
    page.evaluate("document.activeElement.select(), 1")?;
    page.type_text(text)
}
