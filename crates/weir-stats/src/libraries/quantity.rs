//! The quantities of a sample, by name.

use crate::run::{LibraryCell, LibrarySample};

/// One quantity of a sample.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    /// Name, including the unit.
    pub name: &'static str,
    /// Description: the start and the end of the measured interval.
    pub title: &'static str,
    /// The quantity is a time that tables show in a suitable unit.
    pub is_time: bool,
    of: fn(&LibrarySample) -> Option<f64>,
}

impl Quantity {
    /// Returns the value in a sample, or `None` if it has none.
    pub fn of(&self, sample: &LibrarySample) -> Option<f64> {
        (self.of)(sample).filter(|value| value.is_finite() && *value >= 0.0)
    }

    /// Returns the quantity with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        QUANTITIES.iter().find(|quantity| quantity.name == name)
    }
}

/// Returns the headline quantity that `profile` compares for the operation of this cell.
pub fn headline(profile: &str, cell: &LibraryCell) -> &'static Quantity {
    let name = match (cell.operation.as_str(), profile) {
        ("consume", "legacy") => "legacy_us",
        ("consume", _) => "drain_us",
        ("copy", _) => "copied_us",
        ("roundtrip", _) => "latency_mean_us",
        _ => "delivered_us",
    };
    QUANTITIES
        .iter()
        .find(|quantity| quantity.name == name)
        .unwrap_or(&QUANTITIES[0])
}

/// Lists quantities.
macro_rules! quantities {
    ($($name:literal $title:literal, time $is_time:literal, |$sample:ident| $of:expr;)*) => {
        [$(Quantity {
            name: $name,
            title: $title,
            is_time: $is_time,
            of: |$sample| $of,
        }),*]
    };
}

/// All quantities, in the order of tables. A sample has those of its operation.
pub static QUANTITIES: [Quantity; 18] = quantities! {
    "delivered_us" "first send to last delivery report", time true, |it| it.delivered_us;
    "send_us" "first send to return of the last", time true, |it| it.send_us;
    "create_us" "making the messages", time true, |it| it.create_us;
    "send_calls_us" "inside send calls", time true, |it| it.send_calls_us;
    "legacy_us" "assignment to last record", time true, |it| it.legacy_us;
    "drain_us" "first record to last", time true, |it| it.drain_us;
    "first_us" "assignment to first record", time true, |it| it.first_us;
    "join_us" "subscription to assignment", time true, |it| it.join_us;
    "commit_us" "synchronous commit", time true, |it| it.commit_us;
    "copied_us" "first record read to last delivery report", time true, |it| it.copied_us;
    "latency_mean_us" "mean latency of the records", time true, |it| it.latency.as_ref()?.mean_us();
    "latency_p50_us" "median latency of the records", time true,
        |it| it.latency.as_ref()?.supported_percentile_us(50.0);
    "latency_p99_us" "99th percentile of the latency", time true,
        |it| it.latency.as_ref()?.supported_percentile_us(99.0);
    "roundtrip_us" "first send to last receipt", time true, |it| it.roundtrip_us;
    "cpu_us_per_record" "CPU time per record", time false, |it| per_record(Some(it.cpu_us), it);
    "drain_cpu_us_per_record" "CPU time per record, first record to last", time false,
        |it| per_record(it.drain_cpu_us, it);
    "jni_calls_per_record" "calls into the Java VM per record", time false,
        |it| per_record(it.jni_calls.map(|calls| calls as f64), it);
    "wire_bytes_per_record" "bytes on the wire per record", time false,
        |it| per_record(it.wire_bytes.map(|bytes| bytes as f64), it);
};

fn per_record(sum: Option<f64>, sample: &LibrarySample) -> Option<f64> {
    let sum = sum.filter(|_| sample.records > 0)?;
    Some(sum / sample.records as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Distribution;

    #[test]
    fn sample_has_the_quantities_of_its_operation() {
        let sample = LibrarySample {
            drain_us: Some(80.0),
            first_us: Some(f64::NAN),
            cpu_us: 500.0,
            jni_calls: Some(250),
            wire_bytes: Some(12_800),
            records: 100,
            latency: Some(Distribution {
                count: 6,
                sum_us: 90,
                pairs: vec![(10, 3), (20, 3)],
                ..Distribution::default()
            }),
            ..LibrarySample::default()
        };
        let of = |name: &str| Quantity::named(name).unwrap().of(&sample);
        assert_eq!(of("drain_us"), Some(80.0));
        assert_eq!(of("first_us"), None, "not a number");
        assert_eq!(of("delivered_us"), None);
        assert_eq!(of("cpu_us_per_record"), Some(5.0));
        assert_eq!(of("drain_cpu_us_per_record"), None);
        assert_eq!(of("jni_calls_per_record"), Some(2.5));
        assert_eq!(of("wire_bytes_per_record"), Some(128.0));
        assert_eq!(of("latency_mean_us"), Some(15.0));
        assert_eq!(of("latency_p50_us"), Some(10.0));
        assert_eq!(of("latency_p99_us"), None, "six values are too few");
    }

    #[test]
    fn names_are_unique_and_operations_have_a_headline() {
        for quantity in &QUANTITIES {
            let found = Quantity::named(quantity.name).unwrap();
            assert!(std::ptr::eq(found, quantity), "{}", quantity.name);
        }
        let cell = |work: &str| LibraryCell {
            name: String::new(),
            operation: work.to_owned(),
            mode: String::new(),
            value_bytes: 1,
            records: 1,
            rate_per_s: None,
            repetitions: 1,
            skipped: None,
        };
        let name = |profile, work| headline(profile, &cell(work)).name;
        assert_eq!(name("fair", "produce"), "delivered_us");
        assert_eq!(name("fair", "consume"), "drain_us");
        assert_eq!(name("legacy", "consume"), "legacy_us");
        assert_eq!(name("fair", "copy"), "copied_us");
        assert_eq!(name("legacy", "roundtrip"), "latency_mean_us");
    }
}
