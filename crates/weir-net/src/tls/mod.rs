//! TLS configurations of servers and clients, with certificates and keys from PEM. The event loops
//! move the bytes.

mod client;
mod error;
mod expiry;
mod file_watcher;
mod files;
mod server;

pub use client::ClientTls;
pub use error::TlsError;
pub use file_watcher::FileWatcher;
pub use files::{ClientFiles, ServerFiles, TlsFiles, TlsFilesError};
pub use server::{TlsAcceptor, TlsIdentity};

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// Returns the cryptography provider of all configurations; there is no process-wide default.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
