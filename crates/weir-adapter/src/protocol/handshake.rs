//! Start of a connection: credentials of the adapter, then the first request and its reply.

use weir_identity::ari::{
    AdapterLine, AdapterMethod, AdapterNotification, AdapterPeer, AdapterReply, AdapterRequest,
    AriError, AriVersion, Parameter,
};

use super::options::ProtocolOptions;
use crate::credentials::admits;

/// Time in milliseconds that an adapter has for its credentials if they are optional.
const OPTIONAL_CREDENTIALS_MS: u64 = 1_000;
/// The same if they are required.
const CREDENTIALS_MS: u64 = 5_000;
/// Time in milliseconds for the reply to the first request: adapters open databases.
const INIT_MS: u64 = 30_000;
/// Name by which the SDK for Node.js introduces itself.
const NODE_SDK: &str = "Node.js Adapter SDK";
/// ID of the first request.
const INIT_ID: &str = "w0";

/// Difference between the activity timeout and the hint for keepalives; half the timeout if it is
/// short.
const HINT_MARGIN_MS: u64 = 2_000;

/// Connection that is not ready.
#[derive(Debug)]
pub(super) struct Handshake {
    step: HandshakeStep,
    deadline_ms: u64,
    is_node: bool,
    wants_close: bool,
    has_credentials: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum HandshakeStep {
    Credentials,
    Init,
}

/// The peer if it is ready, or the reason for its rejection.
type Progress = Result<Option<AdapterPeer>, &'static str>;

impl Handshake {
    pub(super) fn begin(needs_credentials: bool, now_ms: u64) -> Self {
        let wait_ms = match needs_credentials {
            true => CREDENTIALS_MS,
            false => OPTIONAL_CREDENTIALS_MS,
        };
        Self {
            step: HandshakeStep::Credentials,
            deadline_ms: now_ms + wait_ms,
            is_node: false,
            wants_close: false,
            has_credentials: false,
        }
    }

    pub(super) fn deadline_ms(&self) -> u64 {
        self.deadline_ms
    }

    /// Returns `true` if the adapter is known to understand `CLOSE`.
    pub(super) fn understands_close(&self) -> bool {
        self.wants_close
    }

    /// Continues without credentials, or rejects the adapter.
    pub(super) fn tick(
        &mut self,
        options: &ProtocolOptions,
        now_ms: u64,
        out: &mut String,
    ) -> Result<(), &'static str> {
        if now_ms < self.deadline_ms {
            return Ok(());
        }
        match self.step {
            HandshakeStep::Init => Err("no reply to the first request"),
            HandshakeStep::Credentials if !options.users.is_empty() => Err("no credentials"),
            HandshakeStep::Credentials => {
                self.send_init(options, now_ms, out);
                Ok(())
            }
        }
    }

    /// Processes a line.
    pub(super) fn process(
        &mut self,
        line: &str,
        options: &ProtocolOptions,
        now_ms: u64,
        out: &mut String,
    ) -> Result<Progress, AriError> {
        match AdapterLine::parse(line, AriVersion::LATEST)? {
            AdapterLine::KeepAlive => Ok(Ok(None)),
            AdapterLine::Notification(_, AdapterNotification::Failure { .. }) => {
                Ok(Err("the adapter failed"))
            }
            AdapterLine::Notification(
                _,
                AdapterNotification::Credentials {
                    user,
                    password,
                    enables_close,
                    sdk,
                },
            ) if !self.has_credentials => {
                self.has_credentials = true;
                self.wants_close = enables_close;
                self.is_node = sdk.as_deref() == Some(NODE_SDK);
                let (user, password) = (user.as_deref(), password.as_deref());
                if !options.users.is_empty() && !admits(&options.users, user, password) {
                    return Ok(Err("wrong credentials"));
                }
                if self.step == HandshakeStep::Credentials {
                    self.send_init(options, now_ms, out);
                }
                Ok(Ok(None))
            }
            AdapterLine::Reply(reply)
                if self.step == HandshakeStep::Init && reply.id == INIT_ID =>
            {
                match reply.decode(AdapterMethod::Init, 0, AriVersion::LATEST)? {
                    Ok(AdapterReply::Init { version, .. }) => Ok(Ok(Some(self.peer(version)))),
                    Ok(_) => Err(AriError::OtherMethod),
                    Err(exception) => {
                        let message = exception.message.unwrap_or_default();
                        let message = weir_net::log::Truncated(&message);
                        tracing::warn!(%message, "remote adapter did not start");
                        Ok(Err("the adapter did not start"))
                    }
                }
            }
            AdapterLine::Reply(_) | AdapterLine::Notification(..) => Err(AriError::Line),
        }
    }

    fn peer(&self, version: AriVersion) -> AdapterPeer {
        AdapterPeer {
            version,
            is_node: self.is_node,
            wants_close: self.wants_close,
        }
    }

    fn send_init(&mut self, options: &ProtocolOptions, now_ms: u64, out: &mut String) {
        self.step = HandshakeStep::Init;
        self.deadline_ms = now_ms + INIT_MS;
        let hint_ms = keepalive_hint_ms(options.activity_timeout_ms);
        let mut parameters = vec![
            Parameter::new("ARI.version", AriVersion::LATEST.as_str()),
            Parameter::new("keepalive_hint.millis", hint_ms.to_string()),
        ];
        parameters.extend(options.parameters.iter().cloned());
        AdapterRequest::Init { parameters }.encode(INIT_ID, &self.peer(AriVersion::LATEST), out);
    }
}

/// Appends the line that ends a connection.
pub(super) fn write_close(reason: &str, out: &mut String) {
    let peer = AdapterPeer {
        version: AriVersion::LATEST,
        is_node: false,
        wants_close: true,
    };
    let reason = reason.to_owned();
    AdapterRequest::Close { reason }.encode("0", &peer, out);
}

/// Returns the interval of keepalives for an activity timeout.
fn keepalive_hint_ms(timeout_ms: u64) -> u64 {
    match timeout_ms < 2 * HINT_MARGIN_MS {
        true => timeout_ms / 2,
        false => timeout_ms - HINT_MARGIN_MS,
    }
}
