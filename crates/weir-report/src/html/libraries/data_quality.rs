//! Memory and threads of the libraries, unequal settings, and invalid or noisy repetitions.

use maud::html;

use super::super::element::Section;
use crate::libraries::{self, LibraryReport};

pub(super) fn sections(compared: &LibraryReport<'_>) -> [Section; 3] {
    let resources = libraries::resources(compared);
    let settings = libraries::settings(compared);
    let (invalid, more) = libraries::questionable_repetitions(compared, ROWS_MAX);
    let noisy = libraries::without_noisy(compared);
    let resources = html! { @if !resources.is_empty() {
        (resources)
        p.caption {
            "Whole driver process, maximum of each repetition. A runtime with a fixed heap shows \
             the size of that heap."
        }
    } };
    let settings = html! {
        @if settings.is_empty() {
            p { "None: every library reported the requested value." }
        } @else {
            (settings)
            p.caption {
                "Values reported by each library after configuration. Settings that are equal \
                 everywhere are in run.json."
            }
        }
    };
    let quality = html! {
        @if invalid.is_empty() && noisy.is_empty() { p { "None." } }
        @if !invalid.is_empty() { (invalid) }
        @if more > 0 { p.caption { (more) " more are in libraries.jsonl." } }
        @if !noisy.is_empty() {
            h3 { "Main ratio with and without noisy repetitions" }
            (noisy)
            p.caption {
                "Noisy: processes other than the broker, the driver and the benchmarking tool used \
                 more than 10 % of the machine."
            }
        }
    };
    [
        Section::new("resources", "Memory and threads", resources),
        Section::new("unequal", "Unequal settings", settings),
        Section::new("data-quality", "Invalid and noisy repetitions", quality),
    ]
}

const ROWS_MAX: usize = 100;
