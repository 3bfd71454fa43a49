//! Offsets by topic and partition.

/// Next offsets of partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offsets {
    // A source reads few topics, so comparing names is faster than hashing them.
    topics: Vec<(Box<str>, Vec<Option<i64>>)>,
}

impl Offsets {
    /// Returns the offset of a partition, or `None` if it has none.
    pub fn get(&self, topic: &str, partition: i32) -> Option<i64> {
        let (_, partitions) = self.topics.iter().find(|(name, _)| &**name == topic)?;
        *partitions.get(usize::try_from(partition).ok()?)?
    }

    /// Sets the offset of a partition and returns the previous one. Ignores negative partitions.
    pub fn set(&mut self, topic: &str, partition: i32, offset: i64) -> Option<i64> {
        let partition = usize::try_from(partition).ok()?;
        let found = self.topics.iter().position(|(name, _)| &**name == topic);
        let index = found.unwrap_or_else(|| {
            self.topics.push((topic.into(), Vec::new()));
            self.topics.len() - 1
        });
        let partitions = &mut self.topics[index].1;
        if partitions.len() <= partition {
            partitions.resize(partition + 1, None);
        }
        partitions[partition].replace(offset)
    }

    /// Removes a topic.
    pub fn remove(&mut self, topic: &str) {
        self.topics.retain(|(name, _)| &**name != topic);
    }

    /// Copies all offsets of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (topic, partition, offset) in other.iter() {
            self.set(topic, partition, offset);
        }
    }

    /// Returns topic, partition and offset of all entries.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i32, i64)> {
        self.topics.iter().flat_map(|(topic, partitions)| {
            let known = partitions.iter().enumerate();
            known.filter_map(|(partition, offset)| {
                Some((&**topic, i32::try_from(partition).ok()?, (*offset)?))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_replaces_and_merge_adds_offsets() {
        let mut offsets = Offsets::default();
        assert_eq!(offsets.set("a", 2, 5), None);
        assert_eq!(offsets.set("a", 2, 7), Some(5));
        assert_eq!(offsets.set("b", 0, 1), None);
        assert_eq!(offsets.set("b", -1, 1), None, "no such partition");
        assert_eq!((offsets.get("a", 2), offsets.get("a", 0)), (Some(7), None));
        let mut more = Offsets::default();
        more.set("a", 0, 3);
        offsets.merge(&more);
        let all: Vec<_> = offsets.iter().collect();
        assert_eq!(all, [("a", 0, 3), ("a", 2, 7), ("b", 0, 1)]);
        offsets.remove("a");
        assert_eq!(offsets.get("a", 2), None);
    }
}
