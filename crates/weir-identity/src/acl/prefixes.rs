//! Look-up of the prefixes of a name.

/// Prefixes with values, sorted. The prefixes of a name form a chain.
#[derive(Debug, Clone)]
pub(super) struct PrefixTable<T> {
    entries: Vec<PrefixEntry<T>>,
}

#[derive(Debug, Clone)]
struct PrefixEntry<T> {
    prefix: Box<str>,
    /// Position of the longest other prefix of this prefix.
    parent: Option<usize>,
    value: T,
}

impl<T> PrefixTable<T> {
    /// Creates a table of unique prefixes.
    pub(super) fn new(mut prefixes: Vec<(Box<str>, T)>) -> Self {
        prefixes.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut entries: Vec<PrefixEntry<T>> = Vec::with_capacity(prefixes.len());
        for (prefix, value) in prefixes {
            let mut parent = entries.len().checked_sub(1);
            while let Some(at) = parent {
                if prefix.starts_with(&*entries[at].prefix) {
                    break;
                }
                parent = entries[at].parent;
            }
            entries.push(PrefixEntry {
                prefix,
                parent,
                value,
            });
        }
        Self { entries }
    }

    /// Returns all values.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().map(|entry| &entry.value)
    }

    /// Returns the values of all prefixes of a name, the longest first.
    pub(super) fn of<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a T> {
        // Every prefix of the name is also one of the greatest entry that is not above the name.
        let above = self.entries.partition_point(|entry| *entry.prefix <= *name);
        let mut at = above.checked_sub(1);
        while let Some(index) = at {
            if name.starts_with(&*self.entries[index].prefix) {
                break;
            }
            at = self.entries[index].parent;
        }
        std::iter::from_fn(move || {
            let entry = &self.entries[at?];
            at = entry.parent;
            Some(&entry.value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lookup_matches_linear_scan(
            prefixes in proptest::collection::btree_set("[ab]{1,5}", 0..20),
            name in "[ab]{0,8}",
        ) {
            let list = prefixes.iter().map(|one| (one.as_str().into(), one.clone()));
            let table = PrefixTable::new(list.collect());
            let found: Vec<_> = table.of(&name).cloned().collect();
            let mut wanted: Vec<_> =
                prefixes.into_iter().filter(|one| name.starts_with(one)).collect();
            wanted.sort_unstable_by_key(|one| std::cmp::Reverse(one.len()));
            prop_assert_eq!(found, wanted);
        }
    }
}
