//! Packages that the crates use: from the manifests and the lock file.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

/// The manifests of our crates and the lock file.
pub(crate) struct Packages {
    manifests: BTreeMap<String, Table>,
    /// Package to the packages that it needs, for all features in use.
    locked: BTreeMap<String, BTreeSet<String>>,
    pub(crate) locked_count: usize,
}

/// One entry of a `[dependencies]` table.
struct Dependency {
    name: String,
    optional: bool,
    features: Vec<String>,
}

impl Packages {
    /// Reads the texts of `(crate, Cargo.toml)` and of `Cargo.lock`.
    pub(crate) fn read(manifests: impl Iterator<Item = (String, String)>, lock: &str) -> Self {
        let manifests = manifests
            .map(|(name, text)| (name, text.parse().expect("a manifest is TOML")))
            .collect();
        let lock: Table = lock.parse().expect("Cargo.lock is TOML");
        let packages = lock["package"].as_array().expect("an array of packages");
        let mut locked: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for package in packages {
            let name = package["name"].as_str().expect("a name").to_owned();
            let needs = strings(package.get("dependencies"));
            // A name that stands for several versions is followed by one.
            let needs = needs.map(|text| text.split(' ').next().unwrap_or_default().to_owned());
            locked.entry(name).or_default().extend(needs);
        }
        Self {
            manifests,
            locked,
            locked_count: packages.len(),
        }
    }

    /// Returns the entries of a crate's `[dependencies]` table.
    fn dependencies(&self, name: &str) -> Vec<Dependency> {
        let table = self.manifests[name]
            .get("dependencies")
            .and_then(Value::as_table);
        let entries = table.into_iter().flatten();
        let entry = |(name, value): (&String, &Value)| Dependency {
            name: name.clone(),
            optional: value.get("optional").and_then(Value::as_bool) == Some(true),
            features: strings(value.get("features")).map(str::to_owned).collect(),
        };
        entries.map(entry).collect()
    }

    /// Returns the crates that name one of `packages` outside `[dev-dependencies]`.
    pub(crate) fn used_outside_tests(&self, packages: &[&str]) -> Vec<String> {
        let named = |name: &String| {
            let own = self.dependencies(name);
            let found: Vec<_> = own
                .into_iter()
                .filter(|dependency| packages.contains(&dependency.name.as_str()))
                .map(|dependency| format!("{name} uses {}", dependency.name))
                .collect();
            found
        };
        self.manifests.keys().flat_map(named).collect()
    }

    /// Returns the dependencies with one of these prefixes, or with a feature of one of these
    /// names, that are part of every build.
    pub(crate) fn not_optional(&self, prefixes: &[&str], features: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        for name in self.manifests.keys() {
            let default = self.default_features(name);
            for dependency in self.dependencies(name) {
                let package = &dependency.name;
                let listed = prefixes.iter().any(|prefix| package.starts_with(prefix))
                    || dependency
                        .features
                        .iter()
                        .any(|own| features.contains(&own.as_str()));
                if listed && (!dependency.optional || default.contains(package)) {
                    found.push(format!("{name} always builds {package}"));
                }
            }
            for feature in default
                .iter()
                .filter(|own| features.contains(&own.as_str()))
            {
                found.push(format!("{name} has the feature {feature} by default"));
            }
        }
        found
    }

    /// Returns what the feature `default` of a crate turns on, features of features included.
    fn default_features(&self, name: &str) -> BTreeSet<String> {
        self.features(name, &["default".to_owned()])
    }

    /// Returns the names that features of a crate turn on: features and optional packages.
    fn features(&self, name: &str, wanted: &[String]) -> BTreeSet<String> {
        let table = self.manifests[name]
            .get("features")
            .and_then(Value::as_table);
        let mut on = BTreeSet::new();
        let mut next = wanted.to_vec();
        while let Some(feature) = next.pop() {
            let name = feature.trim_start_matches("dep:");
            let name = name.split('/').next().unwrap_or(name).to_owned();
            let members = table.and_then(|table| table.get(&feature));
            next.extend(strings(members).map(str::to_owned));
            on.insert(name);
        }
        on
    }

    /// Returns the packages that `root` needs although no crate in its closure names them and one
    /// of the crates `others` does, and those of the list `unwanted`.
    pub(crate) fn strangers(
        &self,
        root: &str,
        others: &[&str],
        unwanted: &[&str],
    ) -> BTreeSet<String> {
        let named = self.named_below(root);
        let elsewhere = others
            .iter()
            .flat_map(|name| self.dependencies(name))
            .map(|dependency| dependency.name)
            .filter(|name| !self.manifests.contains_key(name) && !named.contains(name))
            .chain(unwanted.iter().map(|name| (*name).to_owned()))
            .collect();
        let needed = self.closure(&named);
        needed.intersection(&elsewhere).cloned().collect()
    }

    /// Returns the packages that `root` and those of our crates that it needs name.
    fn named_below(&self, root: &str) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let mut named = BTreeSet::new();
        let mut next = vec![(root.to_owned(), Vec::new())];
        while let Some((name, features)) = next.pop() {
            if !seen.insert((name.clone(), features.clone())) {
                continue;
            }
            let on = self.features(&name, &features);
            for dependency in self.dependencies(&name) {
                if dependency.optional && !on.contains(&dependency.name) {
                    continue;
                }
                match self.manifests.contains_key(&dependency.name) {
                    true => next.push((dependency.name, dependency.features)),
                    false => drop(named.insert(dependency.name)),
                }
            }
        }
        named
    }

    /// Returns these packages and all that they need.
    fn closure(&self, packages: &BTreeSet<String>) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut next: Vec<_> = packages.iter().cloned().collect();
        while let Some(name) = next.pop() {
            if found.insert(name.clone()) {
                next.extend(self.locked.get(&name).into_iter().flatten().cloned());
            }
        }
        found
    }
}

/// Returns the texts of an array, or none if there is no array.
fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let array = value.and_then(Value::as_array);
    array.into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(gateway: &str, load: &str) -> Packages {
        let manifests = [
            ("gateway".to_owned(), gateway.to_owned()),
            ("load".to_owned(), load.to_owned()),
        ];
        let lock = r#"
            [[package]]
            name = "fast"
            dependencies = ["table 1.0.0"]
            [[package]]
            name = "table"
        "#;
        Packages::read(manifests.into_iter(), lock)
    }

    #[test]
    fn package_of_another_crate_is_found_behind_a_dependency() {
        let both = packages(
            "[dependencies]\nfast = \"1\"",
            "[dependencies]\ntable = \"1\"",
        );
        let strangers = |root, others: &[&str], unwanted: &[&str]| {
            let found = both.strangers(root, others, unwanted);
            found.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(strangers("gateway", &["load"], &[]), ["table"]);
        assert_eq!(strangers("gateway", &[], &["fast"]), ["fast"]);
        assert!(strangers("load", &["gateway"], &[]).is_empty());
        assert_eq!(both.locked_count, 2);
    }

    #[test]
    fn packages_outside_tests_are_found() {
        let both = packages(
            "[dev-dependencies]\nfast = \"1\"",
            "[dependencies]\nfast = \"1\"",
        );
        assert_eq!(both.used_outside_tests(&["fast"]), ["load uses fast"]);
    }

    #[test]
    fn optional_packages_must_not_be_on_by_default() {
        let optional = "[dependencies]\nkube-client = { version = \"1\", optional = true }\n";
        let by_default =
            format!("{optional}[features]\ndefault = [\"k8s\"]\nk8s = [\"dep:kube-client\"]");
        let both = packages(optional, &by_default);
        assert_eq!(
            both.not_optional(&["kube"], &[]),
            ["load always builds kube-client"]
        );
        let gssapi = "[dependencies]\nrdkafka = { version = \"1\", features = [\"gssapi\"] }";
        let both = packages(gssapi, "[features]\ndefault = [\"gssapi\"]");
        let found = both.not_optional(&[], &["gssapi"]);
        assert_eq!(
            found,
            [
                "gateway always builds rdkafka",
                "load has the feature gssapi by default"
            ]
        );
    }
}
