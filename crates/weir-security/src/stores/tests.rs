//! Stores made by `keytool` and `openssl`, whole and damaged.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

/// A directory with stores.
struct Made {
    directory: TempDir,
}

impl Made {
    /// Returns `None` and prints a reason if a program is missing.
    fn new() -> Option<Self> {
        for program in ["keytool", "openssl"] {
            let argument = if program == "keytool" {
                "-help"
            } else {
                "version"
            };
            if Command::new(program).arg(argument).output().is_err() {
                eprintln!("skipped: {program} is not installed");
                return None;
            }
        }
        let directory = tempfile::tempdir().expect("a directory");
        Some(Self { directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, command: &str) {
        let mut words = command.split_whitespace();
        let program = words.next().expect("a program");
        let output = Command::new(program)
            .args(words)
            .current_dir(self.directory.path())
            .output()
            .expect("the program starts");
        let text = String::from_utf8_lossy(&output.stderr);
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{command}: {text}{out}");
    }

    /// Makes a key store with `keytool`.
    fn key_store(&self, name: &str, options: &str) {
        self.run(&format!(
            "keytool -genkeypair -alias own -keyalg EC -groupname secp256r1 -dname CN=client \
             -validity 30 -keystore {name} -storepass storepass {options}"
        ));
    }

    fn read(&self, name: &str) -> Vec<u8> {
        read_file(&self.path(name)).expect("the store exists")
    }

    fn identity(&self, name: &str, store: &str, key: Option<&str>) -> Identity {
        read_identity(&self.read(name), None, passwords(Some(store), key))
    }

    fn trusted(&self, name: &str, password: Option<&str>) -> Trusted {
        read_trusted(&self.read(name), None, passwords(password, None))
    }
}

type Identity = Result<ClientIdentity, StoreError>;
type Trusted = Result<Vec<CertificateDer<'static>>, StoreError>;

fn passwords<'a>(store: Option<&'a str>, key: Option<&'a str>) -> StorePasswords<'a> {
    StorePasswords {
        store,
        key,
        property: "ssl.keystore.password",
    }
}

/// Loads an identity into rustls, which checks that key and certificate belong together.
fn usable(identity: Identity) -> ClientIdentity {
    let identity = identity.expect("a valid store");
    let copy = identity.clone();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_client_auth_cert(copy.chain, copy.key)
        .expect("key and certificate belong together");
    identity
}

#[test]
fn jks_stores_are_read() {
    let Some(made) = Made::new() else { return };
    made.key_store("own.jks", "-storetype JKS -keypass keypass");
    let identity = usable(made.identity("own.jks", "storepass", Some("keypass")));
    assert_eq!(identity.chain.len(), 1);
    assert_eq!(made.trusted("own.jks", None), Ok(identity.chain));

    let wrong = made.identity("own.jks", "other", Some("keypass"));
    let password_property = "ssl.keystore.password";
    assert_eq!(
        wrong.unwrap_err(),
        StoreError::WrongPassword { password_property }
    );
    let wrong = made.identity("own.jks", "storepass", Some("other"));
    assert_eq!(wrong.unwrap_err(), StoreError::WrongKeyPassword);
    let wrong = made.identity("own.jks", "storepass", None);
    assert_eq!(
        wrong.unwrap_err(),
        StoreError::WrongKeyPassword,
        "Java tries the store's password"
    );

    made.run("keytool -exportcert -alias own -keystore own.jks -storepass storepass -file own.der");
    made.run(
        "keytool -importcert -noprompt -alias ca -file own.der -keystore trust.jks -storetype JKS \
         -storepass trustpass",
    );
    let trusted = made.trusted("trust.jks", Some("trustpass")).expect("valid");
    assert_eq!(trusted[0].as_ref(), made.read("own.der"));
    let no_key = made.identity("trust.jks", "trustpass", None);
    assert_eq!(no_key.unwrap_err(), StoreError::NoKey);
}

#[test]
fn pkcs12_stores_of_java_are_read() {
    let Some(made) = Made::new() else { return };
    made.key_store("new.p12", "-storetype PKCS12");
    let identity = usable(made.identity("new.p12", "storepass", None));
    assert_eq!(identity.chain.len(), 1);
    // Java's default before 2021.
    made.key_store(
        "old.p12",
        "-storetype PKCS12 -J-Dkeystore.pkcs12.legacy=true",
    );
    usable(made.identity("old.p12", "storepass", None));
    let wrong = made.identity("old.p12", "other", None).unwrap_err();
    assert!(
        wrong.to_string().starts_with("the store password is wrong"),
        "{wrong}"
    );
    let wrong = made.identity("new.p12", "other", None).unwrap_err();
    let text = "the store password is wrong, or the file is damaged: check ssl.keystore.password";
    assert_eq!(wrong.to_string(), text);

    made.run("keytool -exportcert -alias own -keystore new.p12 -storepass storepass -file own.der");
    made.run(
        "keytool -importcert -noprompt -alias ca -file own.der -keystore trust.p12 \
         -storepass trustpass",
    );
    let trusted = made.trusted("trust.p12", Some("trustpass")).expect("valid");
    assert_eq!(trusted, identity.chain);
    let none = made.trusted("trust.p12", None).unwrap_err();
    assert!(matches!(none, StoreError::NoPassword { .. }), "{none}");
}

#[test]
fn stores_of_openssl_are_read() {
    let Some(made) = Made::new() else { return };
    certificates(&made);
    let export = "openssl pkcs12 -export -inkey own.key -in own.crt -certfile ca.crt -passout \
                  pass:storepass";
    made.run(&format!("{export} -out new.p12"));
    let identity = usable(made.identity("new.p12", "storepass", None));
    assert_eq!(identity.chain.len(), 2, "the chain ends with its authority");
    let old = "-keypbe PBE-SHA1-3DES -certpbe PBE-SHA1-RC2-40 -macalg sha1 -legacy";
    made.run(&format!("{export} -out old.p12 {old}"));
    assert_eq!(
        usable(made.identity("old.p12", "storepass", None)),
        identity
    );
    made.run(&format!(
        "{export} -out plain.p12 -keypbe NONE -certpbe NONE"
    ));
    assert_eq!(
        usable(made.identity("plain.p12", "storepass", None)),
        identity
    );
    let mut trusted = made.trusted("new.p12", Some("storepass")).expect("valid");
    trusted.sort_by(|one, other| one.as_ref().cmp(other.as_ref()));
    let mut chain = identity.chain.clone();
    chain.sort_by(|one, other| one.as_ref().cmp(other.as_ref()));
    assert_eq!(trusted, chain);

    for (name, cipher) in [
        ("aes", "-aes128"),
        ("des", "-des3"),
        ("sha", "-aes-256-cbc"),
    ] {
        let prf = if name == "sha" {
            "-v2prf hmacWithSHA512"
        } else {
            ""
        };
        made.run(&format!(
            "openssl pkcs8 -topk8 -in own.key -out {name}.key -passout pass:keypass -v2 {} {prf}",
            cipher.trim_start_matches('-')
        ));
        let key = made.read(&format!("{name}.key"));
        let chain = made.read("own.crt");
        let read = |password| read_identity_pem(&chain, &key, passwords(None, password));
        usable(read(Some("keypass")));
        assert_eq!(read(None).unwrap_err(), StoreError::NoKeyPassword);
        assert_eq!(
            read(Some("other")).unwrap_err(),
            StoreError::WrongKeyPassword
        );
    }
}

/// Makes an authority and a certificate with an RSA key.
fn certificates(made: &Made) {
    made.run("openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -subj /CN=ca");
    made.run("openssl req -newkey rsa:2048 -nodes -keyout own.key -out own.csr -subj /CN=own");
    // Without an extension this would be a certificate of version 1, which rustls rejects.
    std::fs::write(made.path("own.ext"), "basicConstraints=CA:false\n").expect("written");
    made.run(
        "openssl x509 -req -extfile own.ext -in own.csr -CA ca.crt -CAkey ca.key -out own.crt \
         -days 5",
    );
}

#[test]
fn expired_and_mismatched_certificates_are_rejected() {
    let Some(made) = Made::new() else { return };
    certificates(&made);
    let past = "-startdate 2020/01/01 -validity 30";
    made.run(&format!(
        "keytool -genkeypair -alias old -keyalg RSA -dname CN=late {past} -keystore old.p12 \
         -storepass storepass"
    ));
    let expired = made.identity("old.p12", "storepass", None).unwrap_err();
    let text = "certificate \"late\" expired on 2020-01-31: install a new one";
    assert_eq!(expired.to_string(), text);
    let expired = made.trusted("old.p12", Some("storepass")).unwrap_err();
    assert_eq!(expired.to_string(), text);

    made.run("openssl ecparam -name prime256v1 -genkey -noout -out ec.key");
    let (chain, key) = (made.read("own.crt"), made.read("ec.key"));
    let other = read_identity_pem(&chain, &key, passwords(None, None)).unwrap_err();
    assert_eq!(
        other.to_string(),
        "the key has type EC, but its certificate has a key of type RSA"
    );
    made.run(
        "keytool -genkeypair -alias d -keyalg DSA -keysize 1024 -dname CN=d -keystore d.p12 \
              -storepass storepass",
    );
    let dsa = made.identity("d.p12", "storepass", None).unwrap_err();
    assert!(
        dsa.to_string().starts_with("the key has type DSA, which"),
        "{dsa}"
    );
}

#[test]
fn formats_are_checked() {
    let Some(made) = Made::new() else { return };
    made.key_store("own.p12", "-storetype PKCS12");
    let bytes = made.read("own.p12");
    let both = passwords(Some("storepass"), None);
    // Java reads this as well.
    assert!(read_identity(&bytes, Some(StoreFormat::Jks), both).is_ok());
    let pem = read_identity(&bytes, Some(StoreFormat::Pem), both).unwrap_err();
    let text = "is not a PEM store but PKCS12: correct the type or the file";
    assert_eq!(pem.to_string(), text);
    let jceks = read_identity(&[0xce; 40], None, both).unwrap_err();
    assert_eq!(jceks, StoreError::Jceks);
    assert_eq!(
        read_identity(b"hello", None, both).unwrap_err(),
        StoreError::UnknownFormat
    );
    assert_eq!(
        read_identity(b"", None, both).unwrap_err(),
        StoreError::Empty
    );
    assert!(matches!(
        read_file(Path::new("/no/such")),
        Err(StoreError::Io(_))
    ));
}

#[test]
fn truncated_and_changed_stores_are_rejected() {
    let Some(made) = Made::new() else { return };
    made.key_store("own.jks", "-storetype JKS -keypass keypass");
    made.key_store("own.p12", "-storetype PKCS12");
    for name in ["own.jks", "own.p12"] {
        let bytes = made.read(name);
        let both = passwords(Some("storepass"), Some("keypass"));
        let both = if name == "own.p12" {
            passwords(Some("storepass"), None)
        } else {
            both
        };
        for length in (0..bytes.len()).step_by(7) {
            let cut = read_identity(&bytes[..length], None, both).unwrap_err();
            let text = cut.to_string();
            let wrong = matches!(cut, StoreError::WrongPassword { .. });
            assert!(!wrong, "{name} cut at {length}: {text}");
        }
        for index in (0..bytes.len()).step_by(5) {
            let mut changed = bytes.clone();
            changed[index] ^= 0x55;
            // A checksum covers all of JKS; of PKCS12 all but its own parameters' encoding.
            let read = read_identity(&changed, None, both);
            assert!(
                read.is_err() || name == "own.p12",
                "{name} changed at {index}"
            );
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz(&bytes);
        for magic in [&jks::MAGIC[..], &[0x30, 0x82], b"-----BEGIN CERTIFICATE-----\n"] {
            fuzz(&[magic, &bytes].concat());
        }
    }
}
