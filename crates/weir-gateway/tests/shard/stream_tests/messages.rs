//! Client messages: their order, limits, repetitions and outcomes, with a scripted destination.

use crossbeam_channel::Receiver;
use weir_kafka::DeliveryError;

use super::*;
use crate::messages::{MessageConfig, MessageLimits, OutgoingMessage};

/// The sections of a configuration.
#[derive(serde::Deserialize)]
struct Sections {
    message: Vec<weir_identity::config::RawMessage>,
    #[serde(default)]
    messages: MessageLimits,
}

/// A shard with rules for messages, and what it passes on.
struct MessageEnv {
    env: TestEnv,
    messages: Arc<Messages>,
    written: Receiver<OutgoingMessage>,
}

const ANY: &str = "[[message]]\nname = 'any'\nconnection = 'Data'\ntopic = 't'\n";

/// Returns the messages of these sections, and what is passed on.
pub(super) fn messages_of(toml: &str) -> (Arc<Messages>, Receiver<OutgoingMessage>) {
    let raw: Sections = toml::from_str(toml).expect("valid sections");
    let kafka = weir_kafka::KafkaSettings::plaintext("nowhere:9092");
    let config = MessageConfig::new(&raw.message, raw.messages, &[("Data", true, &kafka)], false);
    let options = ParseOptions::default();
    let mut report = ConfigReport::of("adapters.xml", ADAPTERS, &|_| None, options);
    let connections = [report.connections.remove(0).expect("valid file")];
    let prepared = Messages::new(config.expect("valid rules"), &connections, 1);
    let (messages, mut queues) = prepared.expect("rules");
    (messages, queues.remove(0).receiver)
}

impl MessageEnv {
    fn new(toml: &str) -> Self {
        let (messages, written) = messages_of(toml);
        let (limits, shared) = (GatewayLimits::default(), Some(Arc::clone(&messages)));
        Self {
            env: TestEnv::build(limits, UnknownNames::default(), None, shared),
            messages,
            written,
        }
    }

    /// Sends one message over the stream of session 1 and returns all lines that follow.
    fn send(&mut self, parameters: &str) -> Vec<String> {
        self.env.ws(1, &format!("msg\r\n{parameters}"))
    }

    /// Returns the texts that were passed on since the last call, with their tokens.
    fn passed_on(&self) -> Vec<(String, u64)> {
        let all = self.written.try_iter();
        all.map(|one| (one.text.into(), one.token)).collect()
    }

    /// Reports a result and returns the lines that follow.
    fn report(&mut self, token: u64, result: Result<(), DeliveryError>) -> Vec<String> {
        self.messages.put_result(token, result);
        self.env.shard.clients.report_messages(&mut self.env.wire);
        self.env.wire.lines(1)
    }

    /// Reports success for all messages passed on; returns their texts and the lines.
    fn deliver(&mut self) -> (Vec<String>, Vec<String>) {
        let (mut texts, mut lines) = (Vec::new(), Vec::new());
        for (text, token) in self.passed_on() {
            lines.extend(self.report(token, Ok(())));
            texts.push(text);
        }
        (texts, lines)
    }
}

fn ordered(prog: u32, more: &str) -> String {
    format!("LS_reqId={prog}&LS_sequence=s&LS_msg_prog={prog}&LS_message=m{prog}{more}")
}

#[test]
fn outcome_follows_result_of_destination() {
    let mut env = MessageEnv::new(&format!(
        "{ANY}key = '{{sequence}}'\nsequences = ['s*', 'x']\n"
    ));
    env.env.create(1, "");
    assert_eq!(env.send(&ordered(1, "%2C1")), ["REQOK,1"]);
    let first = env.written.try_recv().expect("one message");
    assert_eq!((&*first.topic, &*first.text), ("t", "m1,1"));
    assert_eq!(
        (first.key.as_deref(), first.sequence.as_deref()),
        (Some("s"), Some("s"))
    );
    assert_eq!((first.prog, &*first.sender.rights.user), (Some(1), ""));
    assert_eq!(env.report(first.token, Ok(())), ["MSGDONE,s,1,"]);
    for (prog, result, line) in [
        (
            2,
            DeliveryError::Refused("secret".into()),
            "MSGFAIL,s,2,34,the message was not accepted",
        ),
        (
            3,
            DeliveryError::Unconfirmed("secret".into()),
            "MSGFAIL,s,3,35,the message was not confirmed in time and may have been stored",
        ),
    ] {
        env.send(&ordered(prog, ""));
        let (_, token) = env.passed_on()[0];
        assert_eq!(env.report(token, Err(result)), [line]);
    }
    assert_eq!(env.messages.pending(), 0);
    let silent =
        "LS_reqId=9&LS_sequence=x&LS_msg_prog=1&LS_message=a&LS_outcome=false&LS_ack=false";
    assert_eq!(env.send(silent), [""; 0]);
    assert_eq!(env.deliver(), (vec!["a".to_owned()], vec![]));
}

#[test]
fn uncovered_sequences_and_token_refresh_are_refused() {
    let mut env = MessageEnv::new(&format!("{ANY}sequences = ['orders']\n"));
    env.env.create(1, "");
    let refusal = "MSGFAIL,s,1,0,this gateway takes no messages";
    assert_eq!(env.send(&ordered(1, "")), ["REQOK,1", refusal]);
    let unordered = "LS_reqId=4&LS_msg_prog=1&LS_message=a";
    let refusal = "MSGFAIL,*,1,0,this gateway takes no messages";
    assert_eq!(env.send(unordered), ["REQOK,4", refusal]);
    let mut env = MessageEnv::new(ANY);
    env.env.create(1, "");
    let refresh = "LS_reqId=4&LS_sequence=weir_auth&LS_msg_prog=1&LS_message=token";
    let refusal = "MSGFAIL,weir_auth,1,0,this gateway takes no messages";
    assert_eq!(env.send(refresh), ["REQOK,4", refusal]);
    assert!(env.passed_on().is_empty());
}

#[test]
fn missing_messages_are_awaited_then_skipped() {
    let mut env = MessageEnv::new(&format!("{ANY}[messages]\nmax_wait_ms = 2000\n"));
    env.env.create(1, "");
    assert_eq!(env.send(&ordered(3, "&LS_max_wait=500")), ["REQOK,3"]);
    assert_eq!(env.send(&ordered(1, "")), ["REQOK,1"]);
    assert_eq!(env.deliver().0, ["m1"]);
    env.env.pass(499);
    assert!(env.passed_on().is_empty());
    env.env.pass(1);
    assert_eq!(
        env.env.wire.lines(1),
        ["MSGFAIL,s,2,38,Message skipped by timeout"]
    );
    assert_eq!(
        env.deliver(),
        (vec!["m3".into()], vec!["MSGDONE,s,3,".into()])
    );
    assert_eq!(
        env.send(&ordered(2, "")),
        ["REQERR,2,32,Message number too low"]
    );
    // The gateway limits the wait; several messages are skipped with one line.
    env.send(&ordered(8, "&LS_max_wait=600000"));
    env.send(&ordered(7, ""));
    env.env.pass(1_999);
    assert!(env.passed_on().is_empty());
    env.env.pass(1);
    assert_eq!(env.env.wire.lines(1), ["MSGFAIL,s,6,39,3"]);
    assert_eq!(env.deliver().0, ["m7", "m8"]);
    assert_eq!(env.messages.skipped(), 4);
    // A wait of nothing skips at once, and the late message closes no gap.
    let lines = env.send(&ordered(10, "&LS_max_wait=0"));
    assert_eq!(
        lines,
        ["REQOK,10", "MSGFAIL,s,9,38,Message skipped by timeout"]
    );
    assert_eq!(env.deliver().0, ["m10"]);
}

#[test]
fn repeated_requests_have_one_outcome() {
    let mut env = MessageEnv::new(ANY);
    env.env.create(1, "");
    for first in [
        ordered(1, ""),
        "LS_reqId=1&LS_msg_prog=1&LS_message=u".to_owned(),
    ] {
        assert_eq!(env.send(&first), ["REQOK,1"]);
        assert_eq!(env.send(&first), ["REQOK,1"], "the outcome will follow");
        let other = format!("{first}x");
        assert_eq!(
            env.send(&other),
            ["REQERR,1,33,Message number already used"]
        );
        let (texts, lines) = env.deliver();
        assert_eq!((texts.len(), lines.len()), (1, 1), "{texts:?} {lines:?}");
        assert_eq!(env.send(&first), ["REQERR,1,32,Message number too low"]);
        assert!(env.passed_on().is_empty());
    }
}

#[test]
fn lengths_rates_and_numbers_are_limited() {
    let limits = "max_bytes = 4\nrate_per_session = 5.0\nrate_per_user = 6.0\n\
                  [messages]\npending_per_session = 3\nsequences_per_session = 1\n";
    let mut env = MessageEnv::new(&format!("{ANY}{limits}"));
    env.env.create(1, "");
    let lines = env.send(&ordered(1, "long"));
    assert_eq!(lines, ["REQOK,1", "MSGFAIL,s,1,-3,Message too long"]);
    let too_many = "too many messages: try again later";
    for prog in 2..5 {
        env.send(&ordered(prog, ""));
    }
    let lines = env.send(&ordered(5, ""));
    assert_eq!(
        lines,
        ["REQOK,5".to_owned(), format!("MSGFAIL,s,5,-4,{too_many}")]
    );
    let lines = env.send(&ordered(7, ""));
    assert_eq!(
        lines,
        [format!("REQERR,7,-4,{too_many}")],
        "it would have to wait"
    );
    let second = "LS_reqId=4&LS_sequence=t&LS_msg_prog=1&LS_message=a";
    assert_eq!(env.send(second), ["REQERR,4,-4,too many sequences"]);
    assert_eq!(env.deliver().0, ["m2", "m3", "m4"]);
    let mut sent = 3;
    let fast = "too many messages per second: try again later";
    for prog in 6..16 {
        let lines = env.send(&ordered(prog, ""));
        let delivered = env.deliver().0.len();
        sent += delivered;
        let refused = format!("MSGFAIL,s,{prog},-4,{fast}");
        assert_eq!(lines.contains(&refused), delivered == 0, "{lines:?}");
    }
    assert_eq!(sent, 10, "a burst of two seconds");
    // Another session of the same user has what is left of the user's rate.
    env.env.create(2, "");
    let sent = |env: &mut MessageEnv| {
        for prog in 1..10 {
            env.env.ws(2, &format!("msg\r\n{}", ordered(prog, "")));
            env.deliver();
        }
    };
    sent(&mut env);
    let lines = env.messages.counters().next().expect("a rule").1;
    assert_eq!(lines.count(crate::messages::MessageOutcome::Delivered), 12);
    assert_eq!(env.messages.pending(), 0);
}

#[test]
fn outcome_survives_lost_connection() {
    let mut env = MessageEnv::new(ANY);
    let id = env.env.create(1, "");
    env.send(&ordered(1, ""));
    let (_, token) = env.passed_on()[0];
    env.env.lose(1);
    assert_eq!(env.report(token, Ok(())), [""; 0]);
    let recover = format!(
        "LS_session={id}&LS_recovery_from=0&LS_polling=true&LS_polling_millis=0&LS_reduce_head=true"
    );
    let lines = env.env.http(2, "bind_session", &recover);
    assert_eq!(lines, ["PROG,0", "MSGDONE,s,1,", "LOOP,0"]);
    let again = format!("LS_session={id}&{}", ordered(1, ""));
    let lines = env.env.http(3, "msg", &again);
    assert_eq!(lines, ["REQERR,1,32,Message number too low"]);
    assert!(env.passed_on().is_empty(), "written once");
}

#[test]
fn ended_session_is_removed_completely() {
    let mut env = MessageEnv::new(ANY);
    let id = env.env.create(1, "");
    env.send(&ordered(1, ""));
    env.send(&ordered(3, ""));
    env.send("LS_reqId=4&LS_message=u&LS_outcome=false");
    assert_eq!(env.messages.pending(), 3);
    let destroy = format!("LS_session={id}&LS_reqId=1&LS_op=destroy");
    env.env.http(2, "control", &destroy);
    assert_eq!(env.env.wire.lines(1).len(), 1, "END");
    assert_eq!(env.messages.pending(), 2, "the one that waited is gone");
    assert_eq!(env.deliver().1, [""; 0]);
    assert_eq!(
        (env.messages.pending(), env.messages.pending_bytes()),
        (0, 0)
    );
    let unknown = "LS_session=S1&LS_reqId=4&LS_message=a&LS_msg_prog=1";
    assert_eq!(
        env.env.http(3, "msg", unknown),
        ["REQERR,4,20,Session not found"]
    );
}

#[test]
fn memory_is_limited_for_all_sessions() {
    let mut env = MessageEnv::new(&format!(
        "{ANY}rate_per_session = 10000.0\n\
         [messages]\nbytes_in_flight = 1048576\npending_per_session = 10000\n"
    ));
    env.env.create(1, "");
    let busy = "the gateway has too many messages: try again later";
    let refused = (1..).find(|prog| {
        let lines = env.send(&ordered(*prog, &"x".repeat(9_000)));
        let refused = format!("MSGFAIL,s,{prog},34,{busy}");
        lines.contains(&refused)
    });
    assert_eq!(refused, Some(1 + (1 << 20) / 9_502));
    env.deliver();
    assert_eq!(env.messages.pending_bytes(), 0);
}
