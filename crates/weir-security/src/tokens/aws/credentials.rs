//! The chain of credentials: a profile if one is named, else environment variables, a web identity,
//! the default profile, a container's endpoint, an instance's metadata; then the role to assume.

use super::super::error::TokenError;
use super::environment::Environment;
use super::keys::{AwsCredentials, variables};
use super::options::AwsOptions;
use super::{metadata, profile, sts};

/// Returns the credentials that the options select.
pub(super) fn find(
    options: &AwsOptions,
    sts_region: &str,
    environment: &Environment,
) -> Result<AwsCredentials, TokenError> {
    if let Some(name) = &options.profile {
        return profile::find(name, sts_region, environment);
    }
    let base = default_chain(sts_region, environment)?;
    let Some(role_arn) = &options.role_arn else {
        return Ok(base);
    };
    let role = sts::AssumedRole {
        arn: role_arn,
        session_name: options.role_session_name.as_deref(),
        external_id: options.role_external_id.as_deref(),
    };
    sts::assume_role(&role, &base, sts_region, environment)
}

/// Returns the first credentials of the default chain. A source that is configured but fails ends
/// the search, because other credentials would be a silent replacement.
fn default_chain(
    sts_region: &str,
    environment: &Environment,
) -> Result<AwsCredentials, TokenError> {
    if let Some(found) = variables(environment)? {
        return Ok(found);
    }
    if environment
        .variable("AWS_WEB_IDENTITY_TOKEN_FILE")
        .is_some()
    {
        return sts::web_identity(sts_region, environment);
    }
    let name = environment.variable("AWS_PROFILE");
    let default = name.as_deref().unwrap_or("default");
    if name.is_some() || profile::exists(default, environment)? {
        return profile::find(default, sts_region, environment);
    }
    if let Some(found) = metadata::container(environment)? {
        return Ok(found);
    }
    metadata::instance(environment)
}
