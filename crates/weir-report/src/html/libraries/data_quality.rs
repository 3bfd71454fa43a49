//! Memory and threads of the libraries, unequal settings, and invalid or noisy repetitions.

use maud::{Markup, html};

use super::super::element::section;
use crate::libraries::{self, LibraryReport};

pub(super) fn sections(compared: &LibraryReport<'_>) -> Markup {
    let resources = libraries::resources(compared);
    let settings = libraries::settings(compared);
    let (invalid, more) = libraries::questionable_repetitions(compared, ROWS_MAX);
    let noisy = libraries::without_noisy(compared);
    html! {
        @if !resources.is_empty() { (section("resources", "Memory and threads", &html! {
            (resources)
            p.caption {
                "Whole driver process, maximum of each repetition. A runtime with a fixed heap \
                 shows the size of that heap."
            }
        })) }
        (section("unequal", "Unequal settings", &html! {
            @if settings.is_empty() {
                p { "None: every library reported the requested value." }
            } @else {
                (settings)
                p.caption {
                    "Values reported by each library after configuration. Settings that are equal \
                     everywhere are in run.json."
                }
            }
        }))
        (section("data-quality", "Invalid and noisy repetitions", &html! {
            @if invalid.is_empty() && noisy.is_empty() { p { "None." } }
            @if !invalid.is_empty() { (invalid) }
            @if more > 0 { p.caption { (more) " more are in libraries.jsonl." } }
            @if !noisy.is_empty() {
                h3 { "Main ratio with and without noisy repetitions" }
                (noisy)
                p.caption {
                    "Noisy: processes other than the broker, the driver and the benchmarking tool \
                     used more than 10 % of the machine."
                }
            }
        }))
    }
}

const ROWS_MAX: usize = 100;
