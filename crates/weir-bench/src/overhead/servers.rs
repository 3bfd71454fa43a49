//! What stands between clients and broker: started for the run, or there already.

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

/// A way to the broker that is open.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) name: String,
    /// What clients get as bootstrap server.
    pub(super) address: String,
    /// Processes of the proxy; none for the direct way, and where a foreign one is elsewhere.
    pub(super) pids: Vec<u32>,
    process: Option<RoleProcess>,
}

impl Server {
    /// One that was not started here, and of whose process nothing is known.
    pub(super) fn at(name: &str, address: &str) -> Self {
        Self {
            name: name.to_owned(),
            address: address.to_owned(),
            pids: Vec::new(),
            process: None,
        }
    }

    /// The last line of its log, if it was started here and has ended.
    pub(super) fn ended(&mut self) -> Option<String> {
        let process = self.process.as_mut()?;
        process.ended()?;
        Some(process.last_words())
    }

    /// Whether anything stands between client and broker.
    pub(super) fn is_proxy(&self) -> bool {
        self.name != ProxyPath::Direct.name()
    }

    pub(super) fn end(self) {
        if let Some(process) = self.process {
            process.end(END_GRACE);
        }
    }
}

/// Where the broker's second listener and the relay before it are.
pub(super) fn relay_ports() -> Result<SecondListener, BenchError> {
    let free = ports::free_ports([127, 0, 0, 1].into(), 2);
    let free = free.map_err(|source| BenchError::Spawn {
        part: "relay",
        source,
    })?;
    Ok(SecondListener {
        port: free[0],
        advertised_port: free[1],
    })
}

/// What servers are started with.
pub(super) struct Starter<'a> {
    pub(super) plan: &'a OverheadPlan,
    pub(super) exe: &'a Path,
    /// The run folder.
    pub(super) dir: &'a Path,
    /// The broker itself.
    pub(super) bootstrap: &'a str,
    /// `None`: the broker is not ours, so nothing can make it send clients to a relay.
    pub(super) relay: Option<SecondListener>,
    pub(super) stop: &'a AtomicBool,
}

impl Starter<'_> {
    /// Starts one; `Ok(None)` with a relay that can not be.
    pub(super) fn start(&self, subject: ProxyPath) -> Result<Option<Server>, BenchError> {
        let name = subject.name();
        match subject {
            ProxyPath::Direct => Ok(Some(Server::at(name, self.bootstrap))),
            ProxyPath::Relay => self.relay.map(|relay| self.relay(relay)).transpose(),
            ProxyPath::PassThrough => self.proxy(name, "").map(Some),
            ProxyPath::LowerCase => self.proxy(name, LOWER_CASE).map(Some),
        }
    }

    /// One that is there already. Its process is looked for by its port.
    pub(super) fn foreign(&self, name: &str, address: &str) -> Server {
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
            let connected = address.map(|it| TcpStream::connect_timeout(&it, LOOK));
            connected.is_some_and(|it| it.is_ok())
        })?;
        Ok(server)
    }

    fn proxy(&self, name: &str, filters: &str) -> Result<Server, BenchError> {
        let dir = self.server_dir(name)?;
        let (config, ready) = (dir.join("proxy.toml"), dir.join("ready.json"));
        let text = format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n\n[[cluster]]\nname = \"bench\"\nupstream = {:?}\nlisten = \"127.0.0.1:0\"\n{filters}",
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

    fn wait(&self, server: &mut Server, is_there: impl Fn() -> bool) -> Result<(), BenchError> {
        let deadline = Instant::now() + READY_WITHIN;
        let ended = |reason| BenchError::Ended {
            part: "proxy",
            reason,
        };
        while !is_there() {
            if let Some(reason) = server.ended() {
                return Err(ended(reason));
            }
            if Instant::now() >= deadline || self.stop.load(Ordering::Relaxed) {
                return Err(ended(format!("{} was not ready in time", server.name)));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }
}

fn read_ready(path: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Ready {
        listen: String,
    }
    let ready: Ready = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    Some(ready.listen)
}

const LOWER_CASE: &str = "\n[[cluster.filter]]\ntype = \"lower-case\"\n";
const READY_WITHIN: Duration = Duration::from_secs(60);
const END_GRACE: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(20);
