//! State of the proxy's login on the broker connection of a pair.

use std::sync::Arc;

use weir_net::tls::ClientTls;
use weir_sasl::client::LoginDialogue;

use crate::broker_login::{BrokerIdentity, Credential, IdentityMode};

/// Login on the broker connection of a pair.
#[derive(Debug)]
pub(super) struct BrokerSession {
    /// `None` until the principal is known.
    pub(super) credential: Option<Arc<Credential>>,
    pub(super) stage: BrokerLoginStage,
    /// Start of a response.
    pub(super) input: Vec<u8>,
    /// The connection has another certificate than the credential.
    pub(super) is_replaced: bool,
}

/// State of a login at a broker.
#[derive(Debug)]
pub(super) enum BrokerLoginStage {
    /// No login, and none needed yet.
    New,
    /// A login begins when nothing is in flight; `true`: it is repeated.
    Due(bool),
    /// A login thread works on a request, until this time in milliseconds.
    Working(u64),
    /// The response to a request is outstanding, until this time in milliseconds.
    Waiting(Box<LoginDialogue>, u64),
    /// The broker refused the login.
    Refused,
    /// Logged in, until this time in milliseconds.
    Done(Option<u64>),
}

impl BrokerSession {
    pub(super) fn new(identity: &BrokerIdentity) -> Self {
        let credential = match identity.mode {
            IdentityMode::One => identity.fixed(),
            // For ApiVersions before the login of the client.
            IdentityMode::Swap | IdentityMode::Delegate => identity.of_probe(),
        };
        Self {
            credential,
            stage: BrokerLoginStage::New,
            input: Vec::new(),
            is_replaced: false,
        }
    }

    /// Returns the TLS configuration of the connection, if it has one of its own.
    pub(super) fn tls(&self) -> Option<&ClientTls> {
        self.credential.as_ref()?.tls.as_ref()
    }

    /// Returns `true` while no request may be forwarded.
    pub(super) fn pauses(&self) -> bool {
        !matches!(
            self.stage,
            BrokerLoginStage::New | BrokerLoginStage::Done(_)
        )
    }

    /// Returns `true` if what the broker sends belongs to a login.
    pub(super) fn takes_responses(&self) -> bool {
        matches!(
            self.stage,
            BrokerLoginStage::Working(_) | BrokerLoginStage::Waiting(..)
        )
    }

    /// Changes the credential before a first login.
    pub(super) fn choose(&mut self, credential: Arc<Credential>) {
        let has_same_tls = match &self.credential {
            Some(old) if Arc::ptr_eq(old, &credential) => true,
            Some(old) => old.tls.is_none() && credential.tls.is_none(),
            None => credential.tls.is_none(),
        };
        self.is_replaced |= !has_same_tls;
        self.credential = Some(credential);
    }
}
