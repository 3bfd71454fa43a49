//! A client that follows the protocol: the lines it reads, and those it must receive.

use std::collections::{BTreeMap, VecDeque};

use weir_mapping::FieldSet;
use weir_tlcp::client::{ItemState, Line, Lines, parse_line};
use weir_tlcp::request::Diffs;

use super::item::Item;
use super::rows::{ModelRowChange, ObservedRows, Rows, seen};
use super::values::{HISTORY, ModelRow};
use super::want::{PERIOD_MS, SubscriptionSpec, Values};

/// Tolerated deviation from a frequency limit.
const SLACK_MS: u64 = 20;

/// One subscription from its request to its end.
#[derive(Debug)]
struct Subscription {
    want: SubscriptionSpec,
    /// Values that must be received or, where updates may be dropped, may be received.
    expected: VecDeque<Values>,
    /// Last of `expected`, read or not.
    newest: Option<Values>,
    /// Number of unread snapshot updates, which may not be dropped.
    past: usize,
    /// Mode COMMAND: the expected rows.
    rows: Rows,
    seen: ObservedRows,
    /// Mode COMMAND: `true` while rows from before the interest began are outstanding.
    awaits: bool,
    /// Number of earlier updates that may precede the expected ones, once they are known.
    awaits_past: Option<usize>,
    /// `true` if updates were reported as lost.
    has_lost: bool,
    /// `true` if nothing more is expected.
    closed: bool,
    decoder: ItemState,
    confirmed: bool,
    snapshot_over: bool,
    since_ms: u64,
    /// Times of updates under a frequency limit, by row key.
    paced_updates: BTreeMap<String, u64>,
    /// `true` if the initial frequency limit is still in effect.
    paced: bool,
}

/// One client.
#[derive(Debug, Default)]
pub(super) struct ModelClient {
    /// Subscriptions by number, oldest first. A number may be used again after its end.
    subscriptions: BTreeMap<u32, VecDeque<Subscription>>,
    rest: String,
    /// Session id; empty before its first line.
    session: String,
    /// Diffs that the client accepts; `None` is all.
    pub(super) diffs: Option<Diffs>,
    pub(super) data_lines: u64,
    /// Number of data notifications that are repeated after a recovery.
    repeated: u64,
    ended: bool,
}

impl ModelClient {
    pub(super) fn is_active(&self, sub_id: u32) -> bool {
        self.active().any(|(id, _)| id == sub_id)
    }

    fn active(&self) -> impl Iterator<Item = (u32, &Subscription)> {
        let ended = self.ended;
        let all = self.subscriptions.iter();
        let last = all.filter_map(|(id, list)| Some((*id, list.back()?)));
        last.filter(move |(_, one)| !one.closed && !ended)
    }

    fn active_mut(&mut self) -> impl Iterator<Item = &mut Subscription> {
        let ended = self.ended;
        let all = self.subscriptions.values_mut();
        let last = all.filter_map(VecDeque::back_mut);
        last.filter(move |one| !one.closed && !ended)
    }

    /// Returns the active subscriptions.
    pub(super) fn wants(&self) -> impl Iterator<Item = &SubscriptionSpec> {
        self.active().map(|(_, one)| &one.want)
    }

    /// Checks that a record is read with all subscribed fields.
    pub(super) fn check_route(&self, item: usize, fields: &FieldSet) {
        for want in self.wants().filter(|want| want.item == item) {
            assert!(want.wanted().is_subset(fields), "{want:?}: {fields:?}");
        }
    }

    pub(super) fn subscribe(
        &mut self,
        sub_id: u32,
        want: SubscriptionSpec,
        item: &Item,
        now_ms: u64,
    ) {
        let mut subscription = Subscription {
            want,
            expected: VecDeque::new(),
            newest: None,
            past: 0,
            rows: item.rows.clone().unwrap_or_default(),
            seen: ObservedRows::default(),
            awaits: want.snapshot && want.kind.is_command() && item.pending_workers > 0,
            awaits_past: None,
            has_lost: false,
            closed: false,
            decoder: ItemState::accepting(want.fields.len(), self.diffs.unwrap_or(Diffs::ANY)),
            confirmed: false,
            snapshot_over: false,
            since_ms: now_ms,
            paced_updates: BTreeMap::new(),
            paced: want.kind.is_paced(),
        };
        if want.snapshot {
            subscription.expect_snapshot(item);
        }
        let list = self.subscriptions.entry(sub_id).or_default();
        list.push_back(subscription);
    }

    /// Ends a subscription; returns `false` if there is none.
    pub(super) fn unsubscribe(&mut self, sub_id: u32) -> bool {
        let active = self.is_active(sub_id);
        let list = self.subscriptions.get_mut(&sub_id);
        if let (Some(one), true) = (list.and_then(VecDeque::back_mut), active) {
            one.closed = true;
        }
        active
    }

    /// Returns `true` if the frequency limit of this subscription may be changed.
    pub(super) fn reconfigure(&mut self, sub_id: u32) -> bool {
        let active = self.is_active(sub_id);
        let list = self.subscriptions.get_mut(&sub_id);
        match list.and_then(VecDeque::back_mut) {
            Some(one) if active && !one.want.kind.is_lossless() => {
                one.paced = false;
                true
            }
            _ => false,
        }
    }

    /// Records an update that was delivered to the shard. `change` is its effect on the item's
    /// rows.
    pub(super) fn expect(
        &mut self,
        number: usize,
        row: &ModelRow,
        fields: &FieldSet,
        item: &Item,
        change: Option<&ModelRowChange>,
    ) {
        for one in self.active_mut().filter(|one| one.want.item == number) {
            if one.want.kind.is_merge() {
                one.expect(one.want.current(&item.known));
            } else if !one.want.wanted().is_subset(fields) {
            } else if one.want.kind.is_command() {
                if let Some(change) = change {
                    one.rows.apply(row);
                    one.expect(Some(seen(&one.want, &change.row, change.command)));
                }
            } else {
                one.expect(Some(one.want.project(row)));
            }
        }
    }

    /// Returns the request that recovers the session.
    pub(super) fn recover(&mut self) -> String {
        // An incomplete line is not received.
        self.rest.clear();
        let (id, received) = (&self.session, self.data_lines);
        format!(
            "bind_session\r\nLS_session={id}&LS_recovery_from={received}&LS_send_sync=false\
             &LS_reduce_head=true"
        )
    }

    /// Returns the request that replaces the session.
    pub(super) fn replace(&self) -> String {
        let old = &self.session;
        format!(
            "create_session\r\nLS_adapter_set=Set&LS_cid=x&LS_send_sync=false&LS_old_session={old}"
        )
    }

    pub(super) fn has_session(&self) -> bool {
        !self.session.is_empty()
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Records a backfill of values, which completes snapshots.
    pub(super) fn backfill(&mut self, number: usize, item: &Item) {
        let all = self.active_mut().filter(|one| one.want.item == number);
        for one in all.filter(|one| one.want.kind.is_merge()) {
            let Some(values) = one.want.current(&item.known) else {
                continue;
            };
            let changes = one.newest.as_ref().is_some_and(|newest| *newest != values);
            if changes || (one.newest.is_none() && one.want.snapshot) {
                one.expect(Some(values));
            }
        }
    }

    /// Records a backfilled row, which is sent to subscribers that wait for a snapshot.
    pub(super) fn backfill_row(&mut self, number: usize, row: &ModelRow, change: &ModelRowChange) {
        let all = self.active_mut().filter(|one| one.want.item == number);
        for one in all.filter(|one| one.want.kind.is_command()) {
            let want = one.want;
            let shown = |row| seen(&want, row, "UPDATE");
            let sent = one.rows.get(row).map(shown);
            // It is also sent if the row was sent before with missing fields.
            let corrects = sent.is_some_and(|sent| sent != shown(&change.row));
            one.rows.apply(row);
            if one.awaits || corrects {
                one.past += usize::from(one.awaits);
                one.expect(Some(seen(&want, &change.row, change.command)));
            }
        }
    }

    /// Records a backfill of updates from before the history of an item.
    pub(super) fn backfill_history(
        &mut self,
        number: usize,
        updates: &[(i64, ModelRow, FieldSet)],
    ) {
        for one in self.active_mut().filter(|one| one.want.item == number) {
            let Some(most) = one.awaits_past.take() else {
                continue;
            };
            assert!(
                !one.decoder.is_started(),
                "the snapshot is sent first: {one:?}"
            );
            let wanted = one.want.wanted();
            let read = updates
                .iter()
                .filter(|(.., fields)| wanted.is_subset(fields));
            let rows: Vec<Values> = read.map(|(_, row, _)| one.want.project(row)).collect();
            for values in rows.into_iter().rev().take(most) {
                one.newest.get_or_insert_with(|| values.clone());
                one.expected.push_front(values);
                one.past += 1;
            }
        }
    }

    /// Records that the backfill of rows is complete.
    pub(super) fn complete_rows(&mut self, number: usize) {
        let all = self.active_mut().filter(|one| one.want.item == number);
        all.for_each(|one| one.awaits = false);
    }

    /// Records that the gateway has ended the session.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn read(&mut self, text: &str, now_ms: u64) {
        self.rest += text;
        let text = std::mem::take(&mut self.rest);
        let mut lines = Lines::new(text.as_bytes());
        for line in &mut lines {
            let line = parse_line(line).expect("valid line");
            if line.is_data() && self.repeated > 0 {
                self.repeated -= 1;
                continue;
            }
            self.data_lines += u64::from(line.is_data());
            self.on_line(&line, now_ms);
        }
        self.rest = String::from_utf8_lossy(lines.remainder()).into_owned();
    }

    /// Returns the subscription to which a line with this number belongs.
    fn oldest(&mut self, sub_id: u32) -> &mut Subscription {
        let list = self.subscriptions.get_mut(&sub_id);
        let oldest = list.and_then(VecDeque::front_mut);
        oldest.expect("active subscription")
    }

    fn on_line(&mut self, line: &Line<'_>, now_ms: u64) {
        match *line {
            Line::SubOk { sub_id, .. } | Line::SubCmd { sub_id, .. } => {
                let one = self.oldest(sub_id);
                let is_command = matches!(line, Line::SubCmd { .. });
                assert_eq!(is_command, one.want.kind.is_command());
                let confirmed = std::mem::replace(&mut one.confirmed, true);
                assert!(!confirmed, "subscription confirmed twice");
            }
            Line::Update {
                sub_id, payload, ..
            } => self.oldest(sub_id).read(payload, now_ms),
            Line::Eos { sub_id, .. } => {
                let one = self.oldest(sub_id);
                assert!(one.want.snapshot && !one.want.kind.is_merge());
                // Rows may be deleted before they are sent.
                let past = std::mem::take(&mut one.past);
                assert!(past == 0 || one.want.kind.is_command(), "{one:?}");
                assert!(!std::mem::replace(&mut one.snapshot_over, true));
            }
            Line::Overflow { sub_id, lost, .. } => self.oldest(sub_id).lose(lost),
            Line::Cs { sub_id, .. } => {
                let one = self.oldest(sub_id);
                assert!(one.want.kind.is_command() && one.has_lost, "{one:?}");
                one.seen = ObservedRows::default();
            }
            Line::Unsub { sub_id } => {
                let one = self.oldest(sub_id);
                assert!(one.closed, "the client ended the subscription");
                let list = self.subscriptions.get_mut(&sub_id);
                list.expect("known subscription").pop_front();
            }
            Line::End { code, .. } => assert_eq!(code, 48),
            Line::ConOk { session_id, .. } => self.session = session_id.to_owned(),
            Line::Prog { count } => {
                let repeated = self.data_lines.checked_sub(count);
                self.repeated = repeated.expect("at most the received count");
            }
            // The session is no longer stored.
            Line::ConErr { code: 4, .. } => self.ended = true,
            Line::Conf { .. } | Line::Cons { .. } | Line::ReqOk { .. } => {}
            Line::ServName { .. } | Line::ClientIp { .. } => {}
            ref other => panic!("unexpected {other:?}"),
        }
    }

    /// Checks the final state after all lines were read.
    pub(super) fn check(&self, items: &[Item]) {
        for (_, one) in self.active() {
            one.check(&items[one.want.item]);
        }
    }
}

impl Subscription {
    fn expect_snapshot(&mut self, item: &Item) {
        let want = self.want;
        if want.kind.is_merge() {
            // An item of which no mapped field is needed has no known values.
            if want.indexes().flatten().next().is_some() {
                self.expect(want.current(&item.known));
                self.past = self.expected.len();
            }
        } else if want.kind.is_command() {
            for (_, row) in self.rows.clone().iter() {
                self.expect(Some(seen(&want, row, "ADD")));
            }
            self.past = self.rows.len();
        } else {
            for row in item.past(&want.wanted()) {
                self.expect(Some(want.project(row)));
            }
            self.past = self.expected.len();
            self.awaits_past = (item.pending_history_workers > 0).then_some(HISTORY - self.past);
        }
    }

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

    fn read(&mut self, payload: &[u8], now_ms: u64) {
        assert!(self.confirmed, "update before SUBOK");
        self.decoder.apply(payload).expect("valid payload");
        let got = self.values();
        self.check_pace(&got, now_ms);
        if self.want.kind.is_command() {
            self.seen.apply(&got);
        }
        let in_order =
            !self.want.kind.is_command() || (self.want.kind.is_lossless() && !self.has_lost);
        if in_order {
            self.read_in_order(&got);
        } else {
            self.read_of_row(&got);
        }
    }

    fn read_in_order(&mut self, got: &Values) {
        loop {
            let next = self.expected.pop_front();
            let next = next.unwrap_or_else(|| panic!("{got:?} is not expected: {self:?}"));
            let is_past = self.past > 0;
            self.past -= usize::from(is_past);
            let is_deleted = got.get(1) == Some(&Some("DELETE".to_owned()));
            if next == *got || (self.want.kind.is_command() && is_deleted && next[..2] == got[..2])
            {
                return;
            }
            let may_skip =
                !(self.want.kind.is_lossless() || is_past && self.want.kind.is_distinct());
            assert!(may_skip, "got {got:?}, expected {next:?}: {self:?}");
        }
    }

    /// Reads an update of a row. Updates may be merged, but each is a past state, in order.
    fn read_of_row(&mut self, got: &Values) {
        if got[1].as_deref() == Some("DELETE") || self.has_lost {
            return;
        }
        self.past = self.past.saturating_sub(1);
        let same = |next: &&mut Values| next[0] == got[0] && next[2..] == got[2..];
        let mut expected = self.expected.iter_mut();
        assert!(
            expected.any(|mut next| same(&mut next)),
            "{got:?}: {self:?}"
        );
    }

    fn lose(&mut self, lost: u64) {
        assert!(self.want.kind.is_lossless() || self.want.kind.is_command());
        self.has_lost = true;
        if !self.want.kind.is_command() {
            assert!(lost as usize <= self.expected.len(), "{lost}: {self:?}");
            self.expected.drain(..lost as usize);
        }
    }

    fn check_pace(&mut self, got: &Values, now_ms: u64) {
        let is_row = self.want.kind.is_command();
        if !self.paced || self.past > 0 || (is_row && got[1].as_deref() != Some("UPDATE")) {
            return;
        }
        // It may have been read later than it was sent, but not earlier.
        let key = if is_row { got[0].clone() } else { None };
        let count = self
            .paced_updates
            .entry(key.unwrap_or_default())
            .or_default();
        *count += 1;
        let count = *count;
        let most = 1 + (now_ms + SLACK_MS - self.since_ms) / PERIOD_MS;
        assert!(count <= most, "{count} updates, {most} allowed: {self:?}");
    }

    fn check(&self, item: &Item) {
        assert!(self.confirmed, "{self:?}");
        let has_end = self.want.snapshot && !self.want.kind.is_merge();
        assert_eq!(self.snapshot_over, has_end, "{self:?}");
        if self.want.kind.is_command() {
            return self.check_rows();
        }
        if self.want.kind.is_lossless() {
            assert!(self.expected.is_empty(), "{self:?}");
        }
        let Some(newest) = &self.newest else {
            return assert!(!self.decoder.is_started(), "{self:?}");
        };
        // In modes without merging, the last update may be lost.
        if !self.has_lost || self.want.kind.is_merge() {
            assert_eq!(&self.values(), newest, "{self:?}");
        }
        if self.want.kind.is_merge() {
            assert_eq!(self.want.current(&item.known).as_ref(), Some(newest));
        }
    }

    /// A client without a snapshot knows only later changes.
    fn check_rows(&self) {
        let mut rows = ObservedRows::default();
        for (key, row) in self.rows.iter() {
            rows.0.push((key.clone(), seen(&self.want, row, "ADD")));
        }
        let (rows, seen) = (rows.sorted(), self.seen.sorted());
        if self.want.snapshot || self.has_lost {
            assert_eq!(seen, rows, "{self:?}");
        } else {
            for row in &seen {
                assert!(rows.contains(row), "{row:?}: {self:?}");
            }
        }
        if self.want.kind.is_lossless() && !self.has_lost {
            assert!(self.expected.is_empty(), "{self:?}");
        }
    }
}
