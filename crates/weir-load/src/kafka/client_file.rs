//! Files with the client properties of a cluster, for child processes: readable only by the owner,
//! in a private directory, deleted at the end.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::properties::ClientProperties;

/// A private directory with a properties file. Dropping it deletes the directory.
#[derive(Debug)]
pub struct ClientFile {
    dir: PathBuf,
    path: PathBuf,
}

impl ClientFile {
    /// Writes the properties of a cluster into a new private directory.
    ///
    /// # Errors
    /// The directory for temporary files is not writable.
    pub fn write(properties: &ClientProperties, bootstrap_servers: &str) -> io::Result<Self> {
        let dir = private_dir()?;
        let file = Self {
            path: dir.join("client.properties"),
            dir,
        };
        file.add(
            "client.properties",
            properties.to_text(bootstrap_servers).as_bytes(),
        )?;
        Ok(file)
    }

    /// Returns the path of the properties file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes another file into the directory and returns its path.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn add(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.dir.join(name);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(content)?;
        Ok(path)
    }
}

impl Drop for ClientFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            let dir = self.dir.display();
            tracing::warn!(%dir, %error, "client properties not deleted");
        }
    }
}

fn private_dir() -> io::Result<PathBuf> {
    for _ in 0..ATTEMPTS {
        let name = format!("weir-kafka-{:016x}", rand::random::<u64>());
        let dir = std::env::temp_dir().join(name);
        match DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

const ATTEMPTS: u32 = 16;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn files_are_private_and_deleted_with_the_directory() {
        let file = ClientFile::write(&ClientProperties::default(), "h:1").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (path, dir) = (file.path().to_owned(), file.dir.clone());
        assert_eq!((mode(&path), mode(&dir)), (0o600, 0o700));
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "bootstrap.servers=h\\:1\n"
        );
        let other = file.add("other.json", b"{}").unwrap();
        assert_eq!(mode(&other), 0o600);
        assert!(file.add("other.json", b"{}").is_err());
        drop(file);
        assert!(!dir.exists());
    }
}
