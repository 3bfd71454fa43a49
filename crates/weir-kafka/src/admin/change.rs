//! Requests that change topics, and their results.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, TopicName,
};
use kafka_protocol::protocol::{Decodable, Request, StrBytes};

use super::error::{AdminError, InvalidResponse, reason, topic_error};

/// Result of one topic in a response.
#[derive(Debug)]
pub(super) struct TopicResult {
    pub(super) topic: Option<String>,
    pub(super) code: i16,
    pub(super) message: Option<String>,
}

/// A request that changes topics, and the decoder of its response.
pub(super) trait TopicChange: Request {
    fn results(body: &mut Bytes, version: i16) -> Result<Vec<TopicResult>, InvalidResponse>;
}

macro_rules! topic_change {
    ($request:ty, $response:ty, $list:ident, |$one:ident| $name:expr, $message:expr) => {
        impl TopicChange for $request {
            fn results(
                body: &mut Bytes,
                version: i16,
            ) -> Result<Vec<TopicResult>, InvalidResponse> {
                let response = <$response>::decode(body, version);
                let response = response.map_err(InvalidResponse::of)?;
                let results = response.$list.into_iter().map(|$one| TopicResult {
                    code: $one.error_code,
                    message: $message,
                    topic: $name,
                });
                Ok(results.collect())
            }
        }
    };
}

topic_change!(
    CreateTopicsRequest,
    CreateTopicsResponse,
    topics,
    |one| Some(one.name.0.to_string()),
    one.error_message.map(|text| text.to_string())
);
topic_change!(
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    results,
    |one| Some(one.name.0.to_string()),
    one.error_message.map(|text| text.to_string())
);
topic_change!(
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    responses,
    |one| one.name.map(|name| name.0.to_string()),
    None
);

/// Returns the first failure; `topic` names results without a name.
pub(super) fn check(
    action: &'static str,
    topic: &str,
    results: Vec<TopicResult>,
) -> Result<(), AdminError> {
    results
        .into_iter()
        .try_for_each(|result| match result.code {
            0 => Ok(()),
            code => {
                let name = result.topic.as_deref().unwrap_or(topic);
                let reason = reason(code, result.message.as_deref());
                Err(topic_error(action, name, reason))
            }
        })
}

pub(super) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(super) fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

pub(super) fn millis(timeout: Duration) -> i32 {
    i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX)
}

pub(super) const CLIENT_ID: &str = "weir-admin";
/// Latest versions without compact encodings.
pub(super) const CREATE_VERSION: i16 = 4;
pub(super) const DELETE_VERSION: i16 = 3;
pub(super) const GROW_VERSION: i16 = 1;
pub(super) const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_topic_is_named_with_the_brokers_reason() {
        let result = |code, message: Option<&str>| TopicResult {
            topic: Some("t".to_owned()),
            code,
            message: message.map(str::to_owned),
        };
        assert_eq!(check("create", "t", vec![result(0, None)]), Ok(()));
        let failed = check("create", "t", vec![result(36, Some("it exists"))]);
        assert_eq!(
            failed.expect_err("exists").to_string(),
            "cannot create topic \"t\": TopicAlreadyExists: it exists"
        );
    }
}
