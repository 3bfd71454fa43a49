//! Escapes untrusted text for each output format.

use std::borrow::Cow;
use std::fmt;

/// Text for HTML and SVG, both content and quoted attributes.
pub(crate) struct Markup<'a>(pub(crate) &'a str);

impl fmt::Display for Markup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_str(" ")?,
                // XML forbids the other control characters; bidirectional overrides would reorder
                // text.
                c if c.is_control() || is_override(c) => f.write_str("\u{fffd}")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// Returns text for a terminal: no escape sequences, one line.
pub(crate) fn terminal(text: &str) -> String {
    plain(text)
}

/// Returns text for Markdown, also inside a table cell.
pub(crate) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '!' | '~' | '@' => {
                out.push('\\');
                out.push(c);
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

/// Returns a CSV field. A leading `=`, `+`, `-` or `@` is guarded, because a spreadsheet would run
/// it as a formula.
pub(crate) fn csv(text: &str) -> Cow<'_, str> {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if !formula && !text.contains(['"', ',', '\n', '\r']) {
        return Cow::Borrowed(text);
    }
    let guard = if formula { "'" } else { "" };
    Cow::Owned(format!("\"{guard}{}\"", text.replace('"', "\"\"")))
}

fn plain(text: &str) -> String {
    let clean = |c: char| match c {
        '\n' | '\t' => ' ',
        c if c.is_control() || is_override(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(clean).collect()
}

fn is_override(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_escapes_tags_and_attributes() {
        let nasty = "</td><script>alert('x')</script>\" onload=\"1\u{1b}\u{202e}";
        let safe = Markup(nasty).to_string();
        assert!(
            !safe.contains(['<', '>', '"', '\'', '\u{1b}', '\u{202e}']),
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
    fn csv_fields_are_quoted_and_guarded() {
        assert_eq!(csv("plain"), "plain");
        assert_eq!(csv("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(csv("=1+1"), "\"'=1+1\"");
    }
}
