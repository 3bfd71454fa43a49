//! Table from item prefixes to the rules that may apply.

use foldhash::{HashMap, HashMapExt};
use weir_mapping::CanonicalItem;

use crate::config::{ItemPattern, ValuePattern};

/// Number of a claim that rules use as a placeholder.
pub(super) type ClaimSlot = u32;

/// Rules by the items that they name.
#[derive(Debug, Default)]
pub(super) struct RuleIndex {
    by_prefix: HashMap<Box<str>, PrefixRules>,
    /// Rules for every item.
    any: Vec<u16>,
}

/// Rules for items of one prefix.
#[derive(Debug, Default)]
struct PrefixRules {
    /// `PREFIX-[*]`.
    any_parameters: Vec<u16>,
    /// One for each list of parameter names; the empty one is the plain item.
    shapes: Vec<ShapeRules>,
}

/// Rules for items with certain parameter names.
#[derive(Debug)]
struct ShapeRules {
    names: Box<[Box<str>]>,
    /// Rules with literals only, by the canonical item name.
    literal: HashMap<Box<str>, Vec<u16>>,
    patterns: Vec<(u16, Box<[SlotPattern]>)>,
}

/// Values of a parameter.
#[derive(Debug)]
enum SlotPattern {
    Any,
    Literal(Box<str>),
    Claim(ClaimSlot),
}

impl RuleIndex {
    pub(super) fn new() -> Self {
        Self {
            by_prefix: HashMap::new(),
            any: Vec::new(),
        }
    }

    /// Adds a pattern of a rule; `slot` returns the number of a claim.
    pub(super) fn add(
        &mut self,
        rule: u16,
        pattern: &ItemPattern,
        slot: &mut impl FnMut(&crate::claims::ClaimPath) -> ClaimSlot,
    ) {
        match pattern {
            ItemPattern::Any => self.any.push(rule),
            ItemPattern::AnyParameters(prefix) => {
                self.rules_of(prefix).any_parameters.push(rule);
            }
            ItemPattern::Named { prefix, parameters } => {
                let shape = self.rules_of(prefix).shape(parameters);
                if let Some(name) = literal_name(prefix, parameters) {
                    shape.literal.entry(name).or_default().push(rule);
                    return;
                }
                let values = parameters.iter().map(|(_, value)| match value {
                    ValuePattern::Any => SlotPattern::Any,
                    ValuePattern::Literal(text) => SlotPattern::Literal(text.clone()),
                    ValuePattern::Claim(path) => SlotPattern::Claim(slot(path)),
                });
                shape.patterns.push((rule, values.collect()));
            }
        }
    }

    fn rules_of(&mut self, prefix: &str) -> &mut PrefixRules {
        self.by_prefix.entry(prefix.into()).or_default()
    }

    /// Calls `visit` with every rule that names the item, in no order, some twice. `has_value`
    /// returns `true` if the client has this value of a claim.
    pub(super) fn visit(
        &self,
        item: &CanonicalItem,
        has_value: impl Fn(ClaimSlot, &str) -> bool,
        mut visit: impl FnMut(u16),
    ) {
        self.any.iter().copied().for_each(&mut visit);
        let Some(rules) = self.by_prefix.get(item.prefix()) else {
            return;
        };
        if item.parameters().len() > 0 {
            rules.any_parameters.iter().copied().for_each(&mut visit);
        }
        let is_shape = |shape: &&ShapeRules| {
            let names = item.parameters().map(|(name, _)| name);
            names.len() == shape.names.len() && names.eq(shape.names.iter().map(|name| &**name))
        };
        let Some(shape) = rules.shapes.iter().find(is_shape) else {
            return;
        };
        if !shape.literal.is_empty() {
            let literal = shape.literal.get(item.as_str());
            literal.into_iter().flatten().copied().for_each(&mut visit);
        }
        for (rule, patterns) in &shape.patterns {
            let mut pairs = patterns.iter().zip(item.parameters());
            let fits = pairs.all(|(pattern, (_, value))| match pattern {
                SlotPattern::Any => true,
                SlotPattern::Literal(text) => **text == *value,
                SlotPattern::Claim(slot) => has_value(*slot, value),
            });
            if fits {
                visit(*rule);
            }
        }
    }
}

impl PrefixRules {
    fn shape(&mut self, parameters: &[(Box<str>, ValuePattern)]) -> &mut ShapeRules {
        let names = parameters.iter().map(|(name, _)| name);
        let place = self
            .shapes
            .iter()
            .position(|shape| names.clone().eq(shape.names.iter()));
        let place = place.unwrap_or_else(|| {
            self.shapes.push(ShapeRules {
                names: names.cloned().collect(),
                literal: HashMap::new(),
                patterns: Vec::new(),
            });
            self.shapes.len() - 1
        });
        &mut self.shapes[place]
    }
}

/// Returns the canonical name of the only item that a pattern fits, if all values are literals.
fn literal_name(prefix: &str, parameters: &[(Box<str>, ValuePattern)]) -> Option<Box<str>> {
    let mut name = prefix.to_owned();
    for (place, (parameter, value)) in parameters.iter().enumerate() {
        let ValuePattern::Literal(value) = value else {
            return None;
        };
        name.push_str(if place == 0 { "-[" } else { "," });
        name.push_str(parameter);
        name.push('=');
        name.push_str(value);
    }
    if !parameters.is_empty() {
        name.push(']');
    }
    Some(name.into())
}
