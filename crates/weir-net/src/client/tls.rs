//! TLS of an outgoing connection.

use std::io::{self, Read as _, Write as _};

use rustls::ClientConnection;

use super::disconnect_reason::DisconnectReason;

/// TLS session of one connection.
#[derive(Debug)]
pub(super) struct TlsSession {
    tls: ClientConnection,
}

impl TlsSession {
    pub(super) fn new(tls: ClientConnection) -> Box<Self> {
        Box::new(Self { tls })
    }

    /// Returns the records for `bytes`, with any protocol messages of TLS. During the handshake the
    /// session stores `bytes` until it is complete.
    pub(super) fn encrypt_records(&mut self, bytes: &[u8]) -> Result<Vec<u8>, DisconnectReason> {
        // After an error the session only has an alert to send.
        if !bytes.is_empty() && self.tls.writer().write(bytes).map_err(failed)? < bytes.len() {
            return Err(DisconnectReason::WriteQueueFull);
        }
        self.outgoing()
    }

    /// Returns the records to send now.
    pub(super) fn outgoing(&mut self) -> Result<Vec<u8>, DisconnectReason> {
        let mut out = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut out).map_err(failed)?;
        }
        Ok(out)
    }

    /// Decrypts received records and appends their plain text to `plain`. Returns `true` if the
    /// peer has sent close_notify.
    pub(super) fn decrypt_records(
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
                crate::limited!(debug, "TLS failed", %error, "TLS session failed");
                DisconnectReason::Tls(reason(&error))
            })?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            // Exactly as many bytes as announced.
            self.tls
                .reader()
                .read_exact(&mut plain[start..])
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
        rustls::Error::AlertReceived(_) => "alert received from the server",
        rustls::Error::InvalidMessage(_) => "the server does not use TLS",
        _ => "the server violated the protocol",
    }
}
