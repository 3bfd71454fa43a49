//! A configuration file as written, to report what a reload would change.

use std::collections::BTreeMap;
use std::fmt;

use toml::{Table, Value};

/// Keys and values of a file. Contains secrets, so it is never printed.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct WrittenConfig {
    /// The file without its clusters.
    rest: Table,
    /// Clusters by name.
    clusters: BTreeMap<String, Table>,
}

impl fmt::Debug for WrittenConfig {
    /// Leaves out the values, some of which are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WrittenConfig").finish_non_exhaustive()
    }
}

impl WrittenConfig {
    /// Reads the text of a valid file; an invalid one has no keys. `names` are those of its
    /// clusters, in their order.
    pub(super) fn read<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Self {
        let mut rest: Table = toml::from_str(text).unwrap_or_default();
        let clusters = match rest.remove("cluster") {
            Some(Value::Array(clusters)) => clusters,
            _ => Vec::new(),
        };
        let tables = clusters.into_iter().map(|cluster| match cluster {
            Value::Table(table) => table,
            _ => Table::new(),
        });
        Self {
            rest,
            clusters: names.map(str::to_owned).zip(tables).collect(),
        }
    }

    /// Returns the keys outside of clusters whose values differ. Those of tables have the table's
    /// name in front.
    pub(crate) fn changed_keys(&self, next: &Self) -> Vec<String> {
        let none = Table::new();
        let mut changed = Vec::new();
        for key in differing(&self.rest, &next.rest) {
            let tables = [&self.rest, &next.rest].map(|table| match table.get(&key) {
                Some(Value::Table(inner)) => Some(inner),
                None => Some(&none),
                Some(_) => None,
            });
            match tables {
                [Some(old), Some(new)] if !old.is_empty() || !new.is_empty() => {
                    let inner = differing(old, new).into_iter();
                    changed.extend(inner.map(|inner| format!("{key}.{inner}")));
                }
                _ => changed.push(key),
            }
        }
        changed
    }

    /// Returns the keys of a cluster whose values differ.
    pub(crate) fn changed_cluster_keys(&self, next: &Self, name: &str) -> Vec<String> {
        match (self.clusters.get(name), next.clusters.get(name)) {
            (Some(old), Some(new)) => differing(old, new),
            _ => Vec::new(),
        }
    }
}

/// Returns the keys that only one table has, or whose values differ.
fn differing(old: &Table, new: &Table) -> Vec<String> {
    let of_old = old
        .iter()
        .filter(|(key, value)| new.get(*key) != Some(value));
    let added = new.iter().filter(|(key, _)| !old.contains_key(*key));
    let mut keys: Vec<_> = of_old.chain(added).map(|(key, _)| key.clone()).collect();
    keys.sort_unstable();
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_keys_are_named_without_values() {
        let read = |text: &str| WrittenConfig::read(text, ["a", "b"].into_iter());
        let old = read(
            "splice = true\n[limits]\nframe_ms = 5\n[admin]\ntoken = \"old\"\n\
             [[cluster]]\nname = \"a\"\nlisten = \"x\"\n[[cluster]]\nname = \"b\"\n",
        );
        let new = read(
            "drain_timeout_ms = 1\n[limits]\nframe_ms = 6\nfilter_ms = 1\n\
             [admin]\ntoken = \"new\"\n\
             [[cluster]]\nname = \"a\"\n[[cluster.filter]]\ntype = \"mask\"\n\
             [[cluster]]\nname = \"b\"\n",
        );
        assert_eq!(
            old.changed_keys(&new),
            [
                "admin.token",
                "drain_timeout_ms",
                "limits.filter_ms",
                "limits.frame_ms",
                "splice"
            ]
        );
        assert_eq!(old.changed_cluster_keys(&new, "a"), ["filter", "listen"]);
        assert_eq!(old.changed_cluster_keys(&new, "b"), [""; 0]);
        assert_eq!(old.changed_keys(&old), [""; 0]);
        assert!(!format!("{new:?}").contains("new"));
    }

    #[test]
    fn text_without_clusters_has_no_keys() {
        for text in ["", "cluster = 1", "cluster = [1, 2]", "not = [a"] {
            let read = WrittenConfig::read(text, ["a", "b"].into_iter());
            assert_eq!(
                read.changed_keys(&WrittenConfig::default()),
                [""; 0],
                "{text}"
            );
        }
    }
}
