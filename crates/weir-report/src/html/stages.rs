//! Stages of the mean response time, one bar per subject.

use std::fmt::Write as _;

use weir_stats::run::StageMean;

use crate::escape::Markup;
use crate::format;
use crate::view::Level;

const WIDTH: f64 = 420.0;

/// Writes the bars of one level, unless no cell has stages.
pub(crate) fn table(out: &mut String, level: &Level<'_>) {
    let rows: Vec<(&str, &[StageMean])> = level
        .valid()
        .filter_map(|row| Some((row.name.as_str(), row.sample()?.stages.as_slice())))
        .filter(|(_, stages)| !stages.is_empty())
        .collect();
    let sum = |stages: &[StageMean]| stages.iter().map(|one| one.mean_us.max(0.0)).sum::<f64>();
    let most_us = rows
        .iter()
        .map(|(_, stages)| sum(stages))
        .fold(0.0, f64::max);
    if most_us <= 0.0 {
        return;
    }
    let _ = writeln!(
        out,
        concat!(
            "<h3>Stages of the mean response time, {}</h3>\n\
             <div class=\"scroll\"><table class=\"stages\">\n",
            "<tbody>"
        ),
        Markup(&level.label())
    );
    for (name, stages) in rows {
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"n strong\">{}</td><td>",
            Markup(name),
            bar(stages, most_us),
            Markup(&format::duration_us(sum(stages)))
        );
        for stage in stages {
            let _ = write!(
                out,
                "<span class=\"stage\" title=\"{}\"><i class=\"swatch {}\"></i>{} {}</span> ",
                Markup(&stage.derivation),
                slot(&stage.name),
                Markup(&stage.name.replace('_', " ")),
                Markup(&format::duration_us(stage.mean_us.max(0.0)))
            );
        }
        out.push_str("</td></tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn bar(stages: &[StageMean], most_us: f64) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"interval\" width=\"{WIDTH}\" \
         height=\"16\" viewBox=\"0 0 {WIDTH} 16\" role=\"img\" aria-label=\"stages\">"
    );
    let mut left = 0.0;
    for stage in stages {
        let width = stage.mean_us.max(0.0) / most_us * WIDTH;
        let _ = write!(
            svg,
            "<rect x=\"{left:.1}\" y=\"1\" width=\"{width:.1}\" height=\"14\" class=\"bar {}\"/>",
            slot(&stage.name)
        );
        left += width;
    }
    svg.push_str("</svg>");
    svg
}

fn slot(stage: &str) -> &'static str {
    match stage {
        "schedule" => "a0",
        "publish" => "a5",
        "broker_to_consumer" | "broker_to_client" | "broker_to_gateway" => "a4",
        "gateway_to_client" => "a1",
        _ => "a6",
    }
}
