//! Files of this repository that tests derive: schemas, and outputs to compare with.

use std::path::Path;

/// Variable that makes tests write the derived files instead of comparing them.
const UPDATE: &str = "WEIR_UPDATE_FILES";

/// Compares a file of this repository with the text that a test derives. With `WEIR_UPDATE_FILES=1`
/// writes it. `path` is relative to the root of the repository.
///
/// # Panics
/// If they differ, with the first line that does.
#[track_caller]
pub fn assert_derived(path: &str, derived: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join(path);
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&file, derived).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    if let Some(difference) = difference(&stored, derived) {
        panic!("{path}, {difference}\n{UPDATE}=1 writes the file; then review the change");
    }
}

/// Describes the first line that differs.
fn difference(stored: &str, derived: &str) -> Option<String> {
    if stored == derived {
        return None;
    }
    let (mut old, mut new) = (stored.split('\n'), derived.split('\n'));
    for number in 1.. {
        let (old, new) = (old.next(), new.next());
        if old != new {
            let [old, new] = [old, new].map(|line| line.unwrap_or("(end of file)"));
            return Some(format!(
                "line {number}:\n  stored   {old}\n  derived  {new}"
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn first_different_line_is_shown() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        let text = difference("a\nb\n", "a\nc\n").expect("a difference");
        assert_eq!(text, "line 2:\n  stored   b\n  derived  c");
        let text = difference("a\n", "a").expect("a difference");
        assert_eq!(text, "line 2:\n  stored   \n  derived  (end of file)");
    }
}
