//! The coordinator: waits for its agents, assigns shares of the clients, and merges their reports.

use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use weir_stats::Histogram;

use super::agent_set::{AgentHandle, AgentSet};
use super::engine::{Children, CoordinatorOptions};
use super::listener::{AgentListener, CoordinatorEvent, JoinedAgent, send_rejection};
use super::{AgentError, CoordinatorMessage, Result, WRITE_TIMEOUT};
use weir_load::clients::ClientsOptions;
use weir_load::clock::Clock;
use weir_load::delivery::DeliverySummary;
use weir_load::published_report::PublishedReporter;
use weir_load::share::WorkerShare;
use weir_load::worker::protocol::{
    LatencyTag, Summary, WorkerCommand, WorkerEvent, WorkerProgress,
};
use weir_load::worker::{CoordinatorChannel, line, read_message};

/// Coordinator of one run.
#[derive(Debug)]
pub struct AgentCoordinator {
    options: CoordinatorOptions,
    /// `None` once all agents have joined.
    listener: Option<AgentListener>,
    address: SocketAddr,
    events: Receiver<CoordinatorEvent>,
    sender: SyncSender<CoordinatorEvent>,
    agents: AgentSet,
    children: Children,
    clock: Clock,
    /// Commands sent before all agents had joined, for the agents that join later.
    early: Vec<WorkerCommand>,
    /// Report in the form of the published programs, of the clients of several agents.
    published: Option<PublishedReporter>,
    is_ready_reported: bool,
    stopping: bool,
    next_progress: Instant,
}

impl AgentCoordinator {
    /// Listens for agents; none is started yet.
    ///
    /// # Errors
    /// [`AgentError::Listen`] if listening on the address fails.
    pub fn bind(options: CoordinatorOptions) -> Result<Self> {
        let (listener, address) = AgentListener::open(options.listen, &options.token)
            .map_err(|reason| AgentError::Listen(options.listen.to_string(), reason))?;
        let (sender, events) = mpsc::sync_channel(EVENTS_QUEUED_MAX);
        Ok(Self {
            options,
            listener: Some(listener),
            address,
            events,
            sender,
            agents: AgentSet::default(),
            children: Children::default(),
            clock: Clock::start(),
            early: Vec::new(),
            published: None,
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
    ) -> Result<DeliverySummary> {
        link.events.hello(clients.kind.role());
        self.children = Children::start(&self.options, self.address)?;
        let interval = clients.published_report.filter(|_| self.options.agents > 1);
        self.published = interval.map(PublishedReporter::start);
        let joined_by = Instant::now() + self.options.join_timeout;
        loop {
            self.handle_events(clients, link)?;
            self.commands(link);
            self.check_agents(joined_by)?;
            self.report(link);
            if self.stopping && self.agents.handles.is_empty() {
                return Ok(DeliverySummary::default());
            }
            if let Some(summary) = self.agents.summary().filter(|_| self.has_all_agents()) {
                self.report_progress(link);
                self.report_published(link, true);
                link.events.finish(Summary::Delivery(summary.clone()));
                self.children.wait();
                return Ok(summary);
            }
        }
    }

    fn has_all_agents(&self) -> bool {
        self.agents.handles.len() >= self.options.agents
    }

    /// Handles queued events; waits up to [`POLL_INTERVAL`] for the first one.
    fn handle_events(&mut self, clients: &ClientsOptions, link: &CoordinatorChannel) -> Result<()> {
        // Cannot be disconnected: this has a sender.
        let mut next = self.events.recv_timeout(POLL_INTERVAL).ok();
        while let Some(event) = next {
            match event {
                CoordinatorEvent::Join(agent) => self.on_join(agent, clients),
                CoordinatorEvent::Event(agent, event) => self.on_event(agent, event, link)?,
                CoordinatorEvent::Closed(agent, reason) => self.on_closed(agent, reason)?,
            }
            next = self.events.try_recv().ok();
        }
        Ok(())
    }

    fn on_join(&mut self, agent: JoinedAgent, clients: &ClientsOptions) {
        let (stream, peer, pid) = (agent.stream, agent.peer, agent.pid);
        let (index, of) = (self.agents.handles.len(), self.options.agents);
        let Some(listener) = self.listener.as_mut().filter(|_| !self.stopping) else {
            return send_rejection(&stream, "the run already has all its agents");
        };
        let clock = match agent.clock {
            Ok(clock) => clock,
            Err(error) => {
                let reason = format!("clock comparison failed: {error}");
                return listener.reject(stream, peer, &reason);
            }
        };
        let name = format!("agent {} of {of} (pid {pid}, {peer})", index + 1);
        if clock.exceeds(CLOCK_DIFFERENCE_NS) {
            tracing::warn!(
                agent = name,
                ahead_ms = clock.ahead_ns as f64 / 1e6,
                "clock differs, latencies are wrong by the difference"
            );
        }
        if let Err(error) = read_events(index, &stream, self.sender.clone()) {
            tracing::warn!(agent = name, %error, "lost connection to agent");
        }
        let mut handle = AgentHandle {
            name,
            pid,
            stream,
            ready: None,
            progress: WorkerProgress::default(),
            fresh: false,
            last_event_at: Instant::now(),
            summary: None,
            closed: false,
        };
        handle.send(&line(&CoordinatorMessage::Clients {
            share: WorkerShare { index, of },
            options: Box::new(clients.clone()),
        }));
        for command in &self.early {
            handle.send(&line(command));
        }
        self.agents.handles.push(handle);
        if self.has_all_agents() {
            self.listener = None;
        }
    }

    fn on_event(
        &mut self,
        agent: usize,
        event: WorkerEvent,
        link: &CoordinatorChannel,
    ) -> Result<()> {
        let handle = &mut self.agents.handles[agent];
        handle.last_event_at = Instant::now();
        match event {
            // Forwarded with the pid, so that the process can be sampled.
            WorkerEvent::Hello { .. } => link.events.send(&event),
            WorkerEvent::Ready { connections, .. } => handle.ready = Some(connections),
            WorkerEvent::Progress(progress) => {
                handle.progress = progress;
                handle.fresh = true;
            }
            WorkerEvent::Interval(interval) => {
                if interval.tag == LatencyTag::Response {
                    let histogram = Histogram::from_base64(&interval.histogram)
                        .map_err(|error| self.lost(agent, error.to_string()))?;
                    self.agents.second.merge(&histogram);
                }
                link.events.send(&WorkerEvent::Interval(interval));
            }
            WorkerEvent::Final {
                summary: Summary::Delivery(summary),
            } => handle.summary = Some(summary),
            WorkerEvent::Final { .. } => {
                return Err(self.lost(agent, "it sent another worker's summary".to_owned()));
            }
            WorkerEvent::ReportSamples(samples) => {
                if let Some(published) = &mut self.published {
                    published.add(&samples);
                }
            }
            // The report of all clients: there is one agent.
            WorkerEvent::Report { .. } => link.events.send(&event),
            WorkerEvent::Error {
                message,
                fault: Some(class),
            } => return Err(AgentError::Failed(handle.name.clone(), message, class)),
            // The agent closes the connection next, unless it can continue.
            WorkerEvent::Error { message, .. } => tracing::warn!(agent = handle.name, message),
        }
        Ok(())
    }

    fn on_closed(&mut self, agent: usize, reason: String) -> Result<()> {
        let handle = &mut self.agents.handles[agent];
        handle.closed = true;
        if handle.summary.is_some() {
            return Ok(());
        }
        let reason = match self.children.status(handle.pid) {
            Some(status) => format!("{reason}, its process ended with {status}"),
            None => reason,
        };
        Err(self.lost(agent, reason))
    }

    fn lost(&self, agent: usize, reason: String) -> AgentError {
        AgentError::Lost(self.agents.handles[agent].name.clone(), reason)
    }

    fn commands(&mut self, link: &CoordinatorChannel) {
        let is_stopped = link.take_commands(|command| {
            self.agents.command(&command);
            if self.listener.is_some() {
                self.early.push(command);
            }
        });
        if is_stopped && !std::mem::replace(&mut self.stopping, true) {
            self.agents.command(&WorkerCommand::Stop);
        }
    }

    /// Detects agents that do not join or that stopped reporting.
    fn check_agents(&mut self, joined_by: Instant) -> Result<()> {
        let now = Instant::now();
        if let Some(listener) = &mut self.listener {
            listener.poll(&self.sender);
            if let Some((pid, status)) = self.children.ended() {
                let joined = self.agents.handles.iter().any(|handle| handle.pid == pid);
                if !joined && !self.stopping {
                    return Err(AgentError::EndedEarly(pid, status.to_string()));
                }
            }
            if now > joined_by {
                let (joined, required) = (self.agents.handles.len(), self.options.agents);
                let (seconds, rejected) =
                    (self.options.join_timeout.as_secs(), listener.rejected());
                let reason = format!(
                    "only {joined} of {required} agents joined within {seconds} s{rejected}"
                );
                return Err(AgentError::Missing(reason, self.address));
            }
        }
        let silent = self.agents.handles.iter().position(|handle| {
            handle.summary.is_none() && now.duration_since(handle.last_event_at) > SILENCE_MAX
        });
        let seconds = SILENCE_MAX.as_secs();
        silent.map_or(Ok(()), |agent| {
            Err(self.lost(agent, format!("no message for {seconds} s")))
        })
    }

    /// Sends the merged progress, and ready once all agents are ready.
    fn report(&mut self, link: &CoordinatorChannel) {
        if self.agents.all_fresh() || Instant::now() >= self.next_progress {
            self.report_progress(link);
        }
        self.report_published(link, false);
        let connections: Option<u64> = self.agents.handles.iter().map(|it| it.ready).sum();
        let is_ready = self.has_all_agents() && !self.is_ready_reported;
        if let Some(connections) = connections.filter(|_| is_ready) {
            self.is_ready_reported = true;
            let port = None;
            link.events.send(&WorkerEvent::Ready { connections, port });
        }
    }

    fn report_published(&mut self, link: &CoordinatorChannel, at_end: bool) {
        if let Some(published) = &mut self.published {
            published.poll(&link.events, Instant::now(), at_end);
        }
    }

    fn report_progress(&mut self, link: &CoordinatorChannel) {
        self.next_progress = Instant::now() + PROGRESS_TIMEOUT;
        let progress = self.agents.progress(self.clock.now_unix_ns());
        link.events.send(&WorkerEvent::Progress(progress));
    }
}

/// Starts a thread that forwards the events of an agent until its connection ends.
fn read_events(
    agent: usize,
    stream: &TcpStream,
    sender: SyncSender<CoordinatorEvent>,
) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let mut input = BufReader::new(stream.try_clone()?);
    thread::spawn(move || {
        let reason = loop {
            match read_message(&mut input) {
                // The coordinator may have ended.
                Ok(Some(event)) => drop(sender.send(CoordinatorEvent::Event(agent, event))),
                Ok(None) => break "its connection ended".to_owned(),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    break format!("it sent an invalid event: {error}");
                }
                Err(error) => break error.to_string(),
            }
        };
        let _ = sender.send(CoordinatorEvent::Closed(agent, reason));
    });
    Ok(())
}

/// Size of the event queue; if it is full, agents wait. Each sends about one line per second.
const EVENTS_QUEUED_MAX: usize = 4096;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum wait for the progress of all agents; each sends one per second.
const PROGRESS_TIMEOUT: Duration = Duration::from_millis(1500);
/// Maximum time without an event of an agent; agents report every second.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// A tenth of the latencies in the published tests.
const CLOCK_DIFFERENCE_NS: u64 = 1_000_000;
