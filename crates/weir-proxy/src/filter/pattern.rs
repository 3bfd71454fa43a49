//! Names of topics with `*` for anything.

/// A topic's name, or what several have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopicPattern {
    text: String,
}

impl TopicPattern {
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether a topic has such a name. Internal topics, which start with two underscores, are meant
    /// only where the pattern starts so too: `*` does not change what brokers keep for themselves.
    pub(super) fn matches(&self, topic: &str) -> bool {
        if topic.starts_with(INTERNAL) && !self.text.starts_with(INTERNAL) {
            return false;
        }
        let Some((first, rest)) = self.text.split_once('*') else {
            return self.text == topic;
        };
        let Some(mut left) = topic.strip_prefix(first) else {
            return false;
        };
        // All pieces but the last may lie anywhere behind the one before; the earliest place is best.
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
    fn stars_stand_for_anything() {
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
            let found = TopicPattern::new(pattern).matches(topic);
            assert_eq!(found, expected, "{pattern} {topic}");
        }
    }
}
