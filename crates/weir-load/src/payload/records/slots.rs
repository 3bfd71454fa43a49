//! Bytes of the content of slots.

use super::super::random::MARK;
use super::fields::{NumberForm, SlotContent};
use super::writer::{RecordSlot, TextForm};
use crate::local_time::TEXT_LEN;
use crate::stamp::TEXT_STAMP_LEN_MAX;
use crate::varint::{push_varint, varint_len, zigzag};

/// Appends a number.
pub(super) fn push_number(form: NumberForm, number: u64, out: &mut Vec<u8>) {
    match form {
        // Times are below 2^63 until the year 2262.
        NumberForm::Zigzag => push_varint(zigzag(number as i64), out),
        NumberForm::Varint => push_varint(number, out),
        NumberForm::Fixed => out.extend_from_slice(&number.to_le_bytes()),
    }
}

/// Returns the number of bytes of a slot, with the longest key and a time of this century.
pub(super) fn slot_len(slot: &RecordSlot, longest_key: usize, marked: bool) -> usize {
    let text = |len: usize| match slot.form {
        TextForm::Json => len,
        TextForm::Avro => len + varint_len(zigzag(len as i64)),
        TextForm::Protobuf => len + varint_len(len as u64),
    };
    match slot.content {
        SlotContent::TimeText => text(TEXT_LEN + if marked { MARK.len() } else { 0 }),
        SlotContent::TimeNumber(form, unit) => {
            let mut out = Vec::new();
            push_number(form, unit.of_ns(SOME_UNIX_NS), &mut out);
            out.len()
        }
        SlotContent::Stamp => text(TEXT_STAMP_LEN_MAX),
        SlotContent::Key => text(longest_key),
    }
}

/// 2023-11-14; the length of encoded times is constant for decades.
const SOME_UNIX_NS: u64 = 1_700_000_000_000_000_000;
