//! Items of which a client may see a class of records only: at a subscription, and for operators.

use std::sync::Arc;

use weir_access::ItemLimits;
use weir_fanout::{ItemName, SessionKey};

use super::admission::over_limit;
use super::clients::Clients;
use super::context::ShardContext;
use crate::admission::AdmissionLimit;
use crate::error::SubscriptionError;
use weir_ingest::{ClassName, item_of};

impl Clients {
    /// Replaces the items of which a client may see a class of records only, and checks the limits
    /// again.
    pub(super) fn select_records(
        &mut self,
        (key, schema): (SessionKey, &str),
        items: &mut [Option<ItemName>],
        limits: &ItemLimits,
    ) -> Result<(), SubscriptionError> {
        if !limits.has_classes() {
            return Ok(());
        }
        let most = match self.shared.limits.record_classes_per_item {
            0 => usize::MAX,
            most => most,
        };
        for (position, item) in items.iter_mut().enumerate() {
            let (Some(class), Some(item)) = (limits.class(position), item) else {
                continue;
            };
            let name = ClassName {
                filter: class.filter(),
                values: class.as_str(),
                item: &item.1,
            };
            let name = name.to_name();
            if self.classes.is_full(item, &name, most) {
                self.shared.admission.note(AdmissionLimit::RecordClasses);
                let text = "too many different clients of one item, try again later";
                return Err(over_limit(text));
            }
            item.1 = name;
        }
        // The names are longer than those that were checked.
        self.check_subscription(key, items, schema)
    }

    /// Returns the names of the items of a shard that clients subscribe with this name.
    pub(super) fn names_of(&self, item: &ItemName) -> impl Iterator<Item = ItemName> {
        let classes = self.classes.of(item);
        let classes = classes.map(|name| (item.0, Arc::clone(name)));
        classes.chain(std::iter::once(item.clone()))
    }

    /// Returns the number of subscribers of an item, whichever records they get.
    pub(super) fn subscribers(&self, item: &ItemName) -> usize {
        let keys = self
            .names_of(item)
            .filter_map(|name| self.items.find(&name));
        keys.filter_map(|key| self.items.subscribers(key)).sum()
    }
}

impl ShardContext {
    /// Returns an item's name as the client has subscribed it, and the class of its records as
    /// text for operators.
    pub(super) fn shown(&self, (connection, name): &ItemName) -> (String, Option<String>) {
        let class = ClassName::parse(name).map(|class| {
            let connection = &self.connections[usize::from(*connection)];
            let selection = connection.record_selections.get(usize::from(class.filter));
            let expression = selection.map_or("", |one| one.expression.text());
            format!("{expression} = {}", class.values)
        });
        (item_of(name).to_owned(), class)
    }
}
