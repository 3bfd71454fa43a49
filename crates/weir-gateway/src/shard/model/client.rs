//! A client as the protocol promises it: what it reads, and what it must have read.

use std::collections::{BTreeMap, VecDeque};

use weir_mapping::FieldSet;
use weir_tlcp::client::{ItemState, Line, Lines, parse_line};

use super::{FIELDS, Known, Row};

/// Mode and frequency of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Raw,
    Distinct,
    Merge,
    MergeUnfiltered,
}

impl Kind {
    pub(super) fn mode(self) -> &'static str {
        match self {
            Self::Raw => "RAW",
            Self::Distinct => "DISTINCT",
            Self::Merge | Self::MergeUnfiltered => "MERGE",
        }
    }

    pub(super) fn frequency(self) -> &'static str {
        match self {
            Self::MergeUnfiltered => "&LS_requested_max_frequency=unfiltered",
            _ => "",
        }
    }

    fn is_merge(self) -> bool {
        matches!(self, Self::Merge | Self::MergeUnfiltered)
    }
}

/// What a subscription asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Want {
    pub(super) item: usize,
    pub(super) fields: &'static [&'static str],
    pub(super) kind: Kind,
    pub(super) snapshot: bool,
}

impl Want {
    pub(super) fn has(&self, index: usize) -> bool {
        wanted(self.fields).contains(index)
    }
}

type Values = Vec<Option<String>>;

/// One subscription from its request to its end.
#[derive(Debug)]
struct Subscription {
    want: Want,
    /// What comes or, in mode MERGE, what may be left out up to the last one.
    expected: VecDeque<Values>,
    /// The newest of `expected`, read or not.
    newest: Option<Values>,
    /// Nothing is expected any more.
    closed: bool,
    decoder: ItemState,
    confirmed: bool,
    snapshot_over: bool,
}

/// One client.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// By number, oldest first: a number may be used again after its end.
    subscriptions: BTreeMap<u32, VecDeque<Subscription>>,
    rest: String,
    pub(super) data_lines: u64,
    ended: bool,
}

/// The fields of a schema that are mapped, by index.
fn indexes(fields: &[&str]) -> impl Iterator<Item = Option<usize>> {
    fields
        .iter()
        .map(|name| FIELDS.iter().position(|field| field == name))
}

fn wanted(fields: &[&str]) -> FieldSet {
    indexes(fields).flatten().collect()
}

fn project(fields: &[&str], row: &Row) -> Values {
    indexes(fields).map(|index| row[index?].clone()).collect()
}

/// The current values, if all are known.
fn current(fields: &[&str], known: &Known) -> Option<Values> {
    indexes(fields)
        .map(|index| match index {
            None => Some(None),
            Some(index) => known[index].clone(),
        })
        .collect()
}

impl Client {
    pub(super) fn is_active(&self, sub_id: u32) -> bool {
        self.active().any(|(id, _)| id == sub_id)
    }

    fn active(&self) -> impl Iterator<Item = (u32, &Subscription)> {
        let ended = self.ended;
        let all = self.subscriptions.iter();
        let last = all.filter_map(|(id, list)| Some((*id, list.back()?)));
        last.filter(move |(_, one)| !one.closed && !ended)
    }

    pub(super) fn has(&self, item: usize) -> bool {
        self.active().any(|(_, one)| one.want.item == item)
    }

    pub(super) fn wants(&self, item: usize, index: usize) -> bool {
        let mut of_item = self.active().filter(|(_, one)| one.want.item == item);
        of_item.any(|(_, one)| wanted(one.want.fields).contains(index))
    }

    /// A record that is written now must be read with all fields that are subscribed.
    pub(super) fn check_route(&self, item: usize, fields: &FieldSet) {
        for (_, one) in self.active().filter(|(_, one)| one.want.item == item) {
            assert!(
                wanted(one.want.fields).is_subset(fields),
                "{one:?}: {fields:?}"
            );
        }
    }

    pub(super) fn subscribe(&mut self, sub_id: u32, want: Want, known: &Known) {
        let mut subscription = Subscription {
            want,
            expected: VecDeque::new(),
            newest: None,
            closed: false,
            decoder: ItemState::new(want.fields.len()),
            confirmed: false,
            snapshot_over: false,
        };
        // An item that nobody mapped a field of has no values that could be known.
        let seen = indexes(want.fields).flatten().next().is_some();
        if want.snapshot && want.kind.is_merge() && seen {
            subscription.expect(current(want.fields, known));
        }
        self.subscriptions
            .entry(sub_id)
            .or_default()
            .push_back(subscription);
    }

    /// Whether there is one to end.
    pub(super) fn unsubscribe(&mut self, sub_id: u32) -> bool {
        let active = self.is_active(sub_id);
        let last = self
            .subscriptions
            .get_mut(&sub_id)
            .and_then(VecDeque::back_mut);
        if let (Some(one), true) = (last, active) {
            one.closed = true;
        }
        active
    }

    /// An update went to the shard.
    pub(super) fn expect(&mut self, item: usize, row: &Row, fields: &FieldSet, known: &Known) {
        if self.ended {
            return;
        }
        let all = self.subscriptions.values_mut();
        for one in all.filter_map(VecDeque::back_mut).filter(|one| !one.closed) {
            if one.want.item != item {
                continue;
            }
            if one.want.kind.is_merge() {
                one.expect(current(one.want.fields, known));
            } else if wanted(one.want.fields).is_subset(fields) {
                one.expect(Some(project(one.want.fields, row)));
            }
        }
    }

    /// The gateway gave up on this client.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn read(&mut self, text: &str) {
        self.rest += text;
        let text = std::mem::take(&mut self.rest);
        let mut lines = Lines::new(text.as_bytes());
        for line in &mut lines {
            let line = parse_line(line).expect("a good line");
            self.data_lines += u64::from(line.is_data());
            self.on_line(&line);
        }
        self.rest = String::from_utf8_lossy(lines.remainder()).into_owned();
    }

    /// The subscription that a line with this number is about.
    fn oldest(&mut self, sub_id: u32) -> &mut Subscription {
        let list = self.subscriptions.get_mut(&sub_id);
        let oldest = list.and_then(VecDeque::front_mut);
        oldest.expect("a subscription that has not ended")
    }

    fn on_line(&mut self, line: &Line<'_>) {
        match *line {
            Line::SubOk { sub_id, .. } => {
                let one = self.oldest(sub_id);
                assert!(
                    !std::mem::replace(&mut one.confirmed, true),
                    "confirmed twice"
                );
            }
            Line::Update {
                sub_id, payload, ..
            } => self.oldest(sub_id).read(payload),
            Line::Eos { sub_id, .. } => {
                let one = self.oldest(sub_id);
                assert!(one.want.snapshot && one.want.kind == Kind::Distinct);
                assert!(!std::mem::replace(&mut one.snapshot_over, true));
            }
            Line::Unsub { sub_id } => {
                let one = self.oldest(sub_id);
                assert!(one.closed, "nobody asked for its end");
                assert!(
                    one.want.kind == Kind::Merge || one.expected.is_empty(),
                    "{one:?}"
                );
                let list = self.subscriptions.get_mut(&sub_id);
                list.expect("a known subscription").pop_front();
            }
            Line::End { code, .. } => assert_eq!(code, 48),
            Line::ConOk { .. } | Line::Conf { .. } => {}
            ref other => panic!("unexpected {other:?}"),
        }
    }

    /// All has been read.
    pub(super) fn check(&self, known: &[Known]) {
        for (_, one) in self.active() {
            assert!(one.confirmed, "{one:?}");
            assert!(
                one.want.kind == Kind::Merge || one.expected.is_empty(),
                "{one:?}"
            );
            let distinct = one.want.snapshot && one.want.kind == Kind::Distinct;
            assert_eq!(one.snapshot_over, distinct);
            if let Some(newest) = &one.newest {
                let values: Values = one.values();
                assert_eq!(&values, newest, "{one:?}");
                if one.want.kind.is_merge() {
                    assert_eq!(
                        current(one.want.fields, &known[one.want.item]),
                        Some(values)
                    );
                }
            } else {
                assert!(!one.decoder.is_started(), "{one:?}");
            }
        }
    }
}

impl Subscription {
    fn expect(&mut self, values: Option<Values>) {
        if let Some(values) = values {
            self.newest = Some(values.clone());
            self.expected.push_back(values);
        }
    }

    fn values(&self) -> Values {
        let values = self.decoder.values();
        values.map(|value| value.map(str::to_owned)).collect()
    }

    fn read(&mut self, payload: &[u8]) {
        assert!(self.confirmed, "an update before SUBOK");
        self.decoder.apply(payload).expect("a payload that fits");
        let got = self.values();
        loop {
            let next = self.expected.pop_front();
            let next = next.unwrap_or_else(|| panic!("{got:?} is not expected any more: {self:?}"));
            if next == got {
                return;
            }
            assert!(
                self.want.kind == Kind::Merge,
                "{got:?} in place of {next:?}: {self:?}"
            );
        }
    }
}
