//! Threads that check credentials and log in at brokers, which takes too long for an event loop.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use weir_net::MailboxSender;
use weir_net::PostError;
use weir_sasl::server::Check;

use super::events::{LoopEvent, PairId};
use crate::broker_login::{DelegatedLogin, LoginStep};
use crate::login::ClusterLogins;

/// Tasks that wait for a thread.
const QUEUE_MAX: usize = 1_024;
const THREADS: usize = 2;
/// Maximum wait for a full event-loop inbox before the next attempt.
const POST_TIMEOUT: Duration = Duration::from_secs(1);

/// Work for a pair.
pub(crate) struct LoginTask {
    pub(crate) pair: PairId,
    pub(crate) work: LoginWork,
    pub(crate) reply: MailboxSender<LoopEvent>,
}

/// Work of a login thread.
pub(crate) enum LoginWork {
    /// Checks the credentials of a client.
    Check(Arc<ClusterLogins>, Check),
    /// Makes the next request of a login at a broker.
    Broker(LoginStep),
    /// Makes the first request of one with a delegation token.
    Delegated(Box<DelegatedLogin>),
}

impl LoginWork {
    fn run(self, pair: PairId) -> LoopEvent {
        match self {
            Self::Check(logins, check) => {
                let outcome = logins.check(&check);
                LoopEvent::LoginChecked(pair, check, outcome)
            }
            Self::Broker(step) => LoopEvent::BrokerLogin(pair, step.run()),
            Self::Delegated(login) => LoopEvent::BrokerLogin(pair, login.run()),
        }
    }
}

/// Sending end of the queue; the threads end after it is dropped.
#[derive(Debug)]
pub(crate) struct LoginPool {
    tasks: Sender<LoginTask>,
}

impl LoginPool {
    /// Starts the threads.
    pub(crate) fn start(stopped: &Receiver<()>) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let (tasks, queue) = bounded(QUEUE_MAX);
        let mut threads = Vec::with_capacity(THREADS);
        for number in 0..THREADS {
            let (queue, stopped) = (queue.clone(), stopped.clone());
            let thread = std::thread::Builder::new().name(format!("weir-login-{number}"));
            threads.push(thread.spawn(move || run(&queue, &stopped))?);
        }
        Ok((Self { tasks }, threads))
    }

    /// Queues a task. Returns `false` if too many wait.
    pub(crate) fn submit(&self, task: LoginTask) -> bool {
        let sent = self.tasks.try_send(task);
        !matches!(
            sent,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_))
        )
    }
}

fn run(queue: &Receiver<LoginTask>, stopped: &Receiver<()>) {
    loop {
        let task = crossbeam_channel::select! {
            recv(queue) -> task => task,
            recv(stopped) -> _ => return,
        };
        let Ok(task) = task else { return };
        let mut event = task.work.run(task.pair);
        // Without the event the connection would wait for its login deadline.
        while let Err(PostError::Timeout(again)) = task.reply.post(event, POST_TIMEOUT) {
            event = again;
        }
    }
}
