//! Libraries of other languages that sign tokens and write key sets.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::provider;
use crate::error::{LabError, Result};
use crate::host_tools;
use crate::operation::Operation;
use crate::sdk::python::VenvSpec;

/// Version of the PyPI package `PyJWT`.
pub const PYJWT_VERSION: &str = "2.15.0";

/// A library of another language and the program that signs with it.
#[derive(Debug)]
pub struct ForeignSigner {
    program: PathBuf,
    args: Vec<String>,
}

/// Returns the npm package `jose`, installed with npm if it is not cached.
pub fn jose(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<ForeignSigner> {
    let (program, modules) = provider::installed(&mut Operation { progress, stop })?;
    let args = ["--input-type=module", "-e", JOSE, "--"].map(str::to_owned);
    let mut args = args.to_vec();
    args.push(modules.display().to_string());
    Ok(ForeignSigner { program, args })
}

/// Returns the PyPI package `PyJWT`, installed with pip if it is not cached.
pub fn pyjwt(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<ForeignSigner> {
    let venv = VenvSpec {
        name: format!("pyjwt-{PYJWT_VERSION}"),
        what: format!("the token library PyJWT {PYJWT_VERSION} for Python"),
        requirements: REQUIREMENTS,
    };
    let (_, program) = venv.find(&mut Operation { progress, stop })?;
    let args = ["-c", PYJWT].map(str::to_owned).to_vec();
    Ok(ForeignSigner { program, args })
}

impl ForeignSigner {
    /// Signs a list of `{alg, claims}` with a new key each. Returns the JSON text
    /// `{"tokens": [...], "keys": [...]}`: for each request a token, and the public key as JWK, or
    /// the secret of HS256.
    pub fn sign(&self, requests: &str) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(&self.args).arg(requests);
        let stop = AtomicBool::new(false);
        let operation = Operation {
            progress: &mut |_| (),
            stop: &stop,
        };
        let (status, output) = host_tools::run(&mut command, "signing tokens", &operation)?;
        match status.success() {
            true => Ok(output),
            false => Err(LabError::BrokenTool(self.program.clone(), output)),
        }
    }
}

const JOSE: &str = include_str!("signers/jose.mjs");
const PYJWT: &str = include_str!("signers/sign.py");
const REQUIREMENTS: &str = "PyJWT==2.15.0\ncryptography==50.0.2\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_pin_the_version() {
        let first = format!("PyJWT=={PYJWT_VERSION}\n");
        assert!(REQUIREMENTS.starts_with(&first));
    }
}
