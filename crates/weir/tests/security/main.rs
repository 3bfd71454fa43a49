//! Every way in which a command connects to Kafka, with every security mode of a lab, with correct
//! settings and with each mistake. A mistake must end in an error that names its cause: a silent
//! connection without encryption and an endless retry both fail. One broker per mode serves all.

mod connect;
mod drivers;
mod mistakes;
mod modes;
mod rotation;
#[path = "../support/mod.rs"]
mod support;

use weir_lab::LabSecurity;

#[test]
fn tls_connects_only_with_correct_settings() {
    modes::check(LabSecurity::Tls);
}

#[test]
fn mtls_connects_only_with_correct_settings() {
    modes::check(LabSecurity::Mtls);
}

#[test]
fn sasl_plain_connects_only_with_correct_settings() {
    modes::check(LabSecurity::SaslPlain);
}

#[test]
fn scram_connects_only_with_correct_settings() {
    modes::check(LabSecurity::Scram);
}

#[test]
fn oauth_connects_only_with_correct_settings() {
    modes::check(LabSecurity::Oauth);
}
