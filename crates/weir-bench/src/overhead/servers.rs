//! Proxies and relays between clients and broker, started for the run or already running.

use std::fs;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use weir_lab::{SecondListener, ports};
use weir_stats::compare::aa_variants;

use super::super::BenchError;
use super::super::child::{ProcessRole, RoleProcess};
use super::plan::{OverheadPlan, ProxyPath};
use crate::experiment::RunContext;
use crate::processes::READY_TIMEOUT;

/// Path to the broker that is ready.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) name: String,
    /// Bootstrap server for the clients.
    pub(super) address: String,
    /// Processes of the proxy; empty for the direct path and for external proxies on other
    /// machines.
    pub(super) pids: Vec<u32>,
    /// `true` if there is a proxy between client and broker.
    pub(super) is_proxy: bool,
    process: Option<RoleProcess>,
}

impl Server {
    /// Returns a path without a known process.
    pub(super) fn at(name: &str, address: &str) -> Self {
        Self {
            name: name.to_owned(),
            address: address.to_owned(),
            pids: Vec::new(),
            is_proxy: true,
            process: None,
        }
    }

    /// Returns the path without a proxy.
    pub(super) fn direct(address: &str) -> Self {
        Self {
            is_proxy: false,
            ..Self::at(ProxyPath::Direct.name(), address)
        }
    }

    /// Returns the same server as the second subject of an A/A test.
    fn again(&self) -> Self {
        let [_, name] = aa_variants(Some(&self.name));
        Self {
            pids: self.pids.clone(),
            is_proxy: self.is_proxy,
            ..Self::at(&name, &self.address)
        }
    }

    /// Returns the last line of its log if the process was started here and has exited.
    pub(super) fn exit_reason(&mut self) -> Option<String> {
        let process = self.process.as_mut()?;
        process.exit_status()?;
        Some(process.log_tail())
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
    let free = free.map_err(|source| BenchError::Spawn("relay", source))?;
    Ok(SecondListener {
        port: free[0],
        advertised_port: free[1],
    })
}

/// Parameters for starting servers.
pub(super) struct Starter<'a> {
    pub(super) run: RunContext<'a>,
    /// Ports of the relay; `None` if the broker was not started for the run and so cannot advertise
    /// the relay's address.
    pub(super) relay: Option<SecondListener>,
}

impl Starter<'_> {
    /// Starts all subjects. Returns them and notes about those that are not available.
    pub(super) fn start_all(
        &self,
        plan: &OverheadPlan,
    ) -> Result<(Vec<Server>, Vec<String>), BenchError> {
        let (mut servers, mut notes) = (Vec::new(), Vec::new());
        for &subject in &plan.subjects {
            match self.start(subject)? {
                Some(server) => servers.push(server),
                None => notes.push(format!(
                    "{} skipped: only a broker started for the run can advertise its address",
                    subject.name()
                )),
            }
            if let ([server], true) = (servers.as_slice(), plan.aa_test) {
                let again = server.again();
                servers.push(again);
                break;
            }
        }
        for (name, address) in &plan.external_proxies {
            let server = external_proxy(name, address);
            if server.pids.is_empty() {
                notes.push(format!(
                    "{name} at {address}: its process is not on this machine, cost not measured"
                ));
            }
            servers.push(server);
        }
        Ok((servers, notes))
    }

    /// Starts the server of a subject; `Ok(None)` if a relay is not possible.
    fn start(&self, subject: ProxyPath) -> Result<Option<Server>, BenchError> {
        let name = subject.name();
        match subject {
            ProxyPath::Direct => Ok(Some(Server::direct(&self.run.broker.bootstrap))),
            ProxyPath::Relay => self.relay.map(|relay| self.relay(relay)).transpose(),
            ProxyPath::PassThrough => self.proxy(name, "").map(Some),
            ProxyPath::LowerCase => self.proxy(name, LOWER_CASE).map(Some),
        }
    }

    fn relay(&self, relay: SecondListener) -> Result<Server, BenchError> {
        let address = format!("127.0.0.1:{}", relay.advertised_port);
        let upstream = format!("127.0.0.1:{}", relay.port);
        let args = format!("load relay --listen {address} --upstream {upstream}");
        let args: Vec<&str> = args.split(' ').collect();
        self.spawn(ProxyPath::Relay.name(), &args, || {
            let to: SocketAddr = address.parse().ok()?;
            TcpStream::connect_timeout(&to, POLL_INTERVAL).ok()?;
            Some(address.clone())
        })
    }

    fn proxy(&self, name: &str, filters: &str) -> Result<Server, BenchError> {
        let dir = self.run.run_dir.subdir(name)?;
        let (config, ready) = (dir.join("proxy.toml"), dir.join("ready.json"));
        let text = format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n\n[[cluster]]\nname = \"bench\"\n\
             upstream = {:?}\nlisten = \"127.0.0.1:0\"\n{filters}",
            self.run.broker.bootstrap
        );
        fs::write(&config, text).map_err(|error| BenchError::file(&config, error))?;
        let (config, ready_file) = (config.display().to_string(), ready.display().to_string());
        let files = ["--config", &config, "--ready-file", &ready_file];
        let args: Vec<&str> = ["proxy", "run"].into_iter().chain(files).collect();
        self.spawn(name, &args, || read_ready(&ready))
    }

    /// Starts a process and waits until `ready` returns its address.
    fn spawn(
        &self,
        name: &str,
        args: &[&str],
        ready: impl Fn() -> Option<String>,
    ) -> Result<Server, BenchError> {
        let run_dir = self.run.run_dir;
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let (exe, dir) = (&run_dir.options.exe, run_dir.subdir(name)?);
        let process = RoleProcess::plain(exe, &args, ProcessRole::Proxy, &dir)?;
        let mut server = Server {
            pids: process.pid().into_iter().collect(),
            process: Some(process),
            ..Server::at(name, "")
        };
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            if let Some(address) = ready() {
                server.address = address;
                return Ok(server);
            }
            let is_late = Instant::now() >= deadline || run_dir.is_stopped();
            let late = is_late.then(|| format!("{name} was not ready in time"));
            if let Some(reason) = server.exit_reason().or(late) {
                return Err(BenchError::Exited("proxy", reason));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Returns a proxy that is already running. Its process is found by its port.
fn external_proxy(name: &str, address: &str) -> Server {
    let port = address.rsplit_once(':');
    let port = port.and_then(|(_, port)| port.parse().ok());
    let is_loopback = |mut all: std::vec::IntoIter<SocketAddr>| all.any(|it| it.ip().is_loopback());
    let is_here = address.to_socket_addrs().is_ok_and(is_loopback);
    let owner = port.filter(|_| is_here).and_then(ports::owner);
    Server {
        pids: owner.map(|owner| owner.pid).into_iter().collect(),
        ..Server::at(name, address)
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
const END_GRACE: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
