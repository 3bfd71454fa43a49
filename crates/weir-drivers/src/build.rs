//! Builds known drivers: writes their sources into the per-user cache and builds them there with
//! the package tool of their language. The name of a cache entry has a hash of its contents.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::error::DriverError;
use super::known::{BuildSystem, BuiltInDriver, known, unknown};
use super::program::DriverProgram;
use super::sources::{SourceFile, hash};
use weir_lab::cache;
use weir_lab::error::LabError;
use weir_lab::host_tools;
use weir_lab::maven;
use weir_lab::operation::Operation;
use weir_lab::sdk::npm::{self, Packages};
use weir_lab::sdk::python::VenvSpec;

impl DriverProgram {
    /// Returns a known driver, which is built into the per-user cache if needed.
    ///
    /// # Errors
    /// The name is unknown, a toolchain is missing, there is no network, or `stop` was set.
    pub fn known(
        name: &str,
        progress: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<Self, DriverError> {
        let operation = &mut Operation { progress, stop };
        let driver = known(name).ok_or_else(|| unknown(name));
        driver
            .and_then(|known| build(known, operation))
            .map_err(|error| DriverError::not_built(name, error))
    }
}

fn build(
    known: &'static BuiltInDriver,
    operation: &mut Operation<'_>,
) -> Result<DriverProgram, LabError> {
    let mut site = DriverBuild { known, operation };
    match known.build_system {
        BuildSystem::Maven => site.maven(),
        BuildSystem::Go => site.go(),
        BuildSystem::Python => site.python(),
        BuildSystem::Node { package } => site.node(package),
        BuildSystem::DotNet { argument } => site.dotnet(argument),
    }
}

struct DriverBuild<'a, 'b> {
    known: &'static BuiltInDriver,
    operation: &'a mut Operation<'b>,
}

impl DriverBuild<'_, '_> {
    fn maven(&mut self) -> Result<DriverProgram, LabError> {
        let java = host_tools::java(&self.purpose())?;
        let dir = self.entry(|site, dir| {
            let maven = site.tool("mvn", "install Maven (Debian, Ubuntu: apt install maven)")?;
            let mut command = Command::new(maven);
            command.args(["-q", "-B", "-Dstyle.color=never", "package"]);
            site.run(command, dir, "target/driver.jar", |output| {
                maven::relevant_line(output).to_owned()
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
        let venv = VenvSpec {
            name: format!("venv-{}-{}", self.known.name, hash([requirements])),
            what: format!("{} (driver {})", self.known.library, self.known.name),
            requirements: requirements.text,
        };
        let (_, python) = venv.find(self.operation)?;
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
            package,
        };
        let name = format!("npm-{}-{}", self.known.name, hash([json, lock]));
        let what = format!("{} (driver {})", self.known.library, self.known.name);
        let modules = cache::entry(&name, BUILD_BYTES, self.operation, |dir, operation| {
            npm::install(&packages, &what, dir, operation)
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

    /// Returns the cache entry with the sources and the output of `build`.
    fn entry(
        &mut self,
        build: impl FnOnce(&mut DriverBuild<'_, '_>, &Path) -> Result<(), LabError>,
    ) -> Result<PathBuf, LabError> {
        let known = self.known;
        let name = format!("driver-{}-{}", known.name, hash(known.sources));
        cache::entry(&name, BUILD_BYTES, self.operation, |dir, operation| {
            known
                .sources
                .iter()
                .try_for_each(|source| write(dir, source))?;
            build(&mut DriverBuild { known, operation }, dir)
        })
    }

    /// Runs a build command in `dir`, which must create `product`.
    fn run(
        &mut self,
        mut command: Command,
        dir: &Path,
        product: &str,
        error_line: impl Fn(&str) -> String,
    ) -> Result<(), LabError> {
        (self.operation.progress)(&format!("building driver {} (once)", self.known.name));
        command.current_dir(dir);
        let (status, output) = host_tools::run(&mut command, "building a driver", self.operation)?;
        if status.success() && dir.join(product).is_file() {
            return Ok(());
        }
        Err(LabError::Build {
            what: format!("driver {}", self.known.name),
            detail: error_line(&output),
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

    /// Returns a source file that the build system needs.
    fn source(&self, path: &str) -> &'static SourceFile {
        let found = self.known.sources.iter().find(|source| source.path == path);
        // Invariant: a test checks all of these paths.
        found.unwrap_or(&SourceFile { path: "", text: "" })
    }
}

fn write(dir: &Path, source: &SourceFile) -> Result<(), LabError> {
    let path = dir.join(source.path);
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(&path, source.text))
        .map_err(|error| LabError::file(&path, error))
}

/// Returns the first line of the Go tool's output that is neither a heading nor progress.
fn go_error_line(output: &str) -> String {
    let lines = output.lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let line = lines.find(|line| !line.starts_with("go: downloading"));
    line.unwrap_or("no output of the Go tool").to_owned()
}

/// Returns the first error line, without the project name at its end.
fn dotnet_error_line(output: &str) -> String {
    let error = output.lines().find(|line| line.contains("error"));
    let line = error.or_else(|| output.lines().find(|line| !line.trim().is_empty()));
    let line = line.unwrap_or("no output of dotnet").trim();
    line.split(" [").next().unwrap_or(line).to_owned()
}

const JAVA_MAIN: &str = "weir.driver.Main";
/// Fixed heap size, as in the comparison that Weir's follows; memory is used only when touched.
const JAVA_FLAGS: [&str; 3] = ["-Xms4g", "-Xmx4g", "-XX:-UsePerfData"];
const BUILD_BYTES: u64 = 200 << 20;

#[cfg(test)]
mod tests {
    use super::super::known::KNOWN;
    use super::*;

    #[test]
    fn build_systems_have_their_source_files() {
        for known in KNOWN {
            let needed: &[&str] = match known.build_system {
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
    fn build_errors_are_a_single_line() {
        let output = "go: downloading x v1\n# weir/driver\n./main.go:3:1: undefined: y\n";
        assert_eq!(go_error_line(output), "./main.go:3:1: undefined: y");
        let output = "  Determining projects\n/x/A.cs(3,1): error CS1: no [/x/driver.csproj]\n";
        assert_eq!(dotnet_error_line(output), "/x/A.cs(3,1): error CS1: no");
    }
}
