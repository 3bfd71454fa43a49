//! Security of the client listeners of a lab: modes, certificates, users, settings of clients.

mod authority;
mod broker;
mod client;
mod der;
mod files;
mod mode;
mod pem;

pub use authority::{Authority, CertificateRequest, CertificateUsage, IssuedCertificate};
pub(crate) use broker::{TOKEN_AUDIENCE, reload_arguments, scram_arguments, server_properties};
pub(crate) use client::{ClientAddresses, client_properties, properties_text};
pub use client::{ClientFault, ClientSettings, StoreFormat};
pub use files::{ClientCertificate, SecurityFiles, StorePaths};
pub use mode::LabSecurity;
