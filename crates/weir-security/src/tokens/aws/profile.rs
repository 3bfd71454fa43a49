//! Profiles of the shared files `~/.aws/config` and `~/.aws/credentials`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::error::TokenError;
use super::environment::Environment;
use super::keys::{AwsCredentials, variables};
use super::{metadata, sts};
use crate::stores::{StoreError, read_file};

/// Settings of all profiles.
type Profiles = BTreeMap<String, BTreeMap<String, String>>;

/// Returns `true` if a file contains the profile.
pub(super) fn exists(name: &str, environment: &Environment) -> Result<bool, TokenError> {
    Ok(read(environment)?.contains_key(name))
}

/// Returns the credentials of a profile: its keys, or those of the role that it assumes.
pub(super) fn find(
    name: &str,
    sts_region: &str,
    environment: &Environment,
) -> Result<AwsCredentials, TokenError> {
    let profiles = read(environment)?;
    resolve(name, &profiles, sts_region, environment, 0)
}

fn resolve(
    name: &str,
    profiles: &Profiles,
    sts_region: &str,
    environment: &Environment,
    depth: usize,
) -> Result<AwsCredentials, TokenError> {
    let failed = |reason: &str| TokenError::Profile {
        profile: name.to_owned(),
        reason: reason.to_owned(),
    };
    let profile = profiles.get(name);
    let profile = profile.ok_or_else(|| failed("does not exist in the shared AWS files"))?;
    let get = |key: &str| profile.get(key).map(String::as_str);
    if depth > DEPTH_MAX {
        return Err(failed("refers to source profiles in a circle"));
    }
    if let Some(arn) = get("role_arn") {
        // A role may be assumed with the keys of the profile itself.
        let base = match (get("source_profile"), get("credential_source")) {
            (Some(source), _) if source == name => keys(profile, failed)?,
            (Some(source), _) => resolve(source, profiles, sts_region, environment, depth + 1)?,
            (None, Some("Environment")) => variables(environment)?
                .ok_or_else(|| failed("names the environment, which has no AWS_ACCESS_KEY_ID"))?,
            (None, Some("Ec2InstanceMetadata")) => metadata::instance(environment)?,
            (None, Some("EcsContainer")) => metadata::container(environment)?
                .ok_or_else(|| failed("names a container, but this process runs in none"))?,
            (None, Some(_)) => return Err(failed("has an unknown credential_source")),
            (None, None) => match get("web_identity_token_file") {
                Some(file) => {
                    let session = get("role_session_name");
                    return sts::assume_with_token(arn, file, session, sts_region, environment);
                }
                None => return Err(failed("has role_arn without source_profile")),
            },
        };
        let role = sts::AssumedRole {
            arn,
            session_name: get("role_session_name"),
            external_id: get("external_id"),
        };
        return sts::assume_role(&role, &base, sts_region, environment);
    }
    if get("credential_process").is_some() {
        return Err(failed(
            "uses credential_process, which Weir does not run; export the credentials to \
             environment variables",
        ));
    }
    if profile.keys().any(|key| key.starts_with("sso_")) && get("aws_access_key_id").is_none() {
        return Err(failed(
            "uses single sign-on, which Weir does not support; export the credentials with aws \
             configure export-credentials",
        ));
    }
    keys(profile, failed)
}

fn keys(
    profile: &BTreeMap<String, String>,
    failed: impl Fn(&str) -> TokenError,
) -> Result<AwsCredentials, TokenError> {
    let get = |key: &str| profile.get(key).cloned();
    let (Some(key_id), Some(secret)) = (get("aws_access_key_id"), get("aws_secret_access_key"))
    else {
        return Err(failed("has no aws_access_key_id and aws_secret_access_key"));
    };
    let credentials = AwsCredentials::new(key_id, secret, get("aws_session_token"), None);
    credentials.ok_or_else(|| failed("has keys with blanks or control characters"))
}

/// Reads both files. Keys in `credentials` have precedence over those in `config`.
fn read(environment: &Environment) -> Result<Profiles, TokenError> {
    let home = environment.variable("HOME").map(PathBuf::from);
    let path = |variable: &str, name: &str| {
        let chosen = environment.variable(variable).map(PathBuf::from);
        chosen.or_else(|| Some(home.as_ref()?.join(".aws").join(name)))
    };
    let mut profiles = Profiles::new();
    for (variable, name) in [
        ("AWS_CONFIG_FILE", "config"),
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
    ] {
        let Some(path) = path(variable, name).filter(|path| path.exists()) else {
            continue;
        };
        match read_file(&path) {
            Ok(bytes) => parse(
                &String::from_utf8_lossy(&bytes),
                name == "config",
                &mut profiles,
            ),
            Err(StoreError::Empty) => {}
            Err(error) => {
                let reason = format!("file \"{}\" {error}", path.display());
                let profile = "default".to_owned();
                return Err(TokenError::Profile { profile, reason });
            }
        }
    }
    Ok(profiles)
}

/// Adds the profiles of a file. In `config` all but the default are named `profile NAME`.
pub(super) fn parse(text: &str, is_config: bool, profiles: &mut Profiles) {
    let mut current: Option<String> = None;
    for line in text.lines() {
        // Indented lines are settings of services, which Weir does not use.
        let is_nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            let header = header.split(']').next().unwrap_or_default().trim();
            let named = header.strip_prefix("profile ").map(str::trim);
            current = match (is_config, named) {
                (true, Some(name)) => Some(name.trim_matches('"').to_owned()),
                (true, None) => (header == "default").then(|| header.to_owned()),
                (false, _) => Some(header.to_owned()),
            };
            if let Some(name) = &current {
                profiles.entry(name.clone()).or_default();
            }
            continue;
        }
        let profile = current.as_ref().and_then(|name| profiles.get_mut(name));
        if let (Some(profile), Some((key, value)), false) =
            (profile, line.split_once('='), is_nested)
        {
            profile.insert(key.trim().to_owned(), value.trim().to_owned());
        }
    }
}

const DEPTH_MAX: usize = 8;
