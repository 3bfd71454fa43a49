//! Rules as they are for one identity: those that apply, and the values of its claims.

use std::sync::Arc;

use foldhash::HashSet;

use super::index::ClaimSlot;

/// Rules that apply to an identity and the values of the claims that they use. A session stores 24
/// bytes and, if rules have placeholders, one allocation with the values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants {
    rules: Arc<RuleList>,
    values: ClaimValues,
}

/// Positions of rules, sorted. Identities to which the same rules apply share it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RuleList(Box<[u16]>);

/// Values of claims in one allocation: the number of values of each slot, the end of each text,
/// the texts. Numbers are 16-bit; the texts of a slot are sorted and distinct.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ClaimValues(Box<[u8]>);

/// Lists of rules in use.
#[derive(Debug, Default)]
pub struct GrantTable {
    lists: HashSet<Arc<RuleList>>,
}

/// Lists above which those without a user are removed.
const LISTS_MAX: usize = 4_096;

impl GrantTable {
    /// Returns grants that share their list of rules with others. `None` if the values have more
    /// than 65,535 bytes.
    pub(super) fn grants(&mut self, rules: Vec<u16>, values: &[Vec<&str>]) -> Option<Grants> {
        let values = ClaimValues::new(values)?;
        let list = RuleList(rules.into());
        if let Some(shared) = self.lists.get(&list) {
            let rules = Arc::clone(shared);
            return Some(Grants { rules, values });
        }
        if self.lists.len() >= LISTS_MAX {
            self.lists.retain(|list| Arc::strong_count(list) > 1);
        }
        let rules = Arc::new(list);
        // A full table means that lists are hardly shared: this one stays with its session.
        if self.lists.len() < LISTS_MAX {
            self.lists.insert(Arc::clone(&rules));
        }
        Some(Grants { rules, values })
    }
}

impl Grants {
    /// Returns `true` if the rule applies to the identity.
    pub(super) fn has_rule(&self, rule: u16) -> bool {
        self.rules.0.binary_search(&rule).is_ok()
    }

    /// Returns the values of a claim.
    pub(super) fn values(&self, slot: ClaimSlot) -> impl ExactSizeIterator<Item = &str> {
        let (start, end) = self.values.range(slot);
        (start..end).map(|place| self.values.text(place))
    }

    /// Returns `true` if the claim has this value: a binary search.
    pub(super) fn has_value(&self, slot: ClaimSlot, value: &str) -> bool {
        let (mut start, mut end) = self.values.range(slot);
        while start < end {
            let middle = start.midpoint(end);
            match self.values.text(middle).cmp(value) {
                std::cmp::Ordering::Less => start = middle + 1,
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Greater => end = middle,
            }
        }
        false
    }

    /// Returns the bytes that the session needs for the grants, without the shared list.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.values.0.len()
    }
}

impl ClaimValues {
    fn new(slots: &[Vec<&str>]) -> Option<Self> {
        let mut bytes = Vec::new();
        let mut push = |number: usize| {
            let number = u16::try_from(number).ok()?;
            bytes.extend_from_slice(&number.to_le_bytes());
            Some(())
        };
        // The number of slots is needed to find the texts.
        if slots.iter().all(Vec::is_empty) {
            return Some(Self(Box::default()));
        }
        push(slots.len())?;
        slots.iter().try_for_each(|values| push(values.len()))?;
        let mut end = 0;
        for text in slots.iter().flatten() {
            end += text.len();
            push(end)?;
        }
        for text in slots.iter().flatten() {
            bytes.extend_from_slice(text.as_bytes());
        }
        Some(Self(bytes.into()))
    }

    fn number(&self, place: usize) -> usize {
        let bytes = self.0.get(place * 2..place * 2 + 2);
        let number = bytes.and_then(|bytes| bytes.try_into().ok());
        number.map_or(0, |bytes| usize::from(u16::from_le_bytes(bytes)))
    }

    /// Returns the places of a slot's values.
    fn range(&self, slot: ClaimSlot) -> (usize, usize) {
        let slot = slot as usize;
        if slot >= self.number(0) {
            return (0, 0);
        }
        let start = (0..slot).map(|slot| self.number(1 + slot)).sum();
        (start, start + self.number(1 + slot))
    }

    fn text(&self, place: usize) -> &str {
        let slots = self.number(0);
        let count: usize = (0..slots).map(|slot| self.number(1 + slot)).sum();
        let texts = (1 + slots + count) * 2;
        let end = |place: usize| self.number(1 + slots + place);
        let start = if place == 0 { 0 } else { end(place - 1) };
        let bytes = self.0.get(texts + start..texts + end(place));
        let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
        text.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_their_slots() {
        let mut table = GrantTable::default();
        let slots = [vec!["a", "b", "é"], vec![], vec!["b", "long value"]];
        let grants = table.grants(vec![0, 3], &slots).unwrap();
        for (slot, values) in (0..).zip(&slots) {
            assert!(grants.values(slot).eq(values.iter().copied()));
            for value in ["a", "b", "é", "long value", "", "ab", "z"] {
                assert_eq!(grants.has_value(slot, value), values.contains(&value));
            }
        }
        assert_eq!(grants.values(3).count(), 0);
        assert!(grants.has_rule(3) && !grants.has_rule(1));
    }

    #[test]
    fn equal_rules_are_shared_and_tables_are_bounded() {
        let mut table = GrantTable::default();
        let one = table.grants(vec![1, 2], &[vec!["x"]]).unwrap();
        let other = table.grants(vec![1, 2], &[vec!["y"]]).unwrap();
        assert!(Arc::ptr_eq(&one.rules, &other.rules));
        for rule in 0..10_000 {
            table.grants(vec![rule], &[]).unwrap();
        }
        assert!(table.lists.len() <= LISTS_MAX);
        assert!(table.lists.contains(&one.rules), "in use");
    }

    #[test]
    fn session_needs_at_most_64_bytes() {
        let mut table = GrantTable::default();
        let subject = "2f3a7c1e-90ab-4c2d-b1ff-0123456789";
        let grants = table.grants(vec![0], &[vec![subject]]).unwrap();
        assert_eq!(size_of::<Grants>(), 24);
        assert!(grants.memory_bytes() <= 64, "{}", grants.memory_bytes());
        let none = table.grants((0..1_000).collect(), &[vec![]]).unwrap();
        assert_eq!(none.memory_bytes(), 24);
    }

    #[test]
    fn too_many_bytes_are_an_error() {
        let long = "x".repeat(70_000);
        assert!(
            GrantTable::default()
                .grants(vec![], &[vec![&long]])
                .is_none()
        );
    }
}
