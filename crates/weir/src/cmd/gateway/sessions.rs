//! `weir gateway sessions`: live sessions of a running gateway, over its admin port.

use anyhow::anyhow;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::admin_client::{AdminClient, AdminClientArgs};
use crate::cmd::text_table::{add_row, one_line, print_table};
use crate::exit::{Exit, Failure};
use weir_report::{TextColumn, TextTable};

/// Sessions that one call returns at most.
const PAGE_MAX: usize = 1_000;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, or find those of a user, an address or an item
    ///
    /// The exit code is 1 if there are none.
    #[command(
        visible_alias = "find",
        after_help = "Example:\n  weir gateway sessions list --user anna --token-file token"
    )]
    List(ListArgs),
    /// Show a session with its subscriptions and the rules that apply to its client
    Show(ShowArgs),
    /// Follow a session or an item live, one JSON object per line, until Ctrl-C
    ///
    /// Lines contain no values of items. The gateway drops lines that are not read in time, and
    /// reports their number.
    #[command(after_help = "Example:\n  weir gateway sessions trace --item 'quote-[symbol=X]'")]
    Trace(TraceArgs),
    /// End a session, or all sessions of a user
    ///
    /// The exit code is 1 if there are none.
    Disconnect(DisconnectArgs),
    /// Revoke a token, or all tokens of a user issued until now
    ///
    /// Sessions with such a token end with code -10. Without options, lists the revocations.
    Revoke(RevokeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    admin: AdminClientArgs,
    /// User name
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Issuer of the user's token
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// Address of the client
    #[arg(long, value_name = "IP")]
    address: Option<String>,
    /// Subscribed item
    #[arg(long, value_name = "ITEM")]
    item: Option<String>,
    /// Maximum number of sessions
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    admin: AdminClientArgs,
    /// Handle of the session, as `list` shows it
    #[arg(value_name = "SESSION")]
    session: String,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    admin: AdminClientArgs,
    /// Handle of the session, as `list` shows it
    #[arg(
        value_name = "SESSION",
        required_unless_present = "item",
        conflicts_with = "item"
    )]
    session: Option<String>,
    /// Item to follow instead of a session
    #[arg(long, value_name = "ITEM")]
    item: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DisconnectArgs {
    #[command(flatten)]
    admin: AdminClientArgs,
    /// Handle of the session, as `list` shows it
    #[arg(
        value_name = "SESSION",
        required_unless_present = "user",
        conflicts_with = "user"
    )]
    session: Option<String>,
    /// User whose sessions end
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Issuer of the user's tokens [default: any]
    #[arg(long, value_name = "URL", requires = "user")]
    issuer: Option<String>,
    /// Code that the client gets: 32 (default), 48 (SDKs connect again), or 0 and below
    #[arg(long, value_name = "CODE", allow_negative_numbers = true)]
    code: Option<i32>,
    /// Text that the client gets
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    #[command(flatten)]
    admin: AdminClientArgs,
    /// Issuer of the tokens
    #[arg(long, value_name = "URL")]
    issuer: Option<String>,
    /// ID of the token (jti)
    #[arg(long, value_name = "ID", requires = "issuer", conflicts_with = "user")]
    jti: Option<String>,
    /// User whose tokens are revoked
    #[arg(long, value_name = "NAME", requires = "issuer")]
    user: Option<String>,
    /// Time before which the user's tokens were issued (RFC 3339) [default: now]
    #[arg(long, value_name = "TIME", requires = "user")]
    issued_before: Option<String>,
    /// Time at which all these tokens have expired (RFC 3339) [default: in 30 days]
    #[arg(long, value_name = "TIME", requires = "issuer")]
    expires: Option<String>,
    /// Remove the revocation with this id instead
    #[arg(long, value_name = "ID", conflicts_with = "issuer")]
    remove: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: &SessionsCommand) -> Result<Exit, Failure> {
    match command {
        SessionsCommand::List(args) => list(args),
        SessionsCommand::Show(args) => show(args),
        SessionsCommand::Trace(args) => trace(args),
        SessionsCommand::Disconnect(args) => disconnect(args),
        SessionsCommand::Revoke(args) => revoke(args),
    }
}

/// Returns a query of the parameters that are present.
fn query(parameters: &[(&str, Option<&str>)]) -> String {
    let present = parameters
        .iter()
        .filter_map(|(name, value)| Some((name, (*value)?)));
    let pairs: Vec<_> = present
        .map(|(name, value)| format!("{name}={}", encode(value)))
        .collect();
    pairs.join("&")
}

/// Encodes all but letters, digits and `-._~`.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(byte.into());
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn list(args: &ListArgs) -> Result<Exit, Failure> {
    let client = AdminClient::new(&args.admin)?;
    let mut sessions: Vec<Value> = Vec::new();
    let mut after = None::<String>;
    while sessions.len() < args.limit {
        let limit = (args.limit - sessions.len()).min(PAGE_MAX).to_string();
        let query = query(&[
            ("user", args.user.as_deref()),
            ("issuer", args.issuer.as_deref()),
            ("address", args.address.as_deref()),
            ("item", args.item.as_deref()),
            ("limit", Some(&limit)),
            ("after", after.as_deref()),
        ]);
        let mut page = client.get(&format!("sessions?{query}"))?;
        if let Value::Array(rows) = page["sessions"].take() {
            sessions.extend(rows);
        }
        after = page["after"].as_str().map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    if args.json {
        println!(
            "{}",
            json!({ "sessions": sessions, "more": after.is_some() })
        );
    } else {
        print_sessions(&sessions);
        if after.is_some() {
            println!("more than {} sessions: raise --limit", args.limit);
        }
    }
    Ok(found(!sessions.is_empty()))
}

fn found(any: bool) -> Exit {
    match any {
        true => Exit::Success,
        false => Exit::Threshold,
    }
}

fn print_sessions(sessions: &[Value]) {
    if sessions.is_empty() {
        return println!("no sessions");
    }
    let mut table = TextTable::new(&[
        TextColumn::text("session", 40),
        TextColumn::text("user", 30).cut(12),
        TextColumn::text("address", 40),
        TextColumn::text("transport", 20),
        TextColumn::number("subscriptions"),
        TextColumn::number("queue"),
        TextColumn::number("age"),
    ]);
    for row in sessions {
        let number = |name: &str| row[name].as_u64().unwrap_or(0);
        let queue = match row["lagging"] == true {
            true => format!("{} B, lagging", number("queued_bytes")),
            false => format!("{} B", number("queued_bytes")),
        };
        let user = row["user"].as_str().or_else(|| row["auth"].as_str());
        add_row(
            &mut table,
            &[
                row["session"].as_str().unwrap_or_default(),
                user.unwrap_or_default(),
                row["address"].as_str().unwrap_or("-"),
                row["transport"].as_str().unwrap_or_default(),
                &number("subscriptions").to_string(),
                &queue,
                &format!("{} s", number("age_s")),
            ],
        );
    }
    print_table(&table, "");
}

fn show(args: &ShowArgs) -> Result<Exit, Failure> {
    let client = AdminClient::new(&args.admin)?;
    let session = client.get(&format!("sessions/{}", encode(&args.session)))?;
    if args.json {
        println!("{session}");
        return Ok(Exit::Success);
    }
    let members = session.as_object().into_iter().flatten();
    for (name, value) in members.filter(|(_, value)| !value.is_array() && !value.is_object()) {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        println!("{name:<14} {}", one_line(&text));
    }
    let none = Vec::new();
    print_rights(&session);
    for one in session["subscription_list"].as_array().unwrap_or(&none) {
        let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
        println!(
            "\nsubscription {} {} {}",
            one["id"],
            text("mode"),
            text("connection")
        );
        for (place, item) in one["items"].as_array().unwrap_or(&none).iter().enumerate() {
            let item = one_line(item.as_str().unwrap_or_default());
            match one["records"][place].as_str() {
                Some(records) => println!("  {item}  where {}", one_line(records)),
                None => println!("  {item}"),
            }
        }
    }
    Ok(Exit::Success)
}

/// Prints the item rules that apply to the client of a session, and its values for them.
fn print_rights(session: &Value) {
    let texts = |list: &Value| {
        let texts = list
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        one_line(&texts.collect::<Vec<_>>().join(", "))
    };
    for one in session["grants"].as_array().into_iter().flatten() {
        let text = |name: &str| one_line(one[name].as_str().unwrap_or_default());
        let items = texts(&one["items"]);
        println!("rule \"{}\" {}s {items}", text("rule"), text("effect"));
    }
    for (claim, values) in session["claims"].as_object().into_iter().flatten() {
        println!("claims.{} is {}", one_line(claim), texts(values));
    }
}

fn trace(args: &TraceArgs) -> Result<Exit, Failure> {
    let client = AdminClient::new(&args.admin)?;
    let target = [
        ("session", args.session.as_deref()),
        ("item", args.item.as_deref()),
    ];
    let mut failure = None;
    client.lines(&format!("trace?{}", query(&target)), |line| {
        println!("{}", one_line(line));
        let end = serde_json::from_str::<Value>(line).ok();
        let end = end.filter(|line| line["event"] == "end");
        failure = end.and_then(|line| line["reason"].as_str().map(str::to_owned));
        failure.is_none()
    })?;
    match failure {
        None => Ok(Exit::Success),
        Some(reason) => Err(Failure::new(Exit::Threshold, anyhow!(reason))),
    }
}

fn disconnect(args: &DisconnectArgs) -> Result<Exit, Failure> {
    let client = AdminClient::new(&args.admin)?;
    let code = args.code.map(|code| code.to_string());
    let ended = match &args.session {
        Some(session) => {
            let more = query(&[
                ("code", code.as_deref()),
                ("message", args.message.as_deref()),
            ]);
            let path = format!("sessions/{}?{more}", encode(session));
            client.call("DELETE", &path, None)?
        }
        None => {
            let body = present(&[
                ("user", json!(args.user)),
                ("issuer", json!(args.issuer)),
                ("code", json!(args.code)),
                ("message", json!(args.message)),
            ]);
            client.call("POST", "disconnect", Some(&body))?
        }
    };
    let count = ended["disconnected"].as_u64().unwrap_or(0);
    match args.json {
        true => println!("{ended}"),
        false => println!("{count} sessions ended"),
    }
    Ok(found(count > 0))
}

/// Returns an object of the members that are not null.
fn present(members: &[(&str, Value)]) -> Value {
    let members = members.iter().filter(|(_, value)| !value.is_null());
    members
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect()
}

fn revoke(args: &RevokeArgs) -> Result<Exit, Failure> {
    let client = AdminClient::new(&args.admin)?;
    let result = match (&args.remove, &args.issuer) {
        (Some(id), _) => client.call("DELETE", &format!("revocations/{}", encode(id)), None)?,
        (None, None) => client.get("revocations")?,
        (None, Some(_)) if args.jti.is_none() && args.user.is_none() => {
            return Err(Failure::usage("--jti ID or --user NAME is required"));
        }
        (None, Some(issuer)) => {
            let body = present(&[
                ("issuer", json!(issuer)),
                ("jti", json!(args.jti)),
                ("user", json!(args.user)),
                ("issued_before", json!(args.issued_before)),
                ("expires", json!(args.expires)),
            ]);
            client.call("POST", "revocations", Some(&body))?
        }
    };
    match result["revocations"].as_array().filter(|_| !args.json) {
        None => println!("{result}"),
        Some(list) => list.iter().for_each(|one| println!("{one}")),
    }
    Ok(Exit::Success)
}
