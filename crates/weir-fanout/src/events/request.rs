//! Requests of clients: items, fields and limits, from the query of `/sse` or from a message.

use std::borrow::Cow;

use weir_tlcp::request::Mode;
use weir_tlcp::text::percent_decode;

use super::position::ID_BYTES_MAX;

/// Limits of what one request may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLimits {
    /// Maximum number of items.
    pub items: usize,
    /// Maximum number of fields.
    pub fields: usize,
    /// Maximum length of the name of an item or a field.
    pub name_bytes: usize,
}

/// Items and fields that a client wants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventRequest {
    /// Names of the items, each once, in the order of the request.
    pub items: Vec<String>,
    /// Names of the fields; empty for all.
    pub fields: Vec<String>,
    /// Kafka connection of the items; `None` for the only or the default one.
    pub adapter: Option<String>,
    /// Mode of the subscriptions; `None` for that of the connection.
    pub mode: Option<Mode>,
    /// Maximum number of updates per second and item; `None` if there is no limit.
    pub max_frequency: Option<f64>,
    /// `false` if no snapshot is wanted.
    pub snapshot: bool,
    /// Id of the last event that the client has received, as it was sent.
    pub after: Option<String>,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// No item is named.
    #[error("name an item: item=NAME")]
    NoItem,
    /// Too many items are named.
    #[error("more than {0} items")]
    TooManyItems(usize),
    /// Too many fields are named.
    #[error("more than {0} fields")]
    TooManyFields(usize),
    /// A name is empty.
    #[error("empty name of an item or a field")]
    EmptyName,
    /// A name is too long.
    #[error("a name is longer than {0} bytes")]
    LongName(usize),
    /// The frequency is not a number above 0.
    #[error("frequency must be a number above 0")]
    Frequency,
    /// The snapshot is neither `true` nor `false`.
    #[error("snapshot must be true or false")]
    Snapshot,
    /// The mode is unknown.
    #[error("mode must be merge, distinct, raw or command")]
    Mode,
    /// There is no such parameter.
    #[error(
        "no such parameter; there are item, fields, mode, frequency, snapshot, adapter and \
         lastEventId"
    )]
    Unknown,
    /// A parameter is there twice.
    #[error("{0} is there twice")]
    Twice(&'static str),
}

/// Reads the query of a request, without the question mark: `item=A&item=B&fields=x,y`.
pub fn parse_query(query: &str, limits: EventLimits) -> Result<EventRequest, RequestFault> {
    let mut request = EventRequest {
        snapshot: true,
        ..EventRequest::default()
    };
    let mut given = Given::default();
    for parameter in query.split('&').filter(|text| !text.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = decoded(value);
        match name {
            "item" => request.add_item(&value, limits)?,
            "fields" => {
                Given::once(&mut given.fields, "fields")?;
                for field in value.split(',') {
                    request.add_field(field, limits)?;
                }
            }
            "adapter" => {
                Given::once(&mut given.adapter, "adapter")?;
                request.set_adapter(&value, limits)?;
            }
            "mode" => {
                Given::once(&mut given.mode, "mode")?;
                request.mode = Some(mode(&value)?);
            }
            "frequency" => {
                Given::once(&mut given.frequency, "frequency")?;
                let frequency = value.parse().map_err(|_| RequestFault::Frequency)?;
                request.set_frequency(frequency)?;
            }
            "snapshot" => {
                Given::once(&mut given.snapshot, "snapshot")?;
                request.snapshot = value.parse().map_err(|_| RequestFault::Snapshot)?;
            }
            "lastEventId" => {
                Given::once(&mut given.after, "lastEventId")?;
                request.set_after(&value);
            }
            _ => return Err(RequestFault::Unknown),
        }
    }
    match request.items.is_empty() {
        true => Err(RequestFault::NoItem),
        false => Ok(request),
    }
}

/// Parameters that a query has had.
#[derive(Default)]
struct Given {
    fields: bool,
    adapter: bool,
    mode: bool,
    frequency: bool,
    snapshot: bool,
    after: bool,
}

impl Given {
    fn once(given: &mut bool, name: &'static str) -> Result<(), RequestFault> {
        match std::mem::replace(given, true) {
            true => Err(RequestFault::Twice(name)),
            false => Ok(()),
        }
    }
}

impl EventRequest {
    pub(super) fn add_item(&mut self, name: &str, limits: EventLimits) -> Result<(), RequestFault> {
        let fault = RequestFault::TooManyItems(limits.items);
        add_name(&mut self.items, name, limits.items, fault, limits)
    }

    pub(super) fn add_field(
        &mut self,
        name: &str,
        limits: EventLimits,
    ) -> Result<(), RequestFault> {
        let fault = RequestFault::TooManyFields(limits.fields);
        add_name(&mut self.fields, name, limits.fields, fault, limits)
    }

    pub(super) fn set_adapter(
        &mut self,
        name: &str,
        limits: EventLimits,
    ) -> Result<(), RequestFault> {
        if name.len() > limits.name_bytes {
            return Err(RequestFault::LongName(limits.name_bytes));
        }
        self.adapter = Some(name.to_owned());
        Ok(())
    }

    pub(super) fn set_frequency(&mut self, frequency: f64) -> Result<(), RequestFault> {
        if !(frequency.is_finite() && frequency > 0.0) {
            return Err(RequestFault::Frequency);
        }
        self.max_frequency = Some(frequency);
        Ok(())
    }
}

impl EventRequest {
    /// Sets the id of the last event. A text that is too long for an id is cut, so that it is none.
    pub fn set_after(&mut self, id: &str) {
        let id = id.chars().take(ID_BYTES_MAX + 1).collect::<String>();
        self.after = (!id.is_empty()).then_some(id);
    }
}

pub(super) fn mode(text: &str) -> Result<Mode, RequestFault> {
    let modes = [Mode::Merge, Mode::Distinct, Mode::Raw, Mode::Command];
    let mut modes = modes.into_iter();
    let found = modes.find(|mode| mode.as_str().eq_ignore_ascii_case(text));
    found.ok_or(RequestFault::Mode)
}

/// Adds a name unless it is there. Limits are small, so that a search from the start is cheap.
fn add_name(
    names: &mut Vec<String>,
    name: &str,
    max: usize,
    too_many: RequestFault,
    limits: EventLimits,
) -> Result<(), RequestFault> {
    if name.is_empty() {
        return Err(RequestFault::EmptyName);
    }
    if name.len() > limits.name_bytes {
        return Err(RequestFault::LongName(limits.name_bytes));
    }
    if names.iter().any(|known| known == name) {
        return Ok(());
    }
    if names.len() == max {
        return Err(too_many);
    }
    names.push(name.to_owned());
    Ok(())
}

/// Decodes a value of a form: `+` is a space.
fn decoded(value: &str) -> Cow<'_, str> {
    if value.contains('+') {
        let spaced = value.replace('+', " ");
        return Cow::Owned(percent_decode(&spaced).into_owned());
    }
    percent_decode(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: EventLimits = EventLimits {
        items: 2,
        fields: 2,
        name_bytes: 8,
    };

    #[test]
    fn query_names_items_and_fields() {
        let query = "item=o%2D1&item=a+b&item=o-1&fields=x,y&frequency=2.5&snapshot=false\
                     &mode=raw&adapter=Data&lastEventId=AQ%2Dx";
        let expected = EventRequest {
            items: vec!["o-1".to_owned(), "a b".to_owned()],
            fields: vec!["x".to_owned(), "y".to_owned()],
            adapter: Some("Data".to_owned()),
            mode: Some(Mode::Raw),
            max_frequency: Some(2.5),
            snapshot: false,
            after: Some("AQ-x".to_owned()),
        };
        assert_eq!(parse_query(query, LIMITS), Ok(expected));
        let request = parse_query("item=a%2Bb", LIMITS).expect("a request");
        assert_eq!(request.items, ["a+b"]);
        assert!(request.snapshot && request.fields.is_empty());
    }

    #[test]
    fn faults_are_named() {
        for (query, fault) in [
            ("", RequestFault::NoItem),
            ("fields=x", RequestFault::NoItem),
            ("item=a&item=b&item=c", RequestFault::TooManyItems(2)),
            ("item=a&fields=x,y,z", RequestFault::TooManyFields(2)),
            ("item=", RequestFault::EmptyName),
            ("item=a&fields=x,", RequestFault::EmptyName),
            ("item=123456789", RequestFault::LongName(8)),
            ("item=a&frequency=0", RequestFault::Frequency),
            ("item=a&frequency=NaN", RequestFault::Frequency),
            ("item=a&frequency=inf", RequestFault::Frequency),
            ("item=a&snapshot=1", RequestFault::Snapshot),
            ("item=a&mode=x", RequestFault::Mode),
            ("item=a&adapter=123456789", RequestFault::LongName(8)),
            ("item=a&itme=b", RequestFault::Unknown),
            ("item=a&fields=x&fields=y", RequestFault::Twice("fields")),
            (
                "item=a&lastEventId=&lastEventId=x",
                RequestFault::Twice("lastEventId"),
            ),
        ] {
            assert_eq!(parse_query(query, LIMITS), Err(fault), "{query}");
        }
    }

    proptest! {
        #[test]
        fn requests_stay_within_limits(query in "((item|fields)=[a-c,%+]{0,4}&?){0,6}|.*") {
            if let Ok(request) = parse_query(&query, LIMITS) {
                prop_assert!((1..=LIMITS.items).contains(&request.items.len()));
                prop_assert!(request.fields.len() <= LIMITS.fields);
                let mut names = request.items.iter().chain(&request.fields);
                prop_assert!(names.all(|name| (1..=LIMITS.name_bytes).contains(&name.len())));
            }
        }
    }
}
