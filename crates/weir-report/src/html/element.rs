//! HTML elements shared by several sections.

use maud::{Markup, PreEscaped, html};

pub(crate) fn chart(svg: &str, caption: &str) -> Markup {
    html! { figure { div.scroll { (PreEscaped(svg)) } figcaption { (caption) } } "\n" }
}

pub(crate) fn section(id: &str, title: &str, content: &Markup) -> Markup {
    html! { section id=(id) { h2 { (title) } "\n" (content) } "\n" }
}

/// Returns a list, or nothing without items.
pub(crate) fn remarks(class: &str, items: impl IntoIterator<Item = Markup>) -> Markup {
    let mut items = items.into_iter().peekable();
    html! { @if items.peek().is_some() {
        ul class={ "remarks " (class) } { @for item in items { li { (item) } } } "\n"
    } }
}

pub(crate) fn facts<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> Markup {
    html! { dl.facts { @for (name, value) in pairs { div { dt { (name) } dd { (value) } } } } "\n" }
}
