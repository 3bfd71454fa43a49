//! Tokens of a real identity provider, and item rules on the wire.

#[path = "../../weir-identity/tests/support/model.rs"]
mod model;
mod support;

use std::collections::{BTreeSet, VecDeque};
use std::io::Write as _;
use std::net::SocketAddr;

use model::naive;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Map, Value, json};
use support::http::{create_by_poll_with, post};
use support::identity::{
    KEYS, REFRESHES, config, create, fetch_often, issuer, token, token_of, with_key_id,
};
use support::{Client, TestEnv, metric, wait_metric};
use weir_gateway::Gateway;
use weir_identity::config::ItemRule;
use weir_identity::rules::ItemAccess;
use weir_identity::{Claims, ItemMode, Revocation, RevocationKey};
use weir_lab::identity::{Issuer, IssuerFault};

const KEY: &str = "Quince";
const DISCOVERY: &str = "keys = \"discovery\"";
const ANY_ITEM: &str = "[[authorize]]\nname = \"all\"\nitems = [\"*\"]\n";
/// Records of each phase of a rotation.
const PHASE: usize = 50;

/// Sessions that all receive the same records, from different ones on.
struct Crowd<'a> {
    env: &'a TestEnv,
    gateway: &'a Gateway,
    /// Clients and their first record.
    clients: Vec<(Client, usize)>,
    records: usize,
}

impl Crowd<'_> {
    fn join(&mut self, token: &str, count: usize) {
        for _ in 0..count {
            let mut client = create(self.gateway, token).expect("a session");
            client.subscribe(1, &format!("ltest-[key={KEY}]"), "value");
            self.clients.push((client, self.records));
        }
    }

    fn produce(&mut self) {
        for number in self.records..self.records + PHASE {
            self.env.send(KEY, &number.to_string());
        }
        self.env.flush();
        self.records += PHASE;
    }

    /// Checks that every client has received every record since it subscribed, and nothing else.
    fn check(self) {
        for (mut client, first) in self.clients {
            for number in first..self.records {
                assert_eq!(client.line(), format!("U,1,1,{number}"));
            }
        }
    }
}

/// A key is added, used and withdrawn, and the provider fails and comes back, while records arrive.
#[test]
fn key_rotation_and_outage_lose_no_session() {
    let Some(issuer) = issuer() else { return };
    let env = TestEnv::new();
    let mut config = config(&env, issuer.url(), DISCOVERY, ANY_ITEM);
    fetch_often(&mut config);
    let gateway = env.ready(config);
    let mut crowd = Crowd {
        env: &env,
        gateway: &gateway,
        clients: Vec::new(),
        records: 0,
    };
    let old = token(&issuer, json!({}));
    crowd.join(&old, 20);
    crowd.produce();

    let key = issuer.add_key("RS256").expect("a key");
    wait_metric(&gateway, KEYS, |keys| keys == 2);
    issuer.sign_with(&key).expect("a known key");
    let new = token(&issuer, json!({}));
    crowd.join(&new, 20);
    crowd.join(&old, 5);
    crowd.produce();

    issuer
        .withdraw_key(issuer.first_key())
        .expect("a key that does not sign");
    wait_metric(&gateway, KEYS, |keys| keys == 1);
    let refused = create(&gateway, &old).err().expect("its key is withdrawn");
    assert!(refused.starts_with("CONERR,1,"), "{refused}");
    crowd.join(&new, 5);
    crowd.produce();

    issuer.set_fault(IssuerFault::Refused).expect("a fault");
    let before = metric(&gateway, REFRESHES);
    wait_metric(&gateway, REFRESHES, |count| count >= before + 3);
    crowd.join(&new, 5);
    let refused = create(&gateway, &with_key_id(&new, "new")).err();
    let refused = refused.expect("its key is unknown");
    assert!(refused.starts_with("CONERR,6,"), "{refused}");
    crowd.produce();

    issuer.set_fault(IssuerFault::None).expect("no fault");
    let before = metric(&gateway, REFRESHES);
    wait_metric(&gateway, REFRESHES, |count| count >= before + 2);
    let refused = create(&gateway, &with_key_id(&new, "new")).err();
    let refused = refused.expect("its key does not exist");
    assert!(refused.starts_with("CONERR,1,"), "{refused}");
    crowd.join(&new, 5);
    crowd.produce();
    crowd.check();
    gateway.shut_down();
}

/// Tokens with made-up key IDs do not make the gateway fetch keys again and again.
#[test]
fn unknown_key_ids_cause_no_fetch_storm() {
    let Some(issuer) = issuer() else { return };
    let env = TestEnv::new();
    let gateway = env.ready(config(&env, issuer.url(), DISCOVERY, ANY_ITEM));
    let good = token(&issuer, json!({}));
    for number in 0..200 {
        let refused = create(&gateway, &with_key_id(&good, &number.to_string())).err();
        let refused = refused.expect("its key is unknown");
        assert!(refused.starts_with("CONERR,"), "{refused}");
    }
    create(&gateway, &good).expect("a session");
    let fetches = issuer.requests().expect("counters").keys;
    // One at the start; on a very slow machine one more after 30 s.
    assert!((1..=3).contains(&fetches), "{fetches}");
    gateway.shut_down();
}

/// A request to subscribe, as a client sends it and as rules see it.
struct ItemRequest {
    keys: Vec<&'static str>,
    mode: ItemMode,
    fields: Vec<&'static str>,
    unfiltered: bool,
}

const RECORD_KEYS: [&str; 4] = ["x", "y", "z", "1"];
/// Key of the record after all others, whose item every client may see.
const LAST: &str = "last";

impl ItemRequest {
    fn random(random: &mut StdRng) -> Self {
        let count = random.random_range(1..3);
        let keys = RECORD_KEYS.choose_multiple(random, count).copied();
        let keys = keys.collect();
        let modes = [ItemMode::Raw, ItemMode::Merge, ItemMode::Distinct];
        // The value changes with each record.
        let fields = [&["value"][..], &["key", "value"], &["value", "partition"]];
        let mode = *modes.choose(random).expect("some");
        Self {
            keys,
            mode,
            fields: fields.choose(random).expect("some").to_vec(),
            unfiltered: mode == ItemMode::Raw || random.random_bool(0.2),
        }
    }

    fn request(&self, sub: usize) -> String {
        let items = self.keys.iter().map(|key| format!("ltest-[key%3D{key}]"));
        let items = items.collect::<Vec<_>>().join("%20");
        let unfiltered = match self.unfiltered && self.mode != ItemMode::Raw {
            true => "&LS_requested_max_frequency=unfiltered",
            false => "",
        };
        format!(
            "control\r\nLS_reqId={sub}&LS_op=add&LS_subId={sub}&LS_mode={}&LS_group={items}\
             &LS_schema={}&LS_data_adapter=QuickStart&LS_ack=false&LS_snapshot=false{unfiltered}",
            self.mode.as_str(),
            self.fields.join("%20")
        )
    }

    /// Returns the code of the refusal, which is that of the first item that is not allowed.
    fn expected(&self, rules: &[ItemRule], claims: &Claims) -> Result<(), i32> {
        let access = ItemAccess {
            connection: 0,
            mode: self.mode,
            fields: &self.fields,
            unfiltered: self.unfiltered,
        };
        let mut items = self.keys.iter().map(|key| format!("ltest-[key={key}]"));
        items.try_for_each(|item| naive(rules, claims, &item, (&["QuickStart"], &access)).map(drop))
    }
}

fn random_rules(random: &mut StdRng) -> String {
    let mut text = String::new();
    let mut pick = |choices: &[&str]| (*choices.choose(random).expect("some")).to_owned();
    for number in 0..12 {
        let effect = pick(&[
            "",
            "",
            "",
            "effect = \"deny\"\n",
            "max_frequency = 1000.0\n",
        ]);
        // No rule may deny the last record.
        let items = match effect.contains("deny") {
            true => pick(&["ltest-[key=x]", "ltest-[key={claims.b}]"]),
            false => pick(&[
                "ltest-[key=y]",
                "ltest-[key=z]",
                "ltest-[key={claims.a}]",
                "ltest-[key={claims.b}]",
                "ltest-[key=*]",
                "ltest-[*]",
                "*",
            ]),
        };
        let broad = items.contains('*');
        let when = match broad {
            true => pick(&[
                "when = {c = \"all\"}\n",
                "when = {a = \"y\", c = [\"all\", \"some\"]}\n",
            ]),
            false => pick(&[
                "",
                "when = {a = [\"x\", \"y\"]}\n",
                "when = {c = \"some\"}\n",
            ]),
        };
        let modes = pick(&[
            "",
            "",
            "modes = [\"MERGE\"]\n",
            "modes = [\"RAW\", \"DISTINCT\"]\n",
        ]);
        let fields = pick(&[
            "",
            "",
            "fields = [\"value\"]\n",
            "fields = [\"value\", \"key\"]\n",
        ]);
        text += &format!(
            "[[authorize]]\nname = \"r{number}\"\nitems = [\"{items}\"]\n\
             {effect}{modes}{fields}{when}"
        );
    }
    text + &format!("[[authorize]]\nname = \"last\"\nitems = [\"ltest-[key={LAST}]\"]\n")
}

fn random_claims(random: &mut StdRng) -> Map<String, Value> {
    let values = [
        json!("x"),
        json!("y"),
        json!("z"),
        json!(1),
        json!("null"),
        json!(null),
    ];
    let mut one = || values.choose(random).expect("some").clone();
    let claims = json!({"a": [one(), one()], "b": one()});
    let Value::Object(mut claims) = claims else {
        return Map::new();
    };
    if let Some(level) = [None, Some("some"), Some("all")]
        .choose(random)
        .copied()
        .flatten()
    {
        claims.insert("c".to_owned(), level.into());
    }
    claims
}

/// Sends random requests of random clients, and compares what they receive with the model, also
/// after a token was renewed and after it was revoked.
#[test]
fn deliveries_match_model_of_rules() {
    let Some(issuer) = issuer() else { return };
    let seed = rand::random();
    // Shown if the test fails elsewhere, too: the harness captures only the macros.
    let _ = writeln!(std::io::stderr(), "seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut counts = [0; 3];
    for _ in 0..3 {
        let env = TestEnv::new();
        let config = config(&env, issuer.url(), DISCOVERY, &random_rules(&mut random));
        let rules = config
            .access
            .as_ref()
            .expect("there is [auth]")
            .item_rules
            .clone();
        let gateway = env.ready(config);
        for number in 0..30 {
            let user = format!("user-{number}");
            let mut session = ModelSession::create((&user, &issuer), &gateway, &rules, &mut random);
            session.subscribe(&mut random);
            session.receive(&env);
            session.renew(&mut random);
            session.receive(&env);
            session.revoke(&gateway);
            counts[0] += session.granted.len();
            counts[1] += session.refused;
            counts[2] += session.lost;
        }
        gateway.shut_down();
    }
    let [granted, refused, lost] = counts;
    assert!(granted > 0 && refused > 0 && lost > 0, "{counts:?}");
}

/// A client and what the model says about it.
struct ModelSession<'a> {
    client: Client,
    user: &'a str,
    issuer: &'a Issuer<'a>,
    token: String,
    rules: &'a [ItemRule],
    claims: Map<String, Value>,
    /// Subscriptions that the client has, by number.
    granted: Vec<(usize, ItemRequest)>,
    refused: usize,
    lost: usize,
}

impl<'a> ModelSession<'a> {
    fn create(
        (user, issuer): (&'a str, &'a Issuer<'a>),
        gateway: &Gateway,
        rules: &'a [ItemRule],
        random: &mut StdRng,
    ) -> Self {
        let claims = random_claims(random);
        let token = token_of(issuer, user, claims.clone().into());
        let mut client = create(gateway, &token).expect("a session");
        // A rule before that of the item may limit its frequency, so that RAW is not allowed.
        let last = ItemRequest {
            keys: vec![LAST],
            mode: ItemMode::Merge,
            fields: vec!["value"],
            unfiltered: false,
        };
        client.send(&last.request(LAST_NUMBER));
        for start in ["SUBOK,", "CONF,"] {
            let line = client.line();
            assert!(line.starts_with(start), "{line}");
        }
        Self {
            client,
            user,
            issuer,
            token,
            rules,
            claims,
            granted: Vec::new(),
            refused: 0,
            lost: 0,
        }
    }

    fn subscribe(&mut self, random: &mut StdRng) {
        let claims = Claims::of_token(self.claims.clone());
        for sub in 1..=8 {
            let wanted = ItemRequest::random(random);
            self.client.send(&wanted.request(sub));
            let line = self.client.line();
            match wanted.expected(self.rules, &claims) {
                Ok(()) => {
                    assert!(line.starts_with(&format!("SUBOK,{sub},")), "{line}");
                    assert!(self.client.line().starts_with(&format!("CONF,{sub},")));
                    self.granted.push((sub, wanted));
                }
                Err(code) => {
                    let start = format!("REQERR,{sub},{code},");
                    assert!(line.starts_with(&start), "{line}, expected {start}");
                    self.refused += 1;
                }
            }
        }
    }

    /// Produces a record for each item. The client must receive those of its subscriptions.
    fn receive(&mut self, env: &TestEnv) {
        let mut missing: BTreeSet<(usize, usize)> = BTreeSet::new();
        for (sub, wanted) in &self.granted {
            missing.extend((1..=wanted.keys.len()).map(|item| (*sub, item)));
        }
        let stamp = rand::random::<u32>().to_string();
        for key in RECORD_KEYS.into_iter().chain([LAST]) {
            env.send(key, &stamp);
        }
        env.flush();
        let mut is_over = false;
        while !is_over || !missing.is_empty() {
            let line = self.client.line();
            let mut parts = line.splitn(4, ',');
            let mut number = || parts.next().and_then(|text| text.parse::<usize>().ok());
            match (line.starts_with("U,"), number(), number(), number()) {
                (true, None, Some(LAST_NUMBER), Some(1)) => is_over = true,
                (true, None, Some(sub), Some(item)) => {
                    assert!(
                        missing.remove(&(sub, item)),
                        "{line}, missing are {missing:?}"
                    );
                }
                _ => panic!("{line}"),
            }
        }
    }

    /// Renews the token with other claims. The client loses the subscriptions that these do not
    /// allow.
    fn renew(&mut self, random: &mut StdRng) {
        self.claims = random_claims(random);
        self.token = token_of(self.issuer, self.user, self.claims.clone().into());
        self.client.send(&format!(
            "msg\r\nLS_reqId=99&LS_message={}&LS_sequence=weir_auth&LS_msg_prog=1&LS_ack=false",
            self.token
        ));
        let mut lost = BTreeSet::new();
        loop {
            let line = self.client.line();
            match line.strip_prefix("UNSUB,") {
                Some(sub) => assert!(lost.insert(sub.parse::<usize>().expect("a number"))),
                None if line.starts_with("CONF,") => {}
                None => break assert_eq!(line, "MSGDONE,weir_auth,1,"),
            }
        }
        let claims = Claims::of_token(self.claims.clone());
        let rules = self.rules;
        let before = self.granted.len();
        self.granted.retain(|(sub, wanted)| {
            let is_allowed = wanted.expected(rules, &claims).is_ok();
            assert_ne!(is_allowed, lost.contains(sub), "subscription {sub}");
            is_allowed
        });
        self.lost += before - self.granted.len();
        assert_eq!(lost.len(), before - self.granted.len());
    }

    /// Revokes all tokens of the user: its session ends, and it gets no other one.
    fn revoke(&mut self, gateway: &Gateway) {
        let revocation = Revocation {
            key: RevocationKey::User {
                issuer: self.issuer.url().into(),
                user: self.user.into(),
            },
            issued_before_ms: Some(u64::MAX),
            expires_ms: u64::MAX,
        };
        gateway.revoke(revocation).expect("a valid entry");
        assert_eq!(self.client.line(), "END,-10,Revoked");
        let refused = create(gateway, &self.token).err().expect("it is revoked");
        assert!(refused.starts_with("CONERR,1,"), "{refused}");
    }
}

const LAST_NUMBER: usize = 900;

/// A session and the way of its requests and notifications.
struct Route {
    way: RouteKind,
    /// Notifications that were read and not looked at.
    lines: VecDeque<String>,
}

enum RouteKind {
    WebSocket(Box<Client>),
    /// Address and ID of the session.
    Http(SocketAddr, String),
}

impl Route {
    fn both(gateway: &Gateway, token: &str) -> [Self; 2] {
        let client = create(gateway, token).expect("a session");
        let address = gateway.listen_address();
        let id = create_by_poll_with(address, &format!("&LS_password={token}"));
        [
            RouteKind::WebSocket(Box::new(client)),
            RouteKind::Http(address, id),
        ]
        .map(|way| Self {
            way,
            lines: VecDeque::new(),
        })
    }

    /// Sends a control request. Returns the code with which it is refused.
    fn control(&mut self, request: &str) -> Option<i32> {
        let response = match &mut self.way {
            RouteKind::WebSocket(client) => {
                client.send(&format!("control\r\nLS_reqId=1&{request}"));
                loop {
                    let line = client.line();
                    if line.starts_with("REQ") {
                        break line;
                    }
                    self.lines.push_back(line);
                }
            }
            RouteKind::Http(address, id) => {
                let body = format!("LS_session={id}&LS_reqId=1&{request}");
                let (_, mut lines) = post(*address, "control", &body);
                assert_eq!(lines.len(), 1);
                lines.remove(0)
            }
        };
        let refused = response.strip_prefix("REQERR,1,");
        assert!(refused.is_some() || response == "REQOK,1", "{response}");
        refused.and_then(|text| text.split(',').next()?.parse().ok())
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(line) = self.lines.pop_front() {
                break line;
            }
            match &mut self.way {
                RouteKind::WebSocket(client) => break client.line(),
                RouteKind::Http(address, id) => {
                    let bind = format!(
                        "LS_session={id}&LS_polling=true&LS_polling_millis=0&LS_idle_millis=2000"
                    );
                    let (_, lines) = post(*address, "bind_session", &bind);
                    let is_content =
                        |line: &String| !HEADS.iter().any(|head| line.starts_with(head));
                    self.lines.extend(lines.into_iter().filter(is_content));
                }
            }
        }
    }
}

/// Starts of the lines that every poll has.
const HEADS: [&str; 7] = [
    "CONOK", "SERVNAME", "CLIENTIP", "CONS", "PROG", "LOOP", "SYNC",
];

/// Every check of the rules applies over WebSocket and HTTP: item, mode, field, unfiltered
/// delivery, frequency and snapshot.
#[test]
fn every_route_applies_every_check() {
    let Some(issuer) = issuer() else { return };
    let env = TestEnv::new();
    let rules = "[[authorize]]\nname = \"own\"\nitems = [\"ltest-[key={claims.keys}]\"]\n\
                 modes = [\"MERGE\", \"DISTINCT\"]\nfields = [\"key\", \"value\"]\n\
                 max_frequency = 0.5\nsnapshot = false\n\
                 [[authorize]]\nname = \"all\"\nitems = [\"*\"]\nwhen = { level = \"all\" }\n";
    let gateway = env.ready(config(&env, issuer.url(), DISCOVERY, rules));
    let all = token(&issuer, json!({"level": "all", "keys": "nothing"}));
    let own = token(&issuer, json!({"keys": ["own", "second"]}));
    let add = |sub: u32, item: &str, mode: &str, more: &str| {
        format!(
            "LS_op=add&LS_subId={sub}&LS_mode={mode}&LS_group={item}\
             &LS_data_adapter=QuickStart&LS_snapshot=true{more}"
        )
    };
    // It keeps the values of the items, and gets each of them.
    let mut watcher = create(&gateway, &all).expect("a session");
    watcher.subscribe(1, "ltest-[key=own] ltest-[key=foreign]", "value");
    env.produce("own", "before");
    assert_eq!(watcher.line(), "U,1,1,before");
    for (mut route, mut unlimited) in Route::both(&gateway, &own)
        .into_iter()
        .zip(Route::both(&gateway, &all))
    {
        let (item, foreign) = ("ltest-[key%3Down]", "ltest-[key%3Dforeign]");
        let value = "&LS_schema=value";
        let unfiltered = format!("{value}&LS_requested_max_frequency=unfiltered");
        let mixed = format!("{item}%20{foreign}");
        for (item, mode, more, code) in [
            (foreign, "MERGE", value, -2),
            (&*mixed, "MERGE", value, -2),
            (foreign, "RAW", "&LS_schema=partition", -2),
            (item, "RAW", value, 24),
            (item, "MERGE", "&LS_schema=value%20partition", 23),
            (item, "MERGE", &unfiltered, 26),
        ] {
            let refused = route.control(&add(7, item, mode, more));
            assert_eq!(refused, Some(code), "{item} {mode} {more}");
            assert_eq!(unlimited.control(&add(7, item, mode, more)), None);
            let (count, fields) = (
                item.matches("ltest").count(),
                more.matches("%20").count() + 1,
            );
            assert_eq!(unlimited.line(), format!("SUBOK,7,{count},{fields}"));
            assert_eq!(unlimited.control("LS_op=delete&LS_subId=7"), None);
            while unlimited.line() != "UNSUB,7" {}
        }
        // Without the rule's limits there is a snapshot, and no limit of the frequency.
        assert_eq!(unlimited.control(&add(1, item, "MERGE", value)), None);
        let lines = [(); 3].map(|()| unlimited.line());
        assert_eq!(
            lines,
            ["SUBOK,1,1,1", "CONF,1,unlimited,filtered", "U,1,1,before"]
        );
        assert_eq!(route.control(&add(1, item, "MERGE", value)), None);
        assert_eq!(
            [route.line(), route.line()],
            ["SUBOK,1,1,1", "CONF,1,0.5,filtered"]
        );
        let faster = "LS_op=reconf&LS_subId=1&LS_requested_max_frequency=unlimited";
        assert_eq!(route.control(faster), None);
        env.produce("own", "after");
        let mut line = route.line();
        if line.starts_with("CONF,1,") {
            assert_eq!(line, "CONF,1,0.5,filtered");
            line = route.line();
        }
        assert_eq!(line, "U,1,1,after", "the snapshot is excluded");
        env.produce("own", "before");
    }
    gateway.shut_down();
}
