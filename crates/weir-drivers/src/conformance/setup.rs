//! Checks of the commands that measure nothing: `hello`, `stats` and `configure`.

use serde_json::{Value, json};

use super::outcome::{CheckResult, ConformanceError, require};
use super::session::{CheckSession, end_of};
use crate::{CAPABILITIES, DriverFailure, Gc, GetStats};

pub(super) fn hello(session: &mut CheckSession<'_>) -> CheckResult {
    let hello = session.started()?.hello().clone();
    require!(!hello.runtime.is_empty(), "a runtime", "runtime is empty");
    require!(
        !hello.capabilities.is_empty(),
        "capabilities",
        "capabilities is empty"
    );
    for capability in &hello.capabilities {
        require!(
            CAPABILITIES.contains(&capability.as_str()),
            format!("capabilities out of {}", CAPABILITIES.join(", ")),
            "capability {capability:?}"
        );
    }
    Ok(())
}

pub(super) fn stats(session: &mut CheckSession<'_>) -> CheckResult {
    session.run(&Gc {})?;
    let stats = session.run(&GetStats {})?;
    let seen = ProcessUsage::read(session.started()?.pid())?;
    let expected = format!("rss_kb near the system's value, {}", seen.rss_kb);
    let near = seen.rss_kb / 2..=seen.rss_kb.saturating_mul(2);
    require!(
        near.contains(&stats.rss_kb),
        expected,
        "rss_kb {}",
        stats.rss_kb
    );
    let near = 1..=seen.threads.saturating_mul(2).max(seen.threads + 4);
    let expected = format!("threads near the system's value, {}", seen.threads);
    require!(
        near.contains(&stats.threads),
        expected,
        "threads {}",
        stats.threads
    );
    Ok(())
}

pub(super) fn configure(session: &mut CheckSession<'_>) -> CheckResult {
    let mut request = session.configure();
    let unknown = "no_such_setting".to_owned();
    request.settings.insert(unknown.clone(), json!(1));
    let answer = session.reconfigure(&request)?;
    let answer = answer.map_err(|error| end_of("a valid response to configure", &error))?;
    require!(
        answer.unsupported.contains(&unknown),
        format!("{unknown} in unsupported"),
        "unsupported {:?}",
        answer.unsupported
    );
    require!(
        !answer.unsupported.contains(&"acks".to_owned()) && answer.effective["acks"] == 1,
        "effective acks 1, and acks not in unsupported",
        "effective acks {}, unsupported {:?}",
        answer.effective["acks"],
        answer.unsupported
    );
    for (name, value) in &request.settings {
        let effective = &answer.effective[name];
        require!(
            answer.unsupported.contains(name) || kind(effective) == kind(value),
            format!("effective {name} as a {}", kind(value)),
            "{effective}"
        );
    }
    for name in &answer.unsupported {
        require!(
            request.settings.contains_key(name),
            "only requested settings in unsupported",
            "{name}"
        );
    }
    // The next command with valid settings restores them.
    session.driver().map(|_| ())
}

/// A value that no library accepts is an error, or its setting is unsupported.
pub(super) fn wrong_settings(session: &mut CheckSession<'_>) -> CheckResult {
    for (name, value) in [
        ("acks", json!("many")),
        ("linger_ms", json!("soon")),
        ("batch_bytes", json!(true)),
        ("idempotence", json!("perhaps")),
        ("compression", json!("middle-out")),
        ("fetch_min_bytes", json!("a few")),
        ("check_crcs", json!(7)),
    ] {
        let mut request = session.configure();
        request.settings.insert(name.to_owned(), value.clone());
        let expected = format!("an error for {name} {value}, or {name} in unsupported");
        match session.reconfigure(&request)? {
            Err(error) if matches!(error.reason, DriverFailure::CommandFailed(_)) => {}
            Err(error) => return Err(end_of(&expected, &error)),
            Ok(answer) => require!(
                answer.unsupported.iter().any(|it| it == name),
                expected,
                "success, effective {name} {}",
                answer.effective[name]
            ),
        }
    }
    session.driver().map(|_| ())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

/// Memory and threads of a process, from the system.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessUsage {
    pub(super) rss_kb: u64,
    pub(super) threads: u64,
}

impl ProcessUsage {
    pub(super) fn read(pid: u32) -> Result<Self, ConformanceError> {
        let path = format!("/proc/{pid}/status");
        let text = std::fs::read_to_string(&path);
        let text = text.map_err(|error| ConformanceError::File(path, error))?;
        let number = |name: &str| {
            let rest = text.lines().find_map(|line| line.strip_prefix(name));
            let number = rest.and_then(|rest| rest.split_ascii_whitespace().next());
            number.and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        Ok(Self {
            rss_kb: number("VmRSS:"),
            threads: number("Threads:"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_has_memory_and_threads() {
        let usage = ProcessUsage::read(std::process::id()).unwrap();
        assert!(usage.rss_kb > 0 && usage.threads > 0, "{usage:?}");
        let error = ProcessUsage::read(u32::MAX).unwrap_err().to_string();
        assert!(error.contains("/proc/4294967295/status"), "{error}");
    }
}
