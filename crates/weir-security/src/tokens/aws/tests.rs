//! AWS logins with stubs instead of AWS services.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use super::super::tests::Stub;
use super::*;

fn environment(variables: &[(&str, &str)]) -> Environment {
    let pairs = variables.iter();
    let pairs = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Environment::Fixed(pairs.collect::<BTreeMap<_, _>>())
}

fn source(options: AwsOptions, variables: &[(&str, &str)]) -> AwsCredentialSource {
    let servers = "b-1.demo.x1.c2.kafka.eu-west-1.amazonaws.com:9098";
    let source = AwsCredentialSource::with_environment(options, servers, environment(variables));
    source.expect("the region is in the name")
}

const KEYS: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
    ("AWS_SECRET_ACCESS_KEY", "s3cret"),
    ("AWS_SESSION_TOKEN", "session/token="),
];

#[test]
fn regions_are_found_in_broker_names() {
    let china = "b-1.demo.x1.c2.kafka.cn-north-1.amazonaws.com.cn:9098";
    assert_eq!(region_of(china).as_deref(), Some("cn-north-1"));
    let serverless = "boot-x.c1.kafka-serverless.us-east-1.amazonaws.com:9098,b:1";
    assert_eq!(region_of(serverless).as_deref(), Some("us-east-1"));
    assert_eq!(region_of("s3.us-east-1.amazonaws.com:443"), None);
    assert_eq!(region_of("localhost:9092"), None);
}

#[test]
fn payload_has_the_documented_fields() {
    let source = source(AwsOptions::default(), &KEYS);
    let credentials = source.credentials().expect("credentials");
    let now = UNIX_EPOCH + Duration::from_secs(1_440_938_160);
    let payload = source
        .payload(&credentials, "b-1.example", now)
        .expect("signed");
    let payload: BTreeMap<String, String> = serde_json::from_slice(&payload).expect("JSON");
    let get = |name: &str| payload[name].as_str();
    let names: Vec<_> = payload.keys().map(String::as_str).collect();
    let expected = [
        "action",
        "host",
        "user-agent",
        "version",
        "x-amz-algorithm",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-expires",
        "x-amz-security-token",
        "x-amz-signature",
        "x-amz-signedheaders",
    ];
    assert_eq!(names, expected);
    assert_eq!((get("version"), get("host")), ("2020_10_22", "b-1.example"));
    assert_eq!(get("action"), "kafka-cluster:Connect");
    assert_eq!(
        get("x-amz-credential"),
        "AKIDEXAMPLE/20150830/eu-west-1/kafka-cluster/aws4_request"
    );
    assert_eq!(
        (get("x-amz-date"), get("x-amz-expires")),
        ("20150830T123600Z", "900")
    );
    assert_eq!(get("x-amz-signature").len(), 64);
}

#[test]
fn bearer_token_is_an_encoded_signed_url() {
    let token = source(AwsOptions::default(), &KEYS)
        .token()
        .expect("signed");
    let url = URL_SAFE_NO_PAD
        .decode(token.token.reveal())
        .expect("base64");
    let url = String::from_utf8(url).expect("text");
    let start = "https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&X-Amz-";
    assert!(url.starts_with(start), "{url}");
    assert!(
        url.contains("&X-Amz-Security-Token=session%2Ftoken%3D&"),
        "{url}"
    );
    assert!(!url.contains("s3cret"));
    assert!(token.expires > SystemTime::now() + Duration::from_secs(800));
}

#[test]
fn stub_sts_returns_credentials_of_a_role() {
    let body = "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
                <AssumeRoleResult><Credentials><AccessKeyId>ASIAROLE</AccessKeyId>\
                <SecretAccessKey>k</SecretAccessKey><SessionToken>t</SessionToken>\
                <Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult>\
                </AssumeRoleResponse>";
    let stub = Stub::start(vec![(200, body.to_owned())]);
    let options = AwsOptions {
        role_arn: Some("arn:aws:iam::1:role/r".to_owned()),
        ..AwsOptions::default()
    };
    let url = stub.url.clone();
    let variables = [&KEYS[..], &[("AWS_ENDPOINT_URL_STS", url.as_str())]].concat();
    let credentials = source(options, &variables).credentials().expect("a role");
    assert_eq!(credentials.key_id, "ASIAROLE");
    let request = &stub.requests()[0];
    assert!(request.contains("Credential=AKIDEXAMPLE/"), "{request}");
    assert!(
        request.contains("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr"),
        "{request}"
    );
}

#[test]
fn stub_metadata_service_returns_credentials_of_an_instance() {
    let keys = r#"{"AccessKeyId":"ASIAEC2","SecretAccessKey":"k","Token":"t",
                   "Expiration":"2100-01-01T00:00:00Z"}"#;
    let responses = [(200, "token"), (200, "my-role"), (200, keys)];
    let responses = responses.map(|(status, body)| (status, body.to_owned()));
    let stub = Stub::start(responses.to_vec());
    let url = stub.url.clone();
    let variables = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", url.as_str())];
    let credentials = source(AwsOptions::default(), &variables).credentials();
    assert_eq!(credentials.expect("credentials").key_id, "ASIAEC2");
    let requests = stub.requests();
    assert!(
        requests[0].starts_with("PUT /latest/api/token"),
        "{}",
        requests[0]
    );
    assert!(
        requests[2].contains("security-credentials/my-role "),
        "{}",
        requests[2]
    );
}

#[test]
fn profiles_of_both_files_are_merged() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let config = write(
        "config",
        "[profile p]\nregion = x\n[profile c]\ncredential_process = x\n",
    );
    let keys = write(
        "keys",
        "[p]\naws_access_key_id = AKIDP\naws_secret_access_key = k\n",
    );
    let variables = [
        ("AWS_CONFIG_FILE", config.as_str()),
        ("AWS_SHARED_CREDENTIALS_FILE", keys.as_str()),
    ];
    let find = |name: &str| {
        let options = AwsOptions {
            profile: Some(name.to_owned()),
            ..AwsOptions::default()
        };
        source(options, &variables).credentials()
    };
    assert_eq!(find("p").expect("keys").key_id, "AKIDP");
    assert!(
        find("c")
            .expect_err("a process")
            .to_string()
            .contains("credential_process")
    );
    assert!(
        find("none")
            .expect_err("no profile")
            .to_string()
            .contains("does not exist")
    );
}
