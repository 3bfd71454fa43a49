//! The admin port of gateway and proxy: an event loop of its own for metrics, health and pages.
//!
//! It is the server of [`crate::server`] with small limits, so a peer that sends slowly, much or
//! nothing is dealt with as on the data ports. Products bring their pages; what guards them (host,
//! token, method, headers) is here.

mod guard;
mod metrics;

pub use metrics::{ProcessMetrics, metrics_page};

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use self::guard::{AccessRules, with_security_headers};
use crate::http1::{HttpRequest, ParseLimits, Response};
use crate::listener::end_stalled;
use crate::server::{
    CloseReason, ConnId, ConnectionLimits, Detached, EventLoop, Listener, RequestOutcome,
    ServerHandler, ServerIo, ShardOptions,
};
use crate::tls::TlsAcceptor;
use crate::watchdog::{Heartbeat, Vitals};
use crate::{MailboxSender, limited};

/// Connections at a time; scrapes and pages need a few.
const CONNECTIONS_MAX: usize = 64;
/// Head and body of a request; pages have parameters, not bodies.
const HEAD_BYTES_MAX: usize = 8 * 1024;
const BODY_BYTES_MAX: usize = 1024;
/// Time for a whole request, and between two requests of a connection.
const REQUEST_MS: u64 = 10_000;
/// Time after which a peer that takes nothing of an answer is given up.
const STALLED: Duration = Duration::from_secs(20);
/// Largest answer.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Answers of slow pages that may wait.
const POSTED_MAX: usize = 64;
/// Time between two calls of [`AdminPages::tick`].
const TICK_MS: u64 = 1_000;
/// Time that answers under way have at shutdown.
const DRAIN_MS: u64 = 300;

const TICK: u64 = 1;
const DRAINED: u64 = 2;

/// What a product shows on its admin port.
pub trait AdminPages: Send + 'static {
    /// Returns the page at `path`, `None` if there is none.
    fn page(&mut self, path: &str, query: &str) -> Option<Page>;
    /// Returns whether the page may be seen without the token.
    fn is_public(&self, path: &str) -> bool {
        let _ = path;
        false
    }
    /// Is called once a second.
    fn tick(&mut self) {}
}

/// How a page is made.
pub enum Page {
    /// At once.
    Now(Response),
    /// By a thread of its own, because it waits for something; one at a time.
    Slow(Box<dyn FnOnce() -> Response + Send>),
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(response) => f.debug_tuple("Now").field(response).finish(),
            Self::Slow(_) => f.write_str("Slow"),
        }
    }
}

/// Where and to whom pages are shown.
#[derive(Debug)]
pub struct AdminOptions {
    /// A bound listening socket.
    pub listener: TcpListener,
    /// TLS is spoken if given.
    pub tls: Option<Arc<TlsAcceptor>>,
    /// What requests carry as bearer token.
    pub token: Option<String>,
    /// Names that a request's `Host` may have, beside IP addresses and localhost.
    pub hosts: Vec<String>,
    /// What `/health/live` tells.
    pub vitals: Arc<Vitals>,
}

/// A running admin port.
#[derive(Debug)]
pub struct AdminServer {
    address: SocketAddr,
    post: MailboxSender<Posted>,
    thread: JoinHandle<()>,
}

/// What is posted to the event loop.
#[derive(Debug)]
enum Posted {
    Answer(ConnId, Response),
    Stop,
}

impl AdminServer {
    /// Starts to serve `pages`.
    ///
    /// # Errors
    /// When the operating system refuses an option, an epoll descriptor or a thread.
    pub fn start(options: AdminOptions, pages: impl AdminPages) -> io::Result<Self> {
        let address = options.listener.local_addr()?;
        options.listener.set_nonblocking(true)?;
        end_stalled(&options.listener, STALLED)?;
        let handler = AdminHandler {
            pages,
            access: AccessRules::new(options.token, options.hosts),
            vitals: options.vitals,
            post: None,
            slow: None,
            is_draining: false,
        };
        let shard_options = ShardOptions {
            listeners: vec![Listener {
                socket: options.listener,
                tls: options.tls,
            }],
            limits: limits(),
            mail_capacity: POSTED_MAX,
            epoch: Instant::now(),
            heartbeat: Arc::<Heartbeat>::default(),
        };
        let (mut shard, post) = EventLoop::new(shard_options, handler)?;
        shard.handler.post = Some(post.clone());
        shard.io.set_timer(0, TICK);
        let thread = std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || {
                if let Err(error) = shard.run() {
                    tracing::error!(%error, "admin port failed");
                }
            })?;
        Ok(Self {
            address,
            post,
            thread,
        })
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts nobody more, gives answers under way a moment, and returns the thread to wait for.
    pub fn stop(self) -> JoinHandle<()> {
        // A loop that has ended or is stuck is not waited for.
        let _ = self.post.post(Posted::Stop, Duration::ZERO);
        self.thread
    }
}

fn limits() -> ConnectionLimits {
    ConnectionLimits {
        connections: CONNECTIONS_MAX,
        http: ParseLimits {
            head_bytes: HEAD_BYTES_MAX,
            body_bytes: BODY_BYTES_MAX,
        },
        message_bytes: BODY_BYTES_MAX,
        outbox_bytes: ANSWER_BYTES_MAX,
        request_ms: REQUEST_MS,
        ..ConnectionLimits::default()
    }
}

struct AdminHandler<P> {
    pages: P,
    access: AccessRules,
    vitals: Arc<Vitals>,
    /// The way of slow pages back to the loop.
    post: Option<MailboxSender<Posted>>,
    /// The slow page that is being made.
    slow: Option<JoinHandle<()>>,
    is_draining: bool,
}

impl<P: AdminPages> AdminHandler<P> {
    fn page(&mut self, path: &str, query: &str) -> Page {
        if path == "/health/live" {
            return Page::Now(live(&self.vitals));
        }
        let page = self.pages.page(path, query);
        page.unwrap_or_else(|| Page::Now(Response::text(404, "no such page\n")))
    }

    /// Makes a slow page on a thread, unless one is being made.
    fn make(&mut self, conn: ConnId, make: Box<dyn FnOnce() -> Response + Send>) -> RequestOutcome {
        let busy = || {
            RequestOutcome::Reply(with_security_headers(Response::text(
                503,
                "busy, try again\n",
            )))
        };
        let is_busy = self.slow.as_ref().is_some_and(|slow| !slow.is_finished());
        let Some(post) = self.post.clone().filter(|_| !is_busy) else {
            return busy();
        };
        let thread = std::thread::Builder::new().name("admin-page".to_owned());
        let started = thread.spawn(move || {
            let answer = Posted::Answer(conn, with_security_headers(make()));
            // A loop that has ended has nobody to answer.
            let _ = post.post(answer, Duration::from_secs(1));
        });
        match started {
            Ok(thread) => {
                self.slow = Some(thread);
                RequestOutcome::Later
            }
            Err(error) => {
                limited!(warn, "admin page not made", %error, "cannot start a thread for a page");
                busy()
            }
        }
    }
}

fn live(vitals: &Vitals) -> Response {
    match vitals.is_alive() {
        true => Response::text(200, "alive\n"),
        false => Response::text(503, "an event loop is stuck\n"),
    }
}

impl<P: AdminPages> ServerHandler for AdminHandler<P> {
    type Mail = Posted;

    fn on_request(
        &mut self,
        _io: &mut ServerIo,
        conn: ConnId,
        request: &HttpRequest<'_>,
    ) -> RequestOutcome {
        let is_public = self.pages.is_public(request.path);
        if let Some(refusal) = self.access.reject(request, is_public) {
            return RequestOutcome::Reply(with_security_headers(refusal));
        }
        match self.page(request.path, request.query) {
            Page::Now(response) => RequestOutcome::Reply(with_security_headers(response)),
            Page::Slow(make) => self.make(conn, make),
        }
    }

    fn on_mail(&mut self, io: &mut ServerIo, posted: Posted) {
        match posted {
            Posted::Answer(conn, response) => io.reply(conn, &response),
            Posted::Stop => {
                self.is_draining = true;
                io.stop_accepting();
                io.set_timer(io.now_ms() + DRAIN_MS, DRAINED);
            }
        }
    }

    fn on_timer(&mut self, io: &mut ServerIo, token: u64) {
        match token {
            DRAINED => io.stop(),
            _ => {
                self.pages.tick();
                io.set_timer(io.now_ms() + TICK_MS, TICK);
            }
        }
    }

    fn on_turn(&mut self, io: &mut ServerIo) {
        if self.is_draining {
            io.close_idle();
            if io.connections() == 0 {
                io.stop();
            }
        }
    }

    fn on_message(&mut self, _io: &mut ServerIo, _conn: ConnId, _text: &str) {}
    fn on_closed(&mut self, _io: &mut ServerIo, _conn: ConnId, _tag: u64, _reason: CloseReason) {}
    fn on_room(&mut self, _io: &mut ServerIo, _conn: ConnId, _tag: u64) {}
    fn on_detached(&mut self, _io: &mut ServerIo, _connection: Detached) {}
}
