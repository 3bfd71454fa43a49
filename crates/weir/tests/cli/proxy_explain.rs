//! Tests of `weir proxy explain`.

use super::support::{text, weir};

const ACLS: &str = "\
Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=orders, patternType=PREFIXED)`: 
 \t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)
\t(principal=User:*, host=10.0.0.7, operation=ALL, permissionType=DENY) 
";

#[test]
fn deciding_acl_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("acls.txt");
    std::fs::write(&file, ACLS).unwrap();
    let file = file.to_str().unwrap();
    let explain = |args: &str| {
        let mut command = weir(&["proxy", "explain", "--acls", file]);
        let output = command.args(args.split(' ')).output().unwrap();
        let line = text(&output.stdout).trim_end().replace(file, "FILE");
        (output.status.code(), line)
    };
    let alice = "--principal User:alice";
    let cases = [
        (
            format!("{alice} --operation describe --topic orders-eu"),
            0,
            "allowed: DESCRIBE on TOPIC orders-eu: \
             allow User:alice READ on TOPIC orders* (FILE:2)",
        ),
        (
            format!("{alice} --operation write --topic orders"),
            1,
            "denied: WRITE on TOPIC orders: no rule allows it",
        ),
        (
            format!("{alice} --operation read --topic orders --address 10.0.0.7"),
            1,
            "denied: READ on TOPIC orders: \
             deny User:* from 10.0.0.7 ALL on TOPIC orders* (FILE:3)",
        ),
        (
            format!("{alice} --super-user User:alice --operation cluster-action --cluster"),
            0,
            "allowed: CLUSTER_ACTION on CLUSTER kafka-cluster: super user",
        ),
    ];
    for (args, code, line) in cases {
        assert_eq!(explain(&args), (Some(code), line.to_owned()), "{args}");
    }
    std::fs::write(file, ACLS.replace("READ", "SING")).unwrap();
    let (code, _) = explain(&format!("{alice} --operation read --group g"));
    assert_eq!(code, Some(2));
}
