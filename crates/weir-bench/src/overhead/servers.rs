//! Proxies and relays between clients and broker, started for the run or already running.

use std::fs;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use weir_lab::{SecondListener, ports};

use super::super::BenchError;
use super::super::child::{ProcessRole, RoleProcess};
use super::plan::{OverheadPlan, ProxyPath};

/// Path to the broker that is ready.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) name: String,
    /// Bootstrap server for the clients.
    pub(super) address: String,
    /// Processes of the proxy; empty for the direct path and for external proxies on other
    /// machines.
    pub(super) pids: Vec<u32>,
    process: Option<RoleProcess>,
}

impl Server {
    /// Returns a path without a known process.
    pub(super) fn at(name: &str, address: &str) -> Self {
        Self {
            name: name.to_owned(),
            address: address.to_owned(),
            pids: Vec::new(),
            process: None,
        }
    }

    /// Returns the last line of its log if the process was started here and has exited.
    pub(super) fn exit_reason(&mut self) -> Option<String> {
        let process = self.process.as_mut()?;
        process.exit_status()?;
        Some(process.log_tail())
    }

    /// Returns `true` if there is a proxy between client and broker.
    pub(super) fn is_proxy(&self) -> bool {
        self.name != ProxyPath::Direct.name()
    }

    pub(super) fn end(self) {
        if let Some(process) = self.process {
            process.end(END_GRACE);
        }
    }
}

/// Returns free ports for the broker's second listener and the relay in front of it.
pub(super) fn relay_ports() -> Result<SecondListener, BenchError> {
    let free = ports::free_ports([127, 0, 0, 1].into(), 2);
    let free = free.map_err(|source| BenchError::Spawn {
        role: "relay",
        source,
    })?;
    Ok(SecondListener {
        port: free[0],
        advertised_port: free[1],
    })
}

/// Parameters for starting servers.
pub(super) struct Starter<'a> {
    pub(super) plan: &'a OverheadPlan,
    pub(super) exe: &'a Path,
    /// Run directory.
    pub(super) dir: &'a Path,
    /// Bootstrap servers of the broker.
    pub(super) bootstrap: &'a str,
    /// Ports of the relay; `None` if the broker was not started for the run and so cannot advertise
    /// the relay's address.
    pub(super) relay: Option<SecondListener>,
    pub(super) stop: &'a AtomicBool,
}

impl Starter<'_> {
    /// Starts the server of a subject; `Ok(None)` if a relay is not possible.
    pub(super) fn start(&self, subject: ProxyPath) -> Result<Option<Server>, BenchError> {
        let name = subject.name();
        match subject {
            ProxyPath::Direct => Ok(Some(Server::at(name, self.bootstrap))),
            ProxyPath::Relay => self.relay.map(|relay| self.relay(relay)).transpose(),
            ProxyPath::PassThrough => self.proxy(name, "").map(Some),
            ProxyPath::LowerCase => self.proxy(name, LOWER_CASE).map(Some),
        }
    }

    /// Returns a proxy that is already running. Its process is found by its port.
    pub(super) fn external_proxy(&self, name: &str, address: &str) -> Server {
        let port = address
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse().ok());
        let is_here = address
            .to_socket_addrs()
            .is_ok_and(|mut all| all.any(|it| it.ip().is_loopback()));
        let owner = port.filter(|_| is_here).and_then(ports::owner);
        Server {
            pids: owner.map(|owner| owner.pid).into_iter().collect(),
            ..Server::at(name, address)
        }
    }

    fn relay(&self, relay: SecondListener) -> Result<Server, BenchError> {
        let name = ProxyPath::Relay.name();
        let address = format!("127.0.0.1:{}", relay.advertised_port);
        let args = [
            "load",
            "relay",
            "--listen",
            &address,
            "--upstream",
            &format!("127.0.0.1:{}", relay.port),
        ];
        let process = self.process(name, &args.map(str::to_owned))?;
        let mut server = Server {
            name: name.to_owned(),
            pids: vec![process.pid()],
            process: Some(process),
            address: address.clone(),
        };
        self.wait(&mut server, || {
            let address: Option<SocketAddr> = address.parse().ok();
            let connected = address.map(|it| TcpStream::connect_timeout(&it, POLL_INTERVAL));
            connected.is_some_and(|it| it.is_ok())
        })?;
        Ok(server)
    }

    fn proxy(&self, name: &str, filters: &str) -> Result<Server, BenchError> {
        let dir = self.server_dir(name)?;
        let (config, ready) = (dir.join("proxy.toml"), dir.join("ready.json"));
        let text = format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n\n[[cluster]]\nname = \"bench\"\n\
             upstream = {:?}\nlisten = \"127.0.0.1:0\"\n{filters}",
            self.bootstrap
        );
        fs::write(&config, text).map_err(|error| BenchError::file(&config, error))?;
        let args = [
            "proxy".to_owned(),
            "run".to_owned(),
            "--config".to_owned(),
            config.display().to_string(),
            "--ready-file".to_owned(),
            ready.display().to_string(),
        ];
        let process = self.process(name, &args)?;
        let mut server = Server {
            name: name.to_owned(),
            pids: vec![process.pid()],
            process: Some(process),
            address: String::new(),
        };
        self.wait(&mut server, || read_ready(&ready).is_some())?;
        server.address = read_ready(&ready).unwrap_or_default();
        Ok(server)
    }

    fn process(&self, name: &str, args: &[String]) -> Result<RoleProcess, BenchError> {
        let dir = self.server_dir(name)?;
        RoleProcess::plain(self.exe, args, ProcessRole::Proxy, &dir)
    }

    fn server_dir(&self, name: &str) -> Result<PathBuf, BenchError> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir).map_err(|error| BenchError::file(&dir, error))?;
        Ok(dir)
    }

    fn wait(&self, server: &mut Server, is_ready: impl Fn() -> bool) -> Result<(), BenchError> {
        let deadline = Instant::now() + READY_TIMEOUT;
        let exited = |reason| BenchError::Exited {
            role: "proxy",
            reason,
        };
        while !is_ready() {
            if let Some(reason) = server.exit_reason() {
                return Err(exited(reason));
            }
            if Instant::now() >= deadline || self.stop.load(Ordering::Relaxed) {
                return Err(exited(format!("{} was not ready in time", server.name)));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

fn read_ready(path: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct ReadyFile {
        listen: String,
    }
    let ready: ReadyFile = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    Some(ready.listen)
}

const LOWER_CASE: &str = "\n[[cluster.filter]]\ntype = \"lower-case\"\n";
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const END_GRACE: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
