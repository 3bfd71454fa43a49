//! The filters `lower-case` and `upper-case` convert UTF-8 values, independent of any language.

use crate::{Filter, RecordEdit, RecordRejection};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    LowerCase,
    UpperCase,
}

impl Filter for Case {
    /// Converts the value. A value that is not UTF-8 is left unchanged.
    fn record(&self, record: &mut RecordEdit<'_>) -> Result<(), RecordRejection> {
        let Some(value) = record.value() else {
            return Ok(());
        };
        if value.is_ascii() {
            record.edit_value(|bytes| self.ascii(bytes));
            return Ok(());
        }
        let mut is_text = true;
        record.rewrite_value(|bytes, out| {
            let Ok(text) = std::str::from_utf8(bytes) else {
                is_text = false;
                return false;
            };
            self.unicode(text, out);
            true
        });
        if !is_text {
            record.count_undecodable();
        }
        Ok(())
    }
}

impl Case {
    /// Converts ASCII in place and returns `true` if a byte changed. There is no branch per byte,
    /// so that the compiler vectorizes the loop.
    fn ascii(self, bytes: &mut [u8]) -> bool {
        let first = match self {
            Self::LowerCase => b'A',
            Self::UpperCase => b'a',
        };
        let mut changed = 0;
        for byte in bytes {
            let other_case = u8::from(byte.wrapping_sub(first) < 26);
            changed |= other_case;
            *byte ^= other_case << 5;
        }
        changed != 0
    }

    /// Converts any text. The number of letters and bytes may change.
    fn unicode(self, text: &str, out: &mut Vec<u8>) {
        let mut utf8 = [0; 4];
        let mut put =
            |letter: char| out.extend_from_slice(letter.encode_utf8(&mut utf8).as_bytes());
        match self {
            // The lower case of this letter depends on its position in the word.
            Self::LowerCase if text.contains('Σ') => text.to_lowercase().chars().for_each(put),
            Self::LowerCase => text.chars().flat_map(char::to_lowercase).for_each(&mut put),
            Self::UpperCase => text.chars().flat_map(char::to_uppercase).for_each(&mut put),
        }
    }
}
