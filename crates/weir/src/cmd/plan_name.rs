//! Argument that is a built-in plan or a plan file.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};
use weir_bench::plan::BUILT_IN;

/// Accepts any text, and offers the built-in plans to shell completions.
#[derive(Debug, Clone)]
pub(crate) struct PlanNameParser;

impl TypedValueParser for PlanNameParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(names().map(PossibleValue::new)))
    }
}

/// Returns the names of the built-in plans.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|plan| plan.name)
}
