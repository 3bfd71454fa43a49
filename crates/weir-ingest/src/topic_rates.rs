//! Rate and lag of each topic for the admin port. Computed from positions, so that the record path
//! does not count by topic.

use std::time::{Duration, Instant};

use weir_kafka::PartitionLag;

/// Interval between two rates.
const INTERVAL: Duration = Duration::from_secs(2);

/// Rate and lag of one topic.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicReading {
    /// Topic name.
    pub topic: String,
    /// Partitions with a position.
    pub partitions: usize,
    /// Offsets per second by which positions advance, including offsets without a record, such as
    /// those of compacted records. `None` in the first interval and after a change of partitions.
    pub offsets_per_s: Option<f64>,
    /// Records not read yet; `None` if an end is unknown.
    pub lag: Option<u64>,
}

/// Rates of all topics of a connection.
pub(crate) struct TopicRates {
    since: Option<Instant>,
    /// Topics with the number of partitions and the sum of positions at `since`.
    before: Vec<(String, usize, i64)>,
}

impl TopicRates {
    pub(crate) const fn new() -> Self {
        Self {
            since: None,
            before: Vec::new(),
        }
    }

    /// Returns the topics in the order of `lag`, in which a topic's partitions are neighbors;
    /// `None` if the interval is not over.
    pub(crate) fn update(
        &mut self,
        lag: &[PartitionLag],
        now: Instant,
    ) -> Option<Vec<TopicReading>> {
        let elapsed = self.since.map(|since| now.duration_since(since));
        if elapsed.is_some_and(|elapsed| elapsed < INTERVAL) {
            return None;
        }
        let mut sums = Vec::new();
        let mut topics = Vec::new();
        for partitions in lag.chunk_by(|one, next| one.topic == next.topic) {
            let topic = partitions[0].topic.clone();
            let positions = partitions.iter().map(|one| one.position);
            let sum = positions.fold(0, i64::saturating_add);
            let is_topic = |before: &&(String, usize, i64)| before.0 == topic;
            // The order of topics rarely changes.
            let known = self.before.get(topics.len()).filter(is_topic);
            let known = known.or_else(|| self.before.iter().find(is_topic));
            let passed = known.and_then(|(_, count, before)| {
                (*count == partitions.len()).then(|| sum.saturating_sub(*before).max(0))
            });
            topics.push(TopicReading {
                partitions: partitions.len(),
                offsets_per_s: passed.zip(elapsed).map(rate),
                lag: partitions.iter().map(PartitionLag::records).sum(),
                topic: topic.clone(),
            });
            sums.push((topic, partitions.len(), sum));
        }
        self.since = Some(now);
        self.before = sums;
        Some(topics)
    }
}

fn rate((passed, elapsed): (i64, Duration)) -> f64 {
    passed as f64 / elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(topic: &str, partition: i32, position: i64, end: Option<i64>) -> PartitionLag {
        PartitionLag {
            topic: topic.to_owned(),
            partition,
            position,
            end,
        }
    }

    #[test]
    fn rate_is_the_sum_of_all_partitions() {
        let (mut rates, start) = (TopicRates::new(), Instant::now());
        let first = [
            at("a", 0, 10, Some(10)),
            at("a", 1, 0, Some(7)),
            at("b", 0, 5, None),
        ];
        let topics = rates.update(&first, start).unwrap();
        assert_eq!(topics.len(), 2);
        let expected = TopicReading {
            topic: "a".to_owned(),
            partitions: 2,
            offsets_per_s: None,
            lag: Some(7),
        };
        assert_eq!(topics[0], expected);
        assert_eq!(topics[1].lag, None);

        assert_eq!(rates.update(&first, start + INTERVAL / 2), None);
        let second = [
            at("a", 0, 30, Some(30)),
            at("a", 1, 7, Some(7)),
            at("b", 0, 5, Some(5)),
        ];
        let topics = rates.update(&second, start + INTERVAL).unwrap();
        let shown = |at: usize| (topics[at].offsets_per_s, topics[at].lag);
        assert_eq!(shown(0), (Some(27.0 / INTERVAL.as_secs_f64()), Some(0)));
        assert_eq!(shown(1), (Some(0.0), Some(0)));
    }

    #[test]
    fn rate_is_unknown_after_partition_change() {
        let (mut rates, start) = (TopicRates::new(), Instant::now());
        rates.update(&[at("a", 0, 100, None)], start);
        let more = [at("a", 0, 110, None), at("a", 1, 40, None)];
        let topics = rates.update(&more, start + INTERVAL).unwrap();
        assert_eq!(topics[0].offsets_per_s, None);
        let reset = [at("a", 0, 0, None), at("a", 1, 40, None)];
        let topics = rates.update(&reset, start + 2 * INTERVAL).unwrap();
        assert_eq!(topics[0].offsets_per_s, Some(0.0));
    }
}
