//! Tokens of real identity providers and of libraries in other languages.

mod keycloak;
mod provider;
mod signers;
mod tokens;
