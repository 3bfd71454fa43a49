//! Text of a peer in a log line: cut, and without control characters.

use std::fmt::{self, Write};

/// Characters of a peer's text that a log line shows.
const SHOWN_CHARS: usize = 100;

/// Shows at most 100 characters of what `T` shows, control characters escaped, so that a peer can
/// neither fill the log nor forge lines of it. Works with `%` and `?` of the `tracing` macros.
#[derive(Clone, Copy)]
pub struct Truncated<T>(pub T);

impl<T: fmt::Display> fmt::Display for Truncated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Cutter::write(f, format_args!("{}", self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Truncated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Cutter::write(f, format_args!("{:?}", self.0))
    }
}

/// Passes the first characters on and refuses the rest, which ends the formatting there.
struct Cutter<'a, 'f> {
    out: &'a mut fmt::Formatter<'f>,
    left: usize,
    is_cut: bool,
}

impl<'a, 'f> Cutter<'a, 'f> {
    fn write(out: &'a mut fmt::Formatter<'f>, text: fmt::Arguments<'_>) -> fmt::Result {
        let mut cutter = Cutter {
            out,
            left: SHOWN_CHARS,
            is_cut: false,
        };
        match cutter.write_fmt(text) {
            Err(_) if cutter.is_cut => cutter.out.write_str("..."),
            result => result,
        }
    }
}

impl Write for Cutter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            if self.left == 0 {
                self.is_cut = true;
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

/// Control characters, and those that separate lines or turn the direction of text.
fn needs_escape(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_text_is_cut_and_control_characters_are_escaped() {
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
    fn formatting_ends_where_the_text_is_cut() {
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
        fn any_text_makes_one_short_line(text in any::<String>()) {
            let shown = Truncated(&text).to_string();
            prop_assert!(!shown.chars().any(char::is_control));
            prop_assert!(shown.chars().count() <= SHOWN_CHARS * 10 + 3);
        }
    }
}
