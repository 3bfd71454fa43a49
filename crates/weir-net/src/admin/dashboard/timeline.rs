//! Present problems with their times, and the latest events, which the charts mark.

use std::collections::VecDeque;

use serde_json::{Value, json};

/// Maximum number of problems shown; brokers name themselves, so their number has no other limit.
const PROBLEMS_MAX: usize = 32;
/// Maximum number of events stored.
const EVENTS_MAX: usize = 100;

/// Fault that needs an operator's attention now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Part of the process that has it, such as a Kafka connection.
    pub source: String,
    /// Address of what does not respond; empty if there is none. With the source, it identifies the
    /// problem.
    pub address: String,
    /// Why.
    pub cause: String,
}

impl Problem {
    fn is_same(&self, other: &Self) -> bool {
        self.source == other.source && self.address == other.address
    }

    fn place(&self) -> String {
        match self.address.as_str() {
            "" => self.source.clone(),
            address => format!("{} ({address})", self.source),
        }
    }
}

/// Problems and events of a process.
#[derive(Debug)]
pub(super) struct Timeline {
    /// Open problems, each with the time since when.
    open: Vec<(Problem, u64)>,
    events: VecDeque<Event>,
    /// Successful and failed reloads of certificates.
    reloads: [u64; 2],
}

#[derive(Debug, PartialEq, Eq)]
struct Event {
    unix_ms: u64,
    kind: &'static str,
    text: String,
}

impl Timeline {
    /// Begins with the start of the process. Its problems are as old, but not events: nothing is
    /// connected yet.
    pub(super) fn new(now_ms: u64, problems: Vec<Problem>) -> Self {
        let shown = problems.into_iter().take(PROBLEMS_MAX);
        let mut timeline = Self {
            open: shown.map(|problem| (problem, now_ms)).collect(),
            events: VecDeque::new(),
            reloads: [0; 2],
        };
        timeline.push(now_ms, "start", "started".to_owned());
        timeline
    }

    /// Compares the present problems and numbers of reloads with those of the previous call.
    pub(super) fn update(&mut self, now_ms: u64, problems: Vec<Problem>, reloads: [u64; 2]) {
        let before = std::mem::take(&mut self.open);
        for (old, since_ms) in &before {
            if !problems.iter().any(|problem| problem.is_same(old)) {
                let seconds = now_ms.saturating_sub(*since_ms) / 1_000;
                let text = format!("{}: recovered after {seconds} s", old.place());
                self.push(now_ms, "recovered", text);
            }
        }
        for problem in problems.into_iter().take(PROBLEMS_MAX) {
            let known = before.iter().find(|(old, _)| old.is_same(&problem));
            let since_ms = known.map_or(now_ms, |(_, since_ms)| *since_ms);
            if known.is_none() {
                let text = format!("{}: {}", problem.place(), problem.cause);
                self.push(now_ms, "lost", text);
            }
            self.open.push((problem, since_ms));
        }
        let names = [
            ("reload", "certificates reloaded"),
            ("failed", "reload of certificates failed"),
        ];
        for (number, (kind, text)) in names.into_iter().enumerate() {
            if reloads[number] > self.reloads[number] {
                self.push(now_ms, kind, text.to_owned());
            }
        }
        self.reloads = reloads;
    }

    pub(super) fn problems(&self) -> Value {
        let open = self.open.iter().map(|(problem, since_ms)| {
            json!({
                "source": problem.source,
                "address": problem.address,
                "cause": problem.cause,
                "since_unix_ms": since_ms,
            })
        });
        open.collect()
    }

    pub(super) fn events(&self) -> Value {
        let events = self.events.iter().map(
            |event| json!({ "unix_ms": event.unix_ms, "kind": event.kind, "text": event.text }),
        );
        events.collect()
    }

    fn push(&mut self, unix_ms: u64, kind: &'static str, text: String) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(Event {
            unix_ms,
            kind,
            text,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(source: &str, cause: &str) -> Problem {
        Problem {
            source: source.to_owned(),
            address: "b:1".to_owned(),
            cause: cause.to_owned(),
        }
    }

    fn events(timeline: &Timeline) -> Vec<(u64, &str, &str)> {
        let events = timeline.events.iter();
        events
            .map(|event| (event.unix_ms, event.kind, event.text.as_str()))
            .collect()
    }

    #[test]
    fn problem_keeps_its_time_and_its_end_is_an_event() {
        let mut timeline = Timeline::new(1_000, vec![problem("a", "not connected yet")]);
        timeline.update(3_000, vec![problem("a", "refused")], [0; 2]);
        let shown = timeline.problems();
        assert_eq!(shown[0]["cause"], "refused", "the latest cause");
        assert_eq!(shown[0]["address"], "b:1");
        assert_eq!(shown[0]["since_unix_ms"], 1_000, "the first time");
        timeline.update(5_000, vec![], [0; 2]);
        assert_eq!(timeline.problems(), json!([]));
        timeline.update(7_000, vec![problem("a", "gone")], [0; 2]);
        let expected = [
            (1_000, "start", "started"),
            (5_000, "recovered", "a (b:1): recovered after 4 s"),
            (7_000, "lost", "a (b:1): gone"),
        ];
        assert_eq!(events(&timeline), expected);
    }

    #[test]
    fn reloads_are_events_once() {
        let mut timeline = Timeline::new(0, vec![]);
        timeline.update(1, vec![], [1, 0]);
        timeline.update(2, vec![], [1, 0]);
        timeline.update(3, vec![], [1, 1]);
        let kinds: Vec<_> = events(&timeline).iter().map(|event| event.1).collect();
        assert_eq!(kinds, ["start", "reload", "failed"]);
    }

    #[test]
    fn numbers_are_bounded() {
        let all: Vec<_> = (0..PROBLEMS_MAX + 5)
            .map(|number| problem(&number.to_string(), "x"))
            .collect();
        let mut timeline = Timeline::new(0, vec![]);
        for round in 0..10 {
            let present = if round % 2 == 0 { all.clone() } else { vec![] };
            timeline.update(round, present, [0; 2]);
            assert!(timeline.open.len() <= PROBLEMS_MAX);
        }
        assert_eq!(timeline.events.len(), EVENTS_MAX);
    }
}
