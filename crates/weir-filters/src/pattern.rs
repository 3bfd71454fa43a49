//! Topic patterns with `*` for any characters.

/// A topic name, or a pattern for several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TopicPattern(pub(crate) String);

impl TopicPattern {
    /// Returns `true` if the topic matches. Internal topics, which start with two underscores,
    /// match only patterns that start the same way, so that `*` does not change internal records of
    /// brokers.
    pub(crate) fn matches(&self, topic: &str) -> bool {
        if topic.starts_with(INTERNAL) && !self.0.starts_with(INTERNAL) {
            return false;
        }
        let Some((first, rest)) = self.0.split_once('*') else {
            return self.0 == topic;
        };
        let Some(mut left) = topic.strip_prefix(first) else {
            return false;
        };
        // Every part except the last may be anywhere after the previous one; the first match is
        // sufficient.
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        for piece in middle.split('*') {
            let Some(at) = left.find(piece) else {
                return false;
            };
            left = &left[at + piece.len()..];
        }
        left.ends_with(last)
    }
}

const INTERNAL: &str = "__";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_characters() {
        let cases = [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "anything", true),
            ("perf-*", "perf-", true),
            ("perf-*", "perf", false),
            ("*-log", "a-log", true),
            ("*-log", "a-log-b", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
            ("ab*ba", "aba", false),
            ("*x*", "axb", true),
            ("*x*", "ab", false),
            ("*", "__consumer_offsets", false),
            ("__consumer*", "__consumer_offsets", true),
            ("*", "_schemas", true),
            ("**", "a", true),
        ];
        for (pattern, topic, expected) in cases {
            let found = TopicPattern(pattern.to_owned()).matches(topic);
            assert_eq!(found, expected, "{pattern} {topic}");
        }
    }
}
