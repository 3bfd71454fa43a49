//! Cases about the ways to a client: every mode over each of them, from one to another, and cut ones.

use anyhow::{Result, ensure};

use super::events::DriverConfig;
use super::modes::{MERGE, VALUES, all_modes};
use super::world::Case;

pub(crate) fn ws_streaming(case: &Case<'_>) -> Result<()> {
    over(case, "WS-STREAMING")
}

pub(crate) fn ws_polling(case: &Case<'_>) -> Result<()> {
    over(case, "WS-POLLING")
}

pub(crate) fn http_streaming(case: &Case<'_>) -> Result<()> {
    over(case, "HTTP-STREAMING")
}

pub(crate) fn http_polling(case: &Case<'_>) -> Result<()> {
    over(case, "HTTP-POLLING")
}

fn forced(case: &Case<'_>, transport: &'static str) -> DriverConfig {
    DriverConfig {
        transport: Some(transport),
        ..DriverConfig::new(case.shared().address(), all_modes(case))
    }
}

/// All modes in one session: each value exact, repeated ones where the mode has them.
fn over(case: &Case<'_>, transport: &'static str) -> Result<()> {
    let client = case.client_of(forced(case, transport))?;
    client.status(&format!("CONNECTED:{transport}"))?;
    client.subscribed(&[0, 1, 2])?;
    let mut last = None;
    for value in VALUES {
        case.send("a", value)?;
        case.flush()?;
        let repeated = last == Some(value);
        let subs: &[usize] = if repeated { &[0, 2] } else { &[0, 1, 2] };
        let mut seen = Vec::new();
        for update in client.updates(subs.len())? {
            ensure!(
                update.value("value") == value
                    && update.value("key") == Some(&case.key("a"))
                    && update.snapshot == (update.sub == MERGE && last.is_none())
                    && update.changed.is_empty() == repeated,
                "wanted {value:?}: {update:?}"
            );
            seen.push(update.sub);
        }
        seen.sort_unstable();
        ensure!(seen == subs, "subscriptions {seen:?}, wanted {subs:?}");
        last = Some(value);
    }
    Ok(())
}
