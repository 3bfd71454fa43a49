//! File or standard output of the audit log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::config::{AuditError, AuditTarget};

/// Only the owner reads a new file: it names users and what they read.
const MODE: u32 = 0o600;

#[derive(Debug)]
pub(crate) struct AuditSink {
    /// `None` for standard output.
    path: Option<PathBuf>,
    file: File,
}

impl AuditSink {
    pub(crate) fn open(target: &AuditTarget) -> Result<Self, AuditError> {
        match target {
            AuditTarget::Stdout => {
                let stdout = io::stdout().as_fd().try_clone_to_owned();
                let file = stdout.map_err(AuditError::Thread)?.into();
                Ok(Self { path: None, file })
            }
            AuditTarget::File(path) => {
                let path = path.clone();
                match append_to(&path) {
                    Ok(file) => Ok(Self {
                        path: Some(path),
                        file,
                    }),
                    Err(error) => Err(AuditError::Open { path, error }),
                }
            }
        }
    }

    /// Opens the file again. After an error the current file stays in use.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        if let Some(path) = &self.path {
            self.file = append_to(path)?;
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.write_all(lines)
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(MODE).open(path)
}
