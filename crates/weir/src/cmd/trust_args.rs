//! Arguments for the trust in a server's certificate (wss://).

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use weir_load::clients::TlsTrust;

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// PEM file with trusted CA certificates, for wss://
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Skip the verification of server certificates (wss://); for measurements only
    #[arg(long)]
    insecure: bool,
}

impl TrustArgs {
    /// Reads the file.
    pub(crate) fn read(&self) -> anyhow::Result<TlsTrust> {
        match &self.ca {
            Some(path) => {
                let pem = std::fs::read_to_string(path);
                let name = path.display();
                let pem = pem.with_context(|| format!("--ca \"{name}\": cannot read file"))?;
                Ok(TlsTrust::CertificateAuthorities(pem))
            }
            None if self.insecure => Ok(TlsTrust::AnyCertificate),
            None => Ok(TlsTrust::Unset),
        }
    }
}
