//! Client messages: the gateway rejects them, and the application receives the reason.

use anyhow::{Result, ensure};

use super::cases::KEEPALIVE_MS;
use super::events::{DriverConfig, SdkEvent};
use super::test_env::Case;

/// Messages are rejected with code 0 and a text, over WebSocket and HTTP, with and without a
/// sequence. A message without a listener causes no error.
pub(crate) fn refused(case: &Case<'_>) -> Result<()> {
    for transport in ["WS-STREAMING", "HTTP-STREAMING"] {
        let mut config = DriverConfig::new(case.shared().address(), vec![case.raw(&["a"])]);
        config.transport = Some(transport);
        config.keepalive_ms = Some(KEEPALIVE_MS);
        let mut client = case.client_of(config)?;
        client.subscribed(&[0])?;
        client.message("no listener", None, false)?;
        for (text, sequence) in [
            ("|%#$^ \u{FC}", None),
            ("two", Some("orders")),
            ("three", None),
        ] {
            client.message(text, sequence, true)?;
            let outcome = client.wait("outcome of a message", |event| match event {
                SdkEvent::Message { .. } => Some(event.clone()),
                _ => None,
            })?;
            let wanted = SdkEvent::Message {
                text: text.to_owned(),
                outcome: "denied".to_owned(),
                code: Some(0),
                message: Some("this gateway takes no messages".to_owned()),
            };
            ensure!(
                outcome == wanted,
                "{transport}: {outcome:?}, expected {wanted:?}"
            );
        }
        case.produce("a", transport)?;
        client.value(0, transport)?;
    }
    Ok(())
}
