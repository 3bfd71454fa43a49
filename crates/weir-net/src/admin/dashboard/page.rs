//! The page and its parts, embedded in the binary. The page contains no data and needs no token; it
//! asks for the token when its data requires one.

use crate::http1::Response;

const HTML: &str = include_str!("page.html");
const CSS: &str = include_str!("page.css");
const SCRIPTS: [(&str, &str); 3] = [
    ("/dashboard/format.js", include_str!("format.js")),
    ("/dashboard/chart.js", include_str!("chart.js")),
    ("/dashboard/page.js", include_str!("page.js")),
];
const PRODUCT: &str = "/dashboard/product.js";

/// Returns the part of the page at `path`, otherwise `None`. `product` is the script of the gateway
/// or the proxy.
pub(super) fn part(path: &str, product: &'static str) -> Option<Response> {
    let (content_type, body) = match path {
        "/dashboard" => ("text/html; charset=utf-8", HTML),
        "/dashboard/page.css" => ("text/css; charset=utf-8", CSS),
        PRODUCT => (JAVASCRIPT, product),
        _ => {
            let (_, script) = SCRIPTS.iter().find(|(served, _)| *served == path)?;
            (JAVASCRIPT, *script)
        }
    };
    Some(Response {
        content_type,
        ..Response::text(200, body)
    })
}

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

#[cfg(test)]
mod tests {
    use super::*;

    /// The content policy would block such content, and the page would be blank.
    #[test]
    fn page_has_no_inline_or_external_content() {
        let lower = HTML.to_ascii_lowercase();
        for forbidden in [
            "<style",
            "style=",
            " on",
            "javascript:",
            "http:",
            "https:",
            "src=\"//",
        ] {
            let found = lower
                .find(forbidden)
                .map(|at| &lower[at..lower.len().min(at + 40)]);
            assert_eq!(found, None, "{forbidden}");
        }
        for tag in lower.split("<script").skip(1) {
            assert!(tag.starts_with(" src=\"/dashboard/"), "{tag}");
            let path = tag.split('"').nth(1).unwrap();
            assert!(part(path, "").is_some(), "{path}");
        }
        let outside = CSS.contains("url(") || CSS.contains("@import");
        assert!(!outside, "styles load nothing");
    }

    /// Text from a product, such as names and errors, must be inserted as text only.
    #[test]
    fn scripts_create_no_markup_from_data() {
        let word = |parts: [&str; 2]| parts.concat();
        let products = [
            (
                "gateway",
                include_str!("../../../../weir-gateway/src/dashboard.js"),
            ),
            (
                "try",
                include_str!("../../../../weir-gateway/src/try_page.js"),
            ),
            (
                "proxy",
                include_str!("../../../../weir-proxy/src/dashboard.js"),
            ),
        ];
        for (path, script) in SCRIPTS.into_iter().chain(products) {
            for forbidden in [
                word(["inner", "HTML"]),
                word(["outer", "HTML"]),
                word(["insertAdjacent", "HTML"]),
                word(["document.", "write"]),
                word(["ev", "al("]),
                word(["new Func", "tion"]),
                word(["setAttribute(\"st", "yle\""]),
                word(["http", "://"]),
            ] {
                // A namespace name, not an address.
                let script = script.replace("http://www.w3.org/2000/svg", "");
                assert!(!script.contains(&forbidden), "{path}: {forbidden}");
            }
        }
    }
}
