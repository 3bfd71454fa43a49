//! Programs of the lab in Java: they write key stores and serve tokens.
//!
//! Their sources are part of this crate. The compiler of the JDK translates them once per version
//! of Java, into the cache.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cache;
use crate::error::{LabError, Result};
use crate::host_tools;
use crate::operation::Operation;

/// The compiled programs and the `java` that runs them.
#[derive(Debug, Clone)]
pub(crate) struct JavaPrograms {
    java: PathBuf,
    classes: PathBuf,
}

impl JavaPrograms {
    /// Finds the compiled programs, or compiles them.
    pub(crate) fn find(java: &Path, operation: &mut Operation<'_>) -> Result<Self> {
        let version = host_tools::java_version_found().unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        (SOURCES, version).hash(&mut hasher);
        let name = format!("lab-java-{:016x}", hasher.finish());
        let build = |dir: &Path, op: &mut Operation<'_>| compile(java, dir, op);
        let classes = cache::entry(&name, CLASSES_BYTES, operation, build)?;
        let java = java.to_owned();
        Ok(Self { java, classes })
    }

    /// Returns the command of a program, with a small heap.
    pub(crate) fn command(&self, class: &str) -> Vec<String> {
        let mut command = vec![self.java.display().to_string()];
        command.extend(JVM.map(str::to_owned));
        command.extend(["-cp".to_owned(), self.classes.display().to_string()]);
        command.push(class.to_owned());
        command
    }

    /// Runs a program to its end, with `input` as its standard input.
    pub(crate) fn run(
        &self,
        class: &str,
        input: &str,
        doing: &'static str,
        operation: &Operation<'_>,
    ) -> Result<()> {
        operation.proceed(doing)?;
        let failed = |error: io::Error| LabError::io(doing, error);
        let arguments = self.command(class);
        let mut child = Command::new(&arguments[0])
            .args(&arguments[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        // The program reads everything before it ends or fails; what it did not read is reported.
        let written = child
            .stdin
            .take()
            .map(|mut to| to.write_all(input.as_bytes()));
        let output = child.wait_with_output().map_err(failed)?;
        if output.status.success() {
            return written.map_or(Ok(()), |written| written.map_err(failed));
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let line = errors.lines().next().unwrap_or("no output").to_owned();
        Err(failed(io::Error::other(line)))
    }
}

fn compile(java: &Path, dir: &Path, operation: &mut Operation<'_>) -> Result<()> {
    let failed = |error: io::Error| LabError::io("compile the lab's Java programs", error);
    // `java` is often a link into the JDK.
    let real = fs::canonicalize(java).map_err(failed)?;
    let javac = real.with_file_name("javac");
    if !host_tools::is_program(&javac) {
        return Err(LabError::MissingTool {
            tool: "javac",
            looked: format!(" ({})", javac.display()),
            purpose: "to compile the lab's programs for certificates and tokens".to_owned(),
            remedy: host_tools::JAVA_REMEDY,
        });
    }
    let mut command = Command::new(javac);
    command.args(["-encoding", "UTF-8", "-d"]).arg(dir);
    for (name, source) in SOURCES {
        let file = dir.join(name);
        fs::write(&file, source).map_err(failed)?;
        command.arg(file);
    }
    let doing = "compiling the lab's Java programs";
    let (status, output) = host_tools::run(&mut command, doing, operation)?;
    match status.success() {
        true => Ok(()),
        false => Err(LabError::Build {
            what: "the lab's Java programs".to_owned(),
            detail: output.lines().next().unwrap_or("no output").to_owned(),
        }),
    }
}

const SOURCES: [(&str, &str); 2] = [
    ("Stores.java", include_str!("java/Stores.java")),
    ("Tokens.java", include_str!("java/Tokens.java")),
];
/// Short start and little memory.
const JVM: [&str; 4] = [
    "-Xmx64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
];
const CLASSES_BYTES: u64 = 1 << 20;
