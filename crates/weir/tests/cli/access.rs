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
const ANNA: &str = r#"{"sub":"anna","tenant":["zeta","acme"],"accounts":["A1","A2"],
    "region":"EU","roles":["trader"]}"#;
const BOB: &str = r#"{"sub":"bob","plan":"free"}"#;

#[test]
fn explain_shows_response_line_of_client() {
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

/// Begin of a file with an issuer, and with a rule.
const ISSUER: &str = "[[auth.issuer]]\nissuer = \"https://id.example\"\n";
const RULE: &str = "listen = \"127.0.0.1:0\"\n[auth]\n[[auth.issuer]]\n\
                    issuer = \"https://id.example\"\naudience = \"weir\"\nkeys = \"discovery\"\n\
                    [[authorize]]\nname = \"r\"\n";

/// Items and fields that the rules are about.
const FEED: &str = r##"
[connection.feed]
"bootstrap.servers" = "127.0.0.1:1"
"item-template.quote" = "quote-#{symbol=KEY}"
"map.quotes.to" = "item-template.quote"
"map.status.to" = "status"
"field.last" = "#{VALUE}"
"##;

/// A file for each fault of a rule or of `[auth]`: the fault is found in its line, marked here by
/// `#!`, with what to do.
#[test]
fn check_finds_each_fault_with_line_and_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gateway.toml");
    fs::write(
        dir.path().join("secret"),
        "0123456789abcdef0123456789abcdef",
    )
    .unwrap();
    let rule = |more: &str| format!("{}{more}\n", RULE.replace("\"r\"", "\"r\" #!"));
    let merge = FEED.replace(
        "[connection.feed]",
        "[connection.feed]\n\"item.snapshot.enabled.mode\" = \"MERGE\"",
    );
    for (text, feed, expected) in [
        // No template or item can produce the pattern.
        (
            rule("items = [\"qoute-[symbol=*]\"]"),
            FEED,
            "the nearest is \"quote\"",
        ),
        (
            rule("items = [\"quote-[isin=*]\"]"),
            FEED,
            "must name the parameters symbol",
        ),
        (
            format!(
                "{RULE}items = [\"*\"]\n[[authorize]]\nname = \"s\" #!\nitems = [\"status\"]\n"
            ),
            FEED,
            "rule \"r\" covers all that it does",
        ),
        (
            format!(
                "{}items = [\"status\"]\n[[authorize]]\nname = \"no\"\neffect = \"deny\"\n\
                 items = [\"*\"]\n",
                RULE.replace("\"r\"", "\"r\" #!")
            ),
            FEED,
            "rule \"no\" covers all that it does",
        ),
        (
            rule("items = [\"status\"]\nmodes = [\"DISTINCT\"]"),
            &merge,
            "its connections do not allow mode DISTINCT",
        ),
        (
            rule("items = [\"status\"]\nfields = [\"lastt\"]"),
            FEED,
            "no field \"lastt\"; the nearest is \"last\"",
        ),
        (
            rule("items = [\"status\"]\nmodes = [\"COMMAND\"]\nfields = [\"last\"]"),
            FEED,
            "needs the fields \"key\" and \"command\"",
        ),
        (
            RULE.replace("[[authorize]]", "[[authorize]] #!")
                + "items = [\"quote-[symbol=a b]\"]\n",
            FEED,
            "no item can have the value \"a b\"",
        ),
        (
            RULE.replace("[[authorize]]", "[[authorize]] #!")
                + "items = [\"status\"]\nwhere = \"VALUE.a[*] = {claims.t}\"\n",
            FEED,
            "where",
        ),
        (
            "[[authorize]]\nname = \"r\" #!\nitems = [\"quote-[symbol={claims.s}]\"]\n".to_owned(),
            FEED,
            "uses claims, but there is no [auth] with an issuer",
        ),
        (
            rule("items = [\"quote-[symbol={claims.tls.cn}]\"]"),
            FEED,
            "auth.sources has no \"certificate\"",
        ),
        (
            format!(
                "[auth] #!\n{ISSUER}audience = \"w\"\nkeys = \"discovery\"\n\
                 {ISSUER}audience = \"w\"\nkeys = \"discovery\"\n"
            ),
            FEED,
            "is configured twice",
        ),
        (
            format!("[auth] #!\n{ISSUER}keys = \"discovery\"\n"),
            FEED,
            "list the values of the claim \"aud\"",
        ),
        (
            format!("[auth] #!\n{ISSUER}audience = \"w\"\njwks_url = \"http://id.example/keys\"\n"),
            FEED,
            "use HTTPS",
        ),
        (
            format!(
                "[auth] #!\n{ISSUER}audience = \"w\"\nsecret_file = \"secret\"\n\
                 algorithms = [\"HS256\", \"RS256\"]\n"
            ),
            FEED,
            "use HS256 with secret_file only",
        ),
        (
            "allowed_origins = [\"*\"]\nlisten = \"127.0.0.1:0\"\n[auth]\n\
             sources = [\"cookie:weir\"] #!\n"
                .to_owned(),
            FEED,
            "allowed_origins allows every page: list yours",
        ),
        (
            "listen = \"0.0.0.0:8080\"\n[auth]\nsources = [\"password\"] #!\n".to_owned(),
            FEED,
            "tokens come to 0.0.0.0:8080 without TLS: serve TLS only",
        ),
    ] {
        fs::write(&file, format!("{text}{feed}")).unwrap();
        let mut check = weir(&["gateway", "check", "--offline", "--config"]);
        let output = check.arg(&file).output().unwrap();
        let shown = text_of(&output);
        let line = 1 + text.lines().position(|line| line.contains("#!")).unwrap();
        let place = format!("gateway.toml:{line}:");
        let found = shown.lines().find(|line| line.contains(expected));
        let found = found.unwrap_or_else(|| panic!("{expected}\n{text}\n{shown}"));
        assert!(found.contains(&place), "{place}\n{shown}");
    }
}

fn text_of(output: &std::process::Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
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
