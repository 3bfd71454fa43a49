//! The plans that are part of the program.

/// A plan that is part of the program.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// Name, as in `weir bench run NAME`.
    pub name: &'static str,
    /// Name of the plan file.
    pub file: &'static str,
    /// Content of the plan file.
    pub text: &'static str,
    /// Configurations that the plan names: file name and content.
    pub configs: &'static [(&'static str, &'static str)],
}

macro_rules! built_in {
    ($name:literal $(, $config:literal)*) => {
        BuiltIn {
            name: $name,
            file: concat!($name, ".toml"),
            text: include_str!(concat!("../../../../plans/", $name, ".toml")),
            configs: &[$(($config, include_str!(concat!("../../../../plans/", $config)))),*],
        }
    };
}

/// All built-in plans: the scenarios of the published load test in its order, then its filtering
/// tests, then the other experiments.
pub const BUILT_IN: &[BuiltIn] = &[
    built_in!("broadcast", "broadcast-adapters.xml"),
    built_in!("keyed", "keyed-adapters.xml"),
    built_in!("json-fields", "json-fields-adapters.xml"),
    built_in!(
        "json-patch",
        "json-patch-adapters.xml",
        "json-patch-lightstreamer_conf.xml"
    ),
    built_in!("filter-basic", "filter-basic-adapters.xml"),
    built_in!("filter-deep-key", "filter-deep-key-adapters.xml"),
    built_in!("filter-matrix", "filter-basic-adapters.xml"),
    built_in!("broker-sweep"),
    built_in!("topics-and-groups", "broadcast-adapters.xml"),
    built_in!("proxy-overhead"),
    built_in!("client-libraries"),
];
