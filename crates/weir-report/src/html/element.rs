//! HTML elements shared by several sections.

use maud::{Markup, PreEscaped, Render, html};

/// A section with a heading that links to it, and its entry in the navigation.
pub(crate) struct Section {
    id: &'static str,
    title: String,
    /// Text of the link in the navigation; `None`: the title.
    short: Option<&'static str>,
    /// Class and text of a badge next to the heading.
    badge: Option<(&'static str, &'static str)>,
    content: Markup,
    /// `true` if the content is closed at first.
    is_closed: bool,
}

impl Section {
    pub(crate) fn new(id: &'static str, title: impl Into<String>, content: Markup) -> Self {
        Self {
            id,
            title: title.into(),
            short: None,
            badge: None,
            content,
            is_closed: false,
        }
    }

    pub(crate) fn with_badge(mut self, class: &'static str, text: &'static str) -> Self {
        self.badge = Some((class, text));
        self
    }

    pub(crate) fn linked_as(mut self, short: &'static str) -> Self {
        self.short = Some(short);
        self
    }

    pub(crate) fn closed(mut self) -> Self {
        self.is_closed = true;
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.content.0.trim().is_empty()
    }

    /// Returns the heading without its element.
    fn heading(&self) -> Markup {
        html! {
            (self.title)
            @if let Some((class, text)) = self.badge {
                " " span class={ "badge " (class) } { (text) }
            }
        }
    }
}

impl Render for Section {
    fn render(&self) -> Markup {
        html! {
            section id=(self.id) {
                @if self.is_closed {
                    details { summary { h2 { (self.heading()) } } "\n" (self.content) }
                } @else {
                    h2 { (self.heading()) (anchor(self.id)) } "\n" (self.content)
                }
            } "\n"
        }
    }
}

/// Returns the links to all sections.
pub(crate) fn navigation(sections: &[Section]) -> Markup {
    html! {
        nav aria-label="Sections" { @for it in sections {
            a href={ "#" (it.id) } { (it.short.unwrap_or(&it.title)) } " "
        } } "\n"
    }
}

/// Returns a link to an element, shown next to its heading.
fn anchor(id: &str) -> Markup {
    html! { " " a.anchor href={ "#" (id) } aria-label="link to this section" { "#" } }
}

/// Returns a part of a section with a heading that links to it; nothing without content.
pub(crate) fn part(id: &str, title: &str, content: &Markup) -> Markup {
    html! { @if !content.0.trim().is_empty() {
        div.part id=(id) { h3 { (title) (anchor(id)) } "\n" (content) } "\n"
    } }
}

pub(crate) fn chart(svg: &str, caption: &str) -> Markup {
    html! { figure { div.scroll tabindex="0" { (PreEscaped(svg)) } figcaption { (caption) } } "\n" }
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
