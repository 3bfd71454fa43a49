//! Tokens and signed requests of logins: OAUTHBEARER and AWS_MSK_IAM. All calls block and need no
//! runtime.

mod aws;
mod bearer;
mod cache;
mod encode;
mod error;
mod oauth;

pub use aws::{AwsCredentialSource, AwsOptions};
pub use bearer::BearerToken;
pub use error::TokenError;
pub use oauth::{TokenEndpoint, TokenSource};

#[cfg(test)]
#[allow(clippy::print_stderr)] // skipped tests and stubs are reported
mod tests;
