//! The answer of a comparison of architectures over numbers of clients or rates.

use super::headline::Headline;
use super::words::{count, ratio};
use crate::interval;
use crate::run::{Cell, Repetitions, Run};

const GATEWAY: &str = "gateway";
const FLOOR: &str = "floor";

/// The quantity in which an answer compares subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerBasis {
    /// CPU cores of all servers.
    ServerCores,
    /// CPU time per delivery of the process that delivers.
    CpuPerDelivery,
    /// Mean response time.
    ResponseTime,
}

/// The other side of the comparison in an answer.
enum Rival<'p, 'r> {
    Consumers,
    Floor(&'p Repetitions<'r>),
    Fastest(&'p Repetitions<'r>),
    None,
}

impl<'p, 'r> Rival<'p, 'r> {
    fn of(best: &Repetitions<'_>, points: &'p [Repetitions<'r>]) -> Self {
        if is(best, GATEWAY) && points.iter().any(is_plain) {
            return Self::Consumers;
        }
        let rivals = || {
            let at_best = |it: &&Repetitions<'_>| load(it) == load(best) && name(it) != name(best);
            points.iter().filter(|it| it.is_sustained()).filter(at_best)
        };
        if let Some(floor) = rivals().find(|it| is(it, FLOOR)) {
            return Self::Floor(floor);
        }
        let known = rivals().filter_map(|it| Some((it, mean_ms(it)?)));
        match known.min_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((fastest, _)) => Self::Fastest(fastest),
            None => Self::None,
        }
    }
}

/// Returns the answer: the gateway compared with plain consumers, with the floor, or with its own
/// variants; `None` without a sustained load.
pub(super) fn answer(run: &Run) -> Option<String> {
    let points = points(run);
    let Some(best) = best(&points) else {
        return none_sustained(&points);
    };
    let sustained: Vec<&Repetitions<'_>> = points.iter().filter(|it| it.is_sustained()).collect();
    Some(match (Rival::of(best, &points), mean_ms(best)) {
        (Rival::Consumers, _) => against_consumers(best, &sustained, &points),
        (Rival::Floor(floor), _) => against_floor(best, floor),
        (Rival::Fastest(other), Some(_)) => by_response_time((best, other), &points),
        (Rival::None, Some(own_ms)) => format!(
            "{} {} with a mean response time of {}{}.",
            capital(&sustains(best)),
            at(best),
            duration(own_ms),
            next_best(best, &sustained, &points)
        ),
        (_, None) => format!("{} {}.", capital(&sustains(best)), at(best)),
    })
}

/// Returns the quantity in which the answer compares the subjects at its load.
pub(super) fn basis(run: &Run) -> AnswerBasis {
    let points = points(run);
    match best(&points).map(|best| Rival::of(best, &points)) {
        Some(Rival::Consumers | Rival::None) => AnswerBasis::ServerCores,
        Some(Rival::Floor(_)) => AnswerBasis::CpuPerDelivery,
        Some(Rival::Fastest(_)) | None => AnswerBasis::ResponseTime,
    }
}

/// Returns how two subjects compare at the highest load that both sustained.
fn by_response_time(
    (one, other): (&Repetitions<'_>, &Repetitions<'_>),
    points: &[Repetitions<'_>],
) -> String {
    let (ahead, behind) = match mean_ms(one) <= mean_ms(other) {
        true => (one, other),
        false => (other, one),
    };
    let by_repetition = |point: &Repetitions<'_>| -> Vec<(u64, f64)> {
        let mean_us = |cell: &Cell| Some((cell.repetition, cell.response()?.mean_us?));
        point.valid().filter_map(mean_us).collect()
    };
    let found = interval::repetition_ratio(&by_repetition(ahead), &by_repetition(behind));
    let found = found.map(|it| format!(", {}", ratio(&it, &format!("that of {}", name(behind)))));
    format!(
        "With {}{} the mean response time of {} is {}{}.",
        at(one),
        rank(one, points),
        name(ahead),
        duration(mean_ms(ahead).unwrap_or_default()),
        found.unwrap_or_default()
    )
}

/// Returns what distinguishes the load of a sentence from others that were tested, between commas;
/// empty if there are none.
fn rank(best: &Repetitions<'_>, points: &[Repetitions<'_>]) -> &'static str {
    let is_above = |it: &Repetitions<'_>| load(it) > load(best);
    match points.iter().any(is_above) {
        true => ", the highest load that both sustain,",
        false if points.iter().any(|it| load(it) < load(best)) => ", the highest load tested,",
        false => "",
    }
}

/// Returns `true` for consumers that read from the broker.
fn is_plain(point: &Repetitions<'_>) -> bool {
    !is(point, GATEWAY) && !is(point, FLOOR)
}

/// Returns the highest load of the next best subject, as the end of a sentence; empty without
/// another subject.
fn next_best(
    best: &Repetitions<'_>,
    sustained: &[&Repetitions<'_>],
    points: &[Repetitions<'_>],
) -> String {
    let is_other = |it: &Repetitions<'_>| name(it) != name(best) && !is(it, FLOOR);
    if let Some(next) = highest(sustained.iter().copied().filter(|it| is_other(it))) {
        return format!("; {} at most {}", sustains(next), at(next));
    }
    match points.iter().find(|it| is_other(it)) {
        Some(other) => format!("; {} no tested load", sustains(other)),
        None => String::new(),
    }
}

/// Returns the sentence of a run whose loads were all too high; `None` without valid results.
fn none_sustained(points: &[Repetitions<'_>]) -> Option<String> {
    let valid = points.iter().filter(|it| it.valid().next().is_some());
    let lowest = valid.min_by(|a, b| load(a).total_cmp(&load(b)))?;
    let is_other = |it: &Repetitions<'_>| name(it) != name(lowest);
    let subject = match points.iter().any(is_other) {
        true => "every subject".to_owned(),
        false => subject(lowest),
    };
    let at = at(lowest);
    // The subject cannot be judged while other processes use the machine.
    let by_others = |cell: &Cell| cell.saturated_role.as_deref() == Some(Cell::OTHER_PROCESSES);
    Some(match lowest.valid().all(by_others) {
        true => format!(
            "No tested load was sustained, but with {at} processes outside the run used the \
             machine."
        ),
        false => format!("No tested load was sustained: {at} is too much for {subject}."),
    })
}

/// Returns the cell that represents the load of the answer; `None` without a sustained load.
pub(super) fn load_point(run: &Run) -> Option<&Cell> {
    best(&points(run)).map(|point| point.cells[0])
}

/// Returns the CPU time per delivery of each subject at the load of the answer, by repetition.
pub(super) fn cpu_at_load_point(run: &Run) -> Vec<Vec<(u64, f64)>> {
    let points = points(run);
    let Some(best) = best(&points) else {
        return Vec::new();
    };
    let at_best = points.iter().filter(|it| load(it) == load(best));
    at_best.map(cpu_by_repetition).collect()
}

/// Returns the server cores of the subject that sustained the highest load.
pub(super) fn headline(run: &Run) -> Option<Headline> {
    let points = points(run);
    let best = best(&points)?;
    Some(Headline {
        name: format!("{}, server cores at {}", name(best), at(best)),
        value: cores(best)?,
    })
}

/// Returns all load points. Repetition 0 is the warm-up of the broker.
fn points(run: &Run) -> Vec<Repetitions<'_>> {
    Repetitions::group(run.cells.iter().filter(|cell| cell.repetition > 0))
}

/// Returns the highest load that the gateway sustained; without a gateway, that of any subject.
fn best<'a, 'b>(points: &'a [Repetitions<'b>]) -> Option<&'a Repetitions<'b>> {
    let sustained = || points.iter().filter(|it| it.is_sustained());
    highest(sustained().filter(|it| is(it, GATEWAY))).or_else(|| highest(sustained()))
}

/// Returns how the gateway compares with the plain consumers that need the fewest cores, or with
/// their highest sustained level below.
fn against_consumers(
    best: &Repetitions<'_>,
    sustained: &[&Repetitions<'_>],
    points: &[Repetitions<'_>],
) -> String {
    let plain = |it: &&&Repetitions<'_>| is_plain(it);
    let own = cores(best);
    let own_text = own.map_or_else(String::new, |own| format!(" with {own:.2} server cores"));
    let lead = format!("The gateway serves {}{own_text}", at(best));
    let at_best = sustained
        .iter()
        .filter(plain)
        .filter(|it| load(it) == load(best));
    let with_cores = at_best.clone().filter_map(|it| Some((it, cores(it)?)));
    if let Some((rival, rival_cores)) = with_cores.min_by(|a, b| a.1.total_cmp(&b.1)) {
        let factor = own.filter(|own| *own > 0.0).map(|own| rival_cores / own);
        let factor = factor.map_or_else(String::new, |it| format!(", {it:.1} × as many"));
        return format!("{lead}; {} need {rival_cores:.2}{factor}.", subject(rival));
    }
    if let Some(rival) = at_best.clone().next() {
        return format!("{lead}; {} sustain it too.", subject(rival));
    }
    match highest(sustained.iter().filter(plain).copied()) {
        Some(rival) => {
            let most = &rival.cells[0];
            let most = match most.parameters.is_empty() {
                true => count(most.clients as f64),
                false => at(rival),
            };
            format!("{lead}; {} sustain at most {most}.", subject(rival))
        }
        None => {
            let others = points.iter().filter(|it| plain(&it));
            let other = others.map(subject).next().unwrap_or_default();
            format!("{lead}; {other} sustain no tested level.")
        }
    }
}

fn against_floor(best: &Repetitions<'_>, floor: &Repetitions<'_>) -> String {
    let ratio_to_floor =
        interval::repetition_ratio(&cpu_by_repetition(best), &cpu_by_repetition(floor));
    match (ratio_to_floor, point_cpu(best)) {
        (Some(found), Some(own)) => format!(
            "At {} {} needs {}, {own:.1} µs per delivery.",
            at(best),
            subject(best),
            ratio(&found, "the CPU of bare socket writes")
        ),
        _ => format!("{} {}.", capital(&sustains(best)), at(best)),
    }
}

fn cpu_by_repetition(point: &Repetitions<'_>) -> Vec<(u64, f64)> {
    let cpu = |cell: &Cell| cell.delivering_role()?.cpu_us_per_delivered;
    let valid = point.valid();
    valid
        .filter_map(|cell| Some((cell.repetition, cpu(cell)?)))
        .collect()
}

fn point_cpu(point: &Repetitions<'_>) -> Option<f64> {
    point.mean(|cell| cell.delivering_role()?.cpu_us_per_delivered)
}

/// Returns the point with the highest load, of several the one with the lowest response time.
fn highest<'a, 'b: 'a>(
    points: impl Iterator<Item = &'a Repetitions<'b>>,
) -> Option<&'a Repetitions<'b>> {
    points.max_by(|a, b| {
        let slower = |point: &Repetitions<'_>| mean_ms(point).unwrap_or(f64::INFINITY);
        let by_load = load(a).total_cmp(&load(b));
        by_load.then_with(|| slower(b).total_cmp(&slower(a)))
    })
}

/// Returns the deliveries due per second.
fn load(point: &Repetitions<'_>) -> f64 {
    let cell = point.cells[0];
    cell.clients as f64 * cell.offered_records_per_s.max(1.0)
}

fn mean_ms(point: &Repetitions<'_>) -> Option<f64> {
    point.mean(|cell| Some(cell.response()?.mean_us? / 1e3))
}

fn cores(point: &Repetitions<'_>) -> Option<f64> {
    point.mean(|cell| cell.of_servers(|usage| usage.cpu_cores_mean))
}

fn is(point: &Repetitions<'_>, architecture: &str) -> bool {
    point.cells[0].architecture == architecture
}

fn name(point: &Repetitions<'_>) -> String {
    point.cells[0].name()
}

/// Returns the subject in words, as in the middle of a sentence.
fn subject(point: &Repetitions<'_>) -> String {
    let name = name(point);
    match name.as_str() {
        GATEWAY => "the gateway".to_owned(),
        FLOOR => "the floor".to_owned(),
        "standalone" => "stand-alone consumers".to_owned(),
        "groups" => "consumer groups".to_owned(),
        _ => name,
    }
}

/// Returns the subject and its verb.
fn sustains(point: &Repetitions<'_>) -> String {
    let verb = match is_plain(point) {
        true => "sustain",
        false => "sustains",
    };
    format!("{} {verb}", subject(point))
}

/// Returns the load point in words: `10,000 clients at 100 records/s`.
fn at(point: &Repetitions<'_>) -> String {
    let cell = point.cells[0];
    let clients = match cell.clients {
        1 => "1 client".to_owned(),
        more => format!("{} clients", count(more as f64)),
    };
    match cell.parameters.get("rate_per_s") {
        Some(rate) => format!("{clients} at {} records/s", count(*rate)),
        None => clients,
    }
}

fn duration(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1e3),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::run::{LatencySummary, RoleUsage, STAGE_RESPONSE};

    fn cell(architecture: &str, clients: u64, repetition: u64, cores: f64) -> Cell {
        let role = |role: &str, cores: f64| RoleUsage {
            role: role.to_owned(),
            cpu_cores_mean: Some(cores),
            cpu_us_per_delivered: Some(cores * 40.0),
            ..RoleUsage::default()
        };
        let mut roles = vec![role("broker", 0.1)];
        if ["gateway", "floor"].contains(&architecture) {
            roles.push(role(architecture, cores));
        } else {
            roles[0].cpu_cores_mean = Some(cores);
        }
        let summary = LatencySummary {
            mean_us: Some(cores * 1e4),
            ..LatencySummary::default()
        };
        Cell {
            architecture: architecture.to_owned(),
            clients,
            repetition,
            roles,
            latency: BTreeMap::from([(STAGE_RESPONSE.to_owned(), summary)]),
            ..Cell::default()
        }
    }

    fn of(cells: Vec<Cell>) -> Option<String> {
        answer(&Run {
            cells,
            ..Run::default()
        })
    }

    #[test]
    fn gateway_is_compared_with_consumers_of_the_same_level() {
        let cells = vec![
            cell("standalone", 1000, 1, 1.4),
            cell("gateway", 1000, 1, 0.1),
            cell("floor", 1000, 1, 0.1),
        ];
        let expected = "The gateway serves 1,000 clients with 0.20 server cores; stand-alone \
                        consumers need 1.40, 7.0 × as many.";
        assert_eq!(of(cells).as_deref(), Some(expected));
    }

    #[test]
    fn basis_is_the_quantity_of_the_answer() {
        let of = |architectures: &[&str]| {
            let cells = architectures.iter().map(|it| cell(it, 100, 1, 1.0));
            basis(&Run {
                cells: cells.collect(),
                ..Run::default()
            })
        };
        assert_eq!(
            of(&["gateway", "floor", "groups"]),
            AnswerBasis::ServerCores
        );
        assert_eq!(of(&["gateway", "floor"]), AnswerBasis::CpuPerDelivery);
        assert_eq!(of(&["groups", "standalone"]), AnswerBasis::ResponseTime);
        assert_eq!(of(&["gateway"]), AnswerBasis::ServerCores);
    }

    #[test]
    fn consumers_with_lower_limit_are_named_with_level() {
        let mut cells = vec![
            cell("groups", 500, 1, 1.0),
            cell("groups", 1000, 1, 1.9),
            cell("gateway", 500, 1, 0.1),
            cell("gateway", 1000, 1, 0.2),
        ];
        cells[1].not_sustained = Some("late".to_owned());
        let text = of(cells.clone()).unwrap();
        assert!(
            text.ends_with("; consumer groups sustain at most 500."),
            "{text}"
        );
        cells[0].not_sustained = Some("late".to_owned());
        let text = of(cells).unwrap();
        assert!(
            text.ends_with("; consumer groups sustain no tested level."),
            "{text}"
        );
    }

    #[test]
    fn gateway_is_compared_with_the_floor_otherwise() {
        let rounds = (1..=3).flat_map(|round| {
            [
                cell("gateway", 10_000, round, 0.42),
                cell("floor", 10_000, round, 0.4),
            ]
        });
        let expected = "At 10,000 clients the gateway needs 1.05 × the CPU of bare socket writes \
                        (1.05 to 1.05), 16.8 µs per delivery.";
        assert_eq!(of(rounds.collect()).as_deref(), Some(expected));
    }

    #[test]
    fn variants_are_compared_by_response_time() {
        let variant = |name: &str, cores| Cell {
            variant: Some(name.to_owned()),
            parameters: BTreeMap::from([("rate_per_s".to_owned(), 16_000.0)]),
            ..cell("gateway", 1, 1, cores)
        };
        let cells = vec![variant("1-thread", 0.42), variant("4-threads", 0.65)];
        let expected = "With 1 client at 16,000 records/s the mean response time of gateway \
                        1-thread is 4.2 ms, 0.65 × that of gateway 4-threads.";
        assert_eq!(of(cells.clone()).as_deref(), Some(expected));
        let below = cells.iter().map(|cell| Cell {
            parameters: BTreeMap::from([("rate_per_s".to_owned(), 1000.0)]),
            offered_records_per_s: 1000.0,
            ..cell.clone()
        });
        let mut ladder: Vec<Cell> = below.collect();
        for cell in &cells {
            ladder.push(Cell {
                offered_records_per_s: 16_000.0,
                ..cell.clone()
            });
        }
        let text = of(ladder.clone()).unwrap();
        let start = "With 1 client at 16,000 records/s, the highest load tested, the mean";
        assert!(text.starts_with(start), "{text}");
        for cell in &mut ladder[2..] {
            cell.not_sustained = Some("late".to_owned());
        }
        let text = of(ladder).unwrap();
        let start =
            "With 1 client at 1,000 records/s, the highest load that both sustain, the mean";
        assert!(text.starts_with(start), "{text}");
        let twice = cells.iter().chain(&cells).zip([1, 1, 2, 2]);
        let twice = twice.map(|(cell, repetition)| Cell {
            repetition,
            ..cell.clone()
        });
        let text = of(twice.collect()).unwrap();
        assert!(
            text.ends_with("of gateway 4-threads (0.65 to 0.65)."),
            "{text}"
        );
        let overloaded = |saturated: &str| {
            let overloaded = cells.iter().map(|cell| Cell {
                not_sustained: Some("late".to_owned()),
                saturated_role: Some(saturated.to_owned()),
                ..cell.clone()
            });
            of(overloaded.collect())
        };
        let expected = "No tested load was sustained: 1 client at 16,000 records/s is too much for \
                        every subject.";
        assert_eq!(overloaded("gateway").as_deref(), Some(expected));
        let expected = "No tested load was sustained, but with 1 client at 16,000 records/s \
                        processes outside the run used the machine.";
        assert_eq!(overloaded("other_processes").as_deref(), Some(expected));
        assert_eq!(of(Vec::new()), None);
    }
}
