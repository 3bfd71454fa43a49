//! Writes typed values of a line.

use std::fmt::Write;

use super::text::push_text;
use crate::modes::ItemModes;

/// Appends values to a line.
pub(super) struct TokenWriter<'a> {
    out: &'a mut String,
}

impl<'a> TokenWriter<'a> {
    /// Starts a line.
    pub(super) fn new(out: &'a mut String, id: &str, method: &str) -> Self {
        out.push_str(id);
        out.push('|');
        out.push_str(method);
        Self { out }
    }

    pub(super) fn token(&mut self, token: &str) {
        self.out.push('|');
        self.out.push_str(token);
    }

    pub(super) fn bare_text(&mut self, text: Option<&str>) {
        self.out.push('|');
        push_text(self.out, text);
    }

    pub(super) fn optional_text(&mut self, text: Option<&str>) {
        self.token("S");
        self.bare_text(text);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.optional_text(Some(text));
    }

    pub(super) fn integer(&mut self, value: i32) {
        self.number("I", value);
    }

    pub(super) fn count(&mut self, count: usize) {
        self.number("I", count);
    }

    pub(super) fn long(&mut self, value: i64) {
        self.number("L", value);
    }

    pub(super) fn decimal(&mut self, value: f64) {
        self.number("D", value);
    }

    pub(super) fn flag(&mut self, value: bool) {
        self.number("B", u8::from(value));
    }

    pub(super) fn modes(&mut self, modes: Option<ItemModes>) {
        self.token("M|");
        match modes {
            None => self.out.push('#'),
            Some(modes) if modes.is_empty() => self.out.push('$'),
            Some(modes) => self.out.extend(modes.iter().map(|mode| mode.letter())),
        }
    }

    /// Ends the line.
    pub(super) fn finish(self) {
        self.out.push_str("\r\n");
    }

    fn number(&mut self, kind: &str, value: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.out, "|{kind}|{value}");
    }
}
