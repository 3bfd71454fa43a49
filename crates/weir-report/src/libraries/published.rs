//! The tables of the published comparison, to show next to those of a run.

use super::LibraryReport;
use super::group::{Group, RowKey, TableBlock, TitledBlock, TitledTable};
use crate::table::Field;

pub(crate) const SOURCE: &str = "Published by the KNet project, in 2023 and in August 2026";
pub(crate) const NOTE: &str = "Measured by others on other hardware: the official Java client \
                               through KNet and librdkafka through Confluent.Kafka, both called \
                               from .NET. The profile legacy with the Java client compared with \
                               librdkafka measures the same operations. Unlike it, KNet's \
                               benchmark waits for no delivery reports and counts the records of \
                               a batch without reading them.";

const TABLE: &str = include_str!("../../../../plans/published/client-libraries.csv");

/// One published value.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PublishedRatio {
    published: &'static str,
    work: &'static str,
    classes: &'static str,
    callback: &'static str,
    reading: &'static str,
    records: u64,
    value_bytes: u64,
    average: &'static str,
    sd: &'static str,
}

/// Classes of KNet that a table is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KNetClasses {
    /// `KNetProducer` and `KNetConsumer`.
    Own,
    /// Those of the Java client.
    Java,
}

impl KNetClasses {
    /// Returns the classes of the reference driver of a run. A Java client without KNet is nearest
    /// to its own classes.
    fn of(compared: &LibraryReport<'_>) -> Self {
        match compared.first {
            Some(driver) if driver.binding.contains("KNetProducer") => Self::Own,
            _ => Self::Java,
        }
    }

    fn has(self, classes: &str) -> bool {
        match self {
            Self::Own => classes.starts_with("KNet"),
            Self::Java => classes.starts_with("Kafka"),
        }
    }
}

/// Returns the published tables for the operation and loads of a group: the one of 2023, and the
/// newest one for the classes that the run used. Returns `None` if there are none.
pub(crate) fn published(compared: &LibraryReport<'_>, group: &Group<'_>) -> Option<TitledTable> {
    let table = group.table(blocks(compared, group));
    let title = "Average ratio, % (ratio of SD)".to_owned();
    (!table.is_empty()).then_some((title, table))
}

/// Returns the blocks of these tables, to show below those of a run in the profile `legacy`; none
/// for other profiles, which measure something else.
pub(crate) fn published_blocks(
    compared: &LibraryReport<'_>,
    group: &Group<'_>,
) -> Vec<TitledBlock<'static>> {
    let mut found = blocks(compared, group);
    found.retain(|(_, field)| compared.is_legacy() && group.has_field(field));
    found
}

fn blocks(compared: &LibraryReport<'_>, group: &Group<'_>) -> Vec<TitledBlock<'static>> {
    let classes = KNetClasses::of(compared);
    let tables = [table("2023", None), table("2026-08", Some(classes))];
    let blocks = tables.into_iter().filter_map(|rows| {
        let of_work = |row: &&PublishedRatio| row.work == group.work;
        let rows: Vec<PublishedRatio> = rows.iter().filter(of_work).copied().collect();
        let title = title(rows.first()?);
        let block: TableBlock<'static> =
            Box::new(move |place, payload| field(&rows, place, payload));
        Some((title, block))
    });
    blocks.collect()
}

fn title(row: &PublishedRatio) -> String {
    let mut title = format!("published {}, KNet / Confluent.Kafka", row.published);
    if row.classes != "not stated" {
        title.push_str(&format!(": {}", row.classes));
    }
    for text in [
        (row.callback == "off").then_some("no callback"),
        (row.reading == "counted").then_some("records counted, not read"),
        (row.reading == "compared").then_some("records read and compared"),
    ] {
        text.iter()
            .for_each(|text| title.push_str(&format!(", {text}")));
    }
    title
}

/// Returns the rows of a table; with `classes`, only those of these classes.
fn table(published: &str, classes: Option<KNetClasses>) -> Vec<PublishedRatio> {
    let rows = TABLE.lines().filter_map(parse);
    let is_wanted = |row: &PublishedRatio| {
        row.published == published && classes.is_none_or(|classes| classes.has(row.classes))
    };
    rows.filter(is_wanted).collect()
}

/// Returns the row of a line; `None` for the headings.
fn parse(line: &'static str) -> Option<PublishedRatio> {
    let mut fields = line.split(',');
    let mut next = || fields.next();
    Some(PublishedRatio {
        published: next()?,
        work: next()?,
        classes: next()?,
        callback: next()?,
        reading: next()?,
        records: next()?.parse().ok()?,
        value_bytes: next()?.parse().ok()?,
        average: next()?,
        sd: next()?,
    })
}

fn field(rows: &[PublishedRatio], place: RowKey, payload: u64) -> Option<Field> {
    let RowKey::Burst(records) = place else {
        return None;
    };
    let mut rows = rows.iter();
    let row = rows.find(|row| (row.records, row.value_bytes) == (records, payload))?;
    let is_better = row
        .average
        .parse()
        .is_ok_and(|percent: f64| percent < 100.0);
    let class = if is_better { "strong" } else { "" };
    Some(Field::with(class, format!("{} ({})", row.average, row.sd)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_cells_match_source() {
        let text = |published, classes, work, records, payload| {
            let mut rows = table(published, classes);
            rows.retain(|row| row.work == work);
            let field = field(&rows, RowKey::Burst(records), payload);
            field.map(|field| (field.text, field.class == "strong"))
        };
        let cell = |text: &str, first_better| Some((text.to_owned(), first_better));
        let old = |work, records, payload| text("2023", None, work, records, payload);
        assert_eq!(old("produce", 10, 10), cell("4.26 (0.57)", true));
        assert_eq!(old("produce", 10_000, 10), cell("1172.54 (534.18)", false));
        assert_eq!(old("consume", 100, 100), cell("85.56 (432.38)", true));
        assert_eq!(
            old("roundtrip", 10_000, 100_000),
            cell("46.61 (28.11)", true)
        );
        assert_eq!(old("roundtrip", 100, 10), None);
        let new = |classes, work| text("2026-08", Some(classes), work, 1000, 100);
        assert_eq!(
            new(KNetClasses::Own, "produce"),
            cell("160.88 (63.10)", false)
        );
        assert_eq!(
            new(KNetClasses::Java, "produce"),
            cell("122.76 (8.03)", false)
        );
        assert_eq!(
            new(KNetClasses::Own, "consume"),
            cell("100.84 (81.77)", false)
        );
        assert_eq!(
            new(KNetClasses::Java, "consume"),
            cell("4.15 (193.03)", true)
        );
        assert_eq!(
            new(KNetClasses::Java, "roundtrip"),
            cell("8.65 (300.23)", true)
        );
        assert!(field(&table("2023", None), RowKey::Rate(10.0), 10).is_none());
    }

    const LIBRARIES: &str = "KNet / Confluent.Kafka";

    #[test]
    fn tables_are_complete() {
        assert_eq!(
            table("2023", None).len(),
            45,
            "two of 20 cells and one of five"
        );
        for classes in [KNetClasses::Own, KNetClasses::Java] {
            let rows = table("2026-08", Some(classes));
            assert_eq!(rows.len(), 36, "three of twelve cells");
            let titles: Vec<String> = rows.iter().step_by(12).map(title).collect();
            let expected = match classes {
                KNetClasses::Own => [
                    "KNetProducer, no callback",
                    "KNetConsumer, records counted, not read",
                    "KNetProducer and KNetConsumer, no callback, records read and compared",
                ],
                KNetClasses::Java => [
                    "KafkaProducer, no callback",
                    "KafkaConsumer, records counted, not read",
                    "KafkaProducer and KafkaConsumer, no callback, records read and compared",
                ],
            };
            let expected = expected.map(|it| format!("published 2026-08, {LIBRARIES}: {it}"));
            assert_eq!(titles, expected);
        }
        let lines = TABLE.lines().count();
        assert_eq!(lines, 1 + 45 + 2 * 36);
        assert_eq!(
            title(&table("2023", None)[0]),
            format!("published 2023, {LIBRARIES}")
        );
    }
}
