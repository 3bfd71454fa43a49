//! HTTP requests with limits on time, size and connections, over rustls with the settings of a
//! cluster's stores.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use ureq::http::{Response, Uri};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, TcpConnector,
    Transport, TransportAdapter,
};
use ureq::{Agent, Body};

use super::error::RegistryError;
use super::response::error_text;

/// Maximum size of a response. Schemas have a few kilobytes.
const BODY_BYTES_MAX: u64 = 4 << 20;
const HEADER_BYTES_MAX: usize = 32 << 10;
const JSON: &str = "application/vnd.schemaregistry.v1+json";
/// Maximum number of idle connections; lookups use no more at a time.
const IDLE_CONNECTIONS_MAX: usize = 2;

/// Sends requests to one registry.
#[derive(Debug, Clone)]
pub(super) struct HttpClient {
    agent: Agent,
    timeout: Duration,
}

/// A successful response.
#[derive(Debug)]
pub(super) struct SuccessfulResponse {
    pub(super) body: Vec<u8>,
    pub(super) content_type: String,
}

/// Header names and values of a request.
pub(super) type Headers<'a> = &'a [(&'a str, &'a str)];

impl HttpClient {
    /// `timeout` limits a whole request; `tls` is used for `https` URLs.
    pub(super) fn new(tls: Option<Arc<ClientConfig>>, timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // A registry does not redirect, and credentials must not go anywhere else.
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(timeout))
            .max_response_header_size(HEADER_BYTES_MAX)
            .max_idle_connections(IDLE_CONNECTIONS_MAX)
            .max_idle_connections_per_host(IDLE_CONNECTIONS_MAX)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .build();
        let connector = TcpConnector::default().chain(TlsConnector { config: tls });
        Self {
            agent: Agent::with_parts(config, connector, DefaultResolver::default()),
            timeout,
        }
    }

    pub(super) fn get(
        &self,
        url: &str,
        headers: Headers<'_>,
    ) -> Result<SuccessfulResponse, RegistryError> {
        let mut request = self.agent.get(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.response(url, request.call())
    }

    pub(super) fn post_json(
        &self,
        url: &str,
        headers: Headers<'_>,
        body: &[u8],
    ) -> Result<SuccessfulResponse, RegistryError> {
        let mut request = self.agent.post(url).content_type(JSON);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.response(url, request.send(body))
    }

    pub(super) fn post_form(
        &self,
        url: &str,
        form: &[(&str, &str)],
    ) -> Result<SuccessfulResponse, RegistryError> {
        self.response(url, self.agent.post(url).send_form(form.iter().copied()))
    }

    fn response(
        &self,
        url: &str,
        response: Result<Response<Body>, ureq::Error>,
    ) -> Result<SuccessfulResponse, RegistryError> {
        let mut response = response.map_err(|error| self.error(url, &error))?;
        let status = response.status().as_u16();
        let content_type = response.headers().get("content-type");
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        let body = response.body_mut().with_config().limit(BODY_BYTES_MAX);
        let body = body
            .read_to_vec()
            .map_err(|error| self.error(url, &error))?;
        let (url, message) = (url.to_owned(), || error_text(&body));
        match status {
            200..=299 => Ok(SuccessfulResponse { body, content_type }),
            401 | 403 => Err(RegistryError::Login { url, status }),
            404 => Err(RegistryError::NotFound {
                url,
                message: message(),
            }),
            _ => Err(RegistryError::Status {
                url,
                status,
                message: message(),
            }),
        }
    }

    fn error(&self, url: &str, error: &ureq::Error) -> RegistryError {
        let url = url.to_owned();
        match error {
            ureq::Error::Timeout(_) => RegistryError::Timeout {
                url,
                timeout: self.timeout,
            },
            ureq::Error::BodyExceedsLimit(max) => RegistryError::Response {
                url,
                reason: format!("more than {max} bytes"),
            },
            ureq::Error::Protocol(error) => RegistryError::Response {
                url,
                reason: error.to_string(),
            },
            other => RegistryError::Connection {
                url,
                reason: reason(other),
            },
        }
    }
}

/// Returns the text of an error with its causes. The text of ureq names no header.
fn reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// Adds TLS to connections of `https` URLs.
#[derive(Clone)]
struct TlsConnector {
    config: Option<Arc<ClientConfig>>,
}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsConnector")
    }
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(transport) = chained else {
            return Ok(None);
        };
        if !details.needs_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let config = self.config.as_ref();
        let config = config.ok_or(ureq::Error::Tls("encryption is not configured"))?;
        let name = server_name(details.uri);
        let name = name.ok_or(ureq::Error::Tls("invalid host name"))?;
        let connection = ClientConnection::new(Arc::clone(config), name)
            .map_err(|error| ureq::Error::Io(std::io::Error::other(error)))?;
        let sizes = (
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        Ok(Some(Either::B(TlsTransport {
            buffers: LazyBuffers::new(sizes.0, sizes.1),
            stream: StreamOwned {
                conn: connection,
                sock: TransportAdapter::new(transport.boxed()),
            },
        })))
    }
}

fn server_name(uri: &Uri) -> Option<ServerName<'static>> {
    let host = uri.host()?;
    let host = host
        .strip_prefix('[')
        .map_or(host, |host| host.trim_end_matches(']'));
    ServerName::try_from(host.to_owned()).ok()
}

struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for TlsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsTransport")
    }
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        let output = &self.buffers.output()[..amount];
        self.stream.write_all(output).map_err(ureq::Error::from)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.get_mut().set_timeout(timeout);
        let amount = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
