//! Escapes untrusted text for each output format.

use std::borrow::Cow;

/// Returns a finished page or drawing without control characters, which XML forbids, and without
/// characters that reorder text. The templates have escaped the others.
pub(crate) fn page(text: &str) -> String {
    text.split('\n')
        .map(terminal)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns an HTML page as [`page`] does, with non-breaking spaces between numbers and their units,
/// so that no line ends there. Elements, scripts and styles stay as they are.
pub(crate) fn html(text: &str) -> String {
    let text = page(text);
    let (mut out, mut rest) = (String::with_capacity(text.len()), text.as_str());
    while let Some(start) = rest.find('<') {
        let (before, element) = rest.split_at(start);
        let is_raw = |name: &&str| element[1..].starts_with(*name);
        let end = match ["script", "style"].iter().find(|name| is_raw(name)) {
            Some(name) => format!("</{name}>"),
            None => ">".to_owned(),
        };
        let length = element
            .find(&end)
            .map_or(element.len(), |at| at + end.len());
        push_joined(&mut out, before);
        out.push_str(&element[..length]);
        rest = &element[length..];
    }
    push_joined(&mut out, rest);
    out
}

/// Adds the text of an element.
fn push_joined(out: &mut String, text: &str) {
    for (index, word) in text.split(' ').enumerate() {
        if index > 0 {
            let unit = word.trim_end_matches([',', '.', ';', ':', ')', '/']);
            let is_factor = ["×", "%"].iter().any(|sign| word.starts_with(sign));
            let is_after_number = out.ends_with(|c: char| c.is_ascii_digit());
            let is_unit = is_after_number && UNITS.contains(&unit);
            // Bounds of an interval: "0.95 to 1.01".
            let is_bound = is_after_number && word == "to"
                || out.ends_with("\u{a0}to") && word.starts_with(|c: char| c.is_ascii_digit());
            let is_joined = is_factor || is_unit || is_bound;
            out.push(if is_joined { '\u{a0}' } else { ' ' });
        }
        out.push_str(word);
    }
}

/// Returns text for a terminal: no escape sequences, one line.
pub(crate) fn terminal(text: &str) -> String {
    let clean = |c: char| match c {
        '\n' | '\t' => ' ',
        // Bidirectional overrides would reorder text.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(clean).collect()
}

/// Returns text for Markdown, also inside a table cell.
pub(crate) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let text = terminal(text);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '&' => out.push_str("&amp;"),
            // A digit does not start an element.
            '<' if !chars.peek().is_some_and(char::is_ascii_digit) => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '!' | '~' | '@' => {
                out.extend(['\\', c]);
            }
            c => out.push(c),
        }
    }
    out
}

/// Returns JSON for a script element; no character can end the element or start a comment.
pub(crate) fn json_in_html(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 16);
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

/// Returns a text that a spreadsheet does not run as a formula. Numbers may be negative.
pub(crate) fn formula(text: &str) -> Cow<'_, str> {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    match is_formula && text.parse::<f64>().is_err() {
        true => Cow::Owned(format!("'{text}")),
        false => Cow::Borrowed(text),
    }
}

/// Units that stay with the number before them.
const UNITS: [&str; 14] = [
    "s",
    "ms",
    "µs",
    "B",
    "kB",
    "KB",
    "MB",
    "GB",
    "KiB",
    "MiB",
    "GiB",
    "records/s",
    "client",
    "clients",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_escapes_tags_and_attributes() {
        let nasty = "</td><script>alert('x')</script>\" onload=\"1\u{1b}\u{202e}";
        let safe = page(&maud::html! { (nasty) }.into_string());
        assert!(
            !safe.contains(['<', '>', '"', '\u{1b}', '\u{202e}']),
            "{safe}"
        );
    }

    #[test]
    fn terminal_removes_escape_sequences() {
        assert_eq!(terminal("a\u{1b}[31m\nb"), "a\u{fffd}[31m b");
    }

    #[test]
    fn markdown_text_stays_in_its_cell() {
        assert_eq!(markdown("a|b\n<i>`*"), "a\\|b &lt;i&gt;\\`\\*");
        assert_eq!(markdown("<0.001 </p> <"), "<0.001 &lt;/p&gt; &lt;");
    }

    #[test]
    fn json_cannot_end_its_script() {
        let json = serde_json::to_string("</script><!--&\u{2028}").unwrap();
        let safe = json_in_html(&json);
        assert!(!safe.contains(['<', '>', '&', '\u{2028}']), "{safe}");
        let back: String = serde_json::from_str(&safe).unwrap();
        assert_eq!(back, "</script><!--&\u{2028}");
    }

    #[test]
    fn numbers_stay_with_their_units() {
        let text = "<p title=\"1 %\">1.02 × it, 5 % (3 ms), 3 s<b> % </b>of 2 sets, 1 to 2</p>\
                    <script>5 % 3 < 2 % 1</script>";
        let expected = "<p title=\"1 %\">1.02\u{a0}× it, 5\u{a0}% (3\u{a0}ms), \
                        3\u{a0}s<b>\u{a0}% </b>of 2 sets, 1\u{a0}to\u{a0}2</p>\
                        <script>5 % 3 < 2 % 1</script>";
        assert_eq!(html(text), expected);
        assert_eq!(html("a < 5"), "a < 5");
    }
}
