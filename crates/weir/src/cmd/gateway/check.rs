//! `weir gateway check`: what a configuration means, in words.

use weir_gateway::GatewayConfig;
use weir_mapping::{ConnectionConfig, Status};

/// Prints the whole configuration as it would be used.
pub(super) fn print(config: &GatewayConfig) {
    println!("adapter set   {}", config.set_id);
    println!(
        "clients       ws://{}/lightstreamer, {} event loops",
        config.listen, config.shards
    );
    println!("admin         http://{}", config.admin);
    for connection in &config.connections {
        print_connection(connection);
    }
    if !config.notes.is_empty() {
        println!("\nnotes");
        for note in &config.notes {
            println!("  {note}");
        }
    }
    println!("\nthe configuration is usable");
}

fn print_connection(connection: &ConnectionConfig) {
    let state = if connection.enabled {
        ""
    } else {
        " (disabled: every subscription is refused)"
    };
    println!("\nconnection    {}{state}", connection.name);
    println!("  brokers     {}", connection.bootstrap());
    println!("  topics      {}", join(connection.mapping.topics()));
    let fields = connection
        .mapping
        .fields()
        .iter()
        .map(weir_mapping::FieldName::as_str);
    println!("  fields      {}", join(fields));
    println!("  parameters");
    for parameter in &connection.parameters {
        let line = parameter
            .line
            .map_or_else(String::new, |line| format!("line {line}: "));
        println!("    {line}{} = {}", parameter.name, parameter.value);
        if let Status::Ignored(reason) = &parameter.status {
            println!("      ignored: {reason}");
        }
    }
}

fn join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}
