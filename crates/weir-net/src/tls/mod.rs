//! TLS of both ends: certificates and keys from PEM, what a server shows and what a client trusts.
//! Where the bytes go is the event loops' business.

mod client;
mod error;
mod expiry;
mod file_watcher;
mod server;

pub use client::ClientTls;
pub use error::TlsError;
pub use file_watcher::FileWatcher;
pub use server::{TlsAcceptor, TlsIdentity};

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// The cryptography of all configurations; nothing depends on a process-wide default.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
