//! Users with salted keys, as a text of lines `NAME:MECHANISM:salt=…,stored_key=…,server_key=…,
//! iterations=…`. The last part is the form in which Kafka stores SCRAM credentials.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;
use weir_security::{ScramHash, Secret};

use crate::scram::Algorithms;

/// Iterations of new credentials. Kafka's tools use 4,096 to 16,384.
pub const ITERATIONS_DEFAULT: u32 = 8_192;
/// Kafka's clients reject fewer.
pub const ITERATIONS_MIN: u32 = 4_096;
/// At most a tenth of a second of CPU time per check of a password.
pub const ITERATIONS_MAX: u32 = 200_000;
/// Longest user name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes of a new salt, and of those of unknown users.
pub const SALT_BYTES: usize = 24;
/// Users of one file.
const USERS_MAX: usize = 1_000_000;
const SALT_BYTES_MAX: usize = 1_024;

const HASHES: [ScramHash; 2] = [ScramHash::Sha256, ScramHash::Sha512];

/// Salted keys of one user and hash.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    pub(crate) salt: Vec<u8>,
    pub(crate) stored_key: Vec<u8>,
    pub(crate) server_key: Vec<u8>,
    pub(crate) iterations: u32,
}

/// Users of a file. Unknown users get credentials that no password fits, so that their logins take
/// the same steps.
pub struct Users {
    by_name: HashMap<Box<str>, [Option<Arc<Credential>>; 2]>,
    /// Key of the salts of unknown users.
    decoy_key: hmac::Key,
    decoy_iterations: [u32; 2],
}

/// Line that cannot be used. The message contains no key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {reason}")]
pub struct UsersError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Cause.
    pub reason: UserLineError,
}

/// Reason why a line or a name cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum UserLineError {
    #[error("write NAME:MECHANISM:salt=...,stored_key=...,server_key=...,iterations=...")]
    Syntax,
    #[error(
        "invalid user name: use 1 to {NAME_BYTES_MAX} bytes without colons, control characters, \
         spaces at either end, and without # at the start"
    )]
    Name,
    #[error("unknown mechanism: use SCRAM-SHA-256 or SCRAM-SHA-512")]
    Mechanism,
    #[error("{0} is missing or invalid")]
    Part(&'static str),
    #[error("iterations must be {ITERATIONS_MIN} to {ITERATIONS_MAX}")]
    Iterations,
    #[error("the user has two entries of this mechanism")]
    Duplicate,
    #[error("more than {USERS_MAX} users")]
    Count,
}

impl Credential {
    /// Derives the keys of a password. Takes milliseconds.
    pub fn derive(hash: ScramHash, password: &Secret, salt: Vec<u8>, iterations: u32) -> Self {
        let algorithms = Algorithms::from(hash);
        let keys = algorithms.derive(password.reveal().as_bytes(), &salt, iterations);
        Self {
            salt,
            stored_key: keys.stored,
            server_key: keys.server,
            iterations,
        }
    }

    fn parse(text: &str, hash: ScramHash) -> Result<Self, UserLineError> {
        let part = |name: &'static str| {
            let mut parts = text.split(',').map(str::trim);
            let found = parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            found.ok_or(UserLineError::Part(name))
        };
        let bytes = |name: &'static str| {
            let decoded = STANDARD.decode(part(name)?).ok();
            decoded.ok_or(UserLineError::Part(name))
        };
        let key_bytes = Algorithms::from(hash).key_bytes();
        let key = |name| {
            let key = bytes(name).ok().filter(|key| key.len() == key_bytes);
            key.ok_or(UserLineError::Part(name))
        };
        let salt = bytes("salt")?;
        if salt.is_empty() || salt.len() > SALT_BYTES_MAX {
            return Err(UserLineError::Part("salt"));
        }
        let iterations = part("iterations")?.parse().ok();
        let iterations = iterations.ok_or(UserLineError::Part("iterations"))?;
        if !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
            return Err(UserLineError::Iterations);
        }
        Ok(Self {
            salt,
            stored_key: key("stored_key")?,
            server_key: key("server_key")?,
            iterations,
        })
    }

    /// Returns `true` if the password has these keys. Takes milliseconds.
    fn fits(&self, hash: ScramHash, password: &Secret) -> bool {
        let derived = Self::derive(hash, password, self.salt.clone(), self.iterations);
        verify_slices_are_equal(&derived.stored_key, &self.stored_key).is_ok()
    }
}

impl fmt::Display for Credential {
    /// Writes the form that Kafka stores. It is a secret: keys can be attacked with guesses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] =
            [&self.salt, &self.stored_key, &self.server_key].map(|bytes| STANDARD.encode(bytes));
        let iterations = self.iterations;
        write!(
            f,
            "salt={salt},stored_key={stored},server_key={server},iterations={iterations}"
        )
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential(***, {} iterations)", self.iterations)
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.by_name.len())
    }
}

impl Users {
    /// Reads the lines of a file. `decoy_secret` must be random, the same for all proxies of a
    /// cluster, or new for each process.
    pub fn parse(text: &str, decoy_secret: &[u8]) -> Result<Self, UsersError> {
        let mut by_name: HashMap<Box<str>, [Option<Arc<Credential>>; 2]> = HashMap::new();
        let mut decoy_iterations = [None; 2];
        for (number, line) in text.lines().enumerate() {
            let wrong = |reason| UsersError {
                line: number + 1,
                reason,
            };
            let Some(entry) = UserLine::parse(line).transpose() else {
                continue;
            };
            let entry = entry.map_err(wrong)?;
            let at = place(entry.hash);
            decoy_iterations[at].get_or_insert(entry.credential.iterations);
            if by_name.len() >= USERS_MAX {
                return Err(wrong(UserLineError::Count));
            }
            let slot = &mut by_name.entry(entry.name.into()).or_default()[at];
            if slot.is_some() {
                return Err(wrong(UserLineError::Duplicate));
            }
            *slot = Some(Arc::new(entry.credential));
        }
        Ok(Self {
            by_name,
            decoy_key: hmac::Key::new(hmac::HMAC_SHA512, decoy_secret),
            decoy_iterations: decoy_iterations.map(|known| known.unwrap_or(ITERATIONS_DEFAULT)),
        })
    }

    /// Returns the number of users.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns `true` if there are no users.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns `true` if there is a user of this name, with a credential for `hash` if that is
    /// given.
    pub fn contains(&self, name: &str, hash: Option<ScramHash>) -> bool {
        let known = self.by_name.get(name);
        known.is_some_and(|both| hash.is_none_or(|hash| both[place(hash)].is_some()))
    }

    /// Returns the credential of a user, or one that no password fits.
    pub(crate) fn credential(&self, name: &str, hash: ScramHash) -> Arc<Credential> {
        let known = self.by_name.get(name);
        let known = known.and_then(|both| both[place(hash)].as_ref());
        known.map_or_else(|| Arc::new(self.decoy(name, hash)), Arc::clone)
    }

    fn decoy(&self, name: &str, hash: ScramHash) -> Credential {
        let text = |what: &str| format!("{what} {} {name}", hash.mechanism());
        let bytes = |what| hmac::sign(&self.decoy_key, text(what).as_bytes());
        let key_bytes = Algorithms::from(hash).key_bytes();
        let key = |what| bytes(what).as_ref()[..key_bytes].to_vec();
        Credential {
            salt: bytes("salt").as_ref()[..SALT_BYTES].to_vec(),
            stored_key: key("stored"),
            server_key: key("server"),
            iterations: self.decoy_iterations[place(hash)],
        }
    }

    /// Returns the hash of the stored key with which a password is compared, for a cache. It
    /// changes with the user's password.
    pub(crate) fn password_key(&self, name: &str) -> Option<&[u8]> {
        let [short, long] = self.by_name.get(name)?;
        let credential = long.as_ref().or(short.as_ref())?;
        Some(&credential.stored_key)
    }

    /// Returns `true` if the user exists and has this password. Takes milliseconds for unknown
    /// users as well.
    pub fn has_password(&self, name: &str, password: &Secret) -> bool {
        let known = self.by_name.get(name);
        let stronger = HASHES.iter().rev().copied();
        let found = known.and_then(|both| {
            let mut entries = stronger.filter_map(|hash| Some((hash, both[place(hash)].as_ref()?)));
            entries.next()
        });
        match found {
            Some((hash, credential)) => credential.fits(hash, password),
            None => {
                let hash = match self.decoy_iterations[1] {
                    ITERATIONS_DEFAULT => ScramHash::Sha256,
                    _ => ScramHash::Sha512,
                };
                let _ = self.decoy(name, hash).fits(hash, password);
                false
            }
        }
    }
}

fn place(hash: ScramHash) -> usize {
    match hash {
        ScramHash::Sha256 => 0,
        ScramHash::Sha512 => 1,
    }
}

/// Entry of a file.
struct UserLine<'a> {
    name: &'a str,
    hash: ScramHash,
    credential: Credential,
}

impl<'a> UserLine<'a> {
    /// Returns `None` for an empty line or comment.
    fn parse(line: &'a str) -> Result<Option<Self>, UserLineError> {
        if line.trim().is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let (name, rest) = line.split_once(':').ok_or(UserLineError::Syntax)?;
        let (mechanism, credential) = rest.split_once(':').ok_or(UserLineError::Syntax)?;
        check_name(name)?;
        let hash = hash_of(mechanism).ok_or(UserLineError::Mechanism)?;
        Ok(Some(Self {
            name,
            hash,
            credential: Credential::parse(credential.trim_end(), hash)?,
        }))
    }
}

/// Returns the hash of a mechanism's name.
pub(crate) fn hash_of(mechanism: &str) -> Option<ScramHash> {
    HASHES
        .into_iter()
        .find(|hash| hash.mechanism() == mechanism)
}

/// Returns an error if no line can have this user name.
pub fn check_name(name: &str) -> Result<(), UserLineError> {
    let is_valid = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name == name.trim()
        && !name.starts_with('#')
        && !name.chars().any(|c| c == ':' || c.is_control());
    is_valid.then_some(()).ok_or(UserLineError::Name)
}

/// Text of a file whose users are changed. Comments and other users stay.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UserFile {
    lines: Vec<String>,
}

impl fmt::Debug for UserFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserFile({} lines)", self.lines.len())
    }
}

impl FromStr for UserFile {
    type Err = UsersError;

    fn from_str(text: &str) -> Result<Self, UsersError> {
        Users::parse(text, b"")?;
        let lines = text.lines().map(str::to_owned).collect();
        Ok(Self { lines })
    }
}

impl fmt::Display for UserFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl UserFile {
    /// Sets the credential of a user for one mechanism.
    pub fn set(
        &mut self,
        name: &str,
        hash: ScramHash,
        credential: &Credential,
    ) -> Result<(), UserLineError> {
        check_name(name)?;
        let line = format!("{name}:{}:{credential}", hash.mechanism());
        let is_same = |line: &&mut String| key_of(line) == Some((name, hash.mechanism()));
        match self.lines.iter_mut().find(is_same) {
            Some(old) => *old = line,
            None => self.lines.push(line),
        }
        Ok(())
    }

    /// Removes all entries of a user. Returns `false` if there are none.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.lines.len();
        let is_other = |line: &String| key_of(line).is_none_or(|(other, _)| other != name);
        self.lines.retain(is_other);
        self.lines.len() < before
    }

    /// Returns user, mechanism and iterations of each entry.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &'static str, u32)> {
        let entries = self
            .lines
            .iter()
            .filter_map(|line| UserLine::parse(line).ok()?);
        entries.map(|entry| {
            let iterations = entry.credential.iterations;
            (entry.name, entry.hash.mechanism(), iterations)
        })
    }
}

/// Returns user and mechanism of a line.
fn key_of(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once(':').filter(|_| !line.starts_with('#'))?;
    Some((name, rest.split_once(':')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// From `kafka-configs.sh --alter --add-config 'SCRAM-SHA-256=[iterations=4096,…]'`, computed
    /// with the salt and password of RFC 7677.
    const PENCIL: &str = "user:SCRAM-SHA-256:salt=W22ZaJ0SNY7soEsUEjb6gQ==,\
        stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,\
        server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096";

    fn users(text: &str) -> Users {
        Users::parse(text, b"secret").expect("valid")
    }

    fn secret(text: &str) -> Secret {
        Secret::new(text)
    }

    #[test]
    fn keys_of_rfc_7677_are_derived() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("valid");
        let derived = Credential::derive(ScramHash::Sha256, &secret("pencil"), salt, 4096);
        let line = format!("user:SCRAM-SHA-256:{derived}");
        assert_eq!(line, PENCIL);
    }

    #[test]
    fn password_is_checked_with_the_stronger_entry() {
        let both = users(PENCIL);
        assert!(both.has_password("user", &secret("pencil")));
        assert!(!both.has_password("user", &secret("pencil2")));
        assert!(!both.has_password("other", &secret("pencil")));
        let salt = vec![1; SALT_BYTES];
        let strong = Credential::derive(ScramHash::Sha512, &secret("pen"), salt, 4096);
        let mut file: UserFile = PENCIL.parse().expect("valid");
        file.set("user", ScramHash::Sha512, &strong).expect("valid");
        let both = users(&file.to_string());
        assert!(both.has_password("user", &secret("pen")));
        assert!(!both.has_password("user", &secret("pencil")));
    }

    #[test]
    fn unknown_users_have_stable_credentials() {
        let one = users(PENCIL);
        let hash = ScramHash::Sha256;
        let [anna, again, bob] = ["anna", "anna", "bob"].map(|name| one.credential(name, hash));
        assert!(anna == again && anna.salt != bob.salt);
        assert_eq!((anna.iterations, anna.salt.len()), (4096, SALT_BYTES));
        let other = Users::parse(PENCIL, b"other secret").expect("valid");
        assert!(other.credential("anna", hash).salt != anna.salt);
        let long = one.credential("anna", ScramHash::Sha512);
        assert_eq!(
            (long.iterations, long.stored_key.len()),
            (ITERATIONS_DEFAULT, 64)
        );
    }

    #[test]
    fn invalid_lines_are_named() {
        let reason = |text: &str| Users::parse(text, b"").expect_err("invalid");
        let wrong = |line, reason| UsersError { line, reason };
        assert_eq!(reason("# a\n\nx"), wrong(3, UserLineError::Syntax));
        assert_eq!(reason("a:SCRAM"), wrong(1, UserLineError::Syntax));
        assert_eq!(reason("a:PLAIN:x"), wrong(1, UserLineError::Mechanism));
        assert_eq!(reason(":SCRAM-SHA-256:x"), wrong(1, UserLineError::Name));
        let twice = format!("{PENCIL}\n{PENCIL}");
        assert_eq!(reason(&twice), wrong(2, UserLineError::Duplicate));
        let few = PENCIL.replace("=4096", "=4095");
        assert_eq!(reason(&few), wrong(1, UserLineError::Iterations));
        let other = PENCIL.replace("SHA-256", "SHA-512");
        assert_eq!(reason(&other), wrong(1, UserLineError::Part("stored_key")));
        let text = reason(&PENCIL.replace("salt=", "salt=!")).to_string();
        assert_eq!(text, "line 1: salt is missing or invalid");
    }

    #[test]
    fn changed_files_keep_other_lines() {
        let mut file: UserFile = format!("# people\n{PENCIL}\n").parse().expect("valid");
        let hash = ScramHash::Sha256;
        let credential = Credential::derive(hash, &secret("x"), vec![7; 8], 5000);
        file.set("anna", hash, &credential).expect("valid");
        file.set("user", hash, &credential).expect("valid");
        let rows: Vec<_> = file.entries().collect();
        let mechanism = "SCRAM-SHA-256";
        assert_eq!(rows, [("user", mechanism, 5000), ("anna", mechanism, 5000)]);
        assert!(file.remove("user") && !file.remove("user"));
        assert!(
            file.to_string()
                .starts_with("# people\nanna:SCRAM-SHA-256:salt=")
        );
        assert!(file.set("a:b", hash, &credential).is_err());
    }

    #[test]
    fn debug_shows_no_keys() {
        let users = users(PENCIL);
        let credential = users.credential("user", ScramHash::Sha256);
        let file: UserFile = PENCIL.parse().expect("valid");
        let text = format!("{users:?} {credential:?} {file:?}");
        assert_eq!(
            text,
            "Users(1) Credential(***, 4096 iterations) UserFile(1 lines)"
        );
    }

    proptest! {
        #[test]
        fn random_text_never_panics(text in ".{0,100}", name in ".{0,20}") {
            crate::fuzz::users(text.as_bytes());
            let line = PENCIL.replacen("user", &name, 1);
            crate::fuzz::users(line.as_bytes());
            prop_assert_eq!(Users::parse(&line, b"").is_ok_and(|all| all.len() == 1),
                check_name(&name).is_ok());
        }
    }
}
