//! Compiled item rules and their evaluation.

use std::sync::Arc;

use weir_mapping::CanonicalItem;

use super::decision::{Allowance, Denial, ItemAccess, SubscriptionDenial};
use super::grants::{GrantTable, Grants};
use super::index::{ClaimSlot, RuleIndex};
use super::record_class::{RecordClass, index_of as filter_index_of};
use crate::claims::{ClaimPath, Claims, TooManyValues};
use crate::config::{ItemRule, RuleEffect, is_nameable};
use crate::modes::ItemModes;

/// The compiled rules of a configuration. Without rules everything is allowed, and the gateway
/// evaluates nothing.
#[derive(Debug)]
pub struct ItemRules {
    rules: Vec<CompiledRule>,
    index: RuleIndex,
    /// Claims of placeholders, by slot.
    slots: Vec<ClaimPath>,
    /// Slots of claims that select records, sorted.
    filter_slots: Vec<ClaimSlot>,
    /// Claims of conditions.
    condition_paths: Vec<ClaimPath>,
}

#[derive(Debug)]
struct CompiledRule {
    rule: ItemRule,
    /// Sorted indexes of the connections to which the rule applies; `None` for all.
    connections: Option<Box<[usize]>>,
    /// Slot of the claim that selects records, and index of the expression.
    filter: Option<(ClaimSlot, u16)>,
    /// Modes of the rule, without those in which its `where` is impossible.
    modes: ItemModes,
    /// Indexes of the conditions' claims in `condition_paths`.
    condition_indexes: Box<[usize]>,
}

impl ItemRules {
    /// Compiles rules. `connections` are the names of the Kafka connections, in their order.
    pub fn new(rules: Vec<ItemRule>, connections: &[&str]) -> Self {
        let mut index = RuleIndex::new();
        let mut slots = Vec::new();
        let mut condition_paths = Vec::new();
        let (mut compiled, mut selections) = (Vec::new(), Vec::new());
        for (number, rule) in (0..).zip(rules) {
            let mut slot = |path: &ClaimPath| index_of(&mut slots, path) as ClaimSlot;
            for pattern in &rule.items {
                index.add(number, pattern, &mut slot);
            }
            let filter = rule.filter.as_ref().map(|filter| {
                let index = filter_index_of(&mut selections, &filter.expression);
                // There are at most as many expressions as rules, and rules have 16-bit indexes.
                (slot(&filter.claim), index as u16)
            });
            let numbers = rule.connections.as_ref().map(|names| {
                let all = connections.iter().enumerate();
                let own = all.filter(|(_, name)| names.iter().any(|one| **one == ***name));
                own.map(|(number, _)| number).collect()
            });
            let conditions = rule.conditions.iter();
            let indexes = conditions.map(|one| index_of(&mut condition_paths, &one.path));
            compiled.push(CompiledRule {
                connections: numbers,
                filter,
                condition_indexes: indexes.collect(),
                modes: rule.usable_modes(),
                rule,
            });
        }
        let mut filter_slots: Vec<_> = compiled
            .iter()
            .filter_map(|one| Some(one.filter?.0))
            .collect();
        filter_slots.sort_unstable();
        filter_slots.dedup();
        Self {
            rules: compiled,
            index,
            slots,
            filter_slots,
            condition_paths,
        }
    }

    /// Returns the name of a rule.
    pub fn name(&self, rule: usize) -> Option<&str> {
        self.rules.get(rule).map(|one| &*one.rule.name)
    }

    /// Returns the rules.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = &ItemRule> {
        self.rules.iter().map(|one| &one.rule)
    }

    /// Returns the rules whose conditions an identity meets.
    pub fn granted(&self, grants: &Grants) -> impl Iterator<Item = &ItemRule> {
        let all = (0..).zip(&self.rules);
        let own = all.filter(|(number, _)| grants.has_rule(*number));
        own.map(|(_, one)| &one.rule)
    }

    /// Returns the claims of placeholders, with the values that an identity has for items.
    pub fn claim_values<'a>(
        &'a self,
        grants: &'a Grants,
    ) -> impl Iterator<Item = (&'a ClaimPath, impl ExactSizeIterator<Item = &'a str>)> {
        let slots = (0..).zip(&self.slots);
        slots.map(|(slot, path)| (path, grants.values(slot)))
    }

    /// Compiles the rules for an identity.
    pub fn grants(&self, claims: &Claims, table: &mut GrantTable) -> Result<Grants, TooManyValues> {
        let paths = self.condition_paths.iter();
        let texts: Vec<_> = paths
            .map(|path| claims.texts(path))
            .collect::<Result<_, _>>()?;
        let is_met = |rule: &CompiledRule| {
            let mut conditions = rule.rule.conditions.iter().zip(&rule.condition_indexes);
            conditions.all(|(condition, index)| {
                texts[*index]
                    .iter()
                    .any(|text| condition.values.contains(&**text))
            })
        };
        let rules = (0..).zip(&self.rules);
        let rules = rules
            .filter(|(_, rule)| is_met(rule))
            .map(|(number, _)| number);
        let mut values = Vec::with_capacity(self.slots.len());
        for path in &self.slots {
            values.push(claims.texts(path)?);
        }
        let slots: Vec<Vec<&str>> = (0..)
            .zip(&values)
            .map(|(slot, texts)| {
                let is_filter = self.filter_slots.binary_search(&slot).is_ok();
                // Records may have values that no item name can have.
                let is_useful = |text: &&str| {
                    is_nameable(text) || (is_filter && RecordClass::may_contain(text))
                };
                let texts = texts.iter().map(|text| &**text);
                let mut texts: Vec<_> = texts.filter(is_useful).collect();
                texts.sort_unstable();
                texts.dedup();
                texts
            })
            .collect();
        let grants = table.grants(rules.collect(), &slots);
        // Values of more than 65,535 bytes are rejected like too many values.
        grants.ok_or_else(|| {
            let longest = (0..self.slots.len()).max_by_key(|slot| slots[*slot].len());
            let longest = longest.unwrap_or_default();
            TooManyValues {
                path: self.slots[longest].clone(),
                count: slots[longest].len(),
            }
        })
    }

    /// Decides about one item. `item` is the canonical name, not the client's text.
    pub fn decide(
        &self,
        grants: &Grants,
        item: &CanonicalItem,
        access: &ItemAccess<'_>,
    ) -> Result<Allowance, Denial> {
        let mut best: Option<usize> = None;
        let mut denied_by: Option<usize> = None;
        // The denial of the rule that comes closest to allowing the request.
        let mut nearest = Denial::Item { rule: None };
        let has_value = |slot, value: &str| grants.has_value(slot, value);
        self.index.visit(item, has_value, |number| {
            let index = usize::from(number);
            let one = &self.rules[index];
            if !grants.has_rule(number) || !one.applies_to(access.connection) {
                return;
            }
            if one.rule.effect == RuleEffect::Deny {
                if one.denies(access) {
                    denied_by = Some(denied_by.map_or(index, |other| other.min(index)));
                }
                return;
            }
            // Without a value of the claim, the client would see no record.
            if one
                .filter
                .is_some_and(|(slot, _)| grants.values(slot).len() == 0)
            {
                return;
            }
            if !one.modes.contains(access.mode) {
                if nearest != Denial::Field {
                    nearest = Denial::Mode;
                }
            } else if !one.has_fields(access.fields) {
                nearest = Denial::Field;
            } else {
                best = Some(best.map_or(index, |other| other.min(index)));
            }
        });
        if denied_by.is_some() {
            return Err(Denial::Item { rule: denied_by });
        }
        let index = best.ok_or(nearest)?;
        let one = &self.rules[index];
        if access.unfiltered && one.rule.frequency_max.is_some() {
            return Err(Denial::Unfiltered { rule: index });
        }
        Ok(Allowance {
            rule: index,
            frequency_max: one.rule.frequency_max,
            snapshot: one.rule.snapshot,
            records: one.filter.map(|(slot, filter)| {
                let values = grants.values(slot);
                Arc::new(RecordClass::new(filter, values))
            }),
        })
    }

    /// Decides about all items of a subscription. One denied item rejects the subscription.
    pub fn decide_all(
        &self,
        grants: &Grants,
        items: &[CanonicalItem],
        access: &ItemAccess<'_>,
    ) -> Result<Vec<Allowance>, SubscriptionDenial> {
        let decided = items.iter().enumerate().map(|(item, name)| {
            let decided = self.decide(grants, name, access);
            decided.map_err(|denial| SubscriptionDenial { item, denial })
        });
        decided.collect()
    }
}

impl CompiledRule {
    fn applies_to(&self, connection: usize) -> bool {
        let own = self.connections.as_ref();
        own.is_none_or(|numbers| numbers.binary_search(&connection).is_ok())
    }

    fn has_fields(&self, wanted: &[&str]) -> bool {
        let own = self.rule.fields.as_ref();
        own.is_none_or(|own| wanted.iter().all(|field| own.contains(*field)))
    }

    /// Returns `true` if a rule that denies covers the request: its mode, and any of its fields.
    fn denies(&self, access: &ItemAccess<'_>) -> bool {
        let own = self.rule.fields.as_ref();
        let has_field = own.is_none_or(|own| access.fields.iter().any(|one| own.contains(*one)));
        self.rule.modes.contains(access.mode) && has_field
    }
}

/// Returns the index of a path; adds it if it is new.
fn index_of(paths: &mut Vec<ClaimPath>, path: &ClaimPath) -> usize {
    let index = paths.iter().position(|one| one == path);
    index.unwrap_or_else(|| {
        paths.push(path.clone());
        paths.len() - 1
    })
}
