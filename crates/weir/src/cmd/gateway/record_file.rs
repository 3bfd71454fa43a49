//! Record files in JSON for `weir gateway explain --record`.

use std::fmt;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use weir_kafka::peek::OwnedRecord;

/// A record as written. JSON values are not decoded, which preserves numbers and member order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRecord<'a> {
    topic: Option<String>,
    #[serde(default)]
    partition: i32,
    #[serde(default)]
    offset: i64,
    #[serde(default = "no_timestamp")]
    timestamp: i64,
    #[serde(borrow, default)]
    key: Option<&'a RawValue>,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
    #[serde(borrow, default)]
    headers: Option<&'a RawValue>,
}

/// A key, value or header that is not a string.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoded<'a> {
    #[serde(borrow)]
    Json(&'a RawValue),
    Base64(String),
}

/// The members of an object in file order.
struct RecordMembers<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RecordMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = RecordMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(RecordMembers(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

fn no_timestamp() -> i64 {
    -1
}

/// Reads a record from a file, or from standard input if the path is `-`.
///
/// `topic` is used if the record contains no topic.
pub(super) fn read(path: &Path, topic: Option<&str>) -> anyhow::Result<OwnedRecord> {
    let name = path.display();
    let text = if path == Path::new("-") {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.with_context(|| format!("--record \"{name}\": cannot read file"))?;
    let written: RawRecord<'_> = serde_json::from_str(&text).with_context(|| {
        format!("--record \"{name}\": invalid record; see weir gateway explain --help")
    })?;
    let Some(topic) = written.topic.as_deref().or(topic) else {
        bail!("--record \"{name}\": needs \"topic\" because the configuration maps several topics");
    };
    let part =
        |key: &str, value| payload(value).with_context(|| format!("--record \"{name}\": {key}"));
    Ok(OwnedRecord {
        topic: topic.to_owned(),
        partition: written.partition,
        offset: written.offset,
        timestamp_ms: written.timestamp,
        key: part("key", written.key)?,
        value: part("value", written.value)?,
        headers: headers(written.headers)
            .with_context(|| format!("--record \"{name}\": headers"))?,
    })
}

/// Returns the bytes of a string, null, `{"base64": "..."}` or `{"json": anything}`.
fn payload(value: Option<&RawValue>) -> anyhow::Result<Option<Vec<u8>>> {
    let text = value.map_or("null", RawValue::get);
    if text == "null" {
        return Ok(None);
    }
    if let Ok(text) = serde_json::from_str::<String>(text) {
        return Ok(Some(text.into_bytes()));
    }
    match serde_json::from_str(text) {
        Ok(Encoded::Json(value)) => return Ok(Some(value.get().as_bytes().to_vec())),
        Ok(Encoded::Base64(text)) => {
            let bytes = BASE64_STANDARD.decode(text).context("invalid base64")?;
            return Ok(Some(bytes));
        }
        Err(_) => {}
    }
    bail!("must be a string, null, {{\"base64\": \"...\"}} or {{\"json\": ...}}")
}

type Headers = Vec<(String, Option<Vec<u8>>)>;

fn headers(value: Option<&RawValue>) -> anyhow::Result<Headers> {
    let text = value.map_or("null", RawValue::get);
    let pairs = if text == "null" {
        Vec::new()
    } else if let Ok(RecordMembers(members)) = serde_json::from_str(text) {
        members
    } else if let Ok(pairs) = serde_json::from_str::<Vec<&RawValue>>(text) {
        let pairs = pairs.iter().map(|pair| serde_json::from_str(pair.get()));
        let pairs = pairs.collect::<Result<_, _>>();
        pairs.context("each header must be [\"name\", \"value\"]")?
    } else {
        bail!("must be an object or a list of [\"name\", \"value\"]")
    };
    let header = |(name, value): (String, &RawValue)| {
        let value = payload(Some(value)).with_context(|| name.clone())?;
        Ok((name, value))
    };
    pairs.into_iter().map(header).collect()
}
