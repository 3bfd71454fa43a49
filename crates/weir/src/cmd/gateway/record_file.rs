//! A record written down as JSON, for `weir gateway explain --record`.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value;
use weir_kafka::peek::OwnedRecord;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    topic: Option<String>,
    #[serde(default)]
    partition: i32,
    #[serde(default)]
    offset: i64,
    #[serde(default = "no_timestamp")]
    timestamp: i64,
    #[serde(default)]
    key: Value,
    #[serde(default)]
    value: Value,
    #[serde(default)]
    headers: Value,
}

fn no_timestamp() -> i64 {
    -1
}

/// Reads a record; `-` is standard input. `topic` stands in where the file names none.
pub(super) fn read(path: &Path, topic: Option<&str>) -> anyhow::Result<OwnedRecord> {
    let name = path.display();
    let text = if path == Path::new("-") {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.with_context(|| format!("--record {name}: cannot read it"))?;
    let written: Written = serde_json::from_str(&text).with_context(|| {
        format!("--record {name}: not a record; see weir gateway explain --help")
    })?;
    let Some(topic) = written.topic.as_deref().or(topic) else {
        bail!("--record {name}: write \"topic\", since the configuration maps several");
    };
    let part = |key: &str, value| payload(value).with_context(|| format!("--record {name}: {key}"));
    Ok(OwnedRecord {
        topic: topic.to_owned(),
        partition: written.partition,
        offset: written.offset,
        timestamp_ms: written.timestamp,
        key: part("key", &written.key)?,
        value: part("value", &written.value)?,
        headers: headers(&written.headers).with_context(|| format!("--record {name}: headers"))?,
    })
}

/// A text as it is, null, `{"base64": "..."}` or `{"json": anything}`.
fn payload(value: &Value) -> anyhow::Result<Option<Vec<u8>>> {
    match value {
        Value::Null => return Ok(None),
        Value::String(text) => return Ok(Some(text.clone().into_bytes())),
        Value::Object(members) if members.len() == 1 => {
            if let Some(Value::String(text)) = members.get("base64") {
                return Ok(Some(BASE64_STANDARD.decode(text).context("not base64")?));
            }
            if let Some(json) = members.get("json") {
                return Ok(Some(json.to_string().into_bytes()));
            }
        }
        _ => {}
    }
    bail!("write a text, null, {{\"base64\": \"...\"}} or {{\"json\": ...}}")
}

type Headers = Vec<(String, Option<Vec<u8>>)>;

/// An object, or a list of pairs where a name occurs more than once.
fn headers(value: &Value) -> anyhow::Result<Headers> {
    let pair = |name: &str, value| Ok((name.to_owned(), payload(value)?));
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| pair(name, value))
            .collect(),
        Value::Array(pairs) => {
            let pairs = pairs
                .iter()
                .map(|item| match item.as_array().map(Vec::as_slice) {
                    Some([Value::String(name), value]) => pair(name, value),
                    _ => bail!("write each header as [\"name\", \"value\"]"),
                });
            pairs.collect()
        }
        _ => bail!("write an object, or a list of [\"name\", \"value\"]"),
    }
}
