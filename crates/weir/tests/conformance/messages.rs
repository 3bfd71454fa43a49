//! Client messages: this gateway takes none, and says so in a way that the application hears of.

use anyhow::{Result, ensure};

use super::cases::KEEPALIVE_MS;
use super::events::{DriverConfig, SdkEvent};
use super::test_env::Case;

/// Code 0 and a text, over a WebSocket and over HTTP, in a sequence and without one; a message whose
/// outcome nobody asks for does no harm.
pub(crate) fn refused(case: &Case<'_>) -> Result<()> {
    for transport in ["WS-STREAMING", "HTTP-STREAMING"] {
        let mut config = DriverConfig::new(case.shared().address(), vec![case.raw(&["a"])]);
        config.transport = Some(transport);
        config.keepalive_ms = Some(KEEPALIVE_MS);
        let mut client = case.client_of(config)?;
        client.subscribed(&[0])?;
        client.message("nobody asks", None, false)?;
        for (text, sequence) in [
            ("|%#$^ \u{FC}", None),
            ("two", Some("orders")),
            ("three", None),
        ] {
            client.message(text, sequence, true)?;
            let told = client.wait("outcome of a message", |event| match event {
                SdkEvent::Message { .. } => Some(event.clone()),
                _ => None,
            })?;
            let wanted = SdkEvent::Message {
                text: text.to_owned(),
                outcome: "denied".to_owned(),
                code: Some(0),
                message: Some("this gateway takes no messages".to_owned()),
            };
            ensure!(told == wanted, "{transport}: {told:?}, wanted {wanted:?}");
        }
        case.produce("a", transport)?;
        client.value(0, transport)?;
    }
    Ok(())
}
