//! Fuzz target for requests and ids of clients without an SDK: any text is accepted within the
//! limits or rejected.

use super::events::{
    ClientMessage, EventLimits, EventRequest, ID_BYTES_MAX, Position, parse_message, parse_query,
};

const LIMITS: EventLimits = EventLimits {
    items: 3,
    fields: 3,
    name_bytes: 16,
};

/// Reads a text as a query, as a message and as an id.
pub fn events(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(request) = parse_query(text, LIMITS) {
        check(&request);
    }
    if let Ok(message) = parse_message(text, LIMITS) {
        assert!((1..=LIMITS.items).contains(&message.items()));
        if let ClientMessage::Subscribe(_, request) = message {
            check(&request);
        }
    }
    check_id(text);
}

fn check(request: &EventRequest) {
    assert!((1..=LIMITS.items).contains(&request.items.len()));
    assert!(request.fields.len() <= LIMITS.fields);
    let names = request.items.iter().chain(&request.fields);
    let mut names = names.chain(&request.adapter);
    assert!(names.all(|name| name.len() <= LIMITS.name_bytes));
    assert!(
        request
            .max_frequency
            .is_none_or(|one| one.is_finite() && one > 0.0)
    );
    if let Some(id) = &request.after {
        check_id(id);
    }
}

/// An id that is accepted names offsets that can be read, and has one form only.
fn check_id(text: &str) {
    let Some(position) = Position::parse(text) else {
        return;
    };
    assert!(text.len() <= ID_BYTES_MAX);
    assert!(position.next.iter().all(|offset| *offset >= 0));
    assert_eq!(position.id(), text);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_read_within_the_limits(
            text in "(item|fields|mode|lastEventId|adapter)=[a-z0-9%+&=,.-]{0,30}|.{0,60}",
        ) {
            super::events(text.as_bytes());
        }
    }
}
