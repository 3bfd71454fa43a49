//! Set of fields, identified by their index in the mapping.

use smallvec::SmallVec;

const WORD_BITS: usize = u64::BITS as usize;

/// Set of field indexes. Sets with indexes below 128 need no allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FieldSet {
    // The last word is never zero, so equal sets have equal words.
    words: SmallVec<[u64; 2]>,
}

impl FieldSet {
    /// Returns the empty set.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Returns the set of the first `count` fields.
    pub fn all(count: usize) -> Self {
        let mut words = SmallVec::from_elem(u64::MAX, count / WORD_BITS);
        if count % WORD_BITS > 0 {
            words.push((1 << (count % WORD_BITS)) - 1);
        }
        Self { words }
    }

    /// Adds a field. Returns `false` if the set contained it.
    pub fn insert(&mut self, index: usize) -> bool {
        let (word, bit) = (index / WORD_BITS, 1 << (index % WORD_BITS));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    /// Returns `true` if the set contains the field.
    pub fn contains(&self, index: usize) -> bool {
        let word = self.words.get(index / WORD_BITS);
        word.is_some_and(|word| word & (1 << (index % WORD_BITS)) != 0)
    }

    /// Adds all fields of `other`. Returns `false` if the set contained them.
    pub fn union_with(&mut self, other: &Self) -> bool {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        let mut grew = false;
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            grew |= *more & !*word != 0;
            *word |= more;
        }
        grew
    }

    /// Returns `true` if `other` contains every field of this set.
    pub fn is_subset(&self, other: &Self) -> bool {
        let others = other.words.iter().chain(std::iter::repeat(&0));
        self.words.iter().zip(others).all(|(a, b)| a & !b == 0)
    }

    /// Returns `true` if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the index after the last field, 0 for the empty set.
    pub fn end(&self) -> usize {
        let last = self
            .words
            .last()
            .map_or(0, |word| word.leading_zeros() as usize);
        self.words.len() * WORD_BITS - last
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Returns the indexes in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + Clone {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            let bits = std::iter::successors((word != 0).then_some(word), |rest| {
                let rest = rest & (rest - 1);
                (rest != 0).then_some(rest)
            });
            bits.map(move |rest| i * WORD_BITS + rest.trailing_zeros() as usize)
        })
    }
}

impl FromIterator<usize> for FieldSet {
    fn from_iter<I: IntoIterator<Item = usize>>(indexes: I) -> Self {
        let mut set = Self::empty();
        for index in indexes {
            set.insert(index);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_contains_first_fields() {
        for count in [0, 1, 63, 64, 65, 128, 1000] {
            let set = FieldSet::all(count);
            assert_eq!(set.len(), count);
            assert!(set.iter().eq(0..count));
            assert_eq!(set, (0..count).collect());
            assert_eq!(set.is_empty(), count == 0);
            assert!(!set.contains(count));
        }
    }

    proptest! {
        #[test]
        fn field_set_matches_btree_set(
            left in vec(0usize..300, 0..20),
            right in vec(0usize..300, 0..20),
        ) {
            let (mut a, b): (FieldSet, FieldSet) =
                (left.iter().copied().collect(), right.iter().copied().collect());
            let (mut x, y): (BTreeSet<_>, BTreeSet<_>) =
                (left.into_iter().collect(), right.into_iter().collect());
            prop_assert!(a.iter().eq(x.iter().copied()));
            prop_assert_eq!(a.is_subset(&b), x.is_subset(&y));
            prop_assert_eq!(a == b, x == y);
            prop_assert!((0..301).all(|i| a.contains(i) == x.contains(&i)));
            prop_assert_eq!(a.union_with(&b), !y.is_subset(&x));
            x.extend(&y);
            prop_assert!(a.iter().eq(x.iter().copied()));
            prop_assert_eq!(a.len(), x.len());
            prop_assert_eq!(a.end(), x.last().map_or(0, |last| last + 1));
            prop_assert!(b.is_subset(&a));
            prop_assert!(!a.union_with(&b));
        }
    }
}
