//! Keycloak, from its distribution for Maven, with an imported realm.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::{Value, json};

use crate::disk;
use crate::error::{LabError, Result};
use crate::host_tools;
use crate::http::{self, HttpRequest};
use crate::maven::{self, MavenArchive};
use crate::operation::Operation;
use crate::ports;
use crate::server::{Server, ServerLaunch};
use crate::state::ServiceState;

/// Release of Keycloak.
pub const KEYCLOAK_VERSION: &str = "26.4.5";

/// A user of the realm, who logs in with a password.
#[derive(Debug, Clone, Copy)]
pub struct KeycloakUser<'a> {
    /// Claim `preferred_username`.
    pub name: &'a str,
    /// Claim `realm_access.roles`.
    pub roles: &'a [&'a str],
}

/// A running Keycloak with one realm, stopped with this value.
#[derive(Debug)]
pub struct Keycloak {
    server: Server,
    port: u16,
    dir: PathBuf,
}

impl Keycloak {
    /// Starts Keycloak on the loopback interface, downloaded with Maven if it is not cached. The
    /// access tokens of its users have this audience and lifetime.
    pub fn start(
        users: &[KeycloakUser<'_>],
        audience: &str,
        lifetime: Duration,
        progress: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<Self> {
        let mut operation = Operation { progress, stop };
        host_tools::java("to run Keycloak")?;
        let cached = maven::unpacked(&ARCHIVE, &mut operation)?;
        let temporary = tempfile::Builder::new().prefix("weir-keycloak-").tempdir();
        let temporary =
            temporary.map_err(|error| LabError::Directory(std::env::temp_dir(), error))?;
        let dir = temporary.path().to_owned();
        let home = dir.join("keycloak");
        // Keycloak writes into its directory.
        let distribution = cached.join(format!("keycloak-{KEYCLOAK_VERSION}"));
        let mut copy = Command::new("cp");
        copy.arg("-r").args([&distribution, &home]);
        let (status, output) = host_tools::run(&mut copy, "copying Keycloak", &operation)?;
        if !status.success() {
            return Err(LabError::BrokenTool("cp".into(), output));
        }
        let import = home.join("data/import");
        disk::prepare(&import, 0)?;
        let realm = realm(users, audience, lifetime);
        disk::write_private(&import.join("weir.json"), &realm.to_string())?;
        let port = ports::free_ports(HOST, 1);
        let port = port.map_err(|error| LabError::io("find a free port", error))?[0];
        let launch = ServerLaunch {
            name: NAME,
            command: command(&home, port),
            logs: dir.clone(),
            host: HOST,
            probe: "/realms/weir",
            authorization: None,
            temporary_dir: Some(dir.clone()),
        };
        let state = ServiceState {
            port,
            tls_port: 0,
            process: None,
        };
        let server = Server::new(launch, state);
        // From now on, this value removes it.
        let dir = temporary.keep();
        let mut keycloak = Self { server, port, dir };
        keycloak.server.start()?;
        keycloak.server.wait_ready(READY_TIMEOUT, &operation)?;
        Ok(keycloak)
    }

    /// Returns the claim `iss`, which is the URL of the realm.
    pub fn issuer(&self) -> String {
        format!("http://{HOST}:{}/realms/weir", self.port)
    }

    /// Returns an access token of a user of the realm.
    pub fn token(&self, user: &str) -> Result<String> {
        self.login("weir", "weir-app", user)
    }

    /// Adds a key of 2048 bits for RS256, which signs from now on. The old key stays published.
    pub fn rotate_key(&self) -> Result<()> {
        let admin = format!("Bearer {}", self.login("master", "admin-cli", "admin")?);
        let component = json!({
            "name": "rotated", "providerId": "rsa-generated",
            "providerType": "org.keycloak.keys.KeyProvider",
            "config": {"priority": ["1000"], "keySize": ["2048"]},
        });
        let headers = [
            ("Authorization", admin.as_str()),
            ("Content-Type", "application/json"),
        ];
        let path = "/admin/realms/weir/components";
        self.send(path, &headers, &component.to_string()).map(drop)
    }

    /// Logs in with the password of the realm's users.
    fn login(&self, realm: &str, client: &str, user: &str) -> Result<String> {
        let path = format!("/realms/{realm}/protocol/openid-connect/token");
        let body =
            format!("grant_type=password&client_id={client}&username={user}&password={PASSWORD}");
        let headers = [("Content-Type", "application/x-www-form-urlencoded")];
        let answer = self.send(&path, &headers, &body)?;
        let answer: Value = serde_json::from_str(&answer)
            .map_err(|error| LabError::io("read Keycloak's response", error.into()))?;
        let token = answer["access_token"].as_str().map(str::to_owned);
        token.ok_or_else(|| LabError::Rejected(NAME, 200, "no access token".to_owned()))
    }

    fn send(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Result<String> {
        let request = HttpRequest {
            method: "POST",
            path,
            headers,
            body,
        };
        let response = http::send(HOST, self.port, request, REQUEST_TIMEOUT);
        let response = response.map_err(|error| LabError::io("request to Keycloak", error))?;
        match response.status {
            200 | 201 => Ok(response.body),
            status => Err(LabError::Rejected(NAME, status, response.body)),
        }
    }
}

impl Drop for Keycloak {
    fn drop(&mut self) {
        if let Err(error) = self.server.stop(STOP_TIMEOUT) {
            tracing::warn!(%error, "Keycloak not stopped");
        }
        if let Err(error) = disk::remove(&self.dir) {
            tracing::warn!(%error, "directory of Keycloak not removed");
        }
    }
}

fn command(home: &Path, port: u16) -> Vec<String> {
    let words = [
        "env".to_owned(),
        "KC_BOOTSTRAP_ADMIN_USERNAME=admin".to_owned(),
        format!("KC_BOOTSTRAP_ADMIN_PASSWORD={PASSWORD}"),
        "JAVA_OPTS_KC_HEAP=-Xms64m -Xmx512m".to_owned(),
        home.join("bin/kc.sh").display().to_string(),
        "start-dev".to_owned(),
        "--import-realm".to_owned(),
        format!("--http-host={HOST}"),
        format!("--http-port={port}"),
    ];
    words.to_vec()
}

/// Returns the realm to import.
fn realm(users: &[KeycloakUser<'_>], audience: &str, lifetime: Duration) -> Value {
    let roles = users.iter().flat_map(|user| user.roles);
    let roles: Vec<_> = roles.map(|name| json!({ "name": name })).collect();
    let audience = json!({
        "name": "audience", "protocol": "openid-connect",
        "protocolMapper": "oidc-audience-mapper",
        "config": {"included.custom.audience": audience, "access.token.claim": "true"},
    });
    let users = users.iter().map(|user| {
        json!({
            "username": user.name, "enabled": true, "emailVerified": true,
            "firstName": user.name, "lastName": user.name,
            "email": format!("{}@example.com", user.name),
            "credentials": [{"type": "password", "value": PASSWORD}],
            "realmRoles": user.roles,
        })
    });
    json!({
        "realm": "weir", "enabled": true, "sslRequired": "none",
        "accessTokenLifespan": lifetime.as_secs(),
        "roles": {"realm": roles},
        "users": users.collect::<Vec<_>>(),
        "clients": [{
            "clientId": "weir-app", "enabled": true, "publicClient": true,
            "directAccessGrantsEnabled": true, "protocolMappers": [audience],
        }],
    })
}

const NAME: &str = "Keycloak";
const HOST: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Password of all users. It protects nothing: the realm exists for one test.
const PASSWORD: &str = "test-only";
const READY_TIMEOUT: Duration = Duration::from_secs(300);
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const ARCHIVE: MavenArchive = MavenArchive {
    group: "org.keycloak",
    artifact: "keycloak-quarkus-dist",
    version: KEYCLOAK_VERSION,
    kind: "tar.gz",
    classifier: "",
    what: "Keycloak",
    size: "160 MB",
};
