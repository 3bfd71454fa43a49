//! Classes of records: clients with equal values of a claim see the same records of a shared item.

use std::collections::BTreeSet;

use weir_formats::expression::Expression;

use crate::config::{ItemPattern, ItemRule};

/// Values of a claim, sorted and distinct. Clients with equal classes share an item's state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordClass {
    /// Position of the expression whose value selects the records.
    filter: u16,
    /// The values with commas between them, which no value contains.
    text: Box<str>,
}

impl RecordClass {
    /// Creates the class of values that are sorted, distinct and free of commas.
    pub(super) fn new<'a>(filter: u16, values: impl Iterator<Item = &'a str>) -> Self {
        let text = values.collect::<Vec<_>>().join(",").into();
        Self { filter, text }
    }

    /// Returns the position of the expression, as in [`RecordSelection::of_connection`].
    pub fn filter(&self) -> u16 {
        self.filter
    }

    /// Returns the values with commas between them.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the values.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.text.split(',')
    }

    /// Returns `true` if records with this value belong to the class.
    pub fn contains(&self, value: &str) -> bool {
        Self::may_contain(value) && self.values().any(|own| own == value)
    }

    /// Returns `true` if a class can have this value.
    pub(super) fn may_contain(value: &str) -> bool {
        !value.is_empty() && !value.contains(',')
    }
}

/// An expression of rules with `where` in one Kafka connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSelection {
    /// The expression.
    pub expression: Expression,
    /// Prefixes of the items that it concerns; `None` for all items.
    pub prefixes: Option<BTreeSet<Box<str>>>,
}

impl RecordSelection {
    /// Returns the expressions of all rules, each once, with the items that they concern in a
    /// connection. Positions are those of [`RecordClass::filter`].
    pub fn of_connection(rules: &[ItemRule], connection: &str) -> Vec<Self> {
        let mut found = Vec::new();
        for rule in rules {
            let Some(filter) = &rule.filter else { continue };
            let index = index_of(&mut found, &filter.expression);
            let named = rule.connections.as_ref();
            if named.is_none_or(|names| names.iter().any(|name| **name == *connection)) {
                rule.items.iter().for_each(|one| found[index].add(one));
            }
        }
        found
    }

    /// Returns `true` if the expression concerns an item with this prefix.
    pub fn concerns(&self, prefix: &str) -> bool {
        let own = self.prefixes.as_ref();
        own.is_none_or(|prefixes| prefixes.contains(prefix))
    }

    /// Returns `true` if the expression concerns any item.
    pub fn is_used(&self) -> bool {
        self.prefixes.as_ref().is_none_or(|own| !own.is_empty())
    }

    fn add(&mut self, pattern: &ItemPattern) {
        match (pattern, &mut self.prefixes) {
            (ItemPattern::Any, own) => *own = None,
            (_, None) => {}
            (ItemPattern::AnyParameters(prefix), Some(own))
            | (ItemPattern::Named { prefix, .. }, Some(own)) => {
                own.insert(prefix.clone());
            }
        }
    }
}

/// Returns the index of an expression; adds it if it is new.
pub(super) fn index_of(found: &mut Vec<RecordSelection>, expression: &Expression) -> usize {
    let index = found.iter().position(|one| one.expression == *expression);
    index.unwrap_or_else(|| {
        found.push(RecordSelection {
            expression: expression.clone(),
            prefixes: Some(BTreeSet::new()),
        });
        found.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::RawAuthorize;

    #[test]
    fn comma_in_record_belongs_to_no_class() {
        let both = RecordClass::new(0, ["acme", "zeta"].into_iter());
        assert!(both.contains("zeta"));
        assert!(!both.contains("acme,zeta"));
        assert!(!both.contains(""));
    }

    #[test]
    fn expressions_are_listed_once_with_their_items() {
        let raw = r#"
            a = { name = "a", items = ["news", "quote-[*]"], where = "VALUE.t = {claims.t}",
                connection = "A" }
            b = { name = "b", items = ["orders-[k=1]"], where = "VALUE.t = {claims.u}",
                connection = ["A"] }
            c = { name = "c", items = ["news"], where = "KEY = {claims.t}", connection = "B" }
        "#;
        let raw: BTreeMap<String, RawAuthorize> = toml::from_str(raw).unwrap();
        let raw: Vec<_> = raw.into_values().collect();
        let rules = ItemRule::parse_all(&raw).unwrap();
        let of = |connection| RecordSelection::of_connection(&rules, connection);
        let shown = |connection| -> Vec<_> {
            let texts = of(connection).into_iter().map(|one| {
                let prefixes = one.prefixes.iter().flatten().map(|text| &**text);
                let prefixes: Vec<_> = prefixes.collect();
                format!("{} {}", one.expression.text(), prefixes.join(" "))
            });
            texts.collect()
        };
        assert_eq!(shown("A"), ["VALUE.t news orders quote", "KEY "]);
        assert_eq!(shown("B"), ["VALUE.t ", "KEY news"]);
        assert!(!of("A")[1].is_used() && of("A")[0].concerns("quote"));
        assert!(!of("A")[0].concerns("status"));
    }
}
