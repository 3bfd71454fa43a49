//! Builds known drivers: writes their sources into the per-user cache and builds them there with
//! the package tool of their language. The name of a cache entry has a hash of its contents.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::error::DriverError;
use super::known::{BuildSystem, BundledDriver, known, unknown};
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
    known: &'static BundledDriver,
    operation: &mut Operation<'_>,
) -> Result<DriverProgram, LabError> {
    let mut site = DriverBuild { known, operation };
    match known.build_system {
        BuildSystem::Maven => site.maven(),
        BuildSystem::Go => site.go(),
        BuildSystem::Python => site.python(),
        BuildSystem::Node { package } => site.node(package),
        BuildSystem::DotNet {
            project,
            argument,
            needs_java,
        } => site.dotnet(project, argument, needs_java),
    }
}

struct DriverBuild<'a, 'b> {
    known: &'static BundledDriver,
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

    fn dotnet(
        &mut self,
        project: &'static str,
        argument: Option<&'static str>,
        needs_java: bool,
    ) -> Result<DriverProgram, LabError> {
        let remedy = "install the .NET SDK 10 or newer from https://dot.net";
        let dotnet = self.tool("dotnet", remedy)?;
        let java_home = match needs_java {
            true => Some(java_home(&host_tools::java(&self.purpose())?)?),
            false => None,
        };
        // Only packages of a known content are installed, where there is a list of them.
        let lock_file = format!("{project}/packages.lock.json");
        let is_locked = !self.source(&lock_file).text.is_empty();
        let name = format!("dotnet-{project}");
        let dir = self.entry_of(&name, DOTNET_BYTES, |site, dir| {
            let mut command = Command::new(site.tool("dotnet", remedy)?);
            command.args(["publish", "--nologo", "-c", "Release", "-o", "out"]);
            if is_locked {
                command.arg("-p:RestoreLockedMode=true");
            }
            command.arg("--use-current-runtime");
            // Build servers would stay for minutes, and use CPU time and memory during the run.
            command.arg("-p:UseSharedCompilation=false");
            command.env("MSBUILDDISABLENODEREUSE", "1");
            command.env("DOTNET_CLI_TELEMETRY_OPTOUT", "1");
            command.env("DOTNET_NOLOGO", "1");
            site.run(
                command,
                &dir.join(project),
                "out/driver.dll",
                dotnet_error_line,
            )
        })?;
        let assembly = dir.join(project).join("out/driver.dll");
        let mut argv: Vec<OsString> = vec![dotnet.into(), assembly.into()];
        argv.extend(argument.map(OsString::from));
        let program = DriverProgram::new(self.known.name, argv);
        Ok(match java_home {
            Some(home) => program.with("JAVA_HOME", home.into()),
            None => program,
        })
    }

    /// Returns the cache entry with the sources and the output of `build`.
    fn entry(
        &mut self,
        build: impl FnOnce(&mut DriverBuild<'_, '_>, &Path) -> Result<(), LabError>,
    ) -> Result<PathBuf, LabError> {
        self.entry_of(self.known.name, BUILD_BYTES, build)
    }

    /// Returns the cache entry of drivers that share their program, with its maximum size.
    fn entry_of(
        &mut self,
        name: &str,
        bytes_max: u64,
        build: impl FnOnce(&mut DriverBuild<'_, '_>, &Path) -> Result<(), LabError>,
    ) -> Result<PathBuf, LabError> {
        let known = self.known;
        let name = format!("driver-{name}-{}", hash(known.sources));
        cache::entry(&name, bytes_max, self.operation, |dir, operation| {
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

/// Returns the directory of a Java installation from the path of its `java`.
fn java_home(java: &Path) -> Result<PathBuf, LabError> {
    let resolved = fs::canonicalize(java).map_err(|error| LabError::file(java, error))?;
    let home = resolved.parent().and_then(Path::parent);
    Ok(home.map_or_else(PathBuf::new, Path::to_owned))
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
/// KNet's packages have all jar files of Kafka.
const DOTNET_BYTES: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::super::known::BUNDLED_DRIVERS;
    use super::*;

    #[test]
    fn build_systems_have_their_source_files() {
        for known in BUNDLED_DRIVERS {
            let needed: &[&str] = match known.build_system {
                BuildSystem::Maven => &["pom.xml"],
                BuildSystem::Go => &["go.mod", "go.sum", "main.go"],
                BuildSystem::Python => &["requirements.txt", "driver.py", "weir_driver.py"],
                BuildSystem::Node { .. } => &["package.json", "package-lock.json", "driver.js"],
                BuildSystem::DotNet { project, .. } => match project {
                    "confluent" => &["confluent/confluent.csproj", "confluent/packages.lock.json"],
                    _ => &["knet/knet.csproj", "driver/Program.cs"],
                },
            };
            for path in needed {
                let found = known.sources.iter().any(|source| source.path == *path);
                assert!(found, "{}: no {path}", known.name);
            }
        }
    }

    #[test]
    fn java_home_is_found_through_links() {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("jdk/bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("java"), "").unwrap();
        let link = dir.path().join("java");
        std::os::unix::fs::symlink(bin.join("java"), &link).unwrap();
        let expected = fs::canonicalize(dir.path().join("jdk")).unwrap();
        assert_eq!(java_home(&link).unwrap(), expected);
        assert!(java_home(&dir.path().join("missing")).is_err());
    }

    #[test]
    fn build_errors_are_a_single_line() {
        let output = "go: downloading x v1\n# weir/driver\n./main.go:3:1: undefined: y\n";
        assert_eq!(go_error_line(output), "./main.go:3:1: undefined: y");
        let output = "  Determining projects\n/x/A.cs(3,1): error CS1: no [/x/driver.csproj]\n";
        assert_eq!(dotnet_error_line(output), "/x/A.cs(3,1): error CS1: no");
    }
}
