//! Maximum length of lines that a client can read, by its HTTP library.

/// Maximum line lengths that a client can read, including the line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineLimits {
    /// Bytes of a line in a WebSocket message.
    pub websocket: u32,
    /// Bytes of a line in an HTTP response.
    pub http: u32,
}

impl LineLimits {
    /// No known limit.
    pub const NONE: Self = Self {
        websocket: u32::MAX,
        http: u32::MAX,
    };

    /// Returns the limits of the client with this `User-Agent`. aiohttp, which the SDK for Python
    /// uses, rejects longer lines and messages of 4 MiB. The SDK would then lose its connection
    /// repeatedly.
    pub fn of_user_agent(user_agent: &str) -> Self {
        let mut tokens = user_agent.split_ascii_whitespace();
        let Some(aiohttp) = tokens.find_map(|token| token.strip_prefix("aiohttp/")) else {
            return Self::NONE;
        };
        let http = match version(aiohttp) >= (3, 14) {
            true => 512 << 10,
            false => 128 << 10,
        };
        Self {
            websocket: (4 << 20) - 1,
            http,
        }
    }
}

/// Returns the major and minor version; an unreadable number counts as 0, the oldest.
fn version(text: &str) -> (u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_depend_on_library_and_version() {
        for (user_agent, http) in [
            ("Python/3.11 aiohttp/3.14.5", 524_288),
            ("Python/3.14 aiohttp/4.0.0a1", 524_288),
            ("Python/3.11 aiohttp/3.13.5", 131_072),
            ("Python/3.9 aiohttp/3.8.1", 131_072),
            ("aiohttp/x", 131_072),
        ] {
            let limits = LineLimits::of_user_agent(user_agent);
            assert_eq!(
                (limits.http, limits.websocket),
                (http, 4_194_303),
                "{user_agent}"
            );
        }
        for other in [
            "",
            "okhttp/4.12.0",
            "Mozilla/5.0 (X11) Chrome/120",
            "Xaiohttp/3.1",
        ] {
            assert_eq!(
                LineLimits::of_user_agent(other),
                LineLimits::NONE,
                "{other}"
            );
        }
    }
}
