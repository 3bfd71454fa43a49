//! A report page as XML and scripts.

use weir_report::{RunData, render_html};

/// A page split into XML and script elements, whose text is not XML.
pub struct Page {
    pub scripts: Vec<String>,
    pub rest: String,
}

impl Page {
    pub fn of(data: &RunData) -> Self {
        Self::new(&render_html(data))
    }

    /// Splits a page. Non-breaking spaces become those of the other formats.
    pub fn new(page: &str) -> Self {
        let page = page.replace('\u{a0}', " ");
        let (mut scripts, mut rest) = (Vec::new(), String::new());
        let mut pieces = page.split("<script");
        rest.push_str(pieces.next().unwrap());
        for piece in pieces {
            let (open, after) = piece.split_once('>').unwrap();
            let (text, after) = after.split_once("</script>").unwrap();
            assert!(!open.contains("src"), "{open}");
            scripts.push(text.to_owned());
            rest.push_str(after);
        }
        Self { scripts, rest }
    }

    pub fn document(&self) -> roxmltree::Document<'_> {
        let options = roxmltree::ParsingOptions {
            allow_dtd: true,
            ..Default::default()
        };
        roxmltree::Document::parse_with_options(&self.rest, options).unwrap()
    }
}
