//! `weir proxy reload`: reloads the configuration of a running proxy, over its admin port.

use std::fmt::Write as _;

use clap::Args;
use serde_json::Value;

use super::admin_client::{AdminClient, AdminClientArgs};
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct ProxyReloadArgs {
    #[command(flatten)]
    admin: AdminClientArgs,
    /// Change nothing, and show what would change
    #[arg(long)]
    check: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ProxyReloadArgs) -> Result<Exit, Failure> {
    let client = AdminClient::new(&args.admin)?;
    let path = match args.check {
        true => "reload?check=1",
        false => "reload",
    };
    let report = client.command(path, "reload")?;
    match (args.json, args.check) {
        (true, _) => println!("{report:#}"),
        (false, true) => print!("{}", preview(&report)),
        (false, false) => println!(
            "generation {} in use, {} connections end",
            report["generation"], report["closing"]
        ),
    }
    Ok(Exit::Success)
}

/// Returns the text of a report of changes.
fn preview(report: &Value) -> String {
    let mut text = format!("generation {} stays in use\n", report["generation"]);
    let settings = words(&report["settings"]);
    if !settings.is_empty() {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "settings: {settings}");
    }
    let clusters = report["clusters"].as_array();
    for cluster in clusters.into_iter().flatten() {
        let part = |key: &str| cluster[key].as_str().unwrap_or_default();
        let (name, change, keys) = (part("name"), part("change"), words(&cluster["keys"]));
        let keys = match keys.as_str() {
            "" => String::new(),
            keys => format!(" ({keys})"),
        };
        let (closing, spread) = (&cluster["closing"], &cluster["spread"]);
        let _ = writeln!(
            text,
            "cluster {name}: {change}{keys}, {closing} connections would end, {spread} of them \
             spread over reload_spread_ms"
        );
    }
    if settings.is_empty() && clusters.is_none_or(Vec::is_empty) {
        text.push_str("nothing would change\n");
    }
    text
}

fn words(list: &Value) -> String {
    let words = list.as_array().into_iter().flatten();
    let words: Vec<_> = words.filter_map(Value::as_str).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn preview_names_clusters_and_connections() {
        let cluster = json!({
            "name": "orders", "change": "changed", "keys": ["filter"], "closing": 3, "spread": 3
        });
        let report = json!({
            "generation": 2, "closing": 3, "settings": ["limits.frame_ms"], "clusters": [cluster]
        });
        assert_eq!(
            preview(&report),
            "generation 2 stays in use\nsettings: limits.frame_ms\ncluster orders: changed \
             (filter), 3 connections would end, 3 of them spread over reload_spread_ms\n"
        );
        let none = json!({ "generation": 1, "closing": 0, "settings": [], "clusters": [] });
        assert!(preview(&none).ends_with("nothing would change\n"));
    }
}
