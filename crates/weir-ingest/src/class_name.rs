//! Names of items of which a subscription gets a class of records only (`where` of item rules).
//!
//! Such an item is one of its own inside the gateway, so that its values, snapshot, rows, diffs and
//! frames are separate from those of other classes. Its name begins with a line feed, with which no
//! name of a client or of a record can begin: these begin with a letter, a digit, `_` or `-`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

/// First character of the name of a class.
const MARK: char = '\n';

/// Parts of the name of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassName<'a> {
    /// Position of the expression whose value selects the records.
    pub filter: u16,
    /// Values of the records with commas between them, sorted.
    pub values: &'a str,
    /// Canonical name of the item that the client has subscribed.
    pub item: &'a str,
}

impl<'a> ClassName<'a> {
    /// Parses a name; `None` for items with all records.
    pub fn parse(name: &'a str) -> Option<Self> {
        let (filter, rest) = name.strip_prefix(MARK)?.split_once(':')?;
        let (len, rest) = rest.split_once(':')?;
        let (values, item) = rest.split_at_checked(len.parse().ok()?)?;
        Some(Self {
            filter: filter.parse().ok()?,
            values,
            item,
        })
    }

    /// Appends the name to `out`.
    pub fn write(&self, out: &mut String) {
        let Self {
            filter,
            values,
            item,
        } = self;
        // The length marks the end of the values, which are of any text.
        let _ = write!(out, "{MARK}{filter}:{}:{values}{item}", values.len());
    }

    /// Returns the name.
    pub fn to_name(self) -> Arc<str> {
        let mut name = String::with_capacity(self.values.len() + self.item.len() + 16);
        self.write(&mut name);
        name.into()
    }

    /// Returns the values of the records.
    pub fn values(&self) -> std::str::Split<'a, char> {
        self.values.split(',')
    }
}

/// Returns the name that the client has subscribed.
pub fn item_of(name: &str) -> &str {
    ClassName::parse(name).map_or(name, |class| class.item)
}

/// Returns the classes of one value each that make up a class; the name itself if it is that of an
/// item with all records.
pub(crate) fn single_names(name: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let class = ClassName::parse(name);
    let plain = class.is_none().then_some(Cow::Borrowed(name));
    let singles = class.into_iter().flat_map(|class| {
        class.values().map(move |values| {
            let mut name = String::new();
            ClassName { values, ..class }.write(&mut name);
            Cow::Owned(name)
        })
    });
    plain.into_iter().chain(singles)
}

#[cfg(test)]
mod tests {
    use weir_mapping::CanonicalItem;

    use super::*;

    #[test]
    fn class_names_round_trip_and_clients_cannot_use_them() {
        for (values, item) in [
            ("acme", "news"),
            ("acme,zeta", "news-[a=1]"),
            ("1:2:\n3", "x"),
            ("é", "-"),
        ] {
            let filter = 7;
            let class = ClassName {
                filter,
                values,
                item,
            };
            let name = class.to_name();
            assert_eq!(ClassName::parse(&name), Some(class));
            assert_eq!(item_of(&name), item);
            assert!(CanonicalItem::parse(&name).is_err(), "{name:?}");
        }
        for plain in ["news", "news-[a=\n0:1:xy]", "0:1:xnews"] {
            assert_eq!(ClassName::parse(plain), None);
            assert_eq!(item_of(plain), plain);
        }
    }

    #[test]
    fn class_of_list_has_one_name_per_value() {
        let class = ClassName {
            filter: 1,
            values: "a,b",
            item: "news",
        };
        let name = class.to_name();
        let singles: Vec<_> = single_names(&name).collect();
        assert_eq!(singles, ["\n1:1:anews", "\n1:1:bnews"]);
        assert!(single_names(&singles[0]).eq([singles[0].as_ref()]));
        assert!(single_names("news").eq(["news"]));
    }
}
