//! TLS on an outgoing connection.

use std::io::{self, Read as _, Write as _};

use rustls::ClientConnection;

use super::disconnect_reason::DisconnectReason;

/// One connection's TLS.
#[derive(Debug)]
pub(super) struct TlsSession {
    tls: ClientConnection,
}

impl TlsSession {
    pub(super) fn new(tls: ClientConnection) -> Box<Self> {
        Box::new(Self { tls })
    }

    /// The records for `bytes`, with what TLS itself has to say; during the handshake they are kept
    /// until it is done.
    pub(super) fn seal(&mut self, bytes: &[u8]) -> Result<Vec<u8>, DisconnectReason> {
        // After an error there is still an alert to be sent, and nothing else.
        if !bytes.is_empty() && self.tls.writer().write(bytes).map_err(failed)? < bytes.len() {
            return Err(DisconnectReason::WriteQueueFull);
        }
        self.outgoing()
    }

    /// What is to be sent now.
    pub(super) fn outgoing(&mut self) -> Result<Vec<u8>, DisconnectReason> {
        let mut out = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut out).map_err(failed)?;
        }
        Ok(out)
    }

    /// Takes records as they come from the socket and appends what is in them to `plain`; whether the
    /// peer has said goodbye.
    pub(super) fn open(
        &mut self,
        records: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<bool, DisconnectReason> {
        let mut rest = records;
        let mut ended = false;
        while !rest.is_empty() && !ended {
            self.tls.read_tls(&mut rest).map_err(failed)?;
            let state = self.tls.process_new_packets();
            let state = state.map_err(|error| {
                crate::limited!(debug, "TLS failed", %error, "TLS failed");
                DisconnectReason::Tls(reason(&error))
            })?;
            let begin = plain.len();
            plain.resize(begin + state.plaintext_bytes_to_read(), 0);
            // As many as were announced.
            self.tls
                .reader()
                .read_exact(&mut plain[begin..])
                .map_err(failed)?;
            ended = state.peer_has_closed();
        }
        Ok(ended)
    }
}

fn failed(error: io::Error) -> DisconnectReason {
    DisconnectReason::Failed(error.kind())
}

fn reason(error: &rustls::Error) -> &'static str {
    match error {
        rustls::Error::InvalidCertificate(_) => "the server's certificate is not trusted",
        rustls::Error::AlertReceived(_) => "refused by the server",
        rustls::Error::InvalidMessage(_) => "the server does not speak TLS",
        _ => "the server broke the protocol",
    }
}
