//! Admin port of gateway and proxy: a separate event loop for metrics, health and pages.
//!
//! It uses [`crate::server`] with small limits, so slow, idle and excessive peers are handled as on
//! the data ports. Products provide readiness, metrics, dashboard columns and further pages; this
//! module checks host, token and method and sets the security headers. It also checks certificate
//! files for changes.

mod api;
mod config;
pub mod dashboard;
mod guard;
mod metrics;
mod token;

pub use api::{ApiCall, LineStream};
pub use config::{AdminConfig, AdminConfigError, AdminTable};
pub use metrics::{MetricKind, MetricRow, ProcessMetrics, json_page, put_metric};
pub use token::SessionsToken;

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use prometheus_client::registry::Registry;

use self::api::{LineStreams, Posted};
use self::dashboard::{Dashboard, SAMPLE_INTERVAL};
use self::guard::{AccessRules, SessionsAccess, with_security_headers};
use self::metrics::metrics_page;
use crate::http1::{HttpRequest, ParseLimits, Response};
use crate::listener::end_stalled;
use crate::server::{
    CloseReason, ConnId, ConnectionLimits, Detached, EventLoop, EventLoopOptions, Listener,
    RequestOutcome, ServerHandler, ServerIo,
};
use crate::tls::TlsFiles;
use crate::watchdog::{Heartbeat, WatchdogStatus};
use crate::{MailboxSender, limited};

/// Maximum number of connections; scrapes and pages need a few.
const CONNECTIONS_MAX: usize = 64;
/// Maximum size of a request's head, and of the body of a call.
const HEAD_BYTES_MAX: usize = 8 * 1024;
const BODY_BYTES_MAX: usize = 8 * 1024;
/// Time in milliseconds for a complete request, and idle timeout between requests.
const REQUEST_MS: u64 = 10_000;
/// Time after which the connection of a peer that reads nothing ends.
const STALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum size of a response.
const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum number of responses of slow pages that wait.
const POSTED_MAX: usize = 64;
/// Paths of session administration.
const SESSIONS_PATHS: &str = "/admin/v1/";
/// Calls that are computed at the same time, and streams that are open.
const CALLS_MAX: usize = 4;
const STREAMS_MAX: usize = 4;
/// Time in milliseconds after which a call with a wrong token gets its response.
const REJECTION_DELAY_MS: u64 = 1_000;
/// Time in milliseconds for outstanding responses at shutdown.
const DRAIN_MS: u64 = 300;

/// Text of the response with status 404.
const NO_PAGE: &str =
    "no such page; there are /dashboard, /metrics, /health/live and /health/ready\n";
/// Paths that need no token.
const PUBLIC_PATHS: [&str; 3] = ["/", "/health/live", "/health/ready"];

const TICK: u64 = 1;
const DRAINED: u64 = 2;
const REJECTION: u64 = 3;

/// Pages of a product in addition to metrics, liveness and dashboard.
pub trait AdminPages: Send + 'static {
    /// Returns `true` if the product is ready, and the text of `/health/ready`.
    fn readiness(&self) -> (bool, String);
    /// Returns the page at `path`, `None` if there is none.
    fn page(&mut self, path: &str, query: &str) -> Option<Page> {
        let _ = (path, query);
        None
    }
    /// Returns the response to a POST request at `path`, `None` if there is no such path.
    fn command(&mut self, path: &str, query: &str) -> Option<Page> {
        let _ = (path, query);
        None
    }
    /// Checks certificate files that may be replaced by others, and returns the number of their
    /// successful and of their failed reloads.
    fn check_files(&self) -> [u64; 2] {
        [0; 2]
    }
    /// Returns the page at `path` that needs no token because it contains no data.
    fn public_page(&self, path: &str) -> Option<Response> {
        let _ = path;
        None
    }
    /// Returns the response to a call with the token of session administration, `None` if there is
    /// no such path.
    fn call(&mut self, call: &ApiCall<'_>) -> Option<Page> {
        let _ = call;
        None
    }
    /// Notes a call without that token.
    fn note_denied(&mut self, call: &ApiCall<'_>) {
        let _ = call;
    }
}

/// Content of a page.
pub enum Page {
    /// Available at once.
    Ready(Response),
    /// Computed by a separate thread because it has to wait; one at a time.
    Deferred(Box<dyn FnOnce() -> Response + Send>),
    /// A stream of lines, sent by a separate thread.
    Stream(Box<dyn FnOnce(LineStream) + Send>),
}

/// Options of the admin port.
pub struct AdminOptions {
    /// A listening socket, bound to the address in `config`.
    pub listener: TcpListener,
    /// Settings of the port.
    pub config: AdminConfig,
    /// Source of `/health/live`.
    pub watchdog_status: Arc<WatchdogStatus>,
    /// Source of `/metrics`.
    pub registry: Registry,
    /// Source of `/dashboard`.
    pub dashboard: Dashboard,
    /// Certificate files of the product that are checked for changes.
    pub certificates: Vec<Arc<TlsFiles>>,
    /// `true` during shutdown.
    pub draining: Arc<AtomicBool>,
}

/// A running admin port.
#[derive(Debug)]
pub struct AdminServer {
    address: SocketAddr,
    sender: MailboxSender<Posted>,
    thread: JoinHandle<()>,
}

impl AdminServer {
    /// Starts to serve `pages`.
    pub fn start(options: AdminOptions, pages: impl AdminPages) -> io::Result<Self> {
        let address = options.listener.local_addr()?;
        options.listener.set_nonblocking(true)?;
        end_stalled(&options.listener, STALL_TIMEOUT)?;
        let AdminConfig {
            token,
            hosts,
            sessions_token,
            ..
        } = options.config;
        let handler = AdminHandler {
            pages,
            access: AccessRules {
                token,
                hosts,
                sessions_token,
            },
            watchdog_status: options.watchdog_status,
            registry: options.registry,
            dashboard: options.dashboard,
            certificates: options.certificates,
            draining: options.draining,
            sender: None,
            slow: Weak::new(),
            calls: Vec::new(),
            streams: LineStreams::default(),
            denied: VecDeque::new(),
            is_draining: false,
        };
        let loop_options = EventLoopOptions {
            listeners: vec![Listener {
                socket: options.listener,
                tls: options.config.tls,
            }],
            limits: limits(),
            mailbox_capacity: POSTED_MAX,
            heartbeat: Arc::<Heartbeat>::default(),
        };
        let (mut event_loop, sender) = EventLoop::new(loop_options, handler)?;
        event_loop.handler.handler.sender = Some(sender.clone());
        event_loop.handler.io.set_timer(0, TICK);
        let thread = std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || {
                if let Err(error) = event_loop.run() {
                    tracing::error!(%error, "admin port failed");
                }
            })?;
        Ok(Self {
            address,
            sender,
            thread,
        })
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, gives outstanding responses a short time, and returns the thread to wait
    /// for.
    pub fn stop(self) -> JoinHandle<()> {
        // A loop that has ended or stalled cannot receive the event.
        let _ = self.sender.post(Posted::Stop, Duration::ZERO);
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
        send_queue_bytes: RESPONSE_BYTES_MAX,
        request_timeout_ms: REQUEST_MS,
        ..ConnectionLimits::default()
    }
}

struct AdminHandler<P> {
    pages: P,
    access: AccessRules,
    watchdog_status: Arc<WatchdogStatus>,
    registry: Registry,
    dashboard: Dashboard,
    certificates: Vec<Arc<TlsFiles>>,
    draining: Arc<AtomicBool>,
    /// Sender for the responses of slow pages.
    sender: Option<MailboxSender<Posted>>,
    /// Alive while a slow page is being computed.
    slow: Weak<()>,
    /// Alive while their calls are being computed.
    calls: Vec<Weak<()>>,
    streams: LineStreams,
    /// Connections that get 401, and when.
    denied: VecDeque<(u64, ConnId)>,
    is_draining: bool,
}

impl<P: AdminPages> AdminHandler<P> {
    /// Returns a page. Without the token, `/health/ready` has no details.
    fn page(&mut self, path: &str, query: &str, has_token: bool) -> Page {
        let draining = || self.draining.load(Ordering::Relaxed);
        Page::Ready(match path {
            "/" => Response::text(302, "see /dashboard\n").with_header("Location", "dashboard"),
            "/health/live" => live(&self.watchdog_status),
            "/health/ready" => ready(self.pages.readiness(), draining(), has_token),
            "/metrics" => metrics_page(&self.registry),
            "/dashboard.json" => self.dashboard.samples(query, draining()),
            _ => match self.dashboard.part(path) {
                Some(part) => part,
                None => match self.pages.page(path, query) {
                    Some(page) => return page,
                    None => Response::text(404, NO_PAGE),
                },
            },
        })
    }

    /// Computes a slow page on a thread. Responds with 503 if another one is being computed.
    fn compute(
        &mut self,
        conn: ConnId,
        compute: Box<dyn FnOnce() -> Response + Send>,
    ) -> RequestOutcome {
        let is_busy = self.slow.strong_count() > 0;
        let Some(sender) = self.sender.clone().filter(|_| !is_busy) else {
            return busy();
        };
        let Some(computation) = respond_later(sender, conn, compute) else {
            return busy();
        };
        self.slow = computation;
        RequestOutcome::Defer
    }

    /// Responds to a call of session administration, if its token is right.
    fn call(
        &mut self,
        io: &mut ServerIo,
        conn: ConnId,
        request: &HttpRequest<'_>,
    ) -> RequestOutcome {
        if let Some(response) = self.access.reject_host(request) {
            return respond(response);
        }
        let call = ApiCall {
            method: request.method,
            path: request.path,
            query: request.query,
            body: &request.body,
            peer: request.peer,
        };
        let page = match self.access.sessions_access(request) {
            SessionsAccess::Absent => None,
            SessionsAccess::Granted => self.pages.call(&call),
            SessionsAccess::Denied => {
                self.pages.note_denied(&call);
                // Guessing takes long, and at most as many guesses wait as there are connections.
                let at_ms = io.now_ms() + REJECTION_DELAY_MS;
                self.denied.push_back((at_ms, conn));
                io.set_timer(at_ms, REJECTION);
                return RequestOutcome::Defer;
            }
        };
        self.calls.retain(|call| call.strong_count() > 0);
        match page {
            None => respond(Response::text(404, "no such page\n")),
            Some(Page::Ready(response)) => respond(response),
            Some(Page::Deferred(compute)) if self.calls.len() < CALLS_MAX => {
                let Some(sender) = self.sender.clone() else {
                    return busy();
                };
                let Some(computation) = respond_later(sender, conn, compute) else {
                    return busy();
                };
                self.calls.push(computation);
                RequestOutcome::Defer
            }
            Some(Page::Stream(_)) if !request.accepts_chunks => {
                respond(Response::text(505, "use HTTP/1.1\n"))
            }
            Some(Page::Stream(send)) if self.streams.len() < STREAMS_MAX => {
                let Some(sender) = self.sender.clone() else {
                    return busy();
                };
                let stream = self.streams.begin(conn, sender);
                let head = Response {
                    content_type: "application/jsonl",
                    ..Response::text(200, "")
                };
                io.begin_body(conn, &with_security_headers(head));
                // Without a thread the stream is dropped, which ends the response.
                start(move || send(stream));
                RequestOutcome::Defer
            }
            Some(Page::Deferred(_) | Page::Stream(_)) => busy(),
        }
    }

    /// Responds to calls with a wrong token whose time has come.
    fn reject_denied(&mut self, io: &mut ServerIo) {
        let now_ms = io.now_ms();
        let is_due = |(at_ms, _): &(u64, ConnId)| *at_ms <= now_ms;
        while self.denied.front().is_some_and(is_due) {
            let Some((_, conn)) = self.denied.pop_front() else {
                return;
            };
            let text = "send the token of session administration as bearer token\n";
            let response = Response::text(401, text).with_header("WWW-Authenticate", "Bearer");
            io.respond(conn, &with_security_headers(response));
        }
    }
}

fn busy() -> RequestOutcome {
    respond(Response::text(503, "busy, try again\n"))
}

/// Computes a response on a thread and posts it. Returns a reference that is alive until it is
/// computed, `None` if the operating system refuses the thread.
fn respond_later(
    sender: MailboxSender<Posted>,
    conn: ConnId,
    compute: Box<dyn FnOnce() -> Response + Send>,
) -> Option<Weak<()>> {
    let computation = Arc::new(());
    let observed = Arc::downgrade(&computation);
    let work = move || {
        let response = Posted::Response(conn, with_security_headers(compute()));
        // Before the client can receive the response: its next request would find the page busy
        // until this thread has ended.
        drop(computation);
        // If the loop has ended, the connection is closed.
        let _ = sender.post(response, Duration::from_secs(1));
    };
    start(work).then_some(observed)
}

/// Starts a thread for a response. Returns `false` if the operating system refuses it.
fn start(work: impl FnOnce() + Send + 'static) -> bool {
    let thread = std::thread::Builder::new().name("admin-page".to_owned());
    thread.spawn(work).map_or_else(
        |error| {
            let text = "failed to start thread for admin page";
            limited!(warn, "admin page failed", %error, "{text}");
            false
        },
        |_| true,
    )
}

fn respond(response: Response) -> RequestOutcome {
    RequestOutcome::Respond(with_security_headers(response))
}

fn live(watchdog_status: &WatchdogStatus) -> Response {
    match watchdog_status.is_alive() {
        true => Response::text(200, "alive\n"),
        false => Response::text(503, "an event loop has stalled\n"),
    }
}

fn ready((is_ready, text): (bool, String), draining: bool, is_detailed: bool) -> Response {
    let status = if is_ready && !draining { 200 } else { 503 };
    if !is_detailed {
        return Response::text(
            status,
            if status == 200 {
                "ready\n"
            } else {
                "not ready\n"
            },
        );
    }
    let draining = if draining { "draining\n" } else { "" };
    Response::text(status, format!("{draining}{text}"))
}

impl<P: AdminPages> ServerHandler for AdminHandler<P> {
    type Posted = Posted;

    fn on_request(
        &mut self,
        io: &mut ServerIo,
        conn: ConnId,
        request: &HttpRequest<'_>,
    ) -> RequestOutcome {
        if request.path.starts_with(SESSIONS_PATHS) {
            return self.call(io, conn, request);
        }
        // The dashboard page contains no data; its data requires the token. Orchestrators that
        // probe the health have none.
        let public = self.pages.public_page(request.path);
        let is_public = PUBLIC_PATHS.contains(&request.path)
            || public.is_some()
            || self.dashboard.part(request.path).is_some();
        if let Some(refusal) = self.access.reject(request, is_public) {
            return respond(refusal);
        }
        if let Some(page) = public {
            return respond(page);
        }
        let has_token = self.access.has_token(request);
        let page = match request.method {
            "POST" => {
                let command = self.pages.command(request.path, request.query);
                let none =
                    || Page::Ready(Response::text(405, "use GET\n").with_header("Allow", "GET"));
                command.unwrap_or_else(none)
            }
            _ => self.page(request.path, request.query, has_token),
        };
        match page {
            Page::Ready(response) => respond(response),
            Page::Deferred(compute) => self.compute(conn, compute),
            // Only calls have streams.
            Page::Stream(_) => busy(),
        }
    }

    fn on_posted(&mut self, io: &mut ServerIo, posted: Posted) {
        match posted {
            Posted::Response(conn, response) => io.respond(conn, &response),
            Posted::Lines(conn, lines) => self.streams.send(io, conn, &lines),
            Posted::End(conn) => {
                self.streams.close(conn);
                io.finish(conn);
            }
            Posted::Stop => {
                self.is_draining = true;
                self.streams.close_all();
                io.stop_accepting();
                io.set_timer(io.now_ms() + DRAIN_MS, DRAINED);
            }
        }
    }

    fn on_timer(&mut self, io: &mut ServerIo, token: u64) {
        match token {
            DRAINED => io.stop(),
            REJECTION => self.reject_denied(io),
            _ => {
                self.certificates.iter().for_each(|files| files.check());
                let counts = self.certificates.iter().map(|files| files.counts());
                let of_pages = self.pages.check_files();
                let reloads = counts.fold(of_pages, |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
                self.dashboard.sample(reloads);
                let interval_ms = SAMPLE_INTERVAL.as_millis() as u64;
                io.set_timer(io.now_ms() + interval_ms, TICK);
            }
        }
    }

    fn on_iteration_end(&mut self, io: &mut ServerIo) {
        if self.is_draining {
            io.close_idle();
            if io.connections() == 0 {
                io.stop();
            }
        }
    }

    fn on_message(&mut self, _io: &mut ServerIo, _conn: ConnId, _text: &str) {}
    fn on_closed(&mut self, _io: &mut ServerIo, conn: ConnId, _tag: u64, _reason: CloseReason) {
        self.streams.close(conn);
    }
    fn on_writable(&mut self, _io: &mut ServerIo, _conn: ConnId, _tag: u64) {}
    fn on_detached(&mut self, _io: &mut ServerIo, _connection: Detached) {}
}
