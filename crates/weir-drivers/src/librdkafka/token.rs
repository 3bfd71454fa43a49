//! Token for the login with OAUTHBEARER: one for the whole run.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rdkafka::client::OAuthToken;

use super::deadline::{CommandError, CommandOutcome};

/// Token of a client, if its login requires one.
#[derive(Clone, Default)]
pub(super) struct DriverToken {
    text: Option<Arc<str>>,
    /// Set when the library has requested the token.
    is_given: Arc<AtomicBool>,
}

impl fmt::Debug for DriverToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverToken").finish_non_exhaustive()
    }
}

impl DriverToken {
    pub(super) fn read(path: &Path) -> CommandOutcome<Self> {
        let text = std::fs::read_to_string(path).map_err(CommandError::ClientFile)?;
        Ok(Self {
            text: Some(text.trim().into()),
            is_given: Arc::default(),
        })
    }

    /// Returns the token for another client.
    pub(super) fn of_client(&self) -> Self {
        Self {
            text: self.text.clone(),
            is_given: Arc::default(),
        }
    }

    /// Returns the token for the library.
    pub(super) fn give(&self) -> Result<OAuthToken, Box<dyn Error>> {
        let token = self.text.as_ref().ok_or("client_file has no token_file")?;
        self.is_given.store(true, Ordering::Release);
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        Ok(OAuthToken {
            token: token.to_string(),
            principal_name: PRINCIPAL.to_owned(),
            lifetime_ms: i64::try_from((now + LIFETIME).as_millis())?,
        })
    }

    /// Polls a new client until it has requested the token, without which it does not connect. A
    /// client that is not polled would wait forever.
    pub(super) fn hand_over(&self, mut poll: impl FnMut(Duration)) {
        let deadline = Instant::now() + REQUEST_TIMEOUT;
        while self.text.is_some()
            && !self.is_given.load(Ordering::Acquire)
            && Instant::now() < deadline
        {
            poll(POLL);
        }
    }
}

/// Name in librdkafka's log; brokers use the name in the token.
const PRINCIPAL: &str = "weir";
/// Longer than a run. The broker knows how long the token is valid.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// The library requests a token at once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_read_once_and_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "t0ken\n").unwrap();
        let token = DriverToken::read(file.path()).unwrap();
        assert!(!format!("{token:?}").contains("t0ken"));
        let mut polls = 0;
        token.hand_over(|_| {
            polls += 1;
            assert_eq!(token.give().unwrap().token, "t0ken");
        });
        assert_eq!(polls, 1);
        // Another client gets it again.
        let mut polls = 0;
        let other = token.of_client();
        other.hand_over(|_| {
            polls += 1;
            other.give().unwrap();
        });
        assert_eq!(polls, 1);
        let none = DriverToken::default();
        none.hand_over(|_| panic!("no token, no wait"));
        assert!(none.give().is_err());
        assert!(DriverToken::read(Path::new("/nowhere/token")).is_err());
    }
}
