//! Text of a peer in log lines, truncated and without control characters.

use std::fmt::{self, Write};

/// Maximum number of characters shown.
const SHOWN_CHARS: usize = 100;

/// Formats at most 100 characters of `T`, with control characters escaped, so that a peer can
/// neither fill the log nor forge lines. Works with `%` and `?` of the `tracing` macros.
#[derive(Clone, Copy)]
pub struct Truncated<T>(pub T);

impl<T: fmt::Display> fmt::Display for Truncated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TruncatingWriter::write(f, format_args!("{}", self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Truncated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TruncatingWriter::write(f, format_args!("{:?}", self.0))
    }
}

/// Formatter output that accepts the first characters and fails at the next, which ends formatting.
struct TruncatingWriter<'a, 'f> {
    out: &'a mut fmt::Formatter<'f>,
    left: usize,
    is_truncated: bool,
}

impl<'a, 'f> TruncatingWriter<'a, 'f> {
    fn write(out: &'a mut fmt::Formatter<'f>, text: fmt::Arguments<'_>) -> fmt::Result {
        let mut writer = TruncatingWriter {
            out,
            left: SHOWN_CHARS,
            is_truncated: false,
        };
        match writer.write_fmt(text) {
            Err(_) if writer.is_truncated => writer.out.write_str("..."),
            result => result,
        }
    }
}

impl Write for TruncatingWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if self.left == 0 {
                self.is_truncated = true;
                return Err(fmt::Error);
            }
            self.left -= 1;
            match needs_escape(c) {
                true => write!(self.out, "{}", c.escape_unicode())?,
                false => self.out.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Returns `true` for control characters and for those that separate lines or change the direction
/// of text.
fn needs_escape(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_truncated_and_control_characters_escaped() {
        assert_eq!(Truncated("item-1").to_string(), "item-1");
        let forged = "x\r\n2026-01-01 ERROR \u{1b}[31mall is lost";
        let shown = Truncated(forged).to_string();
        assert_eq!(
            shown,
            "x\\u{d}\\u{a}2026-01-01 ERROR \\u{1b}[31mall is lost"
        );
        let exact = "\u{e4}".repeat(SHOWN_CHARS);
        assert_eq!(Truncated(&exact).to_string(), exact);
        let long = "a".repeat(1_000_000);
        assert_eq!(
            Truncated(&long).to_string(),
            "a".repeat(SHOWN_CHARS) + "..."
        );
        assert_eq!(format!("{:?}", Truncated(Some("a\n"))), "Some(\"a\\n\")");
    }

    #[test]
    fn formatting_stops_at_truncation() {
        struct Endless;
        impl fmt::Display for Endless {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                loop {
                    f.write_str("ab")?;
                }
            }
        }
        assert_eq!(Truncated(Endless).to_string().len(), SHOWN_CHARS + 3);
    }

    proptest! {
        #[test]
        fn arbitrary_text_becomes_one_short_line(text in any::<String>()) {
            let shown = Truncated(&text).to_string();
            prop_assert!(!shown.chars().any(char::is_control));
            prop_assert!(shown.chars().count() <= SHOWN_CHARS * 10 + 3);
        }
    }
}
