//! Checks runs of strings between separators 64 bytes at a time.

use super::block::{BLOCK_BYTES, positions, prefix_xor};

/// Number of bytes after the end of a search during which no run is searched. A failed search costs
/// as much as reading a block, so it must be rare.
const RETRY_BYTES: usize = 256;

/// Runs of strings in a document whose strings are valid if they have no escapes.
#[derive(Default)]
pub(super) struct StringRuns {
    /// Position before which no run is searched.
    retry_at: usize,
}

impl StringRuns {
    /// Returns the position after the last comma of the run that starts at `at`; `at` itself if
    /// there is no run. A run consists of elements or members that are strings.
    ///
    /// The strings of a run have no escapes, and there is no white space between them.
    #[inline]
    pub(super) fn skip(&mut self, bytes: &[u8], at: usize, in_object: bool) -> usize {
        if at < self.retry_at {
            return at;
        }
        let end = match in_object {
            true => run::<true>(bytes, at),
            false => run::<false>(bytes, at),
        };
        self.retry_at = end + RETRY_BYTES;
        end
    }
}

fn run<const IN_OBJECT: bool>(bytes: &[u8], mut at: usize) -> usize {
    while let Some(block) = bytes[at..].first_chunk::<BLOCK_BYTES>() {
        match block_run::<IN_OBJECT>(block) {
            0 => break,
            length => at += length,
        }
    }
    at
}

/// Returns the length of the run at the start of a block, including its last comma.
#[inline]
fn block_run<const IN_OBJECT: bool>(block: &[u8; BLOCK_BYTES]) -> usize {
    if block[0] != b'"' {
        return 0;
    }
    let quotes = positions(block, b'"');
    // From each opening quote to the byte before the closing quote.
    let in_string = prefix_xor(quotes);
    let ends = quotes & !in_string;
    let outside = !in_string & !ends;
    let commas = positions(block, b',') & outside;
    let colons = match IN_OBJECT {
        true => positions(block, b':') & outside,
        false => 0,
    };
    let separators = commas | colons;
    // Every second separator is a colon in an object, beginning with the first.
    let after_name = match IN_OBJECT {
        true => prefix_xor(separators),
        false => 0,
    };
    let last = match commas & !after_name {
        0 => return 0,
        found => 63 - found.leading_zeros(),
    };
    let run = u64::MAX >> (63 - last);
    let escapes = positions(block, b'\\');
    let alternate = colons == separators & after_name;
    // Each closing quote is followed by a separator, and nothing else is outside the strings. So a
    // string follows each separator.
    match (outside ^ separators | ends << 1 ^ separators | escapes) & run {
        0 if alternate || colons & run == separators & after_name & run => last as usize + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Returns the end of the longest run, read one string at a time.
    fn naive(text: &str, in_object: bool) -> usize {
        let (mut at, mut end, mut is_name) = (0, 0, in_object);
        loop {
            let Some(string) = text[at..].strip_prefix('"') else {
                return end;
            };
            let Some((inside, rest)) = string.split_once('"') else {
                return end;
            };
            let separator = if is_name { ':' } else { ',' };
            if inside.contains('\\') || !rest.starts_with(separator) {
                return end;
            }
            at = text.len() - rest.len() + 1;
            if !is_name {
                end = at;
            }
            is_name = in_object && !is_name;
        }
    }

    proptest! {
        /// Each run ends at a comma that the naive reader finds too, and long runs are found.
        #[test]
        fn runs_match_strings_read_one_by_one(
            start in 0_usize..40,
            pieces in vec(prop::sample::select(vec![
                "\"", ",", ":", "a", "é", " ", "\\", "1", "[", "]", "}", "\"\"",
            ]), 0..20),
            in_object: bool,
        ) {
            let one = if in_object { r#""ab":"c,:d","# } else { r#""ab,:c","# };
            let text = format!("{}{}{}", one.repeat(start), pieces.concat(), one.repeat(12));
            let found = StringRuns::default().skip(text.as_bytes(), 0, in_object);
            let longest = naive(&text, in_object);
            prop_assert!(found <= longest, "{found} of {longest} in {text}");
            prop_assert!(found == 0 || text.as_bytes()[found - 1] == b',');
            prop_assert!(found + BLOCK_BYTES > (start * one.len()).min(longest));
            // The naive reader must also end an element at this position.
            let rest = naive(&text[found..], in_object);
            prop_assert_eq!(found + rest, longest);
        }
    }

    #[test]
    fn search_pauses_after_a_run() {
        let text = format!(r#"{}1,{}"#, r#""abc","#.repeat(40), r#""abc","#.repeat(200));
        let mut runs = StringRuns::default();
        let end = runs.skip(text.as_bytes(), 0, false);
        assert!((177..=240).contains(&end), "{end}");
        assert_eq!(runs.skip(text.as_bytes(), 242, false), 242);
        let later = 242 + 6 * 60;
        assert!(runs.skip(text.as_bytes(), later, false) > later);
    }
}
