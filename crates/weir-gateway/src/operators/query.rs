//! Parameters in the query of a call.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use weir_mapping::CanonicalItem;
use weir_tlcp::text::percent_decode;

use super::api_error::ApiError;
use crate::shard::{SessionFilter, TraceTarget};

/// Decoded parameters, each at most once.
pub(super) struct Query<'a>(Vec<(&'a str, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Parses a query that may have the `known` parameters. Empty ones count as absent.
    pub(super) fn parse(query: &'a str, known: &[&'static str]) -> Result<Self, ApiError> {
        let mut found: Vec<(&str, Cow<'_, str>)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(known) = known.iter().find(|known| **known == name) else {
                return Err(ApiError::UnknownParameter(name.chars().take(100).collect()));
            };
            if found.iter().any(|(other, _)| other == known) {
                return Err(ApiError::Parameter(known));
            }
            if !value.is_empty() {
                found.push((name, percent_decode(value)));
            }
        }
        Ok(Self(found))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(one, _)| *one == name);
        found.map(|(_, value)| &**value)
    }

    pub(super) fn number(
        &self,
        name: &'static str,
        range: RangeInclusive<usize>,
    ) -> Result<Option<usize>, ApiError> {
        let number = self.get(name).map(str::parse).transpose();
        let number = number.map_err(|_| ApiError::Parameter(name))?;
        match number.is_none_or(|number| range.contains(&number)) {
            true => Ok(number),
            false => Err(ApiError::Parameter(name)),
        }
    }

    /// Returns the sessions that a list is about.
    pub(super) fn filter(&self) -> Result<SessionFilter, ApiError> {
        let address = self.get("address").map(str::parse).transpose();
        let item = self.get("item").map(CanonicalItem::parse).transpose();
        let item = item.map_err(|_| ApiError::Parameter("item"))?;
        Ok(SessionFilter {
            handle: None,
            user: self.get("user").map(str::to_owned),
            issuer: self.get("issuer").map(str::to_owned),
            address: address.map_err(|_| ApiError::Parameter("address"))?,
            item: item.map(|item| item.as_str().into()),
        })
    }

    /// Returns the session or item to trace.
    pub(super) fn trace_target(&self) -> Result<TraceTarget, ApiError> {
        match (self.get("session"), self.get("item")) {
            (Some(handle), None) => Ok(TraceTarget::Session(handle.to_owned())),
            (None, Some(item)) => {
                let item = CanonicalItem::parse(item).map_err(|_| ApiError::Parameter("item"))?;
                Ok(TraceTarget::Item(item.as_str().into()))
            }
            _ => Err(ApiError::TraceTarget),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_checked() {
        let known = ["user", "item", "limit", "address"];
        let query = "user=j%C3%B6e&item=q-%5Bs%3DA%5D&limit=3&address=::ffff:10.0.0.7";
        let query = Query::parse(query, &known).unwrap();
        let filter = query.filter().unwrap();
        assert_eq!(filter.user.as_deref(), Some("jöe"));
        assert_eq!(filter.item.as_deref(), Some("q-[s=A]"));
        assert_eq!(query.number("limit", 1..=3).unwrap(), Some(3));
        assert!(query.number("limit", 1..=2).is_err());
        for bad in ["other=1", "user=a&user=b", "limit"] {
            let parsed = Query::parse(bad, &["user"]);
            assert!(parsed.is_err(), "{bad}");
        }
        for bad in ["item=a-[", "address=x"] {
            assert!(
                Query::parse(bad, &known).unwrap().filter().is_err(),
                "{bad}"
            );
        }
        for bad in ["", "session=a&item=b"] {
            let query = Query::parse(bad, &["session", "item"]).unwrap();
            assert!(query.trace_target().is_err(), "{bad}");
        }
    }
}
