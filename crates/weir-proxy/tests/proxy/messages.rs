//! Requests written as JSON and responses read as JSON, in every version.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_wire::message::{self, ApiDefinition, MessageRow, StructDefinition, Value};

use super::support::Raw;

/// Ids of topics by name.
pub(crate) type Ids = BTreeMap<String, u128>;

/// Time in which a broker responds to any request of these tests.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection whose requests and responses are JSON.
pub(crate) struct JsonConnection(pub(crate) Raw);

impl JsonConnection {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let raw = Raw::connect(address);
        let timeout = raw.stream.set_read_timeout(Some(RESPONSE_TIMEOUT));
        timeout.expect("a timeout");
        Self(raw)
    }

    /// Sends a request and returns the response, with the names of topics instead of their ids.
    pub(crate) fn exchange(&mut self, key: i16, version: i16, body: &Json, ids: &Ids) -> Json {
        self.send(key, version, body, ids);
        self.receive(key, version, ids)
    }

    pub(crate) fn send(&mut self, key: i16, version: i16, body: &Json, ids: &Ids) {
        let api = message::api(key).expect("a known API");
        let flexible = api.is_flexible(version);
        let mut frame = vec![0; 4];
        for number in [key, version] {
            frame.extend(number.to_be_bytes());
        }
        frame.extend(9_i32.to_be_bytes());
        let client_id = self.0.client_id;
        frame.extend((client_id.len() as i16).to_be_bytes());
        frame.extend(client_id.as_bytes());
        frame.extend(flexible.then_some(0));
        let row = row(body, &api.request, version, ids);
        message::encode(&row, &api.request, version, flexible, &mut frame);
        let size = frame.len() as i32 - 4;
        frame[..4].copy_from_slice(&size.to_be_bytes());
        self.0.send(&frame);
    }

    pub(crate) fn receive(&mut self, key: i16, version: i16, ids: &Ids) -> Json {
        let api = message::api(key).expect("a known API");
        let mut size = [0; 4];
        if let Err(error) = self.0.stream.read_exact(&mut size) {
            let is_timeout = error.kind() == std::io::ErrorKind::WouldBlock;
            return json!(if is_timeout { "no response" } else { "closed" });
        }
        let mut frame = vec![0; i32::from_be_bytes(size) as usize];
        self.0.stream.read_exact(&mut frame).expect("a frame");
        response(api, version, &frame, ids)
    }
}

fn response(api: &ApiDefinition, version: i16, frame: &[u8], ids: &Ids) -> Json {
    let flexible = api.is_flexible(version);
    // Correlation id, and no tagged fields.
    let body = &frame[4 + usize::from(flexible && api.key != 18)..];
    let row = message::decode(&api.response, version, flexible, body).expect("a response");
    as_json(&row, &api.response, ids)
}

/// Returns a structure with these values and defaults for other fields.
fn row(
    values: &Json,
    definition: &StructDefinition,
    version: i16,
    ids: &Ids,
) -> MessageRow<'static> {
    let mut row = MessageRow::new(definition, version);
    let values = values.as_object().expect("an object");
    for (name, json) in values {
        let at = definition.position(name);
        let at = at.unwrap_or_else(|| panic!("no field {name}"));
        let inner = definition.fields[at].structure();
        if let Some(value) = row.get_mut(definition, name) {
            *value = of_json(json, value, inner, version, ids);
        }
    }
    row
}

fn of_json(
    json: &Json,
    default: &Value<'_>,
    inner: Option<&StructDefinition>,
    version: i16,
    ids: &Ids,
) -> Value<'static> {
    let text = |json: &Json| Cow::Owned(json.as_str().unwrap_or_default().as_bytes().to_vec());
    let list = || json.as_array().into_iter().flatten();
    let is_some = !json.is_null();
    match default {
        Value::Int(_) => Value::Int(json.as_i64().unwrap_or_else(|| i64::from(*json == true))),
        Value::Uuid(_) => Value::Uuid(
            json.as_str()
                .map_or(0, |name| *ids.get(name).unwrap_or(&77)),
        ),
        Value::Bytes(_) => Value::Bytes(is_some.then(|| text(json))),
        Value::Packed(_) => {
            let numbers = list().map(|one| one.as_i64().expect("a number") as i32);
            let bytes = numbers.flat_map(i32::to_be_bytes).collect();
            Value::Packed(is_some.then_some(Cow::Owned(bytes)))
        }
        Value::Texts(_) => Value::Texts(is_some.then(|| list().map(text).collect())),
        Value::Rows(_) => {
            let inner = inner.expect("a structure");
            let rows = list().map(|one| row(one, inner, version, ids)).collect();
            Value::Rows(is_some.then_some(rows))
        }
        Value::Row(_) => {
            let inner = inner.expect("a structure");
            Value::Row(is_some.then(|| Box::new(row(json, inner, version, ids))))
        }
        Value::Absent => Value::Absent,
    }
}

/// Returns a structure as JSON; elements of arrays are sorted, because their order has no meaning.
fn as_json(row: &MessageRow<'_>, definition: &StructDefinition, ids: &Ids) -> Json {
    let mut object = serde_json::Map::new();
    for (field, value) in definition.fields.iter().zip(&row.values) {
        let text = |bytes: &[u8]| Json::from(String::from_utf8_lossy(bytes).into_owned());
        let inner = field.structure();
        let json = match value {
            Value::Absent => continue,
            Value::Int(number) => json!(number),
            Value::Uuid(id) => {
                let name = ids.iter().find(|(_, one)| *one == id);
                name.map_or_else(
                    || json!(id.to_string()),
                    |(name, _)| json!(format!("id of {name}")),
                )
            }
            Value::Bytes(bytes) => bytes.as_deref().map_or(Json::Null, text),
            Value::Packed(bytes) => json!(bytes),
            Value::Texts(texts) => json!(
                texts
                    .as_ref()
                    .map(|all| { all.iter().map(|one| text(one)).collect::<Vec<_>>() })
            ),
            Value::Rows(rows) => match rows {
                Some(rows) => {
                    let inner = inner.expect("a structure");
                    let mut rows: Vec<_> =
                        rows.iter().map(|row| as_json(row, inner, ids)).collect();
                    rows.sort_by_cached_key(Json::to_string);
                    json!(rows)
                }
                None => Json::Null,
            },
            Value::Row(row) => match row {
                Some(row) => as_json(row, inner.expect("a structure"), ids),
                None => Json::Null,
            },
        };
        object.insert(field.name.to_owned(), json);
    }
    Json::Object(object)
}
