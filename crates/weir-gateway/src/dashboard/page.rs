//! The page and its parts, served from the binary. The page itself tells nothing, so it needs no
//! token: it asks for one when its data does.

use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

const HTML: &str = include_str!("page.html");
const CSS: &str = include_str!("page.css");
const SCRIPTS: [(&str, &str); 3] = [
    ("/dashboard/format.js", include_str!("format.js")),
    ("/dashboard/chart.js", include_str!("chart.js")),
    ("/dashboard/page.js", include_str!("page.js")),
];

/// Nothing but what the page brings with it: no inline code, no other host, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Routes of what everybody may see.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let mut router = Router::new()
        .route(
            "/dashboard",
            get(|| async { part("text/html; charset=utf-8", HTML) }),
        )
        .route(
            "/dashboard/page.css",
            get(|| async { part("text/css; charset=utf-8", CSS) }),
        );
    for (path, script) in SCRIPTS {
        let kind = "text/javascript; charset=utf-8";
        router = router.route(path, get(move || async move { part(kind, script) }));
    }
    router
}

fn part(kind: &'static str, body: &'static str) -> Response {
    (
        [(header::CONTENT_TYPE, HeaderValue::from_static(kind))],
        guarded(),
        body,
    )
        .into_response()
}

/// Headers of everything that a browser may show.
pub(crate) fn guarded() -> [(HeaderName, HeaderValue); 5] {
    [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ]
    .map(|(name, value)| (name, HeaderValue::from_static(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy would keep a browser from running or loading it, and the page would be blank.
    #[test]
    fn nothing_is_inline_and_nothing_comes_from_elsewhere() {
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
            assert!(SCRIPTS.iter().any(|(served, _)| *served == path), "{path}");
        }
        let outside = CSS.contains("url(") || CSS.contains("@import");
        assert!(!outside, "styles load nothing");
    }

    /// Texts of the gateway, names and errors among them, reach the page as text only.
    #[test]
    fn scripts_never_make_markup_from_data() {
        let word = |parts: [&str; 2]| parts.concat();
        for (path, script) in SCRIPTS {
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
                // A name, not an address.
                let script = script.replace("http://www.w3.org/2000/svg", "");
                assert!(!script.contains(&forbidden), "{path}: {forbidden}");
            }
        }
    }
}
