//! Registered schemas in files, so that a program starts while the registry is down. A registered
//! schema never changes, so files have no expiry.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::id::RegistryId;
use super::response::RegisteredSchema;

/// Maximum size of a file.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Maximum length of the part of a file name that stands for the registry.
const URL_CHARS_MAX: usize = 100;

/// Directory of schemas of one registry.
#[derive(Debug, Clone)]
pub struct FileCache {
    directory: PathBuf,
    registry: String,
}

/// Content of a file. The registry is part of it because file names shorten its URL.
#[derive(Serialize, Deserialize)]
struct CachedFile {
    registry: String,
    id: String,
    schema: RegisteredSchema,
}

impl FileCache {
    /// Uses a directory, which is created if it is missing.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn open(directory: &Path, registry_url: &str) -> io::Result<Self> {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = registry_url
            .chars()
            .map(plain)
            .take(URL_CHARS_MAX)
            .collect();
        let directory = directory.join(name);
        fs::create_dir_all(&directory)?;
        Ok(Self {
            directory,
            registry: registry_url.to_owned(),
        })
    }

    /// Returns a stored schema. A damaged file counts as missing.
    pub(super) fn get(&self, id: &RegistryId) -> Option<RegisteredSchema> {
        let path = self.path(id);
        let file = File::open(&path).ok()?;
        let mut text = Vec::new();
        let read = file.take(FILE_BYTES_MAX).read_to_end(&mut text);
        let cached = read.ok().and_then(|_| serde_json::from_slice(&text).ok());
        let Some(cached): Option<CachedFile> = cached else {
            let path = path.display();
            tracing::warn!(%path, "schema file damaged, fetching the schema again");
            return None;
        };
        let is_same = cached.registry == self.registry && cached.id == id.to_string();
        is_same.then_some(cached.schema)
    }

    /// Stores a schema. The file is complete or missing, also after a crash.
    pub(super) fn put(&self, id: &RegistryId, schema: &RegisteredSchema) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let cached = CachedFile {
            registry: self.registry.clone(),
            id: id.to_string(),
            schema: schema.clone(),
        };
        let text = serde_json::to_vec(&cached)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = format!(".{}-{number}.tmp", std::process::id());
        let temporary = self.directory.join(temporary);
        let mut file = File::create(&temporary)?;
        let written = file.write_all(&text).and_then(|()| file.sync_all());
        let renamed = written.and_then(|()| fs::rename(&temporary, self.path(id)));
        if renamed.is_err() {
            // The first error is reported; a left-over file does no harm.
            let _ = fs::remove_file(&temporary);
        }
        renamed
    }

    /// Removes a schema that cannot be used.
    pub(super) fn remove(&self, id: &RegistryId) {
        // A file that stays is only read again.
        let _ = fs::remove_file(self.path(id));
    }

    /// Ids consist of letters, digits, `-` and `_`.
    fn path(&self, id: &RegistryId) -> PathBuf {
        let kind = match id {
            RegistryId::Number(_) => "id",
            RegistryId::Guid(_) => "guid",
            RegistryId::Name(_) => "name",
        };
        self.directory.join(format!("{kind}-{id}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(text: &str) -> RegisteredSchema {
        RegisteredSchema {
            kind: "AVRO".to_owned(),
            text: text.to_owned(),
            references: Vec::new(),
        }
    }

    #[test]
    fn schemas_survive_and_damaged_files_are_ignored() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = |url| FileCache::open(directory.path(), url).expect("a cache");
        let (cache, id) = (open("http://a:1"), RegistryId::Number(7));
        assert_eq!(cache.get(&id), None);
        cache.put(&id, &schema("\"int\"")).expect("stored");
        cache.put(&id, &schema("\"long\"")).expect("replaced");
        assert_eq!(open("http://a:1").get(&id), Some(schema("\"long\"")));
        assert_eq!(open("http://a:2").get(&id), None);
        assert_eq!(cache.get(&RegistryId::Name("7".into())), None);
        // The same file name, but another registry.
        assert_eq!(open("http://a/1").get(&id), None);
        let files = fs::read_dir(&cache.directory).expect("a directory");
        assert_eq!(files.count(), 1, "no temporary files stay");
        fs::write(cache.path(&id), b"{\"registry\"").expect("written");
        assert_eq!(cache.get(&id), None);
        cache.remove(&id);
        cache.remove(&id);
    }
}
