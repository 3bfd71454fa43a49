//! Finds common runs of two texts, in order and in linear time.
//!
//! The common start and the common end are found first, which suffices for most changes. Between
//! them, a hash index of the old text's blocks finds the runs.

/// A run of bytes that occurs in both texts, on character boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommonRun {
    pub(super) old: usize,
    pub(super) new: usize,
    pub(super) length: usize,
}

/// Length of the blocks of the old text that are indexed, and minimum length of a run between
/// changes.
const BLOCK_BYTES: usize = 16;

/// Calls `found` for each run in order, until it returns `false`. Runs are in the same order in
/// both texts. The last call is for the end of both texts; its length is 0 if the ends differ.
pub(super) fn matches(old: &str, new: &str, found: &mut dyn FnMut(CommonRun) -> bool) {
    let head = common_start(old.as_bytes(), new.as_bytes());
    let head = floor(new, head, 0);
    let (old_rest, new_rest) = (&old.as_bytes()[head..], &new.as_bytes()[head..]);
    let tail = common_end(old_rest, new_rest);
    // The end must start at a character boundary.
    let cut = (0..tail).find(|cut| new.is_char_boundary(new.len() - tail + cut));
    let tail = cut.map_or(0, |cut| tail - cut);
    let last = CommonRun {
        old: old.len() - tail,
        new: new.len() - tail,
        length: tail,
    };
    let first = CommonRun {
        old: 0,
        new: 0,
        length: head,
    };
    if head > 0 && !found(first) {
        return;
    }
    let middle = Middle {
        old: &old[..last.old],
        new: &new[..last.new],
    };
    if middle.search(head, found) {
        found(last);
    }
}

/// Both texts without their common end.
struct Middle<'a> {
    old: &'a str,
    new: &'a str,
}

impl Middle<'_> {
    /// Calls `found` for each run. Returns `false` if `found` did.
    fn search(&self, from: usize, found: &mut dyn FnMut(CommonRun) -> bool) -> bool {
        let (old, new) = (self.old.as_bytes(), self.new.as_bytes());
        if old.len() - from < BLOCK_BYTES || new.len() - from < BLOCK_BYTES {
            return true;
        }
        let index = MatchIndex::of(old, from);
        let (mut old_at, mut new_at) = (from, from);
        let mut at = from;
        while let Some(block) = new.get(at..at + BLOCK_BYTES) {
            let Some(hit) = index.find(block).filter(|hit| *hit >= old_at) else {
                at += 1;
                continue;
            };
            if &old[hit..hit + BLOCK_BYTES] != block {
                at += 1;
                continue;
            }
            let back = common_end(&old[old_at..hit], &new[new_at..at]);
            let (start_old, start_new) = (hit - back, at - back);
            let length = common_start(&old[start_old..], &new[start_new..]);
            let Some(same) = self.aligned(start_old, start_new, length) else {
                at += 1;
                continue;
            };
            if !found(same) {
                return false;
            }
            (old_at, new_at) = (same.old + same.length, same.new + same.length);
            at = new_at;
        }
        true
    }

    /// Returns the part of a run that consists of whole characters.
    fn aligned(&self, old: usize, new: usize, length: usize) -> Option<CommonRun> {
        let skip = (0..length).find(|skip| self.new.is_char_boundary(new + skip))?;
        let (old, new) = (old + skip, new + skip);
        let end = floor(self.new, new + length - skip, new);
        (end > new).then_some(CommonRun {
            old,
            new,
            length: end - new,
        })
    }
}

/// Returns the last character boundary at or before `at`, but not before `from`, which is one.
fn floor(text: &str, at: usize, from: usize) -> usize {
    (from..=at)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(from)
}

/// Positions of the blocks of the old text, by the hash of their bytes. Of several blocks with the
/// same hash, the last one is stored.
struct MatchIndex {
    /// Position + 1; 0 is empty.
    slots: Vec<u32>,
    shift: u32,
}

impl MatchIndex {
    fn of(old: &[u8], from: usize) -> Self {
        let blocks = (old.len() - from) / BLOCK_BYTES;
        let bits = (blocks * 2).next_power_of_two().trailing_zeros().max(4);
        let mut index = Self {
            slots: vec![0; 1 << bits],
            shift: 64 - bits,
        };
        for block in 0..blocks {
            let at = from + block * BLOCK_BYTES;
            let slot = index.slot(&old[at..at + BLOCK_BYTES]);
            // Texts are shorter than 4 GiB, because of the callers' limits.
            index.slots[slot] = at as u32 + 1;
        }
        index
    }

    fn slot(&self, block: &[u8]) -> usize {
        let half = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let mixed = half(&block[..8]).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ half(&block[8..]).rotate_left(32);
        (mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> self.shift) as usize
    }

    fn find(&self, block: &[u8]) -> Option<usize> {
        (self.slots[self.slot(block)] as usize).checked_sub(1)
    }
}

fn common_start(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = 32;
    let steps = one.chunks_exact(STEP).zip(other.chunks_exact(STEP));
    let at = steps.take_while(|(a, b)| a == b).count() * STEP;
    let rest = one[at..].iter().zip(&other[at..]);
    at + rest.take_while(|(a, b)| a == b).count()
}

fn common_end(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = 32;
    let steps = one.rchunks_exact(STEP).zip(other.rchunks_exact(STEP));
    let at = steps.take_while(|(a, b)| a == b).count() * STEP;
    let rest = one[..one.len() - at].iter().rev();
    let rest = rest.zip(other[..other.len() - at].iter().rev());
    at + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(old: &str, new: &str) -> Vec<CommonRun> {
        let mut runs = Vec::new();
        matches(old, new, &mut |run| {
            runs.push(run);
            true
        });
        runs
    }

    #[test]
    fn common_ends_are_exact() {
        for length in 0..100 {
            let (one, other) = ("x".repeat(length) + "a", "x".repeat(length) + "b");
            assert_eq!(common_start(one.as_bytes(), other.as_bytes()), length);
            let (one, other) = (
                "a".to_owned() + &one[..length],
                "b".to_owned() + &one[..length],
            );
            assert_eq!(common_end(one.as_bytes(), other.as_bytes()), length);
        }
    }

    #[test]
    fn runs_contain_whole_characters() {
        // é and è share their first byte, é and © their last one.
        let run = |old, new, length| CommonRun { old, new, length };
        assert_eq!(all("aéb", "aèb"), [run(0, 0, 1), run(3, 3, 1)]);
        assert_eq!(all("aéb", "a©b"), [run(0, 0, 1), run(3, 3, 1)]);
        assert_eq!(all("", "a"), [run(0, 1, 0)]);
    }

    proptest! {
        #[test]
        fn runs_are_equal_and_ordered(
            old in "[aé€b]{0,120}", new in "[aé€b]{0,120}", cut in 0usize..100,
        ) {
            // The new text contains parts of the old one.
            let cut = floor(&old, cut.min(old.len()), 0);
            let new = format!("{}{new}{}", &old[cut..], &old[..cut]);
            let (mut old_at, mut new_at) = (0, 0);
            for same in all(&old, &new) {
                prop_assert!(same.old >= old_at && same.new >= new_at);
                let end = (same.old + same.length, same.new + same.length);
                prop_assert_eq!(&old[same.old..end.0], &new[same.new..end.1]);
                (old_at, new_at) = end;
            }
            prop_assert_eq!((old_at, new_at), (old.len(), new.len()));
        }
    }
}
