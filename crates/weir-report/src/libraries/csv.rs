//! `libraries.csv`: one row per cell, driver and quantity.

use weir_stats::libraries::{CellView, DriverView, QUANTITIES, Quantity};

use super::LibraryReport;
use crate::csv;

const HEADINGS: &str = concat!(
    "cell,work,mode,value_bytes,records,rate_per_s,driver,library,library_version,binding,",
    "quantity,count,invalid,noisy,max,min,avg,sd,cv_percent,filtered_avg,filtered_sd,",
    "filtered_cv_percent,median,mad,p95,compared_with,ratio_max_percent,ratio_min_percent,",
    "ratio_avg_percent,ratio_sd_percent,ratio_cv_percent,pairs,pair_ratio_percent,",
    "pair_ratio_low_percent,pair_ratio_high_percent,bootstrap_low_percent,",
    "bootstrap_high_percent,shown,quiet_pairs,quiet_pair_ratio_percent,",
    "quiet_pair_ratio_low_percent,quiet_pair_ratio_high_percent",
);

/// Returns the CSV text. Ratios are of the first library to the library of the row.
pub(super) fn table(compared: &LibraryReport<'_>) -> String {
    let views = compared.groups.iter().flat_map(|group| &group.cells);
    let rows = views.flat_map(|view| {
        let drivers = view.drivers.iter();
        drivers.flat_map(|driver| QUANTITIES.iter().filter_map(|it| row(view, driver, it)))
    });
    let headings = HEADINGS.split(',').map(str::to_owned).collect();
    csv::text([headings].into_iter().chain(rows))
}

fn row(view: &CellView<'_>, driver: &DriverView<'_>, quantity: &Quantity) -> Option<Vec<String>> {
    let figures = driver.statistics(quantity)?;
    let (cell, it) = (view.cell, driver.driver);
    let mut fields = vec![cell.name.clone(), cell.operation.clone(), cell.mode.clone()];
    fields.extend([cell.value_bytes, cell.records].map(|count| count.to_string()));
    fields.push(number(cell.rate_per_s));
    let texts = [&it.name, &it.library, &it.library_version, &it.binding];
    fields.extend(texts.map(String::clone));
    fields.push(quantity.name.to_owned());
    fields.extend([figures.count, driver.invalid, driver.noisy].map(|count| count.to_string()));
    let statistics = [
        Some(figures.max),
        Some(figures.min),
        Some(figures.mean),
        figures.sd,
        figures.cv_percent(),
        figures.filtered_mean,
        figures.filtered_sd,
        figures.filtered_cv_percent(),
        Some(figures.median),
        Some(figures.mad),
        Some(figures.p95),
    ];
    fields.extend(statistics.map(number));
    fields.extend(ratios(view, &it.name, quantity));
    Some(fields)
}

/// Returns seventeen fields, which are empty for the first library itself.
fn ratios(view: &CellView<'_>, name: &str, quantity: &Quantity) -> Vec<String> {
    let first = view.reference().map(|first| first.driver.name.as_str());
    let found = view.compare(quantity, name);
    let (Some(first), Some(found)) = (first.filter(|first| *first != name), found) else {
        return vec![String::new(); 17];
    };
    let ratio = found.ratio;
    let mut fields = vec![first.to_owned()];
    fields.extend([ratio.max, ratio.min, ratio.mean, ratio.sd, ratio.cv].map(number));
    let low = |bounds: Option<(f64, f64)>| number(bounds.map(|it| it.0));
    let high = |bounds: Option<(f64, f64)>| number(bounds.map(|it| it.1));
    match found.pairs {
        None => fields.extend(vec![String::new(); 7]),
        Some(pairs) => fields.extend([
            pairs.count.to_string(),
            number(Some(pairs.percent)),
            low(pairs.bounds),
            high(pairs.bounds),
            low(view.bootstrap(quantity, name)),
            high(view.bootstrap(quantity, name)),
            pairs.verdict().words().to_owned(),
        ]),
    }
    match found.pairs_without_noisy {
        None => fields.extend(["0".to_owned(), String::new(), String::new(), String::new()]),
        Some(quiet) => fields.extend([
            quiet.count.to_string(),
            number(Some(quiet.percent)),
            low(quiet.bounds),
            high(quiet.bounds),
        ]),
    }
    fields
}

fn number(value: Option<f64>) -> String {
    let value = value.filter(|value| value.is_finite());
    value.map_or_else(String::new, |value| {
        format!("{}", (value * 1e4).round() / 1e4)
    })
}
