//! Identity providers for tests of tokens: a certified OpenID provider and Keycloak, and the
//! libraries that sign tokens elsewhere.

mod control;
mod issuer;
mod keycloak;
mod provider;
mod signers;

pub use issuer::{Issuer, IssuerFault, IssuerRequests, TokenClaims};
pub use keycloak::{KEYCLOAK_VERSION, Keycloak, KeycloakUser};
pub use provider::{ISSUERS_MAX, IdentityProvider, PROVIDER_VERSION};
pub use signers::{ForeignSigner, PYJWT_VERSION, jose, pyjwt};
