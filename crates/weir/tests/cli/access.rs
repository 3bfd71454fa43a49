//! `weir gateway explain --claims`, findings of `check`, and errors of `weir gateway sessions`.

use std::fs;

use crate::support::{text, weir};

const CONFIG: &str = r##"
[auth]
anonymous = true
[[authorize]]
name = "own orders"
items = ["orders-[account={claims.accounts},region={claims.region}]"]
modes = ["MERGE", "COMMAND"]
[[authorize]]
name = "traders"
items = ["quote-[symbol=*]"]
when = { roles = "trader" }
[[authorize]]
name = "delayed quotes"
items = ["quote-[symbol=*]"]
when = { plan = ["free", "trial"] }
fields = ["symbol", "last"]
max_frequency = 0.2
snapshot = false
[[authorize]]
name = "embargo"
effect = "deny"
items = ["quote-[symbol=ACME]"]
[[authorize]]
name = "public"
items = ["status"]
[[authorize]]
name = "tenant news"
items = ["news"]
where = "HEADERS['tenant'] = {claims.tenant}"
[[authorize]]
name = "no scalar"
items = ["news"]
where = "VALUE.tenant = {claims.tenant}"
[[authorize]]
name = "rows of a value"
items = ["news"]
modes = ["MERGE", "COMMAND"]
where = "VALUE = {claims.tenant}"
[[authorize]]
name = "misspelt"
items = ["qoute-[symbol=*]"]

[connection.feed]
"bootstrap.servers" = "127.0.0.1:1"
"item-template.quote" = "quote-#{symbol=KEY}"
"item-template.orders" = "orders-#{account=KEY,region=VALUE}"
"map.quotes.to" = "item-template.quote"
"map.orders.to" = "item-template.orders"
"map.status.to" = "status"
"map.news.to" = "news"
"field.symbol" = "#{KEY}"
"field.last" = "#{VALUE}"
"field.bid" = "#{VALUE}"
"##;
const ANNA: &str = r#"{"sub":"anna","tenant":["zeta","acme"],"accounts":["A1","A2"],"region":"EU","roles":["trader"]}"#;
const BOB: &str = r#"{"sub":"bob","plan":"free"}"#;

#[test]
fn explain_names_the_line_that_the_client_gets() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    for (name, content) in [
        ("gateway.toml", CONFIG),
        ("anna", ANNA),
        ("bob", BOB),
        ("anonymous", "{}"),
    ] {
        fs::write(path(name), content).unwrap();
    }
    for (client, item, more, code, line) in [
        ("anna", "orders-[region=EU,account=A2]", "", 0, "SUBOK"),
        ("anna", "orders-[account=A3,region=EU]", "", 1, "REQERR,-2,"),
        (
            "anna",
            "orders-[account=A1,region=EU]",
            "--mode=raw",
            1,
            "REQERR,24,",
        ),
        ("anna", "quote-[symbol=X]", "--unfiltered", 0, "SUBOK"),
        (
            "bob",
            "quote-[symbol=X]",
            "--fields=symbol bid",
            1,
            "REQERR,23,",
        ),
        (
            "bob",
            "quote-[symbol=X]",
            "--fields=last",
            0,
            "CONF with 0.2 updates",
        ),
        ("anonymous", "quote-[symbol=ACME]", "", 1, "REQERR,-2,"),
        ("anonymous", "status", "", 0, "SUBOK"),
    ] {
        let mut command = weir(&["gateway", "explain", "--config", &path("gateway.toml")]);
        command.args(["--claims", &path(client), "--item", item]);
        command.args(Some(more).filter(|more| !more.is_empty()));
        let output = command.output().unwrap();
        let stdout = text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{item} {more}: {stdout}");
        assert!(
            stdout.contains(&format!("client: {line}")),
            "{item} {more}: {stdout}"
        );
    }
    let mut check = weir(&[
        "gateway",
        "check",
        "--offline",
        "--config",
        &path("gateway.toml"),
    ]);
    let stdout = text(&check.output().unwrap().stdout);
    for (rule, finding) in [
        (
            "misspelt",
            "no item can match \"qoute-[symbol=*]\"; the nearest is \"quote\"",
        ),
        (
            "no scalar",
            "where selects no record of connection \"feed\": found the invalid expression \
             [VALUE.tenant] for scalar values",
        ),
        (
            "rows of a value",
            "in mode COMMAND, where may use KEY only; leave the mode out",
        ),
    ] {
        let finding = format!("rule \"{rule}\": {finding}");
        let found = stdout.lines().find(|line| line.contains(&finding));
        let name = format!("\"{rule}\"");
        let line = CONFIG.lines().position(|line| line.contains(&name));
        let place = format!("gateway.toml:{}", 1 + line.unwrap());
        assert!(
            found.is_some_and(|found| found.contains(&place)),
            "{rule}: {stdout}"
        );
    }
    let mut explain = weir(&["gateway", "explain", "--config", &path("gateway.toml")]);
    explain.args(["--claims", &path("anna"), "--item", "news"]);
    let stdout = text(&explain.output().unwrap().stdout);
    let records = "records: where HEADERS['tenant'] = acme, zeta\n";
    assert!(stdout.contains(records), "{stdout}");
    let stdout = text(&explain.arg("--json").output().unwrap().stdout);
    assert!(
        stdout.contains(r#""acme""#) && stdout.contains(r#""HEADERS['tenant']""#),
        "{stdout}"
    );
}

#[test]
fn session_commands_need_token_and_gateway() {
    let sessions = |more: &[&str]| {
        let mut command = weir(&["gateway", "sessions", "list", "--admin", "127.0.0.1:1"]);
        command.env_remove("WEIR_SESSIONS_TOKEN").args(more);
        let output = command.output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (code, stderr) = sessions(&[]);
    assert_eq!(code, Some(2));
    assert!(
        stderr.contains("--token-file FILE or set WEIR_SESSIONS_TOKEN"),
        "{stderr}"
    );
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    fs::write(&token, "not-for-any-output-0123456789-0123456789").unwrap();
    let (code, stderr) = sessions(&["--token-file", &token.display().to_string()]);
    assert_eq!(code, Some(3));
    assert!(
        stderr.contains("no response from http://127.0.0.1:1"),
        "{stderr}"
    );
    assert!(!stderr.contains("not-for-any-output"), "{stderr}");
}
