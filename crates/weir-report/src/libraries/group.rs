//! Groups of cells with the same operation, as tables with value sizes as columns and burst sizes
//! or rates as rows.

use weir_stats::libraries::{
    CellView, LibraryComparison, PairRatio, Quantity, RatioVerdict, cells,
};
use weir_stats::run::{Libraries, LibraryCell};

use crate::format::{self, TimeUnit};
use crate::table::{Field, ReportTable};

/// The cells of one operation in one mode.
pub(crate) struct Group<'a> {
    pub(crate) work: &'a str,
    pub(crate) mode: &'a str,
    pub(crate) cells: Vec<CellView<'a>>,
    /// Value sizes in bytes, ascending.
    pub(crate) payloads: Vec<u64>,
    /// Burst sizes or rates, ascending.
    pub(crate) places: Vec<RowKey>,
}

pub(crate) type TitledTable = (String, ReportTable);

/// Function that returns the field of a row and a value size.
pub(crate) type TableBlock<'a> = Box<dyn Fn(RowKey, u64) -> Option<Field> + 'a>;

/// A block of a table with its title.
pub(crate) type TitledBlock<'a> = (String, TableBlock<'a>);

#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) enum RowKey {
    /// Number of records sent at once.
    Burst(u64),
    /// Records per second.
    Rate(f64),
}

impl RowKey {
    fn of(cell: &LibraryCell) -> Self {
        match cell.rate_per_s {
            Some(rate) => Self::Rate(rate),
            None => Self::Burst(cell.records),
        }
    }

    pub(crate) fn label(self) -> String {
        match self {
            Self::Burst(records) => format::count(records),
            Self::Rate(rate) => format!("{}/s", format::figure(Some(rate))),
        }
    }
}

/// Returns the groups in the order in which they ran.
pub(super) fn groups(libraries: &Libraries) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for view in cells(libraries) {
        let cell: &LibraryCell = view.cell;
        let same =
            |group: &&mut Group<'_>| (group.work, group.mode) == (&cell.operation, &cell.mode);
        match groups.iter_mut().find(same) {
            Some(group) => group.cells.push(view),
            None => groups.push(Group {
                work: &cell.operation,
                mode: &cell.mode,
                cells: vec![view],
                payloads: Vec::new(),
                places: Vec::new(),
            }),
        }
    }
    for group in &mut groups {
        let of = |view: &CellView<'_>| (view.cell.value_bytes, RowKey::of(view.cell));
        let (mut payloads, mut places): (Vec<u64>, Vec<RowKey>) =
            group.cells.iter().map(of).unzip();
        payloads.sort_unstable();
        payloads.dedup();
        places.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        places.dedup();
        (group.payloads, group.places) = (payloads, places);
    }
    groups
}

impl<'a> Group<'a> {
    /// Returns the title, such as `Produce, warm`.
    pub(crate) fn title(&self) -> String {
        let work = match self.work {
            "produce" => "Produce",
            "consume" => "Consume",
            "copy" => "Copy",
            "roundtrip" => "Round trip",
            other => other,
        };
        let mode = match self.mode {
            "metadata" => "cached metadata",
            "group" => "consumer group",
            "assign" => "direct assignment",
            "burst" => "burst",
            "open" => "open loop",
            "legacy" => "started like the published program",
            other => other,
        };
        format!("{work}, {mode}")
    }

    pub(crate) fn headline(&self) -> &'static Quantity {
        let first = self.cells.first();
        first.map_or(&weir_stats::libraries::QUANTITIES[0], CellView::headline)
    }

    /// Returns the other times that its samples contain.
    pub(crate) fn further(&self) -> Vec<&'static Quantity> {
        let headline = self.headline().name;
        let has = |quantity: &&Quantity| {
            let mut drivers = self.cells.iter().flat_map(|view| &view.drivers);
            drivers.any(|driver| !driver.values(quantity).is_empty())
        };
        let all = weir_stats::libraries::QUANTITIES.iter();
        all.filter(|quantity| quantity.is_time && quantity.name != headline)
            .filter(has)
            .collect()
    }

    pub(crate) fn skipped(&self) -> impl Iterator<Item = (&str, &str)> {
        let cells = self.cells.iter().map(|view| view.cell);
        cells.filter_map(|cell| Some((cell.name.as_str(), cell.skipped.as_deref()?)))
    }

    /// Returns the heading of the row labels.
    pub(crate) fn corner(&self) -> &'static str {
        match self.places.first() {
            Some(RowKey::Rate(_)) => "rate \\ bytes",
            _ => "records \\ bytes",
        }
    }

    /// Returns the cell at a position, if there is one.
    pub(crate) fn at(&self, place: RowKey, payload: u64) -> Option<&CellView<'a>> {
        let mut cells = self.cells.iter();
        cells.find(|view| view.cell.value_bytes == payload && RowKey::of(view.cell) == place)
    }

    /// Returns the average ratio and the ratio of standard deviations, as in the published tables,
    /// followed by the blocks of `published`.
    pub(crate) fn averages(
        &self,
        quantity: &Quantity,
        published: Vec<TitledBlock<'_>>,
    ) -> TitledTable {
        let title = format!("Average ratio, % (ratio of SD): {}", quantity.title);
        let average = |compared: LibraryComparison| {
            let percent = compared.ratio.mean?;
            let sd = format::number(compared.ratio.sd);
            let class = if percent < 100.0 { "strong" } else { "" };
            let text = format!("{} ({sd})", format::number(Some(percent)));
            Some(Field::with(class, text))
        };
        let is_alone = published.is_empty();
        let measured = self.blocks_of_others(quantity, average);
        let measured = measured.into_iter().map(|(title, block)| match is_alone {
            true => (title, block),
            false => (format!("{title}, this run"), block),
        });
        (title, self.table(measured.chain(published)))
    }

    /// Returns the median of the pair ratios with its interval.
    pub(crate) fn medians(&self, quantity: &Quantity) -> TitledTable {
        let title = format!(
            "Median ratio of repetitions, %{}: {}",
            self.better_below(),
            quantity.title
        );
        let median = |compared: LibraryComparison| Some(median_entry(&compared.pairs?));
        (title, self.ratios_to_others(quantity, median))
    }

    /// Returns the CPU time per record of both libraries, with the ratio.
    pub(crate) fn cpu_time(&self) -> Option<TitledTable> {
        let quantity = Quantity::named("cpu_us_per_record")?;
        let table = self.ratios_to_others(quantity, |compared| {
            let mut entry = median_entry(&compared.pairs?);
            let us = |value: f64| format::number(Some(value));
            let (first, other) = (us(compared.first.median), us(compared.other.median));
            entry.more.insert(0, format!("{first} : {other} µs"));
            Some(entry)
        });
        let title = format!(
            "CPU time per record, median ratio, %{}",
            self.better_below()
        );
        Some((title, table))
    }

    /// Returns a note that names the library that is better below 100 %.
    fn better_below(&self) -> String {
        let first = self.cells.first().and_then(CellView::reference);
        first.map_or_else(String::new, |it| {
            format!(" (below 100 {} is better)", it.driver.name)
        })
    }

    /// Returns the calls into a Java VM per record, of libraries that count them.
    pub(crate) fn jni_calls(&self) -> Option<TitledTable> {
        self.per_record(
            "jni_calls_per_record",
            "Calls into the Java VM per record, median",
        )
    }

    /// Returns the bytes on the wire per record, if the run could count them.
    pub(crate) fn wire_bytes(&self) -> Option<TitledTable> {
        self.per_record(
            "wire_bytes_per_record",
            "Bytes on the wire per record, median",
        )
    }

    /// Returns the medians of a quantity, a block per library; `None` without values.
    fn per_record(&self, quantity: &str, title: &str) -> Option<TitledTable> {
        let quantity = Quantity::named(quantity)?;
        let drivers = self.cells.first()?.drivers.iter();
        let blocks = drivers.map(|driver| {
            let name = &driver.driver.name;
            let entry = move |place, payload| {
                let figures = self
                    .at(place, payload)?
                    .driver(name)?
                    .statistics(quantity)?;
                Some(Field::from(format::number(Some(figures.median))))
            };
            (name.clone(), entry)
        });
        let table = self.table(blocks);
        (!table.is_empty()).then(|| (title.to_owned(), table))
    }

    /// Returns medians with their standard deviations, a block per library.
    pub(crate) fn times(&self, quantity: &Quantity) -> TitledTable {
        let views = self.cells.iter().flat_map(|view| &view.drivers);
        let medians = views.filter_map(|driver| Some(driver.statistics(quantity)?.median));
        let unit = TimeUnit::for_values_us(medians);
        let drivers = self
            .cells
            .first()
            .into_iter()
            .flat_map(|view| &view.drivers);
        let blocks = drivers.map(|driver| {
            let name = &driver.driver.name;
            let entry = move |place, payload| {
                let figures = self
                    .at(place, payload)?
                    .driver(name)?
                    .statistics(quantity)?;
                let (median, sd) = (unit.show(Some(figures.median)), unit.show(figures.sd));
                Some(Field::from(format!("{median} ({sd})")))
            };
            (name.clone(), entry)
        });
        let title = format!("Median (SD), {}: {}", unit.name(), quantity.title);
        (title, self.table(blocks))
    }

    /// Returns a table with value sizes as columns, from the title and the fields of each block.
    /// Blocks without fields are omitted.
    pub(super) fn table<F: Fn(RowKey, u64) -> Option<Field>>(
        &self,
        blocks: impl IntoIterator<Item = (String, F)>,
    ) -> ReportTable {
        let start = ["Libraries", self.corner()].map(str::to_owned).into_iter();
        let sizes = self.payloads.iter().map(|bytes| format::count(*bytes));
        let mut table = ReportTable::new(2, start.chain(sizes)).grouped();
        for (title, field) in blocks {
            if !self.has_field(&field) {
                continue;
            }
            let fields = |place| self.payloads.iter().map(move |payload| (place, *payload));
            for place in &self.places {
                let start = [Field::from(&title), Field::from(place.label())].into_iter();
                let none = || Field::with("open", format::NONE);
                let fields = fields(*place).map(|(place, payload)| field(place, payload));
                table.row("", start.chain(fields.map(|it| it.unwrap_or_else(none))));
            }
        }
        table
    }

    /// Returns `true` if a block has a field in this group.
    pub(super) fn has_field(&self, field: &impl Fn(RowKey, u64) -> Option<Field>) -> bool {
        let mut places = self.places.iter();
        places.any(|place| {
            let mut payloads = self.payloads.iter();
            payloads.any(|payload| field(*place, *payload).is_some())
        })
    }

    fn ratios_to_others(
        &self,
        quantity: &Quantity,
        field: impl Fn(LibraryComparison) -> Option<Field> + Copy,
    ) -> ReportTable {
        self.table(self.blocks_of_others(quantity, field))
    }

    /// Returns a block for each library with which the first one is compared.
    fn blocks_of_others<'b>(
        &'b self,
        quantity: &'b Quantity,
        field: impl Fn(LibraryComparison) -> Option<Field> + Copy + 'b,
    ) -> Vec<TitledBlock<'b>> {
        let first = self.cells.first();
        let name = first.and_then(|view| Some(view.reference()?.driver.name.as_str()));
        let name = name.unwrap_or_default();
        let others = first.into_iter().flat_map(CellView::others);
        let blocks = others.map(|other| {
            let other = &other.driver.name;
            let block: TableBlock<'b> = Box::new(move |place, payload| {
                field(self.at(place, payload)?.compare(quantity, other)?)
            });
            (format!("{name} / {other}"), block)
        });
        blocks.collect()
    }
}

/// Returns a ratio with its interval: bold if the first library is better, pale if no difference is
/// shown.
fn median_entry(ratio: &PairRatio) -> Field {
    let shown = ratio.verdict();
    let percent = |value: f64| format::number(Some(value));
    let interval = match ratio.bounds {
        Some((low, high)) => format!("[{}, {}]", percent(low), percent(high)),
        None if ratio.count == 1 => "1 pair, no interval".to_owned(),
        None => format!("{} pairs, no interval", ratio.count),
    };
    let mut more = vec![interval];
    if shown == RatioVerdict::NoDifference {
        more.push(shown.words().to_owned());
    }
    let class = match shown {
        RatioVerdict::FirstBetter => "strong",
        RatioVerdict::NoDifference | RatioVerdict::TooFew => "open",
        RatioVerdict::OtherBetter => "",
    };
    Field {
        more,
        ..Field::with(class, percent(ratio.percent))
    }
}
