//! Logins as the principal of a client: the proxy creates a delegation token for it.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use weir_net::tls::ClientTls;
use weir_sasl::client::LoginMethod;
use weir_security::ScramHash;
use weir_wire::delegation_token::{self, CREATE_VERSION};
use weir_wire::frame::SIZE_BYTES;
use weir_wire::header::{read_response_v0, write_request};

use super::credentials::Credential;
use super::delegation_token::{DelegationToken, DelegationTokens};
use super::log_in::log_in;
use super::step::{StepError, StepOutcome, begin_with};
use crate::broker_connection::{BrokerAccess, BrokerConnection, CLIENT_ID};
use crate::config::HostPort;

/// The first step of a login with a delegation token.
pub(crate) struct DelegatedLogin {
    pub(crate) tokens: Arc<DelegationTokens>,
    /// Credential that may create tokens for others.
    pub(crate) creator: Arc<Credential>,
    /// Host name of the broker to log in at.
    pub(crate) host: Arc<str>,
    /// Brokers that create tokens; the first one that responds is used.
    pub(crate) brokers: Vec<HostPort>,
    /// TLS as configured for the cluster.
    pub(crate) tls: Option<ClientTls>,
    pub(crate) sends_proxy_header: bool,
}

impl DelegatedLogin {
    /// Returns the first request. Blocks while a token is created.
    pub(crate) fn run(&self) -> StepOutcome {
        let method = self.tokens.login(Instant::now(), || self.create());
        let outcome = method.and_then(|method| begin_with(&method, &self.host));
        outcome.unwrap_or_else(StepOutcome::Failed)
    }

    fn create(&self) -> Result<DelegationToken, StepError> {
        let mut failed = StepError::NoToken {
            broker: "any broker".to_owned(),
            error: io::Error::new(io::ErrorKind::NotFound, "none is known"),
        };
        for broker in &self.brokers {
            match self.create_at(broker) {
                Ok(token) => return token,
                Err(error) => {
                    let broker = broker.to_string();
                    failed = StepError::NoToken { broker, error };
                }
            }
        }
        Err(failed)
    }

    /// Creates a token. The outer error means that another broker may do it.
    fn create_at(&self, broker: &HostPort) -> io::Result<Result<DelegationToken, StepError>> {
        let access = BrokerAccess {
            tls: self.creator.tls.as_ref().or(self.tls.as_ref()),
            sends_proxy_header: self.sends_proxy_header,
        };
        let mut connection = BrokerConnection::open(broker, access)?;
        log_in(&mut connection, Arc::clone(&self.creator), broker)?;
        let mut request = BytesMut::new();
        let body = delegation_token::create(&self.tokens.owner);
        write_request(&mut request, CREATE_VERSION, 0, CLIENT_ID, &body)
            .map_err(io::Error::other)?;
        let response = connection.exchange_frame(&request)?;
        let created = Instant::now();
        let frame = response.get(SIZE_BYTES..).unwrap_or_default();
        let body = read_response_v0(frame).map_err(io::Error::other)?.1;
        let token = delegation_token::read_created(body).map_err(io::Error::other)?;
        if token.error != 0 {
            return Ok(Err(StepError::token_refused(token.error)));
        }
        let hash = self
            .creator
            .method
            .as_ref()
            .and_then(LoginMethod::scram_hash);
        let lifetime_ms = token.expires_ms.saturating_sub(token.issued_ms);
        let hash = hash.unwrap_or(ScramHash::Sha512);
        Ok(Ok(DelegationToken {
            method: LoginMethod::delegation_token(hash, token.id, token.hmac),
            created,
            lifetime: Duration::from_millis(u64::try_from(lifetime_ms).unwrap_or(0)),
        }))
    }
}
