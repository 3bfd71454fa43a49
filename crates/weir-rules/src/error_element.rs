//! Elements of responses for denied elements of requests.

use std::borrow::Cow;

use weir_wire::message::{MessageRow, StructDefinition, Value};

use super::table::{ErrorElement, message};

/// An element of an array of a request.
#[derive(Clone, Copy)]
pub(super) enum Element<'e, 'a> {
    Row(&'e MessageRow<'a>, &'static StructDefinition),
    Text(&'e [u8]),
    Number(i64),
}

impl Element<'_, '_> {
    /// Returns a field, or the element itself if the field has no name.
    pub(super) fn value(self, field: &str) -> Value<'static> {
        match self {
            Self::Row(row, definition) => row.get(definition, field).clone().into_owned(),
            Self::Text(text) => Value::Bytes(Some(Cow::Owned(text.to_vec()))),
            Self::Number(number) => Value::Int(number),
        }
    }
}

/// Returns the elements of an array of a request.
pub(super) fn elements<'e, 'a>(
    row: &'e MessageRow<'a>,
    definition: &'static StructDefinition,
    array: &str,
) -> Vec<Element<'e, 'a>> {
    let inner = definition.position(array);
    let inner = inner.and_then(|at| definition.fields[at].structure());
    let value = row.get(definition, array);
    match (inner, value) {
        (Some(inner), _) => value
            .rows()
            .iter()
            .map(|row| Element::Row(row, inner))
            .collect(),
        (None, Value::Texts(_)) => value
            .texts()
            .iter()
            .map(|text| Element::Text(text))
            .collect(),
        (None, _) => value.numbers().map(Element::Number).collect(),
    }
}

/// Returns the definition of the elements of an array.
pub(super) fn element_definition(
    definition: &'static StructDefinition,
    array: &str,
) -> Option<&'static StructDefinition> {
    definition.fields[definition.position(array)?].structure()
}

/// Returns the element of a response for an element of a request.
pub(super) fn error_element(
    form: &ErrorElement,
    element: Element<'_, '_>,
    response: &'static StructDefinition,
    version: i16,
    error: i16,
) -> MessageRow<'static> {
    let mut made = MessageRow::new(response, version);
    for (from, into) in form.copy {
        made.set(response, into, element.value(from));
    }
    for (field, number) in form.set {
        made.set(response, field, Value::Int(*number));
    }
    made.set(response, form.error, Value::Int(error.into()));
    if form.has_message {
        made.set(response, "ErrorMessage", text(message(error)));
    }
    let Some(nested) = form.nested else {
        return made;
    };
    if let (Element::Row(row, definition), Some(inner)) =
        (element, element_definition(response, nested.into))
    {
        let rows = elements(row, definition, nested.from).into_iter();
        let rows = rows.map(|one| error_element(&nested.error_element, one, inner, version, error));
        made.set(response, nested.into, Value::Rows(Some(rows.collect())));
    }
    made
}

/// Returns the first error code in a response or a part of one.
pub(super) fn first_error(definition: &StructDefinition, row: &MessageRow<'_>) -> Option<i16> {
    let mut fields = definition.fields.iter().zip(&row.values);
    fields.find_map(|(field, value)| match (value, field.structure()) {
        (Value::Int(0), _) => None,
        (Value::Int(code), _) if field.name == "ErrorCode" => i16::try_from(*code).ok(),
        (Value::Row(Some(row)), Some(inner)) => first_error(inner, row),
        (Value::Rows(Some(rows)), Some(inner)) => {
            rows.iter().find_map(|row| first_error(inner, row))
        }
        _ => None,
    })
}

pub(super) fn text(text: &str) -> Value<'static> {
    Value::Bytes(Some(Cow::Owned(text.as_bytes().to_vec())))
}

/// Removes elements of an array.
pub(super) fn retain<'a>(
    definition: &'static StructDefinition,
    row: &mut MessageRow<'a>,
    array: &str,
    mut keep: impl FnMut(&'static StructDefinition, &mut MessageRow<'a>) -> bool,
) {
    let inner = element_definition(definition, array);
    let rows = row.get_mut(definition, array);
    if let (Some(inner), Some(Value::Rows(Some(rows)))) = (inner, rows) {
        rows.retain_mut(|element| keep(inner, element));
    }
}
