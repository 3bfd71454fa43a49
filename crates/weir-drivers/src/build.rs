//! Known drivers made ready to run: written into the per-user cache and built there, each with the
//! package tool of its language. What their entries hold is told by a hash in their names.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::program::{BuiltInDriver, DriverProgram};
use super::sources::{SourceFile, hash};
use weir_lab::cache;
use weir_lab::error::LabError;
use weir_lab::host_tools;
use weir_lab::maven;
use weir_lab::sdk::npm::{self, Packages};
use weir_lab::sdk::python::VenvSpec;

/// How a driver is built and run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BuildSystem {
    /// `target/driver.jar` with what it needs in `target/libs`.
    Maven,
    /// One program.
    Go,
    /// `driver.py` in a virtual environment with what `requirements.txt` names.
    Python,
    /// `driver.js` with what `package-lock.json` names.
    Node {
        /// The package that the others are there for.
        package: &'static str,
    },
    /// `out/driver.dll`, which drives either of two libraries.
    DotNet {
        /// Which one.
        argument: &'static str,
    },
}

/// Has a driver at hand.
pub(super) fn build(
    known: &'static BuiltInDriver,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<DriverProgram, LabError> {
    let mut site = DriverBuild {
        known,
        progress,
        stop,
    };
    match known.recipe {
        BuildSystem::Maven => site.maven(),
        BuildSystem::Go => site.go(),
        BuildSystem::Python => site.python(),
        BuildSystem::Node { package } => site.node(package),
        BuildSystem::DotNet { argument } => site.dotnet(argument),
    }
}

/// One driver that is being made ready.
struct DriverBuild<'a> {
    known: &'static BuiltInDriver,
    progress: &'a mut dyn FnMut(&str),
    stop: &'a AtomicBool,
}

impl DriverBuild<'_> {
    fn maven(&mut self) -> Result<DriverProgram, LabError> {
        let java = host_tools::java(&self.purpose())?;
        let dir = self.entry(|site, dir| {
            let maven = site.tool("mvn", "install Maven (Debian, Ubuntu: apt install maven)")?;
            let mut command = Command::new(maven);
            command.args(["-q", "-B", "-Dstyle.color=never", "package"]);
            site.run(command, dir, "target/driver.jar", |said| {
                maven::relevant_line(said).to_owned()
            })
        })?;
        let class_path = format!("{0}/driver.jar:{0}/libs/*", dir.join("target").display());
        let mut argv: Vec<OsString> = vec![java.into()];
        argv.extend(JAVA_FLAGS.map(OsString::from));
        argv.extend(["-cp".into(), class_path.into(), JAVA_MAIN.into()]);
        Ok(DriverProgram::new(self.known.name, argv))
    }

    fn go(&mut self) -> Result<DriverProgram, LabError> {
        let dir = self.entry(|site, dir| {
            let go = site.tool("go", "install Go 1.26 or newer from https://go.dev/dl")?;
            let mut command = Command::new(go);
            command.args(["build", "-trimpath", "-o", "driver", "."]);
            site.run(command, dir, "driver", go_error_line)
        })?;
        let argv = [dir.join("driver").into()];
        Ok(DriverProgram::new(self.known.name, argv))
    }

    fn python(&mut self) -> Result<DriverProgram, LabError> {
        let requirements = self.source("requirements.txt");
        let wanted = VenvSpec {
            name: format!("venv-{}-{}", self.known.name, hash(&[requirements])),
            what: format!("{} (driver {})", self.known.library, self.known.name),
            requirements: requirements.text,
        };
        let (_, python) = wanted.find(self.progress, self.stop)?;
        let dir = self.entry(|_, _| Ok(()))?;
        let argv = [python.into(), dir.join("driver.py").into()];
        Ok(DriverProgram::new(self.known.name, argv))
    }

    fn node(&mut self, package: &'static str) -> Result<DriverProgram, LabError> {
        let node = npm::node(&self.purpose())?;
        let (json, lock) = (
            self.source("package.json"),
            self.source("package-lock.json"),
        );
        let packages = Packages {
            json: json.text,
            lock: lock.text,
            wanted: package,
        };
        let name = format!("npm-{}-{}", self.known.name, hash(&[json, lock]));
        let what = format!("{} (driver {})", self.known.library, self.known.name);
        let stop = self.stop;
        let modules = cache::entry(&name, BUILD_BYTES, self.progress, stop, |dir, progress| {
            npm::install(&packages, &what, dir, progress, stop)
        })?;
        let dir = self.entry(|_, _| Ok(()))?;
        let argv = [node.into(), dir.join("driver.js").into()];
        let program = DriverProgram::new(self.known.name, argv);
        Ok(program.with("NODE_PATH", modules.join("node_modules").into()))
    }

    fn dotnet(&mut self, argument: &'static str) -> Result<DriverProgram, LabError> {
        let remedy = "install the .NET SDK from https://dot.net; this driver is untested";
        let dotnet = self.tool("dotnet", remedy)?;
        let dir = self.entry(|site, dir| {
            let mut command = Command::new(site.tool("dotnet", remedy)?);
            command.args(["publish", "--nologo", "-c", "Release", "-o", "out"]);
            site.run(command, dir, "out/driver.dll", dotnet_error_line)
        })?;
        let assembly = dir.join("out/driver.dll");
        let argv = [dotnet.into(), assembly.into(), argument.into()];
        Ok(DriverProgram::new(self.known.name, argv))
    }

    /// The entry with the sources, and with what `build` makes of them.
    fn entry(
        &mut self,
        build: impl FnOnce(&mut DriverBuild<'_>, &Path) -> Result<(), LabError>,
    ) -> Result<PathBuf, LabError> {
        let (known, stop) = (self.known, self.stop);
        let sources: Vec<&SourceFile> = known.sources.iter().collect();
        let name = format!("driver-{}-{}", known.name, hash(&sources));
        cache::entry(&name, BUILD_BYTES, self.progress, stop, |dir, progress| {
            sources.iter().try_for_each(|source| write(dir, source))?;
            let mut site = DriverBuild {
                known,
                progress,
                stop,
            };
            build(&mut site, dir)
        })
    }

    /// Builds in `dir`, after which `product` has to be there.
    fn run(
        &mut self,
        mut command: Command,
        dir: &Path,
        product: &str,
        trouble: impl Fn(&str) -> String,
    ) -> Result<(), LabError> {
        (self.progress)(&format!("building driver {} (once)", self.known.name));
        command.current_dir(dir);
        let (status, said) = host_tools::run(&mut command, "building a driver", self.stop)?;
        if status.success() && dir.join(product).is_file() {
            return Ok(());
        }
        Err(LabError::Build {
            what: format!("driver {}", self.known.name),
            detail: trouble(&said),
        })
    }

    fn tool(&self, tool: &'static str, remedy: &'static str) -> Result<PathBuf, LabError> {
        host_tools::find(tool).ok_or_else(|| LabError::MissingTool {
            tool,
            looked: " in PATH".to_owned(),
            purpose: self.purpose(),
            remedy,
        })
    }

    fn purpose(&self) -> String {
        format!("for driver {} ({})", self.known.name, self.known.library)
    }

    /// A file that the recipe needs.
    fn source(&self, path: &str) -> &'static SourceFile {
        let found = self.known.sources.iter().find(|source| source.path == path);
        // Invariant: a test looks for each of these.
        found.unwrap_or(&SourceFile { path: "", text: "" })
    }
}

fn write(dir: &Path, source: &SourceFile) -> Result<(), LabError> {
    let path = dir.join(source.path);
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(&path, source.text))
        .map_err(|error| LabError::file(&path, error))
}

/// What the Go tool says beside headings and progress.
fn go_error_line(said: &str) -> String {
    let lines = said.lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let line = lines.find(|line| !line.starts_with("go: downloading"));
    line.unwrap_or("the Go tool ended without a word")
        .to_owned()
}

/// The first error, without the project it is in.
fn dotnet_error_line(said: &str) -> String {
    let error = said.lines().find(|line| line.contains("error"));
    let line = error.or_else(|| said.lines().find(|line| !line.trim().is_empty()));
    let line = line.unwrap_or("dotnet ended without a word").trim();
    line.split(" [").next().unwrap_or(line).to_owned()
}

const JAVA_MAIN: &str = "weir.driver.Main";
/// A heap of a fixed size, as in the comparison that this one follows; it is touched only as needed.
const JAVA_FLAGS: [&str; 3] = ["-Xms4g", "-Xmx4g", "-XX:-UsePerfData"];
/// Room for a driver and what it needs.
const BUILD_BYTES: u64 = 200 << 20;

#[cfg(test)]
mod tests {
    use super::super::program::KNOWN;
    use super::*;

    #[test]
    fn recipes_find_the_files_they_need() {
        for known in KNOWN {
            let needed: &[&str] = match known.recipe {
                BuildSystem::Maven => &["pom.xml"],
                BuildSystem::Go => &["go.mod", "go.sum", "main.go"],
                BuildSystem::Python => &["requirements.txt", "driver.py", "weir_driver.py"],
                BuildSystem::Node { .. } => &["package.json", "package-lock.json", "driver.js"],
                BuildSystem::DotNet { .. } => &["driver.csproj"],
            };
            for path in needed {
                let found = known.sources.iter().any(|source| source.path == *path);
                assert!(found, "{}: no {path}", known.name);
            }
        }
    }

    #[test]
    fn trouble_is_one_line() {
        let said = "go: downloading x v1\n# weir/driver\n./main.go:3:1: undefined: y\n";
        assert_eq!(go_error_line(said), "./main.go:3:1: undefined: y");
        let said = "  Determining projects\n/x/A.cs(3,1): error CS1: no [/x/driver.csproj]\n";
        assert_eq!(dotnet_error_line(said), "/x/A.cs(3,1): error CS1: no");
    }
}
