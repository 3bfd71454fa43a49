//! Record keys: names of the published tests, and small numbers that replace key bytes.

use std::sync::LazyLock;

use foldhash::HashMap;

type Names = LazyLock<Vec<&'static str>>;

/// 40 keys of the kinds `keyed` and `json`, in the order of the published generator.
pub static FRUITS: Names = LazyLock::new(|| {
    split(
        "Apple,Banana,Orange,Grape,Pineapple,Strawberry,Watermelon,Mango,Kiwi,Lemon,Peach,\
    Cherry,Blueberry,Raspberry,Blackberry,Coconut,Pomegranate,Cantaloupe,Apricot,Fig,Plum,\
    Pear,Avocado,Lychee,Guava,Dragonfruit,Passionfruit,Papaya,Melon,Lime,Nectarine,\
    Persimmon,Starfruit,Tangerine,Durian,Kumquat,Cranberry,Rambutan,Mangosteen,Jackfruit",
    )
});

/// 40 keys of the kinds `complex`, `verycomplex` and `jsonkeyx`, in the order of the published
/// generator.
pub static FIRST_NAMES: Names = LazyLock::new(|| {
    split(
        "James,John,Robert,Michael,William,David,Richard,Joseph,Charles,Thomas,Daniel,Matthew,\
    Christopher,George,Brian,Edward,Ronald,Anthony,Kevin,Jason,Gary,Timothy,Jose,Larry,\
    Jeffrey,Frank,Scott,Eric,Stephen,Andrew,Raymond,Gregory,Joshua,Jerry,Dennis,Walter,\
    Patrick,Peter,Harold,Douglas",
    )
});

/// Hobbies of the kinds `complex`, `verycomplex` and `jsonkeyx`; any 40 short phrases serve.
pub static HOBBIES: Names = LazyLock::new(|| {
    split(
        "Playing video games,Reading,Cycling,Swimming,Running,Hiking,Cooking,Baking,Gardening,\
    Fishing,Painting,Drawing,Photography,Singing,Dancing,Playing the guitar,\
    Playing the piano,Chess,Woodworking,Pottery,Knitting,Sewing,Climbing,Sailing,Rowing,\
    Skiing,Skating,Surfing,Yoga,Archery,Bird watching,Star gazing,Collecting stamps,\
    Collecting coins,Model railways,Writing letters,Learning languages,Volunteering,\
    Travelling,Board games",
    )
});

fn split(names: &'static str) -> Vec<&'static str> {
    names.split(',').collect()
}

/// Length of an extended key.
const EXTENDED_KEY_CHARS: usize = 500;

/// Returns the long form of a key: its name repeated and cut to [`EXTENDED_KEY_CHARS`] characters.
pub fn extended_key(name: &str) -> String {
    name.chars().cycle().take(EXTENDED_KEY_CHARS).collect()
}

/// A key of one [`KeyTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub(crate) u32);

/// Maximum number of keys in a table. The table rejects more, so that a peer cannot fill the
/// memory.
const KEYS_MAX: usize = 65_536;

/// Maps each key to a small number. A missing key counts as the empty key.
#[derive(Debug, Clone, Default)]
pub struct KeyTable {
    ids: HashMap<Box<[u8]>, KeyId>,
}

impl KeyTable {
    /// Returns the number of `key`, which is added if needed. `None` if the table is full.
    pub fn id(&mut self, key: &[u8]) -> Option<KeyId> {
        if let Some(&id) = self.ids.get(key) {
            return Some(id);
        }
        if self.ids.len() >= KEYS_MAX {
            return None;
        }
        let id = KeyId(u32::try_from(self.ids.len()).ok()?);
        self.ids.insert(key.into(), id);
        Some(id)
    }
}

/// Returns the first `count` names of a pool. Beyond its end the names get a number: `James-1`,
/// `John-1`.
pub(crate) fn names_of(pool: &[&str], count: usize) -> Vec<String> {
    let name = |i: usize| match (pool[i % pool.len()], i / pool.len()) {
        (name, 0) => name.to_owned(),
        (name, round) => format!("{name}-{round}"),
    };
    (0..count).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_pools_match_the_published_ones() {
        assert_eq!(
            (FRUITS[0], FRUITS[19], FRUITS[39]),
            ("Apple", "Fig", "Jackfruit")
        );
        let mut names = names_of(&FRUITS, 100);
        assert_eq!(names[..40], FRUITS[..]);
        assert_eq!(names[40], "Apple-1");
        assert_eq!(
            (FIRST_NAMES[0], FIRST_NAMES[21], FIRST_NAMES[39]),
            ("James", "Timothy", "Douglas")
        );
        assert_eq!(names_of(&FIRST_NAMES, 41)[40], "James-1");
        let long = extended_key("Apple");
        assert!(long.starts_with("AppleAppleA") && long.len() == 500);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 100);
    }

    #[test]
    fn key_number_is_stable() {
        let mut table = KeyTable::default();
        let apple = table.id(b"Apple");
        assert_ne!(table.id(b""), apple);
        assert_eq!(table.id(b"Apple"), apple);
        assert_eq!(table.ids.len(), 2);
    }

    #[test]
    fn full_table_rejects_only_new_keys() {
        let mut table = KeyTable::default();
        for i in 0..KEYS_MAX {
            assert!(table.id(&i.to_le_bytes()).is_some());
        }
        assert_eq!(table.id(b"one more"), None);
        assert!(table.id(&0_usize.to_le_bytes()).is_some());
    }
}
