//! Tokens of real identity providers and of libraries in other languages.

#![allow(
    clippy::disallowed_methods,
    reason = "providers issue tokens for the present time"
)]

mod keycloak;
mod provider;
mod signers;
mod tokens;
