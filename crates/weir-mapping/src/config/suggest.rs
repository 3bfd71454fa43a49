//! Finds the known name nearest to a mistyped one.

/// Maximum length of a compared name; no known name is nearly as long.
const NAME_LEN_MAX: usize = 100;

/// Returns the candidate with the smallest edit distance, if it is a plausible suggestion.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_LEN_MAX {
        return None;
    }
    let distance_max = name.chars().count().div_ceil(4).clamp(1, 5);
    candidates
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the edit distance (insertions, deletions, replacements).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_is_symmetric() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("field", "feild", 2),
        ] {
            assert_eq!(distance(a, b), expected);
            assert_eq!(distance(b, a), expected);
        }
    }

    #[test]
    fn only_similar_names_are_suggested() {
        let known = ["bootstrap.servers", "group.id", "enable"];
        assert_eq!(
            nearest("bootstrap.server", known.into_iter()),
            Some("bootstrap.servers")
        );
        assert_eq!(nearest("groupid", known.into_iter()), Some("group.id"));
        assert_eq!(nearest("linger.ms", known.into_iter()), None);
        assert_eq!(nearest(&"x".repeat(101), known.into_iter()), None);
    }
}
