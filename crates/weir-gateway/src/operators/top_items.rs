//! Items with the most subscribers among the first sessions.

use std::cmp::Reverse;

use foldhash::{HashMap, HashMapExt};
use serde_json::{Value, json};

use crate::shard::{SessionRow, SubscriptionRow};

/// Maximum number of sessions whose items are counted; each has at most 200 of them.
pub(super) const SESSIONS_MAX: usize = 1_000;

/// Returns at most `most` items, the one with the most subscriptions first.
pub(super) fn top_items(rows: &[SessionRow], most: usize) -> Value {
    let details = rows.iter().filter_map(|row| row.details.as_ref());
    count(details.flat_map(|details| &details.subscription_list), most)
}

fn count<'a>(subscriptions: impl Iterator<Item = &'a SubscriptionRow>, most: usize) -> Value {
    let mut counts: HashMap<(&str, &str), usize> = HashMap::new();
    for one in subscriptions {
        for item in &one.items {
            *counts.entry((&one.connection, item)).or_default() += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    // Names make the order the same in each call.
    counts.sort_unstable_by_key(|(name, count)| (Reverse(*count), *name));
    let shown = counts.into_iter().take(most);
    shown
        .map(|((connection, item), count)| {
            json!({ "connection": connection, "item": item, "subscriptions": count })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_with_most_subscriptions_are_first() {
        let subscription = |items: &[&str]| SubscriptionRow {
            id: 1,
            connection: "K".to_owned(),
            mode: "MERGE",
            unfiltered: false,
            max_frequency: None,
            items: items.iter().map(|item| (*item).to_owned()).collect(),
            records: None,
        };
        let all = [
            subscription(&["b", "c"]),
            subscription(&["c", "a"]),
            subscription(&[]),
        ];
        let top = count(all.iter(), 2);
        let members = |at: usize| (top[at]["item"].as_str(), top[at]["subscriptions"].as_u64());
        assert_eq!(members(0), (Some("c"), Some(2)));
        assert_eq!(
            members(1),
            (Some("a"), Some(1)),
            "of equal ones, the first name"
        );
        assert_eq!(top.as_array().map(Vec::len), Some(2));
    }
}
