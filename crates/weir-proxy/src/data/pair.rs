//! A connection pair: a client's connection and its broker connection.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_identity::Principal;
use weir_net::proxy_header::ProxyHeader;
use weir_net::stream::{SendQueue, SocketStream, TlsBuffers};

use super::admission::Admitted;
use super::arrival::Origin;
use super::broker_session::BrokerSession;
use super::events::{Candidate, ConnectionInfo};
use super::filter_pool::CancelOnDrop;
use super::memory::Claim;
use super::pipe::SplicePipe;
use super::{ListenerTarget, PairId};
use crate::config::HostPort;
use crate::login::LoginGate;
use crate::principal_counters::PrincipalTraffic;
use crate::versions::{FETCH, PRODUCE, SupportedVersions};
use crate::virtual_cluster::VirtualCluster;
use crate::wire::{
    InFlightRequests, RequestStream, ResponseSource, ResponseStream, UnfinishedFrame,
};
use weir_filters::Direction;
use weir_rules::{Access, AccessState};

/// Time after the begin of a connection in which its first request usually arrives.
pub(super) const FIRST_REQUEST_MS: u64 = 1_000;

#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) stream: SocketStream,
    /// Reading may return bytes.
    pub(super) readable: bool,
    /// The peer has closed; reads continue until the end.
    pub(super) hung_up: bool,
    /// The peer sends nothing more.
    pub(super) ended: bool,
    /// The proxy sends nothing more.
    pub(super) finished: bool,
    /// The socket did not accept all bytes; an event reports when it is writable.
    pub(super) blocked: bool,
    /// Number of reads that stay smaller because this side was slow to accept bytes.
    pub(super) read_backoff: u8,
}

impl Endpoint {
    pub(super) fn new(stream: SocketStream) -> Self {
        Self {
            stream,
            // An event may have come before the socket was registered.
            readable: true,
            hung_up: false,
            ended: false,
            finished: false,
            blocked: false,
            read_backoff: 0,
        }
    }

    pub(super) fn finish(&mut self, tls: &mut TlsBuffers) {
        if !std::mem::replace(&mut self.finished, true) {
            self.stream.finish(tls);
        }
    }

    /// Returns `true` if a write may succeed. TLS may wait for bytes from the peer instead of a
    /// writable socket.
    pub(super) fn may_write(&self) -> bool {
        !self.blocked || !self.stream.is_plain()
    }

    /// Returns `true` if there are bytes of `queue` or messages of TLS that a write may send.
    pub(super) fn has_to_send(&self, queue: &SendQueue) -> bool {
        (!queue.is_empty() || self.stream.wants_write()) && self.may_write()
    }
}

/// The state of the broker connection.
#[derive(Debug)]
pub(super) enum Upstream {
    /// No broker connection, because the client has sent no request yet.
    None,
    /// Resolution of host names, with its deadline in milliseconds.
    Resolving(u64),
    /// A connection attempt, with further candidates and its deadline in milliseconds.
    Connecting(Box<Endpoint>, Vec<Candidate>, u64),
    /// An open connection, with the deadline of the TLS handshake in milliseconds.
    Open(Box<Endpoint>, u64),
}

impl Upstream {
    pub(super) fn side(&mut self) -> Option<&mut Endpoint> {
        match self {
            Self::Connecting(side, ..) | Self::Open(side, _) => Some(side),
            Self::None | Self::Resolving(_) => None,
        }
    }

    /// Returns `true` if the connection is open and does not use TLS.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Self::Open(side, _) if side.stream.is_plain())
    }

    pub(super) fn open(&mut self) -> Option<&mut Endpoint> {
        match self {
            Self::Open(side, _) => Some(side),
            _ => None,
        }
    }
}

/// The reason why a frame waits. Later frames of its direction wait behind it.
#[derive(Debug)]
pub(super) enum WaitReason {
    /// A delay until this time, in milliseconds.
    Until(u64, Vec<u8>),
    /// Filter work that waits for memory.
    Unfinished(UnfinishedFrame),
    /// Filter work in the filter threads, with the size of the frame in bytes.
    Working(
        usize,
        #[expect(dead_code, reason = "dropping it cancels the task")] CancelOnDrop,
    ),
}

impl WaitReason {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Until(_, frame) => frame.len(),
            Self::Unfinished(unfinished) => unfinished.frame.len(),
            Self::Working(bytes, _) => *bytes,
        }
    }

    /// Returns the time at which the wait ends, if it is known.
    pub(super) fn until_ms(&self) -> Option<u64> {
        match self {
            Self::Until(at_ms, _) => Some(*at_ms),
            Self::Unfinished(_) | Self::Working(..) => None,
        }
    }
}

/// The start of a partly received request.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlowFrame {
    /// Number of requests before it.
    pub(super) counted: u64,
    /// Bytes of all requests at the last check.
    pub(super) bytes: u64,
    /// Time by which it must have made progress.
    pub(super) until_ms: u64,
    /// The proxy did not read for part of the time.
    pub(super) paused: bool,
}

/// State of one direction of a pair.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Bytes that the socket has not accepted.
    pub(super) queue: SendQueue,
    /// Frame that waits for a delay, memory or filters.
    pub(super) delayed: Option<WaitReason>,
    pub(super) memory: Option<Claim>,
    /// Time in microseconds since which a frame waits for filters.
    pub(super) held_since_us: Option<u64>,
}

impl Flow {
    /// Returns `true` unless memory is claimed and not granted.
    pub(super) fn has_memory(&self) -> bool {
        self.memory.as_ref().is_none_or(Claim::is_granted)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.delayed.is_none()
    }

    fn buffered_bytes(&self) -> usize {
        self.queue.bytes() + self.delayed.as_ref().map_or(0, WaitReason::bytes)
    }
}

#[derive(Debug)]
pub(super) struct ConnectionPair {
    pub(super) id: PairId,
    /// The configuration that applies to the pair.
    pub(super) cluster: Arc<VirtualCluster>,
    /// The configuration whose API versions the client may use, if a reload supports fewer.
    pub(super) offered: Option<Arc<VirtualCluster>>,
    pub(super) target: ListenerTarget,
    /// Address of the client.
    pub(super) peer: SocketAddr,
    /// Facts from the first bytes, if those have been read separately.
    pub(super) origin: Option<Box<Origin>>,
    /// The client selects brokers by server name.
    pub(super) by_name: bool,
    pub(super) broker: Option<SocketAddr>,
    /// Host name of the broker as resolved.
    pub(super) broker_host: Option<Arc<str>>,
    /// Time at which the broker last sent bytes or was connected.
    pub(super) broker_active_ms: u64,
    pub(super) since_ms: u64,
    /// Time at which either side last sent bytes.
    pub(super) active_ms: u64,
    pub(super) downstream: Endpoint,
    pub(super) upstream: Upstream,
    /// Direction to the broker.
    pub(super) produce: Flow,
    /// Direction to the client.
    pub(super) fetch: Flow,
    /// Bytes for the client in a pipe; sent before the queue.
    pub(super) pipe: Option<SplicePipe>,
    pub(super) requests: RequestStream,
    pub(super) responses: ResponseStream,
    pub(super) in_flight: InFlightRequests,
    /// Rights under the access rules.
    pub(super) access: AccessState,
    pub(super) software: Option<Box<str>>,
    /// Login at the proxy, if the cluster has one.
    pub(super) login: Option<Box<LoginGate>>,
    /// Owner of the client's certificate, if the cluster has principals of certificates.
    pub(super) certified: Option<Arc<Principal>>,
    /// Login of the proxy at the broker, if the cluster has credentials for that.
    pub(super) broker_session: Option<Box<BrokerSession>>,
    /// Counters of the owner of the connection.
    traffic: Option<Box<PrincipalTraffic>>,
    /// Number of requests so far.
    pub(super) counted: u64,
    pub(super) request_bytes: u64,
    pub(super) response_bytes: u64,
    pub(super) slow_frame: Option<SlowFrame>,
    /// Ends as soon as no request is in flight, because a reload has changed its cluster.
    pub(super) leaving: bool,
    /// Time at which it begins to leave.
    pub(super) leaves_ms: Option<u64>,
    pub(super) admitted: Admitted,
    /// Time at which the pair is closed because one side has ended.
    pub(super) ends_ms: Option<u64>,
    /// Time of the next timer.
    pub(super) armed_ms: u64,
}

impl ConnectionPair {
    pub(super) fn new(
        id: PairId,
        cluster: Arc<VirtualCluster>,
        target: ListenerTarget,
        peer: SocketAddr,
        now_ms: u64,
        (downstream, admitted): (SocketStream, Admitted),
    ) -> Self {
        Self {
            id,
            cluster,
            offered: None,
            target,
            peer,
            origin: None,
            by_name: false,
            broker: None,
            broker_host: None,
            broker_active_ms: now_ms,
            since_ms: now_ms,
            active_ms: now_ms,
            downstream: Endpoint::new(downstream),
            upstream: Upstream::None,
            produce: Flow::default(),
            fetch: Flow::default(),
            pipe: None,
            requests: RequestStream::default(),
            responses: ResponseStream::default(),
            in_flight: InFlightRequests::default(),
            access: AccessState::default(),
            software: None,
            login: None,
            certified: None,
            broker_session: None,
            traffic: None,
            counted: 0,
            request_bytes: 0,
            response_bytes: 0,
            slow_frame: None,
            leaving: false,
            leaves_ms: None,
            admitted,
            ends_ms: None,
            armed_ms: u64::MAX,
        }
    }

    /// Continues with the next configuration of its cluster.
    pub(super) fn switch_to(&mut self, cluster: Arc<VirtualCluster>) {
        self.offered = None;
        self.leaves_ms = None;
        self.use_cluster(cluster);
    }

    /// Continues for now with the next configuration of its cluster, but with the API versions that
    /// the client may have chosen. Returns `false` if it leaves already.
    pub(super) fn leave_with(&mut self, cluster: Arc<VirtualCluster>) -> bool {
        let is_new = self.leaves_ms.is_none();
        self.offered
            .get_or_insert_with(|| Arc::clone(&self.cluster));
        self.use_cluster(cluster);
        is_new
    }

    /// Returns the configuration whose API versions the client may have chosen.
    pub(super) fn offering(&self) -> &Arc<VirtualCluster> {
        self.offered.as_ref().unwrap_or(&self.cluster)
    }

    /// Returns the API versions that are forwarded. Access rules decide about none that they do
    /// not know.
    pub(super) fn supported<'a>(
        offered: Option<&'a Arc<VirtualCluster>>,
        cluster: &'a VirtualCluster,
    ) -> &'a SupportedVersions {
        match offered {
            Some(offered) if cluster.config.access.is_none() => &offered.supported,
            _ => &cluster.supported,
        }
    }

    fn use_cluster(&mut self, cluster: Arc<VirtualCluster>) {
        if let (Some(gate), Some(logins)) = (&mut self.login, &cluster.config.logins) {
            let brokers = cluster.config.broker_identity.clone();
            gate.reconfigure(Arc::clone(logins), brokers);
        }
        self.cluster = cluster;
    }

    /// Returns the rights of the client under the cluster's rules; `None` if all is allowed.
    pub(super) fn access<'a>(
        access: &'a mut AccessState,
        (login, certified): (Option<&LoginGate>, Option<&Arc<Principal>>),
        peer: SocketAddr,
        cluster: &'a VirtualCluster,
    ) -> Option<Access<'a>> {
        let config = &cluster.config;
        let principal = match login {
            Some(login) => login.principal(),
            None => certified,
        };
        let principals = || match (login, principal) {
            (None, None) => Box::from([Principal::anonymous().to_string().into()]),
            // Requests that follow the login in the same read: no rule applies to them.
            (Some(_), None) => Box::default(),
            (_, Some(principal)) => {
                let groups = principal.groups().map(|group| format!("Group:{group}"));
                let all = std::iter::once(principal.to_string()).chain(groups);
                all.map(String::into_boxed_str).collect()
            }
        };
        let rules = config.access.as_ref();
        let session = access.session(rules, principal, principals, peer.ip())?;
        if session.audit.is_none() {
            session.audit = cluster.audit.get().map(|audit| (Arc::clone(audit), peer));
        }
        let names = &config.filters.names;
        Some(Access { session, names })
    }

    /// Returns `true` for a connection whose first request may be on its way. Closing it would
    /// reset it, and its client would take the proxy for broken.
    pub(super) fn is_new(&self, now_ms: u64) -> bool {
        self.response_bytes == 0 && now_ms < self.new_until_ms()
    }

    /// Returns when the connection has had the time for a first request.
    pub(super) fn new_until_ms(&self) -> u64 {
        self.since_ms + FIRST_REQUEST_MS
    }

    /// Returns `true` if no request is in flight and nothing is partly received or sent.
    pub(super) fn is_quiet(&self) -> bool {
        self.in_flight.is_empty()
            && self.responses.is_between()
            && !self.requests.is_mid_request()
            && !self.requests.has_backlog()
            && self.produce.is_idle()
            && self.fetch.is_idle()
            && self.pipe.is_none()
    }

    pub(super) fn flow(&mut self, direction: Direction) -> &mut Flow {
        match direction {
            Direction::Produce => &mut self.produce,
            Direction::Fetch => &mut self.fetch,
        }
    }

    /// Returns `true` if a frame waits in either direction.
    pub(super) fn has_delayed(&self) -> bool {
        self.produce.delayed.is_some() || self.fetch.delayed.is_some()
    }

    /// Returns the size of the frame that is being buffered, 0 if there is none.
    pub(super) fn needed_bytes(&self, direction: Direction) -> usize {
        match direction {
            Direction::Produce => self.requests.needed_bytes(),
            Direction::Fetch => self.responses.needed_bytes(),
        }
    }

    /// Returns `true` if a response of `broker` is outstanding and the broker has sent nothing
    /// since `before_ms`.
    pub(super) fn waits_for(&self, broker: &HostPort, before_ms: u64) -> bool {
        let is_broker = matches!((self.broker, &self.broker_host), (Some(address), Some(host))
            if broker.is(host, address.port()));
        let waits = match self.in_flight.front() {
            Some(entry) => !matches!(entry.response, ResponseSource::Ready(_)),
            None => false,
        };
        is_broker && waits && self.broker_active_ms <= before_ms
    }

    /// Returns `true` if no bytes are waiting to be sent to the client.
    pub(super) fn has_sent_all(&self) -> bool {
        self.fetch.queue.is_empty() && self.pipe.is_none()
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        self.produce.buffered_bytes()
            + self.fetch.buffered_bytes()
            + self.pipe.as_ref().map_or(0, SplicePipe::bytes)
            + self.requests.buffered_bytes()
            + self.responses.buffered_bytes()
            + self.in_flight.own_bytes()
    }

    /// Returns the owner of the connection, if it has logged in at the proxy or has a certificate.
    pub(super) fn principal(&self) -> Option<&Principal> {
        let principal = match &self.login {
            Some(login) => login.principal(),
            None => self.certified.as_ref(),
        };
        principal.map(|principal| &**principal)
    }

    /// Counts the frame of a direction that has waited for filters, if one has.
    pub(super) fn count_held(&mut self, direction: Direction) {
        if let Some(since_us) = self.flow(direction).held_since_us.take() {
            let key = match direction {
                Direction::Produce => PRODUCE,
                Direction::Fetch => FETCH,
            };
            self.in_flight.count_held(key, since_us);
        }
    }

    /// Adds the requests and bytes so far to the counters of the owner of the connection.
    pub(super) fn count_traffic(&mut self) {
        let principal = match &self.login {
            Some(login) => login.principal(),
            None => self.certified.as_ref(),
        };
        let Some(principal) = principal else {
            return;
        };
        let traffic = self.traffic.get_or_insert_with(|| {
            let principals = &self.cluster.apis.principals;
            Box::new(PrincipalTraffic::new(principals, principal.to_string()))
        });
        traffic.add([self.counted, self.request_bytes, self.response_bytes]);
    }

    pub(super) fn info(&self, now_ms: u64) -> ConnectionInfo {
        let state = match &self.upstream {
            Upstream::None => "waiting",
            Upstream::Resolving(_) | Upstream::Connecting(..) => "connecting",
            Upstream::Open(..) => "open",
        };
        let origin = self.origin.as_deref();
        let header = origin.map(|origin| &origin.header);
        ConnectionInfo {
            cluster: self.cluster.config.name.clone(),
            client: self.peer.to_string(),
            via: origin.and_then(|origin| origin.via.map(|via| via.to_string())),
            server_name: header.and_then(|header| header.authority.as_deref().map(str::to_owned)),
            forwarded_common_name: header
                .and_then(ProxyHeader::verified_name)
                .map(str::to_owned),
            software: self.software.as_deref().map(str::to_owned),
            principal: self.principal().map(Principal::to_string),
            broker: self.broker.map(|broker| broker.to_string()),
            node_id: self.target.node_id(),
            state,
            age_ms: now_ms.saturating_sub(self.since_ms),
            idle_ms: now_ms.saturating_sub(self.active_ms),
            requests: self.counted,
            in_flight: self.in_flight.len(),
            request_bytes: self.request_bytes,
            response_bytes: self.response_bytes,
            buffered_bytes: self.buffered_bytes(),
        }
    }
}
