//! Classes of records that shards are interested in, by the values of records.

use std::sync::Arc;

use foldhash::HashMap;
use smallvec::SmallVec;

use crate::class_name::ClassName;

/// Classes by item. Empty without interest in classes.
#[derive(Debug, Default)]
pub(crate) struct ClassRoutes {
    items: HashMap<Box<str>, ItemClasses>,
}

/// Classes of one item.
#[derive(Debug, Default)]
pub(crate) struct ItemClasses {
    filters: SmallVec<[FilterClasses; 1]>,
}

/// Classes of one item that one expression selects.
#[derive(Debug)]
pub(crate) struct FilterClasses {
    /// Position of the expression.
    pub(crate) filter: u16,
    /// Names of the classes by each of their values.
    by_value: HashMap<Box<str>, SmallVec<[Arc<str>; 1]>>,
}

impl ClassRoutes {
    /// Returns the classes of an item.
    pub(crate) fn of(&self, item: &str) -> Option<&ItemClasses> {
        self.items.get(item)
    }

    /// Adds a class. Names of other items change nothing.
    pub(crate) fn add(&mut self, name: &Arc<str>) {
        let Some(class) = ClassName::parse(name) else {
            return;
        };
        let filters = &mut self.items.entry(class.item.into()).or_default().filters;
        let place = filters.iter().position(|one| one.filter == class.filter);
        let place = place.unwrap_or_else(|| {
            filters.push(FilterClasses {
                filter: class.filter,
                by_value: HashMap::default(),
            });
            filters.len() - 1
        });
        for value in class.values() {
            let names = filters[place].by_value.entry(value.into()).or_default();
            names.push(Arc::clone(name));
        }
    }

    /// Removes a class that was added. Names of other items change nothing.
    pub(crate) fn remove(&mut self, name: &str) {
        let Some(class) = ClassName::parse(name) else {
            return;
        };
        let Some(classes) = self.items.get_mut(class.item) else {
            return;
        };
        for own in &mut classes.filters {
            if own.filter == class.filter {
                class.values().for_each(|value| own.remove(value, name));
            }
        }
        classes.filters.retain(|own| !own.by_value.is_empty());
        if classes.filters.is_empty() {
            self.items.remove(class.item);
        }
    }
}

impl ItemClasses {
    /// Returns the classes of each expression.
    pub(crate) fn filters(&self) -> &[FilterClasses] {
        &self.filters
    }

    /// Returns the classes of an expression that records with a value belong to.
    pub(crate) fn of_value(&self, filter: u16, value: &str) -> &[Arc<str>] {
        let own = self.filters.iter().find(|one| one.filter == filter);
        own.map_or(&[], |own| own.of_value(value))
    }
}

impl FilterClasses {
    /// Returns the names of the classes that records with a value belong to.
    pub(crate) fn of_value(&self, value: &str) -> &[Arc<str>] {
        self.by_value.get(value).map_or(&[], SmallVec::as_slice)
    }

    /// Returns the names of all classes, those of several values repeatedly.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_value.values().flatten()
    }

    fn remove(&mut self, value: &str, name: &str) {
        if let Some(names) = self.by_value.get_mut(value) {
            names.retain(|one| **one != *name);
            if names.is_empty() {
                self.by_value.remove(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    fn class(filter: u16, values: &str) -> Arc<str> {
        let item = "news";
        let class = ClassName {
            filter,
            values,
            item,
        };
        class.to_name()
    }

    #[test]
    fn classes_are_found_by_value_until_removed() {
        let mut routes = ClassRoutes::default();
        let (acme, both, key) = (class(0, "acme"), class(0, "acme,zeta"), class(1, "acme"));
        for name in [&acme, &both, &key, &"other".into()] {
            routes.add(name);
        }
        let found = |routes: &ClassRoutes, filter, value: &str| {
            let names = routes.of("news").map(|own| own.of_value(filter, value));
            names.unwrap_or_default().to_vec()
        };
        assert_eq!(found(&routes, 0, "acme"), [acme.clone(), both.clone()]);
        assert_eq!(found(&routes, 0, "zeta"), from_ref(&both));
        assert_eq!(found(&routes, 1, "acme"), from_ref(&key));
        assert!(found(&routes, 0, "acme,zeta").is_empty() && routes.of("other").is_none());
        routes.remove(&both);
        assert_eq!(found(&routes, 0, "acme"), from_ref(&acme));
        assert!(found(&routes, 0, "zeta").is_empty());
        routes.remove(&acme);
        routes.remove(&acme);
        assert_eq!(found(&routes, 1, "acme"), from_ref(&key));
        routes.remove(&key);
        assert!(routes.of("news").is_none());
    }
}
