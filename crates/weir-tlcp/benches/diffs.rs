//! Cost of diffs: `cargo bench -p weir-tlcp --bench diffs`.
//!
//! Each row is one change of a value. The columns are the time of the patch made from the texts, of
//! the same patch through `serde_json::Value` and the crate `json-patch`, of the text diff, and of
//! a copy of the whole value: best of several rounds, in nanoseconds, on one thread. Then the bytes
//! of patch, text diff and value.

// Disallowed in the crate, but needed to measure it.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use std::hint::black_box;

use serde_json::Value;
use weir_tlcp::diff::{push_json_patch, push_tlcp_diff};
use weir_tlcp::text::push_value;

#[path = "../../../bench/best_time.rs"]
mod best_time;

use best_time::best_time;

fn main() {
    println!(
        "{:<40}{:>8}{:>12}{:>8}{:>8}{:>18}",
        "ns per step", "patch", "json-patch", "text", "whole", "bytes"
    );
    row(
        "1.3 KB object, text, number, time",
        &object(2, 5, 0),
        &object(9, 6, 1),
    );
    row("1.3 KB object, number", &object(2, 5, 0), &object(2, 6, 0));
    row(
        "8 KB array of 700 names, one",
        &names(700, 1),
        &names(700, 2),
    );
    row("12 KB array, one more", &names(1000, 1), &names(1001, 1));
    row("1 KB text, all of it", &filler(1024, 1), &filler(1024, 2));
}

fn row(title: &str, old: &str, new: &str) {
    let (mut patch, mut diff) = (String::new(), String::new());
    let patch_ns = best_time(|| {
        patch.clear();
        push_json_patch(&mut patch, black_box(old), black_box(new), usize::MAX)
    });
    let by_values = || -> Option<String> {
        let old: Value = serde_json::from_str(black_box(old)).ok()?;
        let new: Value = serde_json::from_str(black_box(new)).ok()?;
        serde_json::to_string(&json_patch::diff(&old, &new)).ok()
    };
    let values_ns = best_time(|| by_values().is_some());
    let text_ns = best_time(|| {
        diff.clear();
        push_tlcp_diff(&mut diff, black_box(old), black_box(new), false, usize::MAX)
    });
    let mut whole = Vec::new();
    let whole_ns = best_time(|| {
        whole.clear();
        push_value(&mut whole, Some(black_box(new)));
        !whole.is_empty()
    });
    let bytes = format!("{}/{}/{}", patch.len(), diff.len(), new.len());
    println!("{title:<40}{patch_ns:>8.0}{values_ns:>12.0}{text_ns:>8.0}{whole_ns:>8.0}{bytes:>18}");
}

/// Returns text without escapes, the same in every run.
fn filler(length: usize, seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef0123456789"[(state % 42) as usize])
    };
    (0..length).map(|_| next()).collect()
}

/// Returns the load test's object with another second text, first number and time.
fn object(second: u64, number: u32, second_of_day: u32) -> String {
    let text = |seed| filler(256, seed);
    format!(
        "{{\"id\":\"James\",\"firstText\":\"{}\",\"secondText\":\"{}\",\"thirdText\":\"{}\",\
         \"fourthText\":\"{}\",\"firstnumber\":{number},\"secondNumber\":-99887766,\
         \"thirdNumber\":77,\"fourthNumber\":2000000000,\
         \"hobbies\":[\"Playing video games\",\"Chess\",\"Hiking\"],\
         \"timestamp\":\"2026-01-01 00:00:0{second_of_day}.000\"}}",
        text(1),
        text(second),
        text(3),
        text(4)
    )
}

/// Returns `count` names; the middle one depends on the seed.
fn names(count: usize, seed: u64) -> String {
    let name = |at: usize| {
        let seed = if at == 500 { seed + 10_000 } else { at as u64 };
        format!("\"{}\"", filler(9, seed))
    };
    format!("[{}]", (0..count).map(name).collect::<Vec<_>>().join(","))
}
