//! A Kerberos realm: a KDC of MIT Kerberos with its database in a temporary directory.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Process, text};

pub(crate) const REALM: &str = "WEIR.TEST";
/// Name of the brokers' service; the lab's brokers advertise an address.
pub(crate) const SERVICE: &str = "kafka/127.0.0.1";
pub(crate) const CLIENT: &str = "weir";

/// A running KDC; it ends with this value.
pub(crate) struct Realm {
    pub(crate) dir: PathBuf,
    _kdc: Process,
}

impl Realm {
    /// Creates a realm with the service and the client, and starts its KDC.
    pub(crate) fn start(dir: &Path) -> Self {
        let port = free_port();
        fs::write(dir.join("krb5.conf"), client_config(port)).expect("a file");
        let config = format!(
            "[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n\
             [realms]\n {REALM} = {{\n  database_name = {0}/principals\n  \
             key_stash_file = {0}/stash\n  acl_file = {0}/acl\n  max_life = 1h\n }}\n\
             [logging]\n kdc = FILE:{0}/kdc.log\n",
            dir.display()
        );
        fs::write(dir.join("kdc.conf"), config).expect("a file");
        let stash = ["create", "-s", "-r", REALM, "-P", "master"];
        run(in_realm(dir, "kdb5_util").args(stash));
        let mut kdc = in_realm(dir, "krb5kdc");
        kdc.arg("-n").stdout(Stdio::null()).stderr(Stdio::null());
        let mut kdc = Process::spawn(&mut kdc);
        wait_for("the KDC listens", || {
            let ended = kdc.try_wait().expect("a child");
            assert!(ended.is_none(), "the KDC ended: {ended:?}");
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        });
        let realm = Self {
            dir: dir.to_owned(),
            _kdc: kdc,
        };
        for name in [SERVICE, CLIENT] {
            realm.add(name);
        }
        realm
    }

    /// Creates a principal and writes its key tab, see [`Self::keytab`].
    pub(crate) fn add(&self, name: &str) {
        self.administer(&format!("addprinc -randkey {name}"));
        let keytab = self.keytab(name);
        self.administer(&format!("ktadd -k {} {name}", keytab.display()));
    }

    /// Gives a principal a new key, so that its key tab is outdated.
    pub(crate) fn change_key(&self, name: &str) {
        self.administer(&format!("cpw -randkey {name}"));
    }

    fn administer(&self, query: &str) {
        let mut command = in_realm(&self.dir, "kadmin.local");
        run(command.args(["-r", REALM, "-q", query]));
    }

    /// Returns the path of a principal's key tab.
    pub(crate) fn keytab(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{}.keytab", name.replace('/', "-")))
    }

    /// Returns the configuration of Kerberos clients.
    pub(crate) fn config(&self) -> PathBuf {
        self.dir.join("krb5.conf")
    }

    /// Writes the configuration of clients whose KDC has another port.
    pub(crate) fn config_with_port(&self, name: &str, port: u16) -> PathBuf {
        let path = self.dir.join(name);
        fs::write(&path, client_config(port)).expect("a file");
        path
    }

    /// Gets a ticket of the client into a cache.
    pub(crate) fn ticket(&self, cache: &Path, lifetime: &str) {
        let mut kinit = in_realm(&self.dir, "kinit");
        kinit.env("KRB5CCNAME", cache).args(["-l", lifetime, "-k"]);
        run(kinit.arg("-t").arg(self.keytab(CLIENT)).arg(CLIENT));
    }

    /// Returns `true` if the tickets in a cache are valid.
    pub(crate) fn is_valid(&self, cache: &Path) -> bool {
        let mut klist = in_realm(&self.dir, "klist");
        let status = klist.arg("-s").env("KRB5CCNAME", cache).status();
        status.expect("klist starts").success()
    }
}

/// A KDC that accepts requests and never responds.
pub(crate) struct SilentKdc {
    pub(crate) port: u16,
    _tcp: TcpListener,
    _udp: UdpSocket,
}

impl SilentKdc {
    pub(crate) fn start() -> Self {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = tcp.local_addr().expect("an address");
        Self {
            port: address.port(),
            _tcp: tcp,
            _udp: UdpSocket::bind(address).expect("the same port"),
        }
    }
}

fn client_config(port: u16) -> String {
    format!(
        "[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n \
         dns_lookup_realm = false\n dns_canonicalize_hostname = false\n rdns = false\n\
         [realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
    )
}

fn in_realm(dir: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command.env("KRB5_CONFIG", dir.join("krb5.conf"));
    command.env("KRB5_KDC_PROFILE", dir.join("kdc.conf"));
    command
}

fn run(command: &mut Command) {
    let name = command.get_program().to_owned();
    let output = command.output().unwrap_or_else(|error| {
        let name = name.to_string_lossy();
        panic!("{name}: {error}; make test-kerberos installs it")
    });
    // kadmin.local succeeds even if its query fails.
    let errors = text(&output.stderr);
    let failed = !output.status.success() || errors.contains(" while ");
    assert!(!failed, "{command:?}: {} {errors}", text(&output.stdout));
}

pub(crate) fn free_port() -> u16 {
    weir_lab::ports::free_ports(Ipv4Addr::LOCALHOST, 1).expect("a port")[0]
}

/// Waits until a condition holds.
pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(LOOK);
    }
}

const LIMIT: Duration = Duration::from_secs(60);
/// Interval at which a condition is polled.
const LOOK: Duration = Duration::from_millis(50);
