//! Conversion of UTF-8 values to upper or lower case, independent of any language.

use super::RecordEdit;

/// Upper or lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Lower,
    Upper,
}

impl Case {
    /// Converts the value. A value that is not UTF-8 is left unchanged.
    pub(super) fn apply(self, record: &mut RecordEdit<'_>) {
        let Some(value) = record.value() else {
            return;
        };
        if value.is_ascii() {
            return record.edit_value(|bytes| self.ascii(bytes));
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
    }

    /// Converts ASCII in place and returns `true` if a byte changed. There is no branch per byte,
    /// so that the compiler vectorizes the loop.
    fn ascii(self, bytes: &mut [u8]) -> bool {
        let first = match self {
            Self::Lower => b'A',
            Self::Upper => b'a',
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
        match self {
            // The lower case of this letter depends on its position in the word.
            Self::Lower if text.contains(CAPITAL_SIGMA) => {
                out.extend_from_slice(text.to_lowercase().as_bytes());
            }
            Self::Lower => {
                for letter in text.chars().flat_map(char::to_lowercase) {
                    out.extend_from_slice(letter.encode_utf8(&mut utf8).as_bytes());
                }
            }
            Self::Upper => {
                for letter in text.chars().flat_map(char::to_uppercase) {
                    out.extend_from_slice(letter.encode_utf8(&mut utf8).as_bytes());
                }
            }
        }
    }
}

const CAPITAL_SIGMA: char = 'Σ';
