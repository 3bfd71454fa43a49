//! Runs that compare client libraries, as sides of a comparison of runs.

use crate::libraries::{Quantity, headline};
use crate::run::{ComparisonSubject, Libraries, LibraryCell, LibrarySample};

/// Returns the metrics of each valid repetition of a library: the headline time of its cell, and
/// the CPU time per record.
pub(super) fn repetitions(
    libraries: &Libraries,
) -> impl Iterator<Item = (ComparisonSubject, Vec<(&'static str, f64)>)> + '_ {
    let samples = libraries.samples.iter().filter(|it| it.invalid.is_empty());
    samples.filter_map(|sample| {
        let cell = libraries.cells.iter().find(|it| it.name == sample.cell)?;
        let figures = figures(&libraries.profile, cell, sample);
        Some((subject(sample), figures))
    })
}

fn subject(sample: &LibrarySample) -> ComparisonSubject {
    ComparisonSubject {
        architecture: sample.driver.clone(),
        variant: Some(sample.cell.clone()),
        ..ComparisonSubject::default()
    }
}

fn figures(profile: &str, cell: &LibraryCell, sample: &LibrarySample) -> Vec<(&'static str, f64)> {
    let cost = match cell.operation.as_str() {
        "consume" | "copy" => "drain_cpu_us_per_record",
        _ => "cpu_us_per_record",
    };
    let quantities = [Some(headline(profile, cell)), Quantity::named(cost)];
    let found = quantities.into_iter().flatten();
    found
        .filter_map(|quantity| Some((quantity.name, quantity.of(sample)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{CompareOptions, NamedRun, runs};
    use super::*;
    use crate::run::{Run, Verdict};

    const CELL: &str = "produce.warm/10x10";

    fn run(us: f64) -> Run {
        let cell = LibraryCell {
            name: CELL.to_owned(),
            operation: "produce".to_owned(),
            mode: "warm".to_owned(),
            value_bytes: 10,
            records: 10,
            rate_per_s: None,
            repetitions: 8,
            skipped: None,
        };
        let sample = |repetition: u32| LibrarySample {
            cell: CELL.to_owned(),
            driver: "java".to_owned(),
            repetition,
            delivered_us: Some(us + f64::from(repetition)),
            cpu_us: 100.0,
            records: 10,
            // The last one failed and has an implausible time.
            invalid: (repetition == 7)
                .then(|| "late".to_owned())
                .into_iter()
                .collect(),
            ..LibrarySample::default()
        };
        Run {
            cells: Vec::new(),
            libraries: Some(Libraries {
                profile: "fair".to_owned(),
                drivers: Vec::new(),
                cells: vec![cell],
                samples: (0..8).map(sample).collect(),
                distributions_file: None,
                aa_test: false,
            }),
            ..crate::run::tests::run()
        }
    }

    #[test]
    fn library_is_compared_with_itself_in_another_run() {
        let (base, other) = (run(1000.0), run(1300.0));
        let named = |label, run| NamedRun { label, run };
        let found = runs(
            named("a", &base),
            named("b", &other),
            &[],
            &CompareOptions::default(),
        );
        let subject = &found.subjects[0];
        assert_eq!(subject.subject.to_string(), "java produce.warm/10x10");
        let of = |name: &str| subject.metrics.iter().find(|it| it.metric == name);
        let took = of("delivered_us").expect("the headline time");
        assert_eq!((took.base_values.len(), took.verdict), (7, Verdict::Worse));
        assert!(took.is_headline && took.lower_is_better);
        let cost = of("cpu_us_per_record").expect("the cost of a record");
        assert_eq!(cost.verdict, Verdict::Equivalent);
        assert_eq!(subject.metrics.len(), 2);
    }
}
