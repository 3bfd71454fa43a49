//! The coordinator: waits for its agents, assigns shares of the clients, and merges their reports.

use std::io::BufReader;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use super::agent_set::{AgentHandle, AgentSet};
use super::engine::{Children, Engine};
use super::error::AgentError;
use super::listener::{AgentListener, JoinAttempt, reject};
use super::wire::{self, CoordinatorMessage, FailedEvent, LINE_BYTES_MAX, read_line};
use crate::clients::{ClientProtocol, ClientShare, ClientsOptions};
use crate::clock::Clock;
use crate::delivery::DeliverySummary;
use crate::worker::CoordinatorChannel;
use crate::worker::protocol::{Summary, WorkerCommand, WorkerEvent, WorkerRole};

/// Options of a coordinator.
#[derive(Debug, Clone)]
pub struct CoordinatorOptions {
    /// Listen address for agents; loopback unless they run on other machines.
    pub listen: SocketAddr,
    /// Number of agents.
    pub agents: usize,
    /// Secret that agents must send.
    pub token: String,
    /// Way to start the agents.
    pub engine: Engine,
    /// Maximum wait for all agents to join.
    pub join_timeout: Duration,
}

/// Coordinator of one run.
#[derive(Debug)]
pub struct AgentCoordinator {
    options: CoordinatorOptions,
    listener: Option<AgentListener>,
    address: SocketAddr,
    agents: AgentSet,
    children: Children,
    clock: Clock,
    rejected: Vec<String>,
    /// Number of peers that sent no hello.
    without_hello: u64,
    /// Commands sent before all agents had joined, for the agents that join later.
    early: Vec<WorkerCommand>,
    is_ready_reported: bool,
    stopping: bool,
    next_progress: Instant,
}

/// Events from the coordinator's threads.
enum CoordinatorEvent {
    Join(JoinAttempt),
    Event(usize, WorkerEvent),
    Failed(usize, FailedEvent),
    Closed(usize, Option<String>),
}

impl From<JoinAttempt> for CoordinatorEvent {
    fn from(attempt: JoinAttempt) -> Self {
        Self::Join(attempt)
    }
}

impl AgentCoordinator {
    /// Listens for agents; none is started yet.
    ///
    /// # Errors
    /// [`AgentError::Listen`] if listening on the address fails.
    pub fn bind(options: CoordinatorOptions) -> Result<Self, AgentError> {
        let failed = |reason| AgentError::Listen {
            address: options.listen.to_string(),
            reason,
        };
        let listener = AgentListener::open(options.listen, &options.token).map_err(failed)?;
        let address = listener.address().map_err(failed)?;
        Ok(Self {
            options,
            listener: Some(listener),
            address,
            agents: AgentSet::default(),
            children: Children::default(),
            clock: Clock::start(),
            rejected: Vec::new(),
            without_hello: 0,
            early: Vec::new(),
            is_ready_reported: false,
            stopping: false,
            next_progress: Instant::now() + PROGRESS_TIMEOUT,
        })
    }

    /// Returns the address that agents connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Runs `clients` in shares, one per agent. Reports over `link` like a single worker with all
    /// clients, and forwards its commands.
    ///
    /// # Errors
    /// [`AgentError`] if an agent did not join, was lost or failed. The others are stopped, because
    /// a result with fewer clients would not be valid.
    pub fn run(
        mut self,
        clients: &ClientsOptions,
        link: &CoordinatorChannel,
    ) -> Result<DeliverySummary, AgentError> {
        link.events.hello(match clients.kind {
            ClientProtocol::Tlcp { .. } => WorkerRole::Clients,
            ClientProtocol::Floor => WorkerRole::FloorClients,
        });
        let (sender, events) = mpsc::sync_channel(EVENTS_QUEUED_MAX);
        let CoordinatorOptions {
            engine,
            agents,
            token,
            ..
        } = &self.options;
        self.children = Children::start(engine, *agents, self.address, token)?;
        let joined_by = Instant::now() + self.options.join_timeout;
        loop {
            self.handle_events(&events, &sender, clients, link)?;
            self.commands(link);
            self.check_agents(&sender, joined_by)?;
            self.report(link);
            if self.stopping && self.agents.handles.is_empty() {
                return Ok(DeliverySummary::default());
            }
            if let Some(summary) = self.agents.summary(self.options.agents) {
                return Ok(self.finish(summary, link));
            }
        }
    }

    /// Handles queued events; waits up to [`POLL_INTERVAL`] for the first one.
    fn handle_events(
        &mut self,
        events: &Receiver<CoordinatorEvent>,
        sender: &SyncSender<CoordinatorEvent>,
        clients: &ClientsOptions,
        link: &CoordinatorChannel,
    ) -> Result<(), AgentError> {
        // Cannot be disconnected: the caller has a sender.
        let mut next = events.recv_timeout(POLL_INTERVAL).ok();
        while let Some(event) = next {
            match event {
                CoordinatorEvent::Join(attempt) => self.on_join(attempt, clients, sender),
                CoordinatorEvent::Event(agent, event) => self.on_event(agent, event, link)?,
                CoordinatorEvent::Failed(agent, failed) => return Err(self.failure(agent, failed)),
                CoordinatorEvent::Closed(agent, reason) => self.on_closed(agent, reason)?,
            }
            next = events.try_recv().ok();
        }
        Ok(())
    }

    /// Gives an agent the next share. Rejected agents are stored for the error message.
    fn on_join(
        &mut self,
        attempt: JoinAttempt,
        clients: &ClientsOptions,
        sender: &SyncSender<CoordinatorEvent>,
    ) {
        let (stream, peer, hello, clock) = match attempt {
            JoinAttempt::Agent {
                stream,
                peer,
                hello,
                clock,
            } => (stream, peer, hello, clock),
            JoinAttempt::Rejected { peer, reason } => {
                tracing::warn!(%peer, reason, "rejected agent");
                if self.rejected.len() < REJECTED_STORED_MAX {
                    self.rejected.push(format!("{peer}: {reason}"));
                }
                return;
            }
            JoinAttempt::NoHello { peer, reason } => {
                self.without_hello += 1;
                // Logged once, because peers control how often this happens.
                if self.without_hello == 1 {
                    tracing::warn!(%peer, reason, "disconnected peer without hello");
                }
                return;
            }
        };
        let index = self.agents.handles.len();
        if index >= self.options.agents || self.stopping {
            return reject(stream, "the run already has all its agents");
        }
        let name = format!(
            "agent {} of {} (pid {}, {peer})",
            index + 1,
            self.options.agents,
            hello.pid
        );
        if clock.exceeds(CLOCK_DIFFERENCE_NS) {
            tracing::warn!(
                agent = name,
                ahead_ms = clock.ahead_ns as f64 / 1e6,
                "clock differs, latencies are wrong by the difference"
            );
        }
        match read_events(index, &stream, sender.clone()) {
            Ok(()) => {}
            Err(error) => tracing::warn!(agent = name, %error, "lost connection to agent"),
        }
        let mut handle = AgentHandle::new(name, hello.pid, stream);
        handle.send(&wire::line(&CoordinatorMessage::Clients {
            share: ClientShare {
                index,
                of: self.options.agents,
            },
            options: Box::new(clients.clone()),
        }));
        for command in &self.early {
            handle.send(&wire::line(command));
        }
        self.agents.handles.push(handle);
        if self.agents.handles.len() == self.options.agents {
            // All agents have joined.
            self.listener = None;
        }
    }

    fn on_event(
        &mut self,
        agent: usize,
        event: WorkerEvent,
        link: &CoordinatorChannel,
    ) -> Result<(), AgentError> {
        let handle = &mut self.agents.handles[agent];
        handle.last_event_at = Instant::now();
        match event {
            // Forwarded with the pid, so that the process can be sampled.
            WorkerEvent::Hello { .. } => link.events.send(&event),
            WorkerEvent::Ready { connections, .. } => handle.ready = Some(connections),
            WorkerEvent::Progress(progress) => self.agents.take_progress(agent, progress),
            WorkerEvent::Interval(interval) => {
                let taken = self.agents.take_interval(&interval);
                taken.map_err(|reason| self.lost(agent, reason))?;
                link.events.send(&WorkerEvent::Interval(interval));
            }
            WorkerEvent::Final {
                summary: Summary::Delivery(summary),
            } => handle.summary = Some(summary),
            WorkerEvent::Final { .. } => {
                return Err(self.lost(agent, "it sent another worker's summary".to_owned()));
            }
            // Ignored: reports of several processes cannot be merged.
            WorkerEvent::Report { .. } => {}
            // The agent closes the connection next, unless it can continue.
            WorkerEvent::Error { message } => tracing::warn!(agent = handle.name, message),
        }
        Ok(())
    }

    fn failure(&self, agent: usize, failed: FailedEvent) -> AgentError {
        let message = match failed.event {
            WorkerEvent::Error { message } => message,
            other => format!("{other:?}"),
        };
        AgentError::Failed {
            agent: self.agents.handles[agent].name.clone(),
            message,
            fault: failed.fault,
        }
    }

    fn on_closed(&mut self, agent: usize, reason: Option<String>) -> Result<(), AgentError> {
        let handle = &mut self.agents.handles[agent];
        handle.closed = true;
        if handle.summary.is_some() {
            return Ok(());
        }
        let reason = reason.unwrap_or_else(|| "its connection ended".to_owned());
        let reason = match self.children.status(handle.pid) {
            Some(status) => format!("{reason}, its process ended with {status}"),
            None => reason,
        };
        Err(self.lost(agent, reason))
    }

    fn lost(&self, agent: usize, reason: String) -> AgentError {
        AgentError::Lost {
            agent: self.agents.handles[agent].name.clone(),
            reason,
        }
    }

    /// Forwards commands to the agents.
    fn commands(&mut self, link: &CoordinatorChannel) {
        loop {
            match link.commands.try_recv() {
                Ok(WorkerCommand::Stop) => self.stop(),
                Ok(command) => {
                    self.agents.command(&command);
                    if self.listener.is_some() {
                        self.early.push(command);
                    }
                }
                Err(TryRecvError::Disconnected) => return self.stop(),
                Err(TryRecvError::Empty) => return,
            }
        }
    }

    fn stop(&mut self) {
        if !std::mem::replace(&mut self.stopping, true) {
            self.agents.command(&WorkerCommand::Stop);
        }
    }

    /// Detects agents that do not join or that stopped reporting.
    fn check_agents(
        &mut self,
        sender: &SyncSender<CoordinatorEvent>,
        joined_by: Instant,
    ) -> Result<(), AgentError> {
        let now = Instant::now();
        if let Some(listener) = &self.listener {
            listener.poll(sender);
            if let Some((pid, status)) = self.children.ended() {
                let joined = self.agents.handles.iter().any(|handle| handle.pid == pid);
                if !joined && !self.stopping {
                    let status = status.to_string();
                    return Err(AgentError::EndedEarly { pid, status });
                }
            }
            if now > joined_by {
                return Err(self.missing());
            }
        }
        let silent = self.agents.handles.iter().position(|handle| {
            handle.summary.is_none() && now.duration_since(handle.last_event_at) > SILENCE_MAX
        });
        match silent {
            Some(agent) => {
                let seconds = SILENCE_MAX.as_secs();
                Err(self.lost(agent, format!("no message for {seconds} s")))
            }
            None => Ok(()),
        }
    }

    fn missing(&self) -> AgentError {
        let mut rejected = self.rejected.clone();
        if self.without_hello > 0 {
            rejected.push(format!("{} peers without a hello", self.without_hello));
        }
        let rejected = match rejected.is_empty() {
            true => String::new(),
            false => format!(" (rejected: {})", rejected.join("; ")),
        };
        AgentError::Missing {
            joined: self.agents.handles.len(),
            required: self.options.agents,
            seconds: self.options.join_timeout.as_secs(),
            rejected,
            address: self.address.to_string(),
        }
    }

    /// Sends the merged progress, and ready once all agents are ready.
    fn report(&mut self, link: &CoordinatorChannel) {
        let now = Instant::now();
        if self.agents.all_fresh() || now >= self.next_progress {
            self.next_progress = now + PROGRESS_TIMEOUT;
            let progress = self.agents.progress(self.clock.now_unix_ns());
            link.events.send(&WorkerEvent::Progress(progress));
        }
        if self.is_ready_reported {
            return;
        }
        if let Some(connections) = self.agents.ready(self.options.agents) {
            self.is_ready_reported = true;
            link.events.send(&WorkerEvent::Ready {
                connections,
                port: None,
            });
        }
    }

    fn finish(mut self, summary: DeliverySummary, link: &CoordinatorChannel) -> DeliverySummary {
        let progress = self.agents.progress(self.clock.now_unix_ns());
        link.events.send(&WorkerEvent::Progress(progress));
        link.events.send(&WorkerEvent::Final {
            summary: Summary::Delivery(summary.clone()),
        });
        self.children.wait();
        summary
    }
}

/// Starts a thread that forwards the events of an agent until its connection ends.
fn read_events(
    agent: usize,
    stream: &TcpStream,
    sender: SyncSender<CoordinatorEvent>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let mut input = BufReader::new(stream.try_clone()?);
    thread::spawn(move || {
        let reason = loop {
            let event = match read_line(&mut input, LINE_BYTES_MAX) {
                Ok(Some(line)) => parse_event(agent, &line),
                Ok(None) => break None,
                Err(error) => break Some(error.to_string()),
            };
            match event {
                // The coordinator may have ended.
                Ok(event) => drop(sender.send(event)),
                Err(error) => break Some(format!("it sent an invalid event: {error}")),
            }
        };
        let _ = sender.send(CoordinatorEvent::Closed(agent, reason));
    });
    Ok(())
}

fn parse_event(agent: usize, line: &[u8]) -> std::io::Result<CoordinatorEvent> {
    let event: WorkerEvent = wire::parse(line)?;
    if let WorkerEvent::Error { .. } = event {
        if let Ok(failed) = wire::parse(line) {
            return Ok(CoordinatorEvent::Failed(agent, failed));
        }
    }
    Ok(CoordinatorEvent::Event(agent, event))
}

/// Size of the event queue; if it is full, agents wait. Each sends about one line per second.
const EVENTS_QUEUED_MAX: usize = 4096;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum wait for the progress of all agents; each sends one per second.
const PROGRESS_TIMEOUT: Duration = Duration::from_millis(1500);
/// Maximum time without an event of an agent; agents report every second.
const SILENCE_MAX: Duration = Duration::from_secs(20);
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
const REJECTED_STORED_MAX: usize = 8;
/// A tenth of the latencies in the published tests.
const CLOCK_DIFFERENCE_NS: u64 = 1_000_000;
