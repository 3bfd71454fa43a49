//! `weir gateway init`: writes a configuration, its schema and a page for topics of a cluster.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;
use weir_load::kafka::KafkaArgs;
use weir_mapping::TopicSample;

use super::sampling;
use crate::cmd::editor_schema;
use crate::cmd::text_table::{add_row, one_line, print_table};
use crate::exit::{Exit, Failure, OrExit as _};
use weir_report::{TextColumn, TextTable};

pub(super) const AFTER_HELP: &str = "\
Example:
  weir gateway init --bootstrap localhost:9092 --topic orders
  weir gateway run --config gateway.toml";

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Topic to deliver; repeatable
    #[arg(long = "topic", value_name = "TOPIC", required = true)]
    topics: Vec<String>,
    #[command(flatten)]
    kafka: KafkaArgs,
    /// Directory for gateway.toml, its schema and index.html
    #[arg(long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Replace existing files
    #[arg(long)]
    force: bool,
}

const CONFIG_FILE: &str = "gateway.toml";
const PAGE_FILE: &str = "index.html";
/// Page with the items of the first topic; `/*OPTIONS*/` is its only variable part.
const PAGE: &str = include_str!("init_page.html");
const CONFIG_HEAD: &str = "\
# Configuration of `weir gateway run --config gateway.toml`, written by `weir gateway init`.
# docs/configuration.md has all settings; `weir gateway check --config gateway.toml` checks them.

listen = \"127.0.0.1:8080\"          # for clients; \"0.0.0.0:8080\": also from other machines
# index.html opened as a file has the origin \"null\". For your web pages, list theirs instead.
allowed_origins = [\"null\"]

[last_values]
memory_bytes = 268435456           # the last record of each item, so that clients get it at once

";

pub(super) fn run(args: &InitArgs) -> Result<Exit, Failure> {
    let schema = editor_schema::GATEWAY;
    let files = [CONFIG_FILE, schema.file, PAGE_FILE].map(|name| args.output.join(name));
    if let Some(file) = files.iter().find(|file| file.exists() && !args.force) {
        let file = file.display();
        return Err(Failure::usage(format!(
            "{file} exists; pass --force to replace it"
        )));
    }
    let samples = sampling::sample(&args.kafka, &args.topics)?;
    for sample in &samples {
        print(sample);
    }
    let servers = args.kafka.servers();
    let connections = sampling::connections(&samples, &servers);
    let config = schema.header.to_owned() + CONFIG_HEAD + &connections;
    fs::create_dir_all(&args.output).or_exit(Exit::Usage)?;
    let [config_file, schema_file, page_file] = &files;
    write(config_file, &config)?;
    write(schema_file, schema.text)?;
    if let Some(first) = samples.first() {
        write(page_file, &page(first))?;
    }
    println!(
        "wrote {}, {} and {}",
        config_file.display(),
        schema_file.display(),
        page_file.display()
    );
    println!(
        "\nStart the gateway, then open {} in a browser:",
        page_file.display()
    );
    println!("  weir gateway run --config {}", config_file.display());
    println!("Or follow an item in a terminal:");
    for (index, sample) in samples.iter().enumerate() {
        println!(
            "  {}",
            one_line(&sampling::tail_command(sample, index, None))
        );
    }
    Ok(Exit::Success)
}

fn print(sample: &TopicSample) {
    println!("{}", one_line(&sampling::describe(sample)));
    if sample.fields().is_empty() {
        return println!();
    }
    let mut table = TextTable::new(&[
        TextColumn::text("field", 30),
        TextColumn::text("type", 20),
        TextColumn::text("example", 60).cut(20),
    ]);
    for field in sample.fields() {
        add_row(
            &mut table,
            &[&field.name, &field.types.join(" or "), &field.example],
        );
    }
    print_table(&table, "  ");
    println!();
}

/// Writes a file as a whole: a full disk leaves no half of it.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let written = fs::File::create(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written
        .with_context(|| format!("cannot write {}", path.display()))
        .or_exit(Exit::Usage)
}

/// Returns the page with the items and fields of a topic. The values are JSON in a script, in which
/// `<` could end the element.
fn page(sample: &TopicSample) -> String {
    let options = json!({
        "title": sample.topic(),
        "items": sample.items(),
        "fields": sample.field_names(),
    });
    let options = options.to_string().replace('<', "\\u003c");
    PAGE.replace("/*OPTIONS*/", &options)
}
