//! The coordinator: waits for its agents, hands out shares, and merges what they report.

use std::io::BufReader;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use super::agent_set::{AgentHandle, AgentSet};
use super::engine::{Children, Engine};
use super::error::AgentError;
use super::listener::{AgentListener, Visitor, reject};
use super::wire::{self, CoordinatorMessage, FailedEvent, LINE_BYTES_MAX, read_line};
use crate::clients::{ClientProtocol, ClientShare, ClientsOptions};
use crate::clock::Clock;
use crate::delivery::DeliverySummary;
use crate::worker::CoordinatorChannel;
use crate::worker::protocol::{Summary, WorkerCommand, WorkerEvent, WorkerRole};

/// How the agents of a run come together.
#[derive(Debug, Clone)]
pub struct CoordinatorOptions {
    /// Where agents dial; loopback unless they are on other machines.
    pub listen: SocketAddr,
    /// How many there must be.
    pub agents: usize,
    /// What they must know.
    pub token: String,
    /// Who starts them.
    pub engine: Engine,
    /// How long to wait for all of them.
    pub join_timeout: Duration,
}

/// One run of several agents.
#[derive(Debug)]
pub struct AgentCoordinator {
    options: CoordinatorOptions,
    door: Option<AgentListener>,
    address: SocketAddr,
    crew: AgentSet,
    children: Children,
    clock: Clock,
    refused: Vec<String>,
    /// Peers that were no agents.
    foreign: u64,
    /// Commands from before all agents had come, for those who come later.
    early: Vec<WorkerCommand>,
    told_ready: bool,
    stopping: bool,
    next_progress: Instant,
}

/// What the threads of the coordinator tell its loop.
enum CoordinatorEvent {
    Visitor(Visitor),
    Event(usize, WorkerEvent),
    Failed(usize, FailedEvent),
    Closed(usize, Option<String>),
}

impl From<Visitor> for CoordinatorEvent {
    fn from(visitor: Visitor) -> Self {
        Self::Visitor(visitor)
    }
}

impl AgentCoordinator {
    /// Listens for agents; none is started yet.
    ///
    /// # Errors
    /// [`AgentError::Listen`] if the address cannot be had.
    pub fn bind(options: CoordinatorOptions) -> Result<Self, AgentError> {
        let refused = |reason| AgentError::Listen {
            address: options.listen.to_string(),
            reason,
        };
        let door = AgentListener::open(options.listen, &options.token).map_err(refused)?;
        let address = door.address().map_err(refused)?;
        Ok(Self {
            options,
            door: Some(door),
            address,
            crew: AgentSet::default(),
            children: Children::default(),
            clock: Clock::start(),
            refused: Vec::new(),
            foreign: 0,
            early: Vec::new(),
            told_ready: false,
            stopping: false,
            next_progress: Instant::now() + PROGRESS_WITHIN,
        })
    }

    /// Where agents dial.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Runs `clients` in shares, one per agent; reports over `link` as one worker does that has them
    /// all, and passes its commands on.
    ///
    /// # Errors
    /// [`AgentError`] if an agent did not come, was lost or failed. The others are stopped: a smaller
    /// load than asked for is no result.
    pub fn run(
        mut self,
        clients: &ClientsOptions,
        link: &CoordinatorChannel,
    ) -> Result<DeliverySummary, AgentError> {
        link.events.hello(match clients.kind {
            ClientProtocol::Tlcp { .. } => WorkerRole::Clients,
            ClientProtocol::Floor => WorkerRole::FloorClients,
        });
        let (sender, messages) = mpsc::sync_channel(MESSAGES_QUEUED_MAX);
        let CoordinatorOptions {
            engine,
            agents,
            token,
            ..
        } = &self.options;
        self.children = Children::start(engine, *agents, self.address, token)?;
        let joined_by = Instant::now() + self.options.join_timeout;
        loop {
            self.messages(&messages, &sender, clients, link)?;
            self.commands(link);
            self.look_around(&sender, joined_by)?;
            self.tell(link);
            if self.stopping && self.crew.members.is_empty() {
                return Ok(DeliverySummary::default());
            }
            if let Some(summary) = self.crew.summary(self.options.agents) {
                return Ok(self.finish(summary, link));
            }
        }
    }

    /// Takes what has come, waiting a little for the first.
    fn messages(
        &mut self,
        messages: &Receiver<CoordinatorEvent>,
        sender: &SyncSender<CoordinatorEvent>,
        clients: &ClientsOptions,
        link: &CoordinatorChannel,
    ) -> Result<(), AgentError> {
        // It cannot be closed: a sender is at hand.
        let mut next = messages.recv_timeout(TURN).ok();
        while let Some(message) = next {
            match message {
                CoordinatorEvent::Visitor(visitor) => self.visitor(visitor, clients, sender),
                CoordinatorEvent::Event(agent, event) => self.event(agent, event, link)?,
                CoordinatorEvent::Failed(agent, failed) => return Err(self.failed(agent, failed)),
                CoordinatorEvent::Closed(agent, reason) => self.closed(agent, reason)?,
            }
            next = messages.try_recv().ok();
        }
        Ok(())
    }

    /// An agent gets its share in the order of coming; anybody else is remembered for the error.
    fn visitor(
        &mut self,
        visitor: Visitor,
        clients: &ClientsOptions,
        sender: &SyncSender<CoordinatorEvent>,
    ) {
        let (stream, peer, hello, clock) = match visitor {
            Visitor::Agent {
                stream,
                peer,
                hello,
                clock,
            } => (stream, peer, hello, clock),
            Visitor::Refused { peer, reason } => {
                tracing::warn!(%peer, reason, "agent refused");
                if self.refused.len() < REJECTED_STORED_MAX {
                    self.refused.push(format!("{peer}: {reason}"));
                }
                return;
            }
            Visitor::Foreign { peer, reason } => {
                self.foreign += 1;
                // Once: peers decide how many there are.
                if self.foreign == 1 {
                    tracing::warn!(%peer, reason, "peer sent no hello, disconnected");
                }
                return;
            }
        };
        let index = self.crew.members.len();
        if index >= self.options.agents || self.stopping {
            return reject(stream, "the run has all its agents");
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
                "its clock differs: latencies are wrong by as much"
            );
        }
        match read_events(index, &stream, sender.clone()) {
            Ok(()) => {}
            Err(error) => tracing::warn!(agent = name, %error, "connection lost"),
        }
        let mut member = AgentHandle::new(name, hello.pid, stream);
        member.send(&wire::line(&CoordinatorMessage::Clients {
            share: ClientShare {
                index,
                of: self.options.agents,
            },
            options: Box::new(clients.clone()),
        }));
        for command in &self.early {
            member.send(&wire::line(command));
        }
        self.crew.members.push(member);
        if self.crew.members.len() == self.options.agents {
            // Nobody else is wanted.
            self.door = None;
        }
    }

    fn event(
        &mut self,
        agent: usize,
        event: WorkerEvent,
        link: &CoordinatorChannel,
    ) -> Result<(), AgentError> {
        let member = &mut self.crew.members[agent];
        member.heard = Instant::now();
        match event {
            // With its pid, so that whoever listens can watch the process.
            WorkerEvent::Hello { .. } => link.events.send(&event),
            WorkerEvent::Ready { connections, .. } => member.ready = Some(connections),
            WorkerEvent::Progress(progress) => self.crew.take_progress(agent, progress),
            WorkerEvent::Interval(interval) => {
                let taken = self.crew.take_interval(&interval);
                taken.map_err(|reason| self.lost(agent, reason))?;
                link.events.send(&WorkerEvent::Interval(interval));
            }
            WorkerEvent::Final {
                summary: Summary::Delivery(summary),
            } => member.summary = Some(summary),
            WorkerEvent::Final { .. } => {
                return Err(self.lost(agent, "it sent another worker's summary".to_owned()));
            }
            // Not asked for: one report cannot be made of several.
            WorkerEvent::Report { .. } => {}
            // Its end follows, unless it can go on.
            WorkerEvent::Error { message } => tracing::warn!(agent = member.name, message),
        }
        Ok(())
    }

    fn failed(&self, agent: usize, failed: FailedEvent) -> AgentError {
        let message = match failed.event {
            WorkerEvent::Error { message } => message,
            other => format!("{other:?}"),
        };
        AgentError::Failed {
            agent: self.crew.members[agent].name.clone(),
            message,
            fault: failed.fault,
        }
    }

    fn closed(&mut self, agent: usize, reason: Option<String>) -> Result<(), AgentError> {
        let member = &mut self.crew.members[agent];
        member.closed = true;
        if member.summary.is_some() {
            return Ok(());
        }
        let reason = reason.unwrap_or_else(|| "its connection ended".to_owned());
        let reason = match self.children.status(member.pid) {
            Some(status) => format!("{reason}, its process ended with {status}"),
            None => reason,
        };
        Err(self.lost(agent, reason))
    }

    fn lost(&self, agent: usize, reason: String) -> AgentError {
        AgentError::Lost {
            agent: self.crew.members[agent].name.clone(),
            reason,
        }
    }

    /// Passes on what whoever started the run wants.
    fn commands(&mut self, link: &CoordinatorChannel) {
        loop {
            match link.commands.try_recv() {
                Ok(WorkerCommand::Stop) => self.stop(),
                Ok(command) => {
                    self.crew.command(&command);
                    if self.door.is_some() {
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
            self.crew.command(&WorkerCommand::Stop);
        }
    }

    /// Agents that do not come, or are no longer heard of.
    fn look_around(
        &mut self,
        sender: &SyncSender<CoordinatorEvent>,
        joined_by: Instant,
    ) -> Result<(), AgentError> {
        let now = Instant::now();
        if let Some(door) = &self.door {
            door.look(sender);
            if let Some((pid, status)) = self.children.ended() {
                let known = self.crew.members.iter().any(|member| member.pid == pid);
                if !known && !self.stopping {
                    let status = status.to_string();
                    return Err(AgentError::Stillborn { pid, status });
                }
            }
            if now > joined_by {
                return Err(self.missing());
            }
        }
        let silent = self.crew.members.iter().position(|member| {
            member.summary.is_none() && now.duration_since(member.heard) > SILENCE_MAX
        });
        match silent {
            Some(agent) => {
                let seconds = SILENCE_MAX.as_secs();
                Err(self.lost(agent, format!("nothing was heard of it for {seconds} s")))
            }
            None => Ok(()),
        }
    }

    fn missing(&self) -> AgentError {
        let mut refused = self.refused.clone();
        if self.foreign > 0 {
            refused.push(format!("{} peers without a hello", self.foreign));
        }
        let refused = match refused.is_empty() {
            true => String::new(),
            false => format!(" (refused: {})", refused.join("; ")),
        };
        AgentError::Missing {
            joined: self.crew.members.len(),
            wanted: self.options.agents,
            seconds: self.options.join_timeout.as_secs(),
            refused,
            address: self.address.to_string(),
        }
    }

    /// Says what all agents say together.
    fn tell(&mut self, link: &CoordinatorChannel) {
        let now = Instant::now();
        if self.crew.all_fresh() || now >= self.next_progress {
            self.next_progress = now + PROGRESS_WITHIN;
            let progress = self.crew.progress(self.clock.now_unix_ns());
            link.events.send(&WorkerEvent::Progress(progress));
        }
        if self.told_ready {
            return;
        }
        if let Some(connections) = self.crew.ready(self.options.agents) {
            self.told_ready = true;
            link.events.send(&WorkerEvent::Ready {
                connections,
                port: None,
            });
        }
    }

    fn finish(mut self, summary: DeliverySummary, link: &CoordinatorChannel) -> DeliverySummary {
        let progress = self.crew.progress(self.clock.now_unix_ns());
        link.events.send(&WorkerEvent::Progress(progress));
        link.events.send(&WorkerEvent::Final {
            summary: Summary::Delivery(summary.clone()),
        });
        self.children.wait();
        summary
    }
}

/// Hands on what an agent says, on a thread, until it says no more.
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
            let message = match read_line(&mut input, LINE_BYTES_MAX) {
                Ok(Some(line)) => message(agent, &line),
                Ok(None) => break None,
                Err(error) => break Some(error.to_string()),
            };
            match message {
                // The run may be over.
                Ok(message) => drop(sender.send(message)),
                Err(error) => break Some(format!("it sent a line that is no event: {error}")),
            }
        };
        let _ = sender.send(CoordinatorEvent::Closed(agent, reason));
    });
    Ok(())
}

fn message(agent: usize, line: &[u8]) -> std::io::Result<CoordinatorEvent> {
    let event: WorkerEvent = wire::parse(line)?;
    if let WorkerEvent::Error { .. } = event {
        if let Ok(failed) = wire::parse(line) {
            return Ok(CoordinatorEvent::Failed(agent, failed));
        }
    }
    Ok(CoordinatorEvent::Event(agent, event))
}

/// A full queue makes agents wait; they say a line a second.
const MESSAGES_QUEUED_MAX: usize = 4096;
const TURN: Duration = Duration::from_millis(20);
/// A progress is due each second; one that is late is not waited for.
const PROGRESS_WITHIN: Duration = Duration::from_millis(1500);
/// Agents report each second, whatever they do.
const SILENCE_MAX: Duration = Duration::from_secs(20);
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
const REJECTED_STORED_MAX: usize = 8;
/// A tenth of the latencies the published tests are about.
const CLOCK_DIFFERENCE_NS: u64 = 1_000_000;
