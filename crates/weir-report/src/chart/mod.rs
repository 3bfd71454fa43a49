//! Static SVG charts for screen, print and both colour schemes.
//!
//! Colours come from `chart.css` by class: each architecture has one class in all tables and
//! charts.

mod axis;
mod boxes;
pub(crate) mod clients;
mod curve;
mod diagram;
mod distribution;
mod files;
mod heat;
mod levels;
mod lines;
mod percentile;
mod plot;
mod search;
mod series;
mod style;
mod subjects;
mod svg;
pub(crate) mod sweep;

pub(crate) use boxes::{BoxOf, boxes};
pub(crate) use curve::curve;
pub(crate) use diagram::diagram;
pub(crate) use distribution::{distribution, distribution_line};
pub(crate) use files::{ChartFile, Topic, by_clients, chart_files};
pub(crate) use heat::heat_map;
pub(crate) use levels::fairness;
pub(crate) use percentile::{Curve, percentiles, stages};
pub(crate) use search::search;
pub(crate) use series::{OverTime, QUANTITIES, disturbed, over_time};
pub(crate) use style::{CSS, role_slot, slot, stage_slot};
pub(crate) use subjects::{THROUGHPUT_CAPTION, throughput_by_subject};
