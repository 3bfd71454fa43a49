//! `weir proxy user`: changes the file with the users of a proxy.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use weir_sasl::random::random_bytes;
use weir_sasl::users::{
    Credential, ITERATIONS_DEFAULT, ITERATIONS_MAX, ITERATIONS_MIN, SALT_BYTES, UserFile,
    check_name,
};
use weir_security::{ScramHash, Secret};

use crate::exit::{Exit, Failure};

/// Longest password, in bytes.
const PASSWORD_BYTES_MAX: u64 = 1_024;
/// Only the owner reads a new file: passwords can be guessed with its keys.
const MODE: u32 = 0o600;

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user, or change the password of one
    ///
    /// The password is the first line of standard input or of a file, so that lists of processes do
    /// not show it. The file of users stores only salted keys.
    Set(UserSetArgs),
    /// Remove a user
    Remove(UserRemoveArgs),
    /// List the users with their mechanisms
    List(UserListArgs),
}

#[derive(Debug, Args)]
pub(crate) struct UserSetArgs {
    /// User name
    name: String,
    /// File of users; created if it does not exist
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// File with the password, instead of the standard input
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Mechanism, both if absent; PLAIN uses the entries of either
    #[arg(long, value_name = "NAME")]
    mechanism: Option<ScramMechanism>,
    /// Iterations of the derivation of keys
    #[arg(long, value_name = "N", default_value_t = ITERATIONS_DEFAULT,
        value_parser = clap::value_parser!(u32)
            .range(i64::from(ITERATIONS_MIN)..=i64::from(ITERATIONS_MAX)))]
    iterations: u32,
}

#[derive(Debug, Args)]
pub(crate) struct UserRemoveArgs {
    /// User name
    name: String,
    /// File of users
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct UserListArgs {
    /// File of users
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScramMechanism {
    #[value(name = "SCRAM-SHA-256")]
    Sha256,
    #[value(name = "SCRAM-SHA-512")]
    Sha512,
}

pub(super) fn run(command: &UserCommand) -> Result<Exit, Failure> {
    match command {
        UserCommand::Set(args) => set(args),
        UserCommand::Remove(args) => remove(args),
        UserCommand::List(args) => list(&args.file),
    }
}

fn set(args: &UserSetArgs) -> Result<Exit, Failure> {
    check_name(&args.name).map_err(usage)?;
    let mut users = match args.file.exists() {
        true => read(&args.file)?,
        false => UserFile::default(),
    };
    let password = password(args.password_file.as_deref())?;
    let hashes = match args.mechanism {
        Some(ScramMechanism::Sha256) => vec![ScramHash::Sha256],
        Some(ScramMechanism::Sha512) => vec![ScramHash::Sha512],
        None => vec![ScramHash::Sha256, ScramHash::Sha512],
    };
    for hash in hashes {
        let salt = random_bytes::<SALT_BYTES>().map_err(usage)?.to_vec();
        let credential = Credential::derive(hash, &password, salt, args.iterations);
        users.set(&args.name, hash, &credential).map_err(usage)?;
    }
    write(&args.file, &users)
}

fn remove(args: &UserRemoveArgs) -> Result<Exit, Failure> {
    let mut users = read(&args.file)?;
    if !users.remove(&args.name) {
        let (file, name) = (args.file.display(), &args.name);
        return Err(usage(format!("{file} has no user \"{name}\"")));
    }
    write(&args.file, &users)
}

fn list(file: &Path) -> Result<Exit, Failure> {
    for (name, mechanism, iterations) in read(file)?.entries() {
        println!("{name} {mechanism} iterations={iterations}");
    }
    Ok(Exit::Success)
}

fn read(path: &Path) -> Result<UserFile, Failure> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| named(path, &error))?;
    text.parse()
        .map_err(|error| usage(format!("{}, {error}", path.display())))
}

/// Replaces the file at once, so that a proxy never reads a part of it.
fn write(path: &Path, users: &UserFile) -> Result<Exit, Failure> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let written = replace(&new, path, users.to_string().as_bytes());
    if let Err(error) = written {
        let _ = std::fs::remove_file(&new);
        return Err(named(path, &error));
    }
    Ok(Exit::Success)
}

fn replace(new: &Path, path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(MODE).open(new)?;
    if let Ok(old) = std::fs::metadata(path) {
        let mode = old.permissions().mode();
        file.set_permissions(PermissionsExt::from_mode(mode))?;
    }
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(new, path)
}

/// Reads the first line of a file or of the standard input.
fn password(file: Option<&Path>) -> Result<Secret, Failure> {
    let text = match file {
        Some(path) => {
            let file = File::open(path).map_err(|error| named(path, &error))?;
            limited(file).map_err(|error| named(path, &error))?
        }
        None if io::stdin().is_terminal() => {
            let reason = "the password is read from the standard input, which is a terminal here: \
                          use a pipe, or --password-file FILE";
            return Err(usage(reason));
        }
        None => limited(io::stdin()).map_err(|error| usage(format!("password: {error}")))?,
    };
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() || text.len() as u64 > PASSWORD_BYTES_MAX || line.contains('\0') {
        let reason = format!("password: use 1 to {PASSWORD_BYTES_MAX} bytes without a NUL");
        return Err(usage(reason));
    }
    Ok(Secret::new(line))
}

fn limited(source: impl Read) -> io::Result<String> {
    let mut text = String::new();
    source
        .take(PASSWORD_BYTES_MAX + 1)
        .read_to_string(&mut text)?;
    Ok(text)
}

fn named(path: &Path, error: &io::Error) -> Failure {
    usage(format!("{}: {error}", path.display()))
}

fn usage(reason: impl std::fmt::Display) -> Failure {
    Failure::usage(reason.to_string())
}
