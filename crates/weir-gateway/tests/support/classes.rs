//! Clients of one issuer whose claims select records (`where`).

use std::time::{SystemTime, UNIX_EPOCH};

use weir_gateway::Gateway;

use super::signer::{ISSUER, Signer, key_document};
use super::{Client, TestEnv};

/// A topic, and a gateway with rules for the clients of one issuer.
pub struct Classes {
    pub env: TestEnv,
    pub signer: Signer,
}

impl Classes {
    pub fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_s = now.expect("a time after 1970").as_secs();
        let (env, signer) = (TestEnv::new(), Signer::new("k1", now_s + 3_600));
        env.write("keys.json", &key_document(&[&signer]));
        Self { env, signer }
    }

    /// Starts a gateway with rules, sections and parameters of the connection.
    pub fn start(&self, toml: &str, item: &str, parameters: &[(&str, &str)]) -> Gateway {
        self.start_with_auth(&format!("{toml}\n[auth]\n"), item, parameters)
    }

    /// Starts a gateway; the sections end with `[auth]`.
    pub fn start_with_auth(&self, toml: &str, item: &str, parameters: &[(&str, &str)]) -> Gateway {
        let toml = format!(
            "{toml}\n[[auth.issuer]]\nissuer = \"{ISSUER}\"\naudience = \"weir\"\n\
             jwks_file = \"keys.json\"\n"
        );
        let line =
            |(name, value): &(&str, &str)| format!("<param name=\"{name}\">{value}</param>\n");
        let added: String = parameters.iter().map(line).collect();
        self.env.ready(self.env.config_with(&toml, |xml| {
            let own = ["field.key", "field.value", "item-template.ltest"];
            let is_own = |line: &&str| !own.iter().any(|name| line.contains(&format!("{name}\"")));
            let lines: Vec<_> = xml.lines().filter(is_own).collect();
            let xml = lines
                .join("\n")
                .replace(">item-template.ltest<", &format!(">{item}<"));
            xml.replace("</data_provider>", &format!("{added}</data_provider>"))
        }))
    }

    /// Returns a token with these claims.
    pub fn token(&self, claims: &str) -> String {
        self.signer.token(claims)
    }

    pub fn session(&self, gateway: &Gateway, claims: &str) -> Client {
        let token = self.signer.token(claims);
        Client::create_with(gateway, &format!("&LS_password={token}")).expect("a session")
    }

    /// Returns a session of a user with these tenants, as JSON.
    pub fn tenant(&self, gateway: &Gateway, tenants: &str) -> Client {
        self.session(gateway, &format!(r#"{{"tenant":{tenants}}}"#))
    }

    pub fn news(&self, tenant: &str, text: &str) {
        let value = format!(r#"{{"tenant":{tenant},"text":"{text}"}}"#);
        self.env.produce("k", &value);
    }

    pub fn row(&self, tenant: &str, id: &str, value: Option<&str>) {
        let key = format!(r#"{{"tenant":"{tenant}","id":"{id}"}}"#);
        match value {
            Some(value) => self.env.produce(&key, value),
            None => self.env.delete(&key),
        }
    }
}
