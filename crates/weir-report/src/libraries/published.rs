//! The tables of the published comparison, to show next to those of a run.

use super::group::{Group, RowKey, TitledTable};
use crate::table::Field;

pub(crate) const SOURCE: &str = "Published by the KNet project (JNet 1.5.2, JCOBridge 2.5.3)";
pub(crate) const NOTE: &str = "Measured by others on other hardware: the official Java client \
                               through KNet and librdkafka through Confluent.Kafka, both called \
                               from .NET. Only the legacy profile with java compared with \
                               librdkafka measures the same operations, and it does so without \
                               .NET.";

const TABLE: &str = include_str!("../../../../plans/published/client-libraries.csv");

/// Returns the published table for the operation and loads of a group, or `None` if there is none.
pub(crate) fn published(group: &Group<'_>) -> Option<TitledTable> {
    let field = |place, payload| field(group.work, place, payload);
    let table = group.table([("KNet / Confluent.Kafka".to_owned(), field)]);
    let title = "Published: average ratio, % (ratio of SD)".to_owned();
    (!table.is_empty()).then_some((title, table))
}

fn field(work: &str, place: RowKey, payload: u64) -> Option<Field> {
    let RowKey::Burst(records) = place else {
        return None;
    };
    let key = format!("{work},{records},{payload},");
    let rest = TABLE.lines().find_map(|line| line.strip_prefix(&key))?;
    let (average, sd) = rest.split_once(',')?;
    let is_better = average.parse().is_ok_and(|percent: f64| percent < 100.0);
    let class = if is_better { "strong" } else { "" };
    Some(Field::with(class, format!("{average} ({sd})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_cells_match_source() {
        let text = |work, records, payload| {
            let field = field(work, RowKey::Burst(records), payload);
            field.map(|field| (field.text, field.class == "strong"))
        };
        let cell = |text: &str, first_better| Some((text.to_owned(), first_better));
        assert_eq!(text("produce", 10, 10), cell("4.26 (0.57)", true));
        assert_eq!(text("produce", 10_000, 10), cell("1172.54 (534.18)", false));
        assert_eq!(text("consume", 100, 100), cell("85.56 (432.38)", true));
        assert_eq!(
            text("roundtrip", 10_000, 100_000),
            cell("46.61 (28.11)", true)
        );
        assert_eq!(text("roundtrip", 100, 10), None);
        assert!(field("produce", RowKey::Rate(10.0), 10).is_none());
        assert_eq!(
            TABLE.lines().count(),
            46,
            "two tables of 20 cells and one of five"
        );
    }
}
