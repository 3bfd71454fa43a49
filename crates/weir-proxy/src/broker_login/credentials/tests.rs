use std::os::unix::fs::PermissionsExt;

use super::*;

const SECRET: &str = "pencil";

fn read_as(text: &str, mode: IdentityMode) -> Result<Credentials, CredentialsError> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("credentials.toml");
    std::fs::write(&path, text).expect("writes");
    let owner = PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, owner).expect("sets the mode");
    let file = CredentialFile {
        path,
        mode,
        upstream_tls: None,
        server: "kafka:9092".to_owned(),
    };
    file.read()
}

fn read(text: &str) -> Result<Credentials, CredentialsError> {
    read_as(text, IdentityMode::Swap)
}

fn login(name: &str) -> String {
    format!(
        "[{name}]\nsasl.mechanism = \"PLAIN\"\nsasl.username = \"u\"\n\
         sasl.password = \"{SECRET}\"\n"
    )
}

#[test]
fn principal_has_own_credential_before_group_and_default() {
    let all = ["default", "probe", "\"User:anna\"", "\"Group:ops\""].map(login);
    let credentials = read(&all.concat()).expect("valid");
    let of = |name: &str, groups: &[&str]| {
        let groups = groups.iter().map(|group| (*group).into());
        let principal = Principal::user(name).expect("valid").with_groups(groups);
        let found = credentials.of_principal(&principal);
        found.map(|one| one.name.to_string())
    };
    assert_eq!(of("anna", &["ops"]).as_deref(), Some("User:anna"));
    assert_eq!(of("bert", &["dev", "ops"]).as_deref(), Some("Group:ops"));
    assert_eq!(of("bert", &[]).as_deref(), Some("default"));
    assert_eq!(credentials.of_probe().map(|one| &*one.name), Some("probe"));
    let credentials = read(&login("\"User:anna\"")).expect("valid");
    let other = Principal::user("bert").expect("valid");
    assert!(credentials.of_principal(&other).is_none() && credentials.of_probe().is_none());
}

#[test]
fn kafka_keys_may_be_quoted_or_dotted() {
    let quoted = format!(
        "[default]\n\"sasl.mechanism\" = \"SCRAM-SHA-512\"\n\"sasl.jaas.config\" = \
         'org.apache.kafka.common.security.scram.ScramLoginModule required username=\"u\" \
         password=\"{SECRET}\";'\n"
    );
    let token = "[default]\nsasl.mechanism = \"OAUTHBEARER\"\n\
                 \"sasl.oauthbearer.token.endpoint.url\" = \"https://issuer/token\"\n\
                 sasl.oauthbearer.client.credentials.client.id = \"weir\"\n\
                 sasl.oauthbearer.client.credentials.client.secret = \"pencil\"\n";
    for text in [quoted.as_str(), token, &login("default")] {
        let credentials = read_as(text, IdentityMode::One).expect("valid");
        assert!(credentials.fixed().is_some_and(|one| one.method.is_some()));
        assert!(!format!("{credentials:?}").contains(SECRET));
    }
}

#[test]
fn errors_name_file_and_remedy_but_no_secret() {
    let own = login("default");
    for (text, remedy) in [
        (format!("{own}sasl.password = \"{SECRET}\""), "line 5"),
        (
            format!("password = \"{SECRET}\""),
            "[password]: write a table",
        ),
        (login("User"), "named default, probe"),
        (login("\"Group:\""), "named default, probe"),
        (login("\"Role:x\""), "named default, probe"),
        (format!("{own}user = \"{SECRET}\""), "key user: use sasl.*"),
        (
            "[default]\nsasl.mechanism = 5".to_owned(),
            "key sasl.mechanism: use a string",
        ),
        ("[default]".to_owned(), "set sasl.mechanism with"),
        (
            "[default]\ncertificate = \"a\"".to_owned(),
            "must be set together",
        ),
        (
            "[default]\ncertificate = \"a\"\nkey = \"b\"".to_owned(),
            "add [cluster.upstream_tls]",
        ),
        (
            "[default]\nsasl.mechanism = \"PLAIN\"".to_owned(),
            "sasl.username is missing",
        ),
        (
            "[default]\nsasl.mechanism = \"GSSAPI\"".to_owned(),
            "sasl.kerberos",
        ),
    ] {
        let error = read(&text).expect_err(&text).to_string();
        assert!(
            error.contains(remedy) && error.contains("credentials.toml"),
            "{error}"
        );
        assert!(!error.contains(SECRET), "{error}");
    }
    let error = read_as(&login("probe"), IdentityMode::One).expect_err("no default");
    assert!(error.to_string().contains("no table [default]"), "{error}");
}

#[test]
fn file_must_be_the_owners() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("credentials.toml");
    std::fs::write(&path, login("default")).expect("writes");
    for mode in [0o640, 0o604, 0o660] {
        let mode = PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&path, mode).expect("sets the mode");
        let read = secret_file::read(&path, FILE_BYTES_MAX, FORBIDDEN_MODE);
        assert!(
            matches!(read, Err(SecretFileError::Mode { .. })),
            "{read:?}"
        );
    }
}
