//! The scripts of the page and the content policy that allows only them.
//!
//! The policy allows scripts and styles by hash, so nothing in the data of a run can execute.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const UPLOT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("../../assets/uplot/uPlot.min.css");
const UPLOT_LICENCE: &str = include_str!("../../assets/uplot/LICENSE");
const PAGE: [&str; 8] = [
    include_str!("script/base.js"),
    include_str!("script/charts.js"),
    include_str!("script/sections.js"),
    include_str!("script/decide.js"),
    include_str!("script/sort.js"),
    include_str!("script/copy.js"),
    include_str!("script/scroll.js"),
    include_str!("script/start.js"),
];

pub(crate) struct Inline {
    pub(crate) library: String,
    pub(crate) page: String,
    pub(crate) style: String,
}

impl Inline {
    /// Creates the contents; `style` has the page's own rules.
    pub(crate) fn new(style: &[&str]) -> Self {
        Self {
            library: format!(
                "/*! uPlot 1.6.32, npm package uplot\n{}\n*/\n{}",
                UPLOT_LICENCE.trim(),
                UPLOT.trim()
            ),
            page: format!("(() => {{\n\"use strict\";\n{}}})();\n", PAGE.concat()),
            style: format!("{}\n{}", UPLOT_CSS.trim(), style.concat()),
        }
    }

    /// Returns the content policy: these inline elements and nothing else.
    pub(crate) fn policy(&self) -> String {
        format!(
            concat!(
                "default-src 'none'; script-src {} {}; style-src {}; ",
                "base-uri 'none'; form-action 'none'"
            ),
            source(&self.library),
            source(&self.page),
            source(&self.style)
        )
    }
}

/// Returns the hash of an inline element as a policy source.
fn source(text: &str) -> String {
    format!(
        "'sha256-{}'",
        STANDARD.encode(digest(&SHA256, text.as_bytes()))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uplot_matches_npm_package() {
        let sums = [
            (
                UPLOT,
                "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
            ),
            (
                UPLOT_CSS,
                "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
            ),
            (
                UPLOT_LICENCE,
                "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
            ),
        ];
        for (text, expected) in sums {
            let sum: String = digest(&SHA256, text.as_bytes())
                .as_ref()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(sum, expected, "{}...", &text[..40]);
        }
    }

    #[test]
    fn scripts_do_not_end_their_elements() {
        let inline = Inline::new(&["p{margin:0}"]);
        for text in [&inline.library, &inline.page] {
            let text = text.to_lowercase();
            assert!(!text.contains("</script") && !text.contains("<!--"));
        }
        assert!(!inline.style.to_lowercase().contains("</style"));
        assert!(inline.library.contains("Permission is hereby granted"));
    }

    #[test]
    fn page_script_creates_no_markup_or_requests() {
        let banned = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "setAttribute(\"style\"",
            "fetch(",
            "XMLHttpRequest",
            "WebSocket",
            "import(",
            "localStorage",
        ];
        for text in PAGE {
            for word in banned {
                assert!(!text.contains(word), "{word}");
            }
        }
    }
}
