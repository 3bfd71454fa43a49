//! Texts of limited length.

/// Longest text of an exception that is stored, in bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Cuts a text at a boundary of characters.
pub(super) fn cut(text: &mut String, bytes_max: usize) {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
}
