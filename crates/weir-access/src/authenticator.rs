//! Identification of clients, and the state that all shards share for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use crossbeam_channel::Receiver;
use serde_json::Value;
use weir_identity::config::{RevocationTopic, SessionRule, TokenSource};
use weir_identity::keys::KeyAvailability;
use weir_identity::keys::KeyRotation;
use weir_identity::rules::{Allowance, Denial, GrantTable, Grants, ItemRules, RecordSelection};
use weir_identity::token::{IdentifiedClient, TokenCache, TokenError, TokenVerifier};
use weir_identity::{
    AuthMethod, ClaimPath, Claims, ReservedClaims, Revocation, RevocationError, RevocationKey,
    Revocations, TooManyValues, UserIdentity,
};
use weir_net::http1::HttpRequest;
use weir_net::tls::CertificateNames;
use weir_tlcp::request::Bandwidth;

use crate::access::{SessionAccess, lower};
use crate::certificate::{certificate_end_ms, certified_client, with_names};
use crate::config::AccessConfig;
use crate::counters::AuthCounters;
use crate::credentials::{ConnectionCredentials, Credential, Credentials};
use crate::failure::AuthFailure;
use crate::key_source::{FetchError, KeySource};
use crate::keys::{KeyStatus, KeyStore, OnRefresh};
use crate::usage::{SessionPlace, TooManySessions, UsageOwner, UsageTable};
use weir_net::lock;

/// Verified tokens that are stored, for reconnections.
const TOKENS_MAX: usize = 100_000;
/// Revocations that are stored.
const REVOCATIONS_MAX: usize = 100_000;
/// Minimum time from the expiry of a token to the end of its session.
const EXPIRY_GRACE_MS: u64 = 5_000;
/// Period over which the ends of sessions are spread.
const EXPIRY_SPREAD_MS: u64 = 1_000;

/// A change that concerns sessions of all shards.
#[derive(Debug, Clone)]
pub enum AccessChange {
    /// Keys were fetched, or the fetch failed.
    Keys,
    /// Tokens were revoked.
    Revoked(Arc<Revocation>),
}

/// Callback that informs the shards.
type Notify = Box<dyn Fn(AccessChange) + Send + Sync>;

/// Rights of a new session.
#[derive(Debug)]
pub struct Admitted {
    /// Rights of the session.
    pub access: SessionAccess,
    /// Session of the same user that has to end.
    pub replaced: Option<SessionPlace>,
}

/// Times at which a request is checked.
#[derive(Debug, Clone, Copy)]
pub struct AccessTime {
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    /// Time of the event loop in milliseconds.
    pub loop_ms: u64,
}

/// Identifies clients by token or certificate, and determines their rights.
pub struct Authenticator {
    sources: Vec<TokenSource>,
    /// Identity of clients without credentials, if they are admitted.
    anonymous: Option<Arc<IdentifiedClient>>,
    /// Claim with the tenant.
    tenant_claim: Option<ClaimPath>,
    verifier: TokenVerifier,
    keys: KeyStore,
    /// Sources of keys, until the threads start.
    key_sources: Mutex<Vec<KeySource>>,
    tokens: Mutex<StoredTokens>,
    revocations: RwLock<Revocations>,
    /// Topic with the revocations of all gateways.
    revocation_topic: Option<RevocationTopic>,
    /// `false` until the revocations of other gateways are stored.
    has_revocations: AtomicBool,
    /// Reason why they are not stored yet.
    pending_reason: Mutex<String>,
    item_rules: Option<ItemRules>,
    grant_table: Mutex<GrantTable>,
    /// Numbers of items allowed and denied by each rule, and by none.
    decisions: Vec<[AtomicU64; 2]>,
    session_rules: Vec<SessionRule>,
    usage: Arc<UsageTable>,
    /// Counts of identifications and decisions.
    pub counters: AuthCounters,
    notify: OnceLock<Notify>,
}

/// Verified tokens, and the number of times that keys were withdrawn.
struct StoredTokens {
    cache: TokenCache,
    withdrawals: u64,
}

impl Authenticator {
    /// Creates an authenticator. `connections` are the names of the Kafka connections.
    pub fn new(config: AccessConfig, connections: &[&str]) -> Self {
        let AccessConfig {
            auth,
            item_rules,
            session_rules,
            mut keys,
        } = config;
        let anonymous = auth.anonymous.then(|| {
            let identity = UserIdentity::anonymous();
            let mut claims = Claims::default();
            claims.set_identity(&identity);
            Arc::new(IdentifiedClient {
                identity: Arc::new(identity),
                claims,
            })
        });
        Self {
            anonymous,
            tenant_claim: auth.tenant_claim.clone(),
            verifier: TokenVerifier::new(&auth),
            keys: KeyStore::new(&auth.issuers, &mut keys),
            key_sources: Mutex::new(keys),
            tokens: Mutex::new(StoredTokens {
                cache: TokenCache::new(TOKENS_MAX),
                withdrawals: 0,
            }),
            revocations: RwLock::new(Revocations::new(REVOCATIONS_MAX)),
            has_revocations: AtomicBool::new(auth.revocations.is_none()),
            pending_reason: Mutex::new("not read yet".to_owned()),
            revocation_topic: auth.revocations,
            decisions: (0..=item_rules.len()).map(|_| Default::default()).collect(),
            item_rules: (!item_rules.is_empty()).then(|| ItemRules::new(item_rules, connections)),
            grant_table: Mutex::default(),
            session_rules,
            usage: Arc::default(),
            counters: AuthCounters::default(),
            notify: OnceLock::new(),
            sources: auth.sources,
        }
    }

    /// Starts the threads that fetch keys; they end after `stopped` is disconnected. `notify`
    /// informs the shards.
    pub fn start(
        self: &Arc<Self>,
        stopped: &Receiver<()>,
        notify: impl Fn(AccessChange) + Send + Sync + 'static,
    ) -> std::io::Result<()> {
        // A second start would change nothing.
        let _ = self.notify.set(Box::new(notify));
        let this = Arc::downgrade(self);
        let on_refresh: OnRefresh = Arc::new(move |withdrawn| {
            if let Some(this) = this.upgrade() {
                this.refreshed(withdrawn);
            }
        });
        let sources = std::mem::take(&mut *lock(&self.key_sources));
        self.keys.start(sources, stopped, &on_refresh)
    }

    /// Fetches the keys of all issuers once. Returns the index and the error of each issuer whose
    /// fetch failed.
    pub(crate) fn fetch_keys(&self) -> Vec<(usize, FetchError)> {
        let mut failed = Vec::new();
        let sources = std::mem::take(&mut *lock(&self.key_sources));
        for (issuer, source) in sources.iter().enumerate() {
            let KeySource::Web(endpoint) = source else {
                continue;
            };
            match endpoint.fetch() {
                Ok((keys, _)) => self.keys.rotate(issuer, |rotation| {
                    rotation.start_fetch(0);
                    rotation.fetched(keys, None, 0);
                }),
                Err(error) => failed.push((issuer, error)),
            }
        }
        failed
    }

    /// Handles the end of a key fetch. `withdrawn` is `true` if the fetch has removed keys; stored
    /// tokens are then discarded.
    pub fn refreshed(&self, withdrawn: bool) {
        if withdrawn {
            let mut tokens = lock(&self.tokens);
            tokens.withdrawals += 1;
            tokens.cache.clear();
        }
        self.inform(AccessChange::Keys);
    }

    fn inform(&self, change: AccessChange) {
        if let Some(notify) = self.notify.get() {
            notify(change);
        }
    }

    /// Returns the credentials in the header of a request. `names` returns the names in the client
    /// certificate of its connection.
    pub fn connection_credentials(
        &self,
        request: &HttpRequest<'_>,
        names: impl FnOnce() -> Option<CertificateNames>,
    ) -> Option<Box<ConnectionCredentials>> {
        ConnectionCredentials::of(request, names, &self.sources).map(Box::new)
    }

    /// Identifies the client of a request.
    pub fn identify(
        &self,
        credentials: Credentials<'_>,
        unix_ms: u64,
    ) -> Result<Arc<IdentifiedClient>, AuthFailure> {
        let found = credentials.find(&self.sources);
        let (source, client) = match found {
            Some((source, Credential::Token(token))) => {
                let client = self.verify(token, credentials.user, unix_ms);
                let client = client.map(|client| match credentials.names() {
                    Some(names) => Arc::new(with_names(&client, names)),
                    None => client,
                });
                (source_name(source), client)
            }
            Some((source, Credential::Certificate(names))) => {
                let client = self.certified(names, credentials.user, unix_ms);
                (source_name(source), client)
            }
            None => {
                let client = self.anonymous.clone().ok_or(AuthFailure::NoCredentials);
                ("none", client)
            }
        };
        // A request that waits for keys is counted when it is repeated.
        match &client {
            Ok(_) => self.counters.identified((source, "allow", "")),
            Err(AuthFailure::KeysPending) => {}
            Err(failure) => self.counters.identified((source, "deny", failure.reason())),
        }
        client
    }

    /// Returns the client of a token. Verifies the token, unless it is stored as verified.
    pub fn verify(
        &self,
        token: &str,
        expected_user: Option<&str>,
        unix_ms: u64,
    ) -> Result<Arc<IdentifiedClient>, AuthFailure> {
        let (found, withdrawals) = {
            let mut tokens = lock(&self.tokens);
            (tokens.cache.get(token), tokens.withdrawals)
        };
        let verified = match found {
            Some(found) => found,
            None => {
                let verified = self.verifier.verify(token, &self.keys.sets(), unix_ms);
                let verified = Arc::new(verified.map_err(|error| self.token_failure(error))?);
                let mut tokens = lock(&self.tokens);
                // The key may have been withdrawn meanwhile.
                if tokens.withdrawals == withdrawals {
                    tokens.cache.insert(token, Arc::clone(&verified));
                }
                verified
            }
        };
        self.recheck(&verified.identity, expected_user, unix_ms)?;
        Ok(verified)
    }

    /// Returns the client that a certificate identifies.
    fn certified(
        &self,
        names: &CertificateNames,
        expected_user: Option<&str>,
        unix_ms: u64,
    ) -> Result<Arc<IdentifiedClient>, AuthFailure> {
        let client = certified_client(names, self.tenant_claim.as_ref())?;
        self.recheck(&client.identity, expected_user, unix_ms)?;
        Ok(Arc::new(client))
    }

    /// Checks expiry, expected user and revocations of an identity.
    fn recheck(
        &self,
        identity: &UserIdentity,
        expected_user: Option<&str>,
        unix_ms: u64,
    ) -> Result<(), AuthFailure> {
        if !self.has_revocations.load(Ordering::Acquire) {
            return Err(AuthFailure::RevocationsPending);
        }
        let revocations = self.revocations.read();
        let revocations = revocations.unwrap_or_else(PoisonError::into_inner);
        Ok((self.verifier).recheck(identity, expected_user, &revocations, unix_ms)?)
    }

    /// Converts a token error. Requests a fetch if the key is unknown; the failure is then
    /// `KeysPending` if the key may become available.
    fn token_failure(&self, error: TokenError) -> AuthFailure {
        let TokenError::UnknownKey { issuer } = error else {
            return error.into();
        };
        match self.keys.request_key(issuer) {
            KeyAvailability::Pending => AuthFailure::KeysPending,
            KeyAvailability::Unavailable => TokenError::KeysUnavailable { issuer }.into(),
            KeyAvailability::Unknown => error.into(),
        }
    }

    /// Returns the rights of an identified client. `spread` distributes the ends of sessions whose
    /// tokens end at the same time.
    pub fn access(
        &self,
        client: &IdentifiedClient,
        now: AccessTime,
        spread: u64,
    ) -> Result<Admitted, AuthFailure> {
        let grants = self.grants(client)?;
        let place = SessionRule::first(&self.session_rules, &client.claims)?;
        let rule = place.map(|place| &self.session_rules[place]);
        let (mut shares, mut replaced) = (Vec::new(), None);
        // The user comes last: a session that has to end has lost its place, so nothing may reject
        // the new one any more.
        for (owner, limits, end_oldest) in rule.into_iter().flat_map(|rule| {
            [
                (UsageOwner::tenant(&client.identity), rule.per_tenant, false),
                (
                    UsageOwner::user(&client.identity),
                    rule.per_user,
                    rule.end_oldest,
                ),
            ]
        }) {
            if let Some(owner) = owner.filter(|_| !limits.is_unlimited()) {
                let begun = self.usage.begin(owner, limits, end_oldest);
                let (share, oldest) =
                    begun.map_err(|TooManySessions| AuthFailure::TooManySessions)?;
                shares.push(share);
                replaced = replaced.or(oldest);
            }
        }
        let age_max_ms = rule.and_then(|rule| rule.age_max_ms);
        let age_limit_ms = age_max_ms.map_or(u64::MAX, |age_ms| now.loop_ms.saturating_add(age_ms));
        // Without a token, the certificate is the identity, and its end is already the expiry.
        let names = client.claims.own(ReservedClaims::Tls);
        let names = names.filter(|_| client.identity.method() == AuthMethod::Jwt);
        let certificate_ms = names.and_then(certificate_end_ms);
        let certificate_ms = certificate_ms.map_or(u64::MAX, |end_ms| {
            let left_ms = end_ms.saturating_sub(now.unix_ms);
            now.loop_ms.saturating_add(left_ms)
        });
        let age_limit_ms = age_limit_ms.min(certificate_ms);
        let access = SessionAccess {
            identity: Arc::clone(&client.identity),
            grants,
            rule: place.map(|place| place as u16),
            age_limit_ms,
            end_ms: age_limit_ms.min(self.expiry_ms(&client.identity, now, spread)),
            shares: shares.into(),
            certificate: names.cloned().map(Box::new),
            count: self.counters.begin_session(client.identity.method()),
        };
        Ok(Admitted { access, replaced })
    }

    /// Gives a session the rights of a new token of the same user.
    pub fn refresh(
        &self,
        access: &mut SessionAccess,
        token: &str,
        now: AccessTime,
        spread: u64,
    ) -> Result<Arc<IdentifiedClient>, AuthFailure> {
        let client = self.verify(token, None, now.unix_ms)?;
        if !access.identity.is_same_user(&client.identity) {
            return Err(TokenError::OtherUser.into());
        }
        let client = match &access.certificate {
            None => client,
            Some(names) => {
                let mut combined = IdentifiedClient::clone(&client);
                combined
                    .claims
                    .replace_own(ReservedClaims::Tls, Value::clone(names));
                Arc::new(combined)
            }
        };
        let grants = self.grants(&client)?;
        let rule = SessionRule::first(&self.session_rules, &client.claims)?;
        access.identity = Arc::clone(&client.identity);
        access.grants = grants;
        // Shared limits do not change: they were counted when the session began.
        access.rule = rule.map(|place| place as u16);
        let expiry_ms = self.expiry_ms(&client.identity, now, spread);
        access.end_ms = access.age_limit_ms.min(expiry_ms);
        self.counters.refreshed();
        Ok(client)
    }

    /// Returns the time of the event loop at which a session with this identity ends. The session
    /// outlives the acceptance of its token; otherwise the client could reconnect with the token.
    fn expiry_ms(&self, identity: &UserIdentity, now: AccessTime, spread: u64) -> u64 {
        let expires_ms = identity.expires_ms();
        if expires_ms == u64::MAX {
            return u64::MAX;
        }
        let grace_ms = self.verifier.skew_ms().max(EXPIRY_GRACE_MS) + spread % EXPIRY_SPREAD_MS;
        let end_ms = expires_ms.saturating_add(grace_ms);
        let left_ms = end_ms.saturating_sub(now.unix_ms);
        now.loop_ms.saturating_add(left_ms)
    }

    fn grants(&self, client: &IdentifiedClient) -> Result<Option<Grants>, TooManyValues> {
        let grants = self.item_rules.as_ref().map(|rules| {
            let mut table = lock(&self.grant_table);
            rules.grants(&client.claims, &mut table)
        });
        grants.transpose()
    }

    /// Returns the session rule that applies to a session.
    pub(crate) fn session_rule(&self, access: &SessionAccess) -> Option<&SessionRule> {
        self.session_rules.get(usize::from(access.rule?))
    }

    /// Returns `true` if a session with `count` subscriptions may have one more.
    pub fn may_subscribe(&self, access: &SessionAccess, count: usize) -> bool {
        let most = self
            .session_rule(access)
            .and_then(|rule| rule.subscriptions_max);
        most.is_none_or(|most| count < most as usize) && access.may_subscribe()
    }

    /// Returns the bandwidth of a session that requests `wanted`; `None` changes nothing.
    pub fn bandwidth(
        &self,
        access: &SessionAccess,
        wanted: Option<Bandwidth>,
    ) -> Option<Bandwidth> {
        let most = self
            .session_rule(access)
            .and_then(|rule| rule.bandwidth_max_kbps);
        let Some(most) = lower(most, self.shared_bandwidth(access)) else {
            return wanted;
        };
        Some(Bandwidth::Kbps(match wanted {
            Some(Bandwidth::Kbps(wanted)) => wanted.min(most),
            Some(Bandwidth::Unlimited) | None => most,
        }))
    }

    /// Returns the part of its user's or tenant's bandwidth that a session has now, in kbit/s.
    pub fn shared_bandwidth(&self, access: &SessionAccess) -> Option<f64> {
        let shares = access.shares.iter();
        shares.fold(None, |most, share| lower(most, share.bandwidth_kbps()))
    }

    /// Returns the item rules, if there are any.
    pub fn item_rules(&self) -> Option<&ItemRules> {
        self.item_rules.as_ref()
    }

    /// Returns the expressions by whose values rules distinguish records of a Kafka connection;
    /// none if no such rule applies to it.
    pub fn record_selections(&self, connection: &str) -> Vec<RecordSelection> {
        let rules: Vec<_> = self
            .item_rules()
            .map_or_else(Vec::new, |rules| rules.rules().cloned().collect());
        let all = RecordSelection::of_connection(&rules, connection);
        match all.iter().any(RecordSelection::is_used) {
            true => all,
            false => Vec::new(),
        }
    }

    /// Returns `true` if tokens of this identity are revoked.
    pub fn is_revoked(&self, identity: &UserIdentity) -> bool {
        let revocations = self.revocations.read();
        let revocations = revocations.unwrap_or_else(PoisonError::into_inner);
        revocations.is_revoked(identity)
    }

    /// Revokes tokens and ends the sessions that they have opened. Returns the entry that is stored
    /// now, which may combine an earlier one.
    ///
    /// # Errors
    /// The entry is invalid, or too many are stored.
    pub fn revoke(&self, entry: Revocation) -> Result<Revocation, RevocationError> {
        let (stored, is_new) = self.store_revocation(|revocations| {
            let (stored, is_new) = revocations.insert(entry)?;
            Ok((stored.clone(), is_new))
        })?;
        // Clients with credentials wait until all revocations are known.
        if is_new && self.has_revocations.load(Ordering::Acquire) {
            self.inform(AccessChange::Revoked(Arc::new(stored.clone())));
        }
        Ok(stored)
    }

    /// Returns the topic with the revocations of all gateways. Clients with credentials are refused
    /// until [`Self::revocations_are_known`].
    pub fn revocation_topic(&self) -> Option<&RevocationTopic> {
        self.revocation_topic.as_ref()
    }

    /// Stores why the revocations of other gateways are not known yet, for the operator.
    pub fn await_revocations(&self, reason: String) {
        *lock(&self.pending_reason) = reason;
    }

    /// Notes that the revocations of other gateways are stored.
    pub fn revocations_are_known(&self) {
        self.has_revocations.store(true, Ordering::Release);
    }

    /// Returns the reason why the revocations of other gateways are not known yet.
    pub fn awaited_revocations(&self) -> Option<String> {
        let is_known = self.has_revocations.load(Ordering::Acquire);
        (!is_known).then(|| lock(&self.pending_reason).clone())
    }

    /// Removes a revocation. Returns `false` if there was none.
    pub fn withdraw_revocation(&self, key: &RevocationKey) -> bool {
        self.store_revocation(|revocations| revocations.remove(key))
    }

    /// Returns the revocations whose tokens have not expired.
    pub fn revocations(&self, unix_ms: u64) -> Vec<Revocation> {
        self.remove_expired_revocations(unix_ms);
        self.store_revocation(|revocations| revocations.iter().cloned().collect())
    }

    /// Removes the revocations whose tokens have expired.
    pub fn remove_expired_revocations(&self, unix_ms: u64) {
        self.store_revocation(|revocations| revocations.remove_expired(unix_ms));
    }

    fn store_revocation<T>(&self, change: impl FnOnce(&mut Revocations) -> T) -> T {
        let revocations = self.revocations.write();
        change(&mut revocations.unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the rotation of the first issuer's keys.
    pub fn rotate(&self, change: impl FnOnce(&mut KeyRotation)) {
        self.keys.rotate(0, change);
    }

    /// Returns the number of revocations.
    pub fn revocation_count(&self) -> usize {
        self.store_revocation(|revocations| revocations.len())
    }

    /// Returns the decisions about items: name of the rule or `none`, outcome, number.
    pub fn decisions(&self) -> impl Iterator<Item = (&str, &'static str, u64)> {
        let names = self.item_rules.iter().flat_map(|rules| rules.rules());
        let names = names.map(|rule| &*rule.name).chain(std::iter::once("none"));
        let counts = names.zip(&self.decisions);
        counts.flat_map(|(name, counts)| {
            let [allowed, denied] = counts.each_ref().map(|one| one.load(Ordering::Relaxed));
            [(name, "allow", allowed), (name, "deny", denied)]
        })
    }

    /// Counts a decision about an item.
    pub fn count_decision(&self, decided: &Result<Allowance, Denial>) {
        let (rule, outcome) = match decided {
            Ok(allowed) => (Some(allowed.rule), 0),
            Err(Denial::Item { rule }) => (*rule, 1),
            Err(Denial::Unfiltered { rule }) => (Some(*rule), 1),
            Err(Denial::Mode | Denial::Field) => (None, 1),
        };
        let none = self.decisions.len() - 1;
        self.decisions[rule.unwrap_or(none)][outcome].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the issuers without valid keys: the gateway is not ready for their clients.
    pub fn issuers_without_keys(&self) -> Vec<String> {
        self.keys.missing().map(str::to_owned).collect()
    }

    /// Returns the state of the keys of each issuer.
    pub fn key_status(&self) -> Vec<KeyStatus> {
        self.keys.status().collect()
    }
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Authenticator");
        debug
            .field("sources", &self.sources)
            .finish_non_exhaustive()
    }
}

/// Returns the name of a source in metrics.
fn source_name(source: &TokenSource) -> &'static str {
    match source {
        TokenSource::Password => "password",
        TokenSource::Header => "header",
        TokenSource::Cookie(_) => "cookie",
        TokenSource::Certificate => "certificate",
    }
}
