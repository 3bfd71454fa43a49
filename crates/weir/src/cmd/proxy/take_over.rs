//! `weir proxy run --take-over`: takes the listeners of a running proxy, which then shuts down.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, anyhow};
use serde_json::Value;
use weir_net::listener::ListenerSource;
use weir_net::take_over::{HandOver, Predecessor};
use weir_proxy::Proxy;

use crate::cmd::server::{Server, Stopper};
use crate::exit::{Exit, Failure, OrExit as _};

/// A proxy that takes over listeners, and hands them over to its successor.
pub(super) struct TakenOverProxy {
    proxy: Proxy,
    event_loops: usize,
    path: PathBuf,
    /// The previous process, until this one is ready.
    predecessor: RefCell<Option<Predecessor>>,
    stopper: Stopper,
    /// The file of the Unix socket is the successor's.
    is_handed_over: Arc<AtomicBool>,
}

/// The previous process, if there is one, and the sockets.
pub(super) struct Inheritance {
    predecessor: Option<Predecessor>,
    pub(super) source: Arc<ListenerSource>,
}

impl Inheritance {
    /// Takes the listeners of the proxy that waits at `path`, if there is one.
    pub(super) fn take(path: &Path, event_loops: usize) -> Result<Self, Failure> {
        let shown = path.display();
        let taken = Predecessor::connect(path);
        let taken = taken.map_err(|error| anyhow!("--take-over \"{shown}\": {error}"));
        let Some((predecessor, sockets)) = taken.or_exit(Exit::Usage)? else {
            tracing::info!(path = %shown, "no proxy to take over from");
            return Ok(Self {
                predecessor: None,
                source: Arc::new(ListenerSource::new(event_loops)),
            });
        };
        let offer = &predecessor.offer;
        if offer.event_loops > event_loops {
            return Err(Failure::usage(format!(
                "--take-over \"{shown}\": the running proxy has {} event loops, this one has \
                 {event_loops}; keep at least as many, or restart without --take-over",
                offer.event_loops
            )));
        }
        let (pid, version, sockets_taken) = (offer.pid, &offer.version, sockets.len());
        tracing::info!(
            pid,
            version,
            sockets = sockets_taken,
            "taking over from a proxy"
        );
        let source = ListenerSource::inheriting(event_loops, sockets).or_exit(Exit::Tool)?;
        Ok(Self {
            predecessor: Some(predecessor),
            source: Arc::new(source),
        })
    }

    /// Returns the proxy as a server that ends when a successor is ready.
    pub(super) fn into_server(
        self,
        proxy: Proxy,
        event_loops: usize,
        path: PathBuf,
        stopper: Stopper,
    ) -> TakenOverProxy {
        TakenOverProxy {
            proxy,
            event_loops,
            path,
            predecessor: RefCell::new(self.predecessor),
            stopper,
            is_handed_over: Arc::default(),
        }
    }
}

impl TakenOverProxy {
    /// Waits for a successor in a thread. It ends with the process.
    fn wait_for_successor(&self) -> std::io::Result<()> {
        let hand_over = HandOver::listen(&self.path)?;
        let (listeners, stopper) = (self.proxy.listeners(), self.stopper.clone());
        let is_handed_over = Arc::clone(&self.is_handed_over);
        let event_loops = self.event_loops;
        let failed = |error: &std::io::Error| {
            tracing::warn!(%error, "take-over failed, continuing");
        };
        let wait = move || {
            let version = env!("CARGO_PKG_VERSION");
            match hand_over.wait(event_loops, version, || listeners.copies(), failed) {
                Ok(pid) => {
                    tracing::info!(pid, "a process has taken over");
                    is_handed_over.store(true, Ordering::Relaxed);
                    stopper.stop();
                }
                Err(error) => tracing::error!(%error, "no successor can take over"),
            }
        };
        let thread = std::thread::Builder::new().name("weir-take-over".to_owned());
        thread.spawn(wait).map(drop)
    }
}

impl Server for TakenOverProxy {
    fn is_ready(&self) -> bool {
        self.proxy.is_ready()
    }

    fn on_ready(&self) -> Result<(), Failure> {
        self.proxy.close_unused_listeners();
        let predecessor = self.predecessor.take();
        let was_running = predecessor.is_some();
        if let Some(Err(error)) = predecessor.map(Predecessor::release) {
            tracing::warn!(%error, "the previous proxy has ended already");
        }
        let waits = self.wait_for_successor();
        let waits = waits
            .with_context(|| format!("--take-over \"{}\": cannot listen", self.path.display()));
        match waits {
            // No other process serves the clients now.
            Err(error) if was_running => tracing::error!("{error:#}"),
            waits => waits.or_exit(Exit::Usage)?,
        }
        Ok(())
    }

    fn log_unready(&self) {
        self.proxy.log_unready();
    }

    fn reload_files(&self) {
        self.proxy.reload_files();
    }

    fn ready_file(&self) -> Value {
        self.proxy.ready_file()
    }

    fn shut_down(self) -> Vec<String> {
        if !self.is_handed_over.load(Ordering::Relaxed) {
            // There is none if the proxy was not ready.
            let _ = std::fs::remove_file(&self.path);
        }
        self.proxy.shut_down()
    }
}
