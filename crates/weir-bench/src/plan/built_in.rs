//! The plans that are part of the program.

/// A plan that is part of the program.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// Name, as in `weir bench run NAME`.
    pub name: &'static str,
    /// File name under which `weir bench init` writes it.
    pub file: &'static str,
    /// Content of the plan file.
    pub text: &'static str,
    /// File name of the gateway configuration; empty if the plan does not use the gateway.
    pub adapters_file: &'static str,
    /// Content of that gateway configuration.
    pub adapters: &'static str,
    /// File name and content of `lightstreamer_conf.xml`, if the plan needs one.
    pub server: Option<(&'static str, &'static str)>,
}

/// All built-in plans: the scenarios of the published load test in its order, then its filtering
/// tests, then the broker sweep.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "broadcast",
        file: "broadcast.toml",
        text: include_str!("../../../../plans/broadcast.toml"),
        adapters_file: "broadcast-adapters.xml",
        adapters: include_str!("../../../../plans/broadcast-adapters.xml"),
        server: None,
    },
    BuiltIn {
        name: "keyed",
        file: "keyed.toml",
        text: include_str!("../../../../plans/keyed.toml"),
        adapters_file: "keyed-adapters.xml",
        adapters: include_str!("../../../../plans/keyed-adapters.xml"),
        server: None,
    },
    BuiltIn {
        name: "json-fields",
        file: "json-fields.toml",
        text: include_str!("../../../../plans/json-fields.toml"),
        adapters_file: "json-fields-adapters.xml",
        adapters: include_str!("../../../../plans/json-fields-adapters.xml"),
        server: None,
    },
    BuiltIn {
        name: "json-patch",
        file: "json-patch.toml",
        text: include_str!("../../../../plans/json-patch.toml"),
        adapters_file: "json-patch-adapters.xml",
        adapters: include_str!("../../../../plans/json-patch-adapters.xml"),
        server: Some((
            "json-patch-lightstreamer_conf.xml",
            include_str!("../../../../plans/json-patch-lightstreamer_conf.xml"),
        )),
    },
    filter("filter-basic", "filter-basic.toml", FILTER_BASIC, BASIC_KEY),
    filter(
        "filter-deep-key",
        "filter-deep-key.toml",
        FILTER_DEEP_KEY,
        DEEP_KEY,
    ),
    filter(
        "filter-matrix",
        "filter-matrix.toml",
        FILTER_MATRIX,
        BASIC_KEY,
    ),
    filter("broker-sweep", "broker-sweep.toml", BROKER_SWEEP, ("", "")),
];

const fn filter(
    name: &'static str,
    file: &'static str,
    text: &'static str,
    (adapters_file, adapters): (&'static str, &'static str),
) -> BuiltIn {
    BuiltIn {
        name,
        file,
        text,
        adapters_file,
        adapters,
        server: None,
    }
}

const BROKER_SWEEP: &str = include_str!("../../../../plans/broker-sweep.toml");
const FILTER_BASIC: &str = include_str!("../../../../plans/filter-basic.toml");
const FILTER_DEEP_KEY: &str = include_str!("../../../../plans/filter-deep-key.toml");
const FILTER_MATRIX: &str = include_str!("../../../../plans/filter-matrix.toml");
const BASIC_KEY: (&str, &str) = (
    "filter-basic-adapters.xml",
    include_str!("../../../../plans/filter-basic-adapters.xml"),
);
const DEEP_KEY: (&str, &str) = (
    "filter-deep-key-adapters.xml",
    include_str!("../../../../plans/filter-deep-key-adapters.xml"),
);
