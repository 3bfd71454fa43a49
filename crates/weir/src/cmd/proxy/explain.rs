//! `weir proxy explain`: names the rule that decides about a request.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use weir_identity::acl::{
    AclDecision, AclOperation, AclRule, AclSet, AclSubject, ResourceType, parse_listing,
};
use weir_proxy::{CliOverrides, ProxyConfig};

use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct ProxyExplainArgs {
    /// Output of `kafka-acls.sh --list`
    #[arg(long, value_name = "FILE", required_unless_present = "config")]
    acls: Option<PathBuf>,
    /// Configuration file of the proxy with access rules, instead of a list
    #[arg(long, value_name = "FILE", conflicts_with_all = ["acls", "super_user"])]
    config: Option<PathBuf>,
    /// Virtual cluster of the configuration [default: the first with access rules]
    #[arg(long, value_name = "NAME", requires = "config")]
    virtual_cluster: Option<String>,
    /// Principal of the client, such as User:alice; repeatable, for its groups
    #[arg(long, value_name = "TYPE:NAME", required = true)]
    principal: Vec<Box<str>>,
    /// Principal with all rights; repeatable
    #[arg(long, value_name = "TYPE:NAME")]
    super_user: Vec<Box<str>>,
    /// Address of the client
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    address: IpAddr,
    /// Operation, such as read or describe-configs
    #[arg(long, value_name = "NAME")]
    operation: AclOperation,
    #[command(flatten)]
    resource: ResourceArgs,
}

/// The resource, by its type.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct ResourceArgs {
    /// Name of a topic
    #[arg(long, value_name = "NAME")]
    topic: Option<String>,
    /// Id of a group
    #[arg(long, value_name = "ID")]
    group: Option<String>,
    /// Transactional id
    #[arg(long, value_name = "ID")]
    transactional_id: Option<String>,
    /// The cluster
    #[arg(long)]
    cluster: bool,
}

impl ResourceArgs {
    fn resource(&self) -> (ResourceType, &str) {
        let named = [
            (ResourceType::Topic, &self.topic),
            (ResourceType::Group, &self.group),
            (ResourceType::TransactionalId, &self.transactional_id),
        ];
        let mut named = named.into_iter();
        let named = named.find_map(|(kind, name)| Some((kind, name.as_deref()?)));
        named.unwrap_or((ResourceType::Cluster, AclRule::CLUSTER))
    }
}

/// Prints the decision. A denied request ends with exit code 1.
pub(super) fn run(args: &ProxyExplainArgs) -> Result<Exit, Failure> {
    let subject = AclSubject::new(
        rules(args)?,
        args.principal.clone().into_boxed_slice(),
        args.address,
    );
    let (kind, name) = args.resource.resource();
    let decision = subject.decide(args.operation, kind, name);
    let reason = match decision {
        AclDecision::SuperUser => "super user".to_owned(),
        AclDecision::Allowed(rule) | AclDecision::Denied(rule) => rule.to_string(),
        AclDecision::NoRule => "no rule allows it".to_owned(),
    };
    let word = match decision.is_allowed() {
        true => "allowed",
        false => "denied",
    };
    println!("{word}: {} on {kind} {name}: {reason}", args.operation);
    Ok(match decision.is_allowed() {
        true => Exit::Success,
        false => Exit::Threshold,
    })
}

fn rules(args: &ProxyExplainArgs) -> Result<Arc<AclSet>, Failure> {
    let Some(path) = &args.config else {
        let listed = args.acls.as_deref().map_or_else(|| Ok(Vec::new()), read)?;
        let set = AclSet::new(listed, args.super_user.iter().cloned());
        return Ok(Arc::new(set));
    };
    let config = ProxyConfig::load(Some(path), &CliOverrides::default())?;
    let is_named = |name: &str| args.virtual_cluster.as_ref().is_none_or(|one| one == name);
    let mut clusters = config.clusters.iter().filter(|one| is_named(&one.name));
    let set = clusters.find_map(|cluster| cluster.acl_set());
    set.cloned().ok_or_else(|| {
        Failure::usage(format!(
            "{}: no such cluster with access rules",
            path.display()
        ))
    })
}

fn read(path: &Path) -> Result<Vec<AclRule>, Failure> {
    let file = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {file}: {error}")))?;
    parse_listing(&text, &file.to_string())
        .map_err(|error| Failure::usage(format!("{file}: {error}")))
}
