//! Messages that are sent one after the other.

use std::collections::VecDeque;
use std::hash::Hash;

use foldhash::HashMap;

/// Messages by sequence. The next one is sent after the outcome of the one before.
#[derive(Debug)]
pub struct MessageLanes<K, M> {
    /// Messages that wait for the one that was sent.
    waiting: HashMap<K, VecDeque<M>>,
}

impl<K, M> Default for MessageLanes<K, M> {
    fn default() -> Self {
        Self {
            waiting: HashMap::default(),
        }
    }
}

impl<K: Eq + Hash, M> MessageLanes<K, M> {
    /// Adds a message of a sequence. Returns it if it is to be sent now.
    pub fn enter(&mut self, sequence: K, message: M) -> Option<M> {
        match self.waiting.get_mut(&sequence) {
            Some(waiting) => {
                waiting.push_back(message);
                None
            }
            None => {
                self.waiting.insert(sequence, VecDeque::new());
                Some(message)
            }
        }
    }

    /// Returns the message to send after the outcome of the one before.
    pub fn leave(&mut self, sequence: &K) -> Option<M> {
        let next = self.waiting.get_mut(sequence)?.pop_front();
        if next.is_none() {
            self.waiting.remove(sequence);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_sequence_follow_each_other() {
        let mut lanes = MessageLanes::default();
        assert_eq!(lanes.enter("a", 1), Some(1));
        assert_eq!((lanes.enter("a", 2), lanes.enter("a", 3)), (None, None));
        assert_eq!(lanes.enter("b", 4), Some(4));
        assert_eq!((lanes.leave(&"a"), lanes.leave(&"a")), (Some(2), Some(3)));
        assert_eq!(lanes.leave(&"a"), None);
        assert_eq!(lanes.enter("a", 5), Some(5), "the lane is free");
        assert_eq!((lanes.leave(&"b"), lanes.leave(&"c")), (None, None));
    }
}
