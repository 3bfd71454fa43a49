//! Gateways that the plan does not configure: those that run already, and those of other makers.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use weir_engine::gateways::{CellValues, ExternalGateway};
use weir_lab::ports;

use super::super::child::{ProcessRole, RoleProcess};
use super::super::observer::Observer;
use super::super::processes::READY_TIMEOUT;
use super::RunningCell;
use crate::error::BenchError;
use crate::experiment::turns::{CellFailure, CellResult};

impl RunningCell<'_> {
    /// Starts a gateway, or finds a running one, and returns the URL for its clients.
    pub(super) fn start_external(
        &mut self,
        gateway: &ExternalGateway,
        observer: &mut dyn Observer,
    ) -> CellResult<String> {
        let (dir, topic) = (self.processes.dir.clone(), self.topic.clone());
        let values = CellValues {
            bootstrap: &self.context.run.broker.bootstrap,
            topic: &topic,
            port: match gateway.is_started() {
                true => ports::free_port().map_err(|error| BenchError::file(&dir, error))?,
                false => 0,
            },
            dir: &dir,
        };
        let url = gateway.url_for(values);
        let pid = match gateway.command_for(values) {
            Some((program, args)) => {
                gateway
                    .write_files(values)
                    .map_err(|(path, error)| BenchError::file(&path, error))?;
                self.start_program(&program, &args, &url, observer)?
            }
            None => {
                let address = ExternalGateway::address(&url);
                let here = address.filter(|address| address.ip().is_loopback());
                here.and_then(|address| ports::owner(address.port()))
                    .map(|owner| owner.pid)
            }
        };
        match pid {
            Some(pid) => {
                self.processes.usage.watch(ProcessRole::Gateway, &[pid]);
                let now_unix_ns = self.processes.now_unix_ns();
                self.processes
                    .usage
                    .ready(ProcessRole::Gateway, now_unix_ns);
            }
            None => {
                let note = "the gateway runs elsewhere: its CPU and memory were not measured";
                self.notes.push(note.to_owned());
            }
        }
        Ok(url)
    }

    /// Starts a program, and waits until it accepts connections. Returns its process.
    fn start_program(
        &mut self,
        program: &Path,
        args: &[String],
        url: &str,
        observer: &mut dyn Observer,
    ) -> CellResult<Option<u32>> {
        let role = ProcessRole::Gateway;
        let process = RoleProcess::plain(program, args, role, &self.processes.dir)?;
        let pid = process.pid();
        self.processes.running.push(process);
        let address = ExternalGateway::address(url);
        let no_address = || CellFailure::because(format!("no address for \"{url}\""));
        let address = address.ok_or_else(no_address)?;
        let accepts = |address: SocketAddr| TcpStream::connect(address).is_ok();
        let what = "the gateway to accept connections";
        self.wait(what, READY_TIMEOUT, observer, |_| accepts(address))?;
        Ok(pid)
    }
}
