//! Settings that differ between drivers.

use crate::run::{Libraries, LibrarySetting};

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
pub fn unequal_settings(libraries: &Libraries) -> Vec<UnequalSetting<'_>> {
    let mut found: Vec<UnequalSetting<'_>> = Vec::new();
    for driver in &libraries.drivers {
        for setting in &driver.settings {
            let name = setting.name.as_str();
            let at = found.iter().position(|it| it.name == name);
            let at = at.unwrap_or_else(|| {
                found.push(UnequalSetting {
                    name,
                    requested: None,
                    drivers: Vec::new(),
                });
                found.len() - 1
            });
            let own = &mut found[at];
            own.requested = own.requested.or(setting.requested.as_deref());
            own.drivers.push((&driver.name, setting));
        }
    }
    found.retain(|setting| !is_equal(setting));
    found
}

fn is_equal(setting: &UnequalSetting<'_>) -> bool {
    let is_same = |a: &Option<String>, b: &Option<String>| match (a, b) {
        (Some(a), Some(b)) => is_same(a, b),
        (a, b) => a == b,
    };
    let mut settings = setting.drivers.iter().map(|(_, it)| it);
    let first = settings.clone().next();
    settings.all(|it| {
        let is_applied = it.requested.is_none() || is_same(&it.requested, &it.effective);
        let is_alike = first.is_none_or(|first| is_same(&first.effective, &it.effective));
        it.supported && is_applied && is_alike
    })
}

/// Compares as numbers if both are numbers.
fn is_same(a: &str, b: &str) -> bool {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}
