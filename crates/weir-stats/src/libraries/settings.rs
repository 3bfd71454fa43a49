//! Settings that differ between drivers.

use crate::run::{Libraries, LibraryDriver, LibrarySetting};

/// A setting that differs between drivers, or from the requested value.
#[derive(Debug, Clone, PartialEq)]
pub struct UnequalSetting<'a> {
    /// Name.
    pub name: &'a str,
    /// Requested value, from the first driver for which one was requested.
    pub requested: Option<&'a str>,
    /// Effective settings by driver; drivers that were never configured are missing.
    pub drivers: Vec<(&'a str, &'a LibrarySetting)>,
}

/// Returns the unequal settings, in the order in which drivers first name them.
#[must_use]
pub fn unequal_settings(libraries: &Libraries) -> Vec<UnequalSetting<'_>> {
    let mut names: Vec<&str> = Vec::new();
    let all = || libraries.drivers.iter().flat_map(|driver| &driver.settings);
    for setting in all() {
        if !names.contains(&setting.name.as_str()) {
            names.push(&setting.name);
        }
    }
    let one = |name| {
        let of = |driver: &'_ LibraryDriver| -> Option<usize> {
            driver.settings.iter().position(|it| it.name == name)
        };
        let drivers: Vec<_> = libraries
            .drivers
            .iter()
            .filter_map(|driver| Some((driver.name.as_str(), &driver.settings[of(driver)?])))
            .collect();
        let asked = drivers.iter().find_map(|(_, it)| it.requested.as_deref());
        UnequalSetting {
            name,
            requested: asked,
            drivers,
        }
    };
    let settings = names.into_iter().map(one);
    settings.filter(|setting| !is_equal(setting)).collect()
}

fn is_equal(setting: &UnequalSetting<'_>) -> bool {
    let mut effective = setting.drivers.iter().map(|(_, it)| &it.effective);
    let Some(first) = effective.next() else {
        return true;
    };
    let alike = effective.all(|other| match (first, other) {
        (Some(a), Some(b)) => is_same(a, b),
        (None, None) => true,
        _ => false,
    });
    let as_asked = setting.drivers.iter().all(|(_, it)| {
        let kept = match (&it.requested, &it.effective) {
            (Some(asked), Some(effective)) => is_same(asked, effective),
            (Some(_), None) => false,
            (None, _) => true,
        };
        it.supported && kept
    });
    alike && as_asked
}

/// Compares as numbers if both are numbers.
fn is_same(a: &str, b: &str) -> bool {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}
