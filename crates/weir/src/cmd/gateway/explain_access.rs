//! `weir gateway explain --token`: explains what rules decide about a client and an item.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::{Value, json};
use weir_access::AccessConfig;
use weir_gateway::GatewayConfig;
use weir_identity::config::{ItemRule, SnapshotRule};
use weir_identity::rules::{ItemAccess, RuleExplanation, explain_rules};
use weir_identity::{Claims, ItemMode, UserIdentity};
use weir_mapping::{CanonicalItem, split_fields};

use crate::cmd::text_table::one_line;
use crate::exit::{Exit, Failure, OrExit as _};

/// Maximum size of a token or of claims.
const INPUT_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(super) struct ExplainAccessArgs {
    /// File with the token of a client, to explain its rights; - is standard input
    ///
    /// The token is verified with keys in files, or --fetch-keys, and never printed. Exit code 1:
    /// rejected.
    #[arg(long, value_name = "FILE", requires = "item", conflicts_with_all = ["record", "topic"])]
    token: Option<String>,
    /// JSON file with the claims of a client, instead of a token
    #[arg(
        long,
        value_name = "FILE",
        requires = "item",
        conflicts_with_all = ["token", "record", "topic"]
    )]
    claims: Option<String>,
    /// Fetch the keys of issuers from their servers, with --token
    #[arg(long, requires = "token")]
    fetch_keys: bool,
    /// Time at which the token is verified (RFC 3339), with --token [default: now]
    #[arg(long, value_name = "TIME", requires = "token", value_parser = parse_time)]
    at: Option<Timestamp>,
    /// Subscription mode, with --token or --claims
    #[arg(long, value_name = "MODE", value_enum, default_value = "merge")]
    mode: ModeArg,
    /// Request unfiltered delivery, with --token or --claims
    #[arg(long)]
    unfiltered: bool,
}

fn parse_time(text: &str) -> Result<Timestamp, String> {
    let parsed = text.parse();
    parsed.map_err(|_| "write a time like 2027-01-15T08:00:00Z".to_owned())
}

impl ExplainAccessArgs {
    /// Returns `true` if the rights of a client are to be explained, not a record.
    pub(super) fn is_requested(&self) -> bool {
        self.token.is_some() || self.claims.is_some()
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeArg {
    Merge,
    Distinct,
    Raw,
    Command,
}

impl From<ModeArg> for ItemMode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Merge => Self::Merge,
            ModeArg::Distinct => Self::Distinct,
            ModeArg::Raw => Self::Raw,
            ModeArg::Command => Self::Command,
        }
    }
}

/// Request of a client.
pub(super) struct AccessRequest<'a> {
    pub(super) connection: Option<&'a str>,
    pub(super) item: &'a CanonicalItem,
    pub(super) fields: Option<&'a str>,
    pub(super) json: bool,
}

/// Client that the rules are about.
struct Client {
    claims: Claims,
    identity: Option<Arc<UserIdentity>>,
}

/// Explains a request and returns 0 if it is allowed, otherwise 1.
pub(super) fn run(
    args: &ExplainAccessArgs,
    mut config: GatewayConfig,
    request: &AccessRequest<'_>,
) -> Result<Exit, Failure> {
    let names: Vec<String> = config
        .connections
        .iter()
        .map(|one| one.name.clone())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mapped = config
        .connections
        .iter()
        .position(|one| match request.connection {
            Some(name) => one.name == name,
            None => one.mapping.admits(request.item),
        });
    let connection = mapped.ok_or_else(|| {
        Failure::usage("no connection has this item: correct --item or --connection")
    })?;
    let access = config.access.take();
    let access = access.ok_or_else(|| {
        Failure::usage("gateway.toml has neither [auth] nor [[authorize]]: all is allowed")
    })?;
    let rules = access.item_rules.clone();
    let client = match client(args, access)? {
        Ok(client) => client,
        Err((reason, code)) => {
            match request.json {
                true => println!(
                    "{}",
                    json!({ "token": reason, "code": code, "allowed": false })
                ),
                false => println!(
                    "token: rejected: {}\nclient: CONERR,{code}",
                    one_line(&reason)
                ),
            }
            return Ok(Exit::Threshold);
        }
    };
    let mode = ItemMode::from(args.mode);
    let own = &config.connections[connection].mapping;
    let all: Vec<&str> = own.fields().collect();
    let fields = request
        .fields
        .map_or(all, |fields| split_fields(fields).collect());
    let item_access = ItemAccess {
        connection,
        mode,
        fields: &fields,
        unfiltered: args.unfiltered || mode == ItemMode::Raw,
    };
    let explained = explain_rules(&rules, &names, &client.claims, request.item, &item_access);
    let explained = explained.or_exit(Exit::Threshold)?;
    match request.json {
        true => println!("{:#}", to_json(&client, &rules, &explained)),
        false => print(&client, &explained, &rules),
    }
    Ok(match rules.is_empty() || explained.decision.is_ok() {
        true => Exit::Success,
        false => Exit::Threshold,
    })
}

/// Returns the client, or why its token is rejected, with the code that it gets.
fn client(
    args: &ExplainAccessArgs,
    access: AccessConfig,
) -> Result<Result<Client, (String, i32)>, Failure> {
    if let Some(path) = &args.claims {
        let text = read(path).or_exit(Exit::Usage)?;
        let parsed = serde_json::from_str::<Value>(&text);
        let claims = parsed
            .with_context(|| format!("--claims {path}"))
            .or_exit(Exit::Usage)?;
        let Value::Object(members) = claims else {
            return Err(Failure::usage(format!(
                "--claims {path}: not a JSON object"
            )));
        };
        let claims = Claims::of_token(members);
        return Ok(Ok(Client {
            claims,
            identity: None,
        }));
    }
    let token = read(args.token.as_deref().unwrap_or("-")).or_exit(Exit::Usage)?;
    let at = args.at.unwrap_or_else(Timestamp::now);
    let at_ms = u64::try_from(at.as_millisecond()).unwrap_or(0);
    Ok(
        match access.verify_token(token.trim(), at_ms, args.fetch_keys) {
            Ok(verified) => Ok(Client {
                claims: verified.claims.clone(),
                identity: Some(Arc::clone(&verified.identity)),
            }),
            Err(refusal) => Err((refusal.reason, refusal.code)),
        },
    )
}

fn read(path: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    match path {
        "-" => std::io::stdin()
            .take(INPUT_BYTES_MAX)
            .read_to_string(&mut text),
        file => std::fs::File::open(Path::new(file))
            .and_then(|file| file.take(INPUT_BYTES_MAX).read_to_string(&mut text)),
    }
    .map_err(|error| anyhow!("{path}: {error}"))?;
    Ok(text)
}

/// Returns the line that the client gets.
fn client_line(explained: &RuleExplanation) -> String {
    match &explained.decision {
        Ok(allowance) => match allowance.frequency_max {
            Some(frequency) => format!("CONF with {frequency} updates per second"),
            None => "SUBOK".to_owned(),
        },
        Err(denial) => format!("REQERR,{},{}", denial.code(), denial.text()),
    }
}

fn rules_json(explained: &RuleExplanation) -> Value {
    let rules = explained
        .rules
        .iter()
        .map(|one| json!({ "rule": one.rule, "applies": one.applies, "reason": one.reason }));
    rules.collect()
}

/// Returns the expression and the values of the records that the client may see; `None` for all.
fn records<'a>(
    rules: &'a [ItemRule],
    explained: &'a RuleExplanation,
) -> Option<(&'a str, Vec<&'a str>)> {
    let allowance = explained.decision.as_ref().ok()?;
    let filter = rules.get(allowance.rule)?.filter.as_ref()?;
    let values = allowance.records.as_ref()?.values().collect();
    Some((filter.expression.text(), values))
}

fn to_json(client: &Client, rules: &[ItemRule], explained: &RuleExplanation) -> Value {
    let identity = client.identity.as_ref();
    let code = explained
        .decision
        .as_ref()
        .err()
        .map(|denial| denial.code());
    json!({
        "signature": if identity.is_some() { "verified" } else { "not checked" },
        "issuer": identity.map(|identity| identity.issuer().to_owned()),
        "user": identity.map(|identity| identity.user().to_owned()),
        "rules": rules_json(explained),
        "records": records(rules, explained)
            .map(|(expression, values)| json!({ "where": expression, "values": values })),
        "allowed": explained.decision.is_ok(),
        "code": code,
        "client": client_line(explained),
    })
}

fn print(client: &Client, explained: &RuleExplanation, rules: &[ItemRule]) {
    match &client.identity {
        Some(identity) => println!(
            "token: valid, user {} of {}",
            one_line(identity.user()),
            one_line(identity.issuer())
        ),
        None => println!("claims: signature not checked"),
    }
    if rules.is_empty() {
        return println!("rules: none, all items are allowed");
    }
    for one in &explained.rules {
        let mark = if one.applies { "*" } else { " " };
        println!(
            "{mark} rule \"{}\" {}",
            one_line(&one.rule),
            one_line(&one.reason)
        );
    }
    if let Ok(allowance) = &explained.decision {
        if allowance.snapshot != SnapshotRule::Allowed {
            println!("snapshot: restricted");
        }
    }
    if let Some((expression, values)) = records(rules, explained) {
        let values = one_line(&values.join(", "));
        println!("records: where {} = {values}", one_line(expression));
    }
    println!("client: {}", client_line(explained));
}
