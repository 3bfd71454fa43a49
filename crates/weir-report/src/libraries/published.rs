//! The tables of the published comparison, to show next to those of a run.

use super::group::{Grid, Group, RowKey, TableCell};

/// Source of the tables.
pub(crate) const SOURCE: &str = "Published by the KNet project (JNet 1.5.2, JCOBridge 2.5.3)";
/// Note on comparability, shown with every table.
pub(crate) const NOTE: &str = "Measured by others on other hardware: the official Java client \
                               through KNet and librdkafka through Confluent.Kafka, both called \
                               from .NET. Only the legacy profile with java compared with \
                               librdkafka measures the same operations, and it does so without \
                               .NET.";

const TABLE: &str = include_str!("../../../../plans/published/client-libraries.csv");

/// Returns the published table for the operation and loads of a group, or `None` if there is none.
pub(crate) fn published(group: &Group<'_>) -> Option<Grid> {
    let entry = |place, payload| entry(group.work, place, payload);
    let block = group.rows("KNet / Confluent.Kafka".to_owned(), entry);
    let title = "Published: average ratio, % (ratio of SD)".to_owned();
    let grid = group.grid(title, std::iter::once(block));
    (!grid.blocks.is_empty()).then_some(grid)
}

fn entry(work: &str, place: RowKey, payload: u64) -> Option<TableCell> {
    let RowKey::Burst(records) = place else {
        return None;
    };
    let key = format!("{work},{records},{payload},");
    let rest = TABLE.lines().find_map(|line| line.strip_prefix(&key))?;
    let (average, sd) = rest.split_once(',')?;
    Some(TableCell {
        text: format!("{average} ({sd})"),
        first_better: average.parse().is_ok_and(|percent: f64| percent < 100.0),
        ..TableCell::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_cells_match_source() {
        let text = |work, records, payload| {
            entry(work, RowKey::Burst(records), payload)
                .map(|entry| (entry.text, entry.first_better))
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
        assert_eq!(entry("produce", RowKey::Rate(10.0), 10), None);
        assert_eq!(
            TABLE.lines().count(),
            46,
            "two tables of 20 cells and one of five"
        );
    }
}
