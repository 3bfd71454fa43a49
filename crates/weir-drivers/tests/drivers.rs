//! Drivers that crash, time out, or return invalid or impossible results are detected and killed;
//! build errors have a reason.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_drivers::{
    BUNDLED_DRIVERS, Burst, ClientSettings, CommandLimit, Configure, Driver, DriverError,
    DriverFailure, DriverProgram, Gc, ProduceCommand, ProducerState, Steady, TopicEnd,
};

static NEVER: AtomicBool = AtomicBool::new(false);

/// Timeout of commands that succeed.
const TEST_TIMEOUT: CommandLimit<'static> = CommandLimit {
    timeout: Duration::from_secs(60),
    stop: &NEVER,
};

const HELLO: &str = concat!(
    "read -r line\n",
    "echo '{\"id\":1,\"ok\":true,\"protocol\":1,\"library\":\"none\",\"library_version\":\"1\",",
    "\"binding\":\"\",\"runtime\":\"sh\",\"capabilities\":[\"produce.cold\"]}'\n",
    "read -r line\n",
);

/// Starts a driver that sends hello, reads one command, and continues with `rest`.
fn driver(dir: &Path, name: &str, rest: &str) -> Driver {
    let started = scripted(dir, name, &format!("{HELLO}{rest}"), TEST_TIMEOUT);
    started.unwrap_or_else(|error| panic!("{error}"))
}

fn scripted(
    dir: &Path,
    name: &str,
    text: &str,
    limit: CommandLimit<'_>,
) -> Result<Driver, DriverError> {
    let script = dir.join(format!("{name}.sh"));
    fs::write(&script, text).unwrap();
    let given = format!("{name}=sh {}", script.display());
    let program = DriverProgram::given(&given).unwrap();
    Driver::start(&program, dir, limit)
}

fn configure() -> Configure {
    Configure {
        client_file: None,
        bootstrap: "127.0.0.1:1".to_owned(),
        profile: "test".to_owned(),
        settings: ClientSettings::new(),
    }
}

fn produce() -> ProduceCommand {
    ProduceCommand {
        burst: Burst {
            topic: "t".to_owned(),
            len: 10,
            count: 10,
            seed: 1,
        },
        state: ProducerState::Cold,
        per_record: false,
    }
}

/// Returns the error of a script that responds to `produce` with these fields.
fn produced(dir: &Path, name: &str, fields: &str) -> DriverError {
    let response = format!("echo '{{\"id\":2,\"ok\":true,{fields}}}'\nread -r line\n");
    let mut driver = driver(dir, name, &response);
    let error = driver.run(&produce(), TEST_TIMEOUT).unwrap_err();
    assert!(!driver.is_alive());
    error
}

/// Waits until a process has exited or is a zombie.
fn wait_exited(pid: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
        if state.is_none_or(|state| state == "Z") {
            return;
        }
        assert!(Instant::now() < deadline, "process {pid} still runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn driver_continues_after_an_error_response() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"echo '{"id":2,"ok":false,"error":"no such broker"}'
read -r line
echo '{"id":3,"ok":true,"effective":{}}'
read -r line
echo '{"id":4,"ok":true}'
"#;
    let mut driver = driver(dir.path(), "tame", text);
    assert_eq!(driver.hello().runtime, "sh");
    assert!(driver.can("produce.cold") && !driver.can("produce.warm"));
    let error = driver.run(&configure(), TEST_TIMEOUT).unwrap_err();
    assert!(!error.is_fatal() && driver.is_alive());
    assert_eq!(
        error.to_string(),
        "driver tame, configure: command failed: no such broker"
    );
    driver.run(&configure(), TEST_TIMEOUT).unwrap();
    driver.bye().unwrap();
    let transcript = fs::read_to_string(dir.path().join("tame.jsonl")).unwrap();
    assert_eq!(transcript.lines().count(), 8, "{transcript}");
    assert!(transcript.starts_with("> {\"id\":1,"), "{transcript}");
}

#[test]
fn crash_error_has_status_and_last_output() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = driver(dir.path(), "frail", "echo 'out of cheese' >&2\nexit 3\n");
    let error = driver.run(&configure(), TEST_TIMEOUT).unwrap_err();
    assert_eq!(
        error.to_string(),
        "driver frail, configure: crashed (exit code 3); last output: out of cheese"
    );
    let log = fs::read_to_string(dir.path().join("frail.log")).unwrap();
    assert_eq!(log, "out of cheese\n");
    // The driver accepts no further commands.
    let again = driver.run(&Gc {}, TEST_TIMEOUT).unwrap_err();
    assert!(
        matches!(again.reason, DriverFailure::NotStarted(_)),
        "{again}"
    );
}

#[test]
fn signal_is_reported_as_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = driver(dir.path(), "shot", "kill -9 $$\n");
    let text = driver.run(&Gc {}, TEST_TIMEOUT).unwrap_err().to_string();
    assert_eq!(
        text,
        "driver shot, gc: crashed (signal 9); last output: none"
    );
}

#[test]
fn missing_program_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let program = DriverProgram::given("absent=/no/such/program").unwrap();
    let error = Driver::start(&program, dir.path(), TEST_TIMEOUT).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("driver absent, hello: crashed (exit code 127)"),
        "{text}"
    );
    assert!(text.contains("/no/such/program"), "{text}");
}

#[test]
fn timeout_kills_the_process_group() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let text = format!(
        "sleep 600 &\necho $! >{}\necho waiting >&2\nwait\n",
        pid.display()
    );
    let mut driver = driver(dir.path(), "lazy", &text);
    let limit = CommandLimit {
        timeout: Duration::from_secs(2),
        stop: &NEVER,
    };
    let error = driver.run(&produce(), limit).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("driver lazy, produce: timed out after 2s"),
        "{text}"
    );
    assert!(text.ends_with("last output: waiting"), "{text}");
    wait_exited(fs::read_to_string(pid).unwrap().trim());
    wait_exited(&driver.pid().to_string());
}

#[test]
fn responses_on_standard_error_end_the_wait() {
    let dir = tempfile::tempdir().unwrap();
    let text = "echo 'working' >&2\necho '{\"id\":2,\"ok\":true,\"done\":1}' >&2\nsleep 600\n";
    let mut driver = driver(dir.path(), "mute", text);
    let began = Instant::now();
    let error = driver.run(&produce(), TEST_TIMEOUT).unwrap_err();
    // Long before the timeout of a minute.
    assert!(began.elapsed() < Duration::from_secs(40));
    assert_eq!(
        error.to_string(),
        "driver mute, produce: wrote its responses to standard error and was killed: \
         {\"id\":2,\"ok\":true,\"done\":1}; write them to standard output"
    );
    wait_exited(&driver.pid().to_string());
}

#[test]
fn interrupted_driver_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = driver(dir.path(), "busy", "sleep 600\n");
    let stop = AtomicBool::new(true);
    let limit = CommandLimit {
        timeout: Duration::from_secs(600),
        stop: &stop,
    };
    let error = driver.run(&produce(), limit).unwrap_err();
    assert!(
        matches!(error.reason, DriverFailure::Interrupted),
        "{error}"
    );
    wait_exited(&driver.pid().to_string());
}

#[test]
fn driver_without_response_to_bye_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let driver = driver(
        dir.path(),
        "clingy",
        "echo '{\"id\":2,\"ok\":true}'\nsleep 600\n",
    );
    let pid = driver.pid().to_string();
    let error = driver.bye().unwrap_err();
    assert!(matches!(error.reason, DriverFailure::TimedOut { .. }));
    assert_eq!(error.during, "bye");
    wait_exited(&pid);
}

#[test]
fn dropped_driver_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let driver = driver(dir.path(), "dropped", "sleep 600\n");
    let pid = driver.pid().to_string();
    drop(driver);
    wait_exited(&pid);
}

#[test]
fn invalid_lines_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text, expected) in [
        ("chatty", "echo 'now I will work'\n", "not JSON"),
        (
            "confused",
            "echo '{\"id\":1,\"ok\":true}'\n",
            "a response to 1, expected 2",
        ),
        (
            "vague",
            "echo '{\"id\":2,\"ok\":true}'\n",
            "invalid response: missing field",
        ),
        (
            "early",
            concat!(
                "echo '{\"id\":2,\"event\":\"second\",\"second\":0,\"records\":1,",
                "\"bytes\":1,\"cpu_us\":1}'\n"
            ),
            "an unexpected event",
        ),
        ("endless", "yes | tr -d '\\n'\n", "a line that is too long"),
        (
            "cut",
            "printf '{\"id\":2,\"ok\":true'\n",
            "crashed (exit code 0)",
        ),
    ] {
        let mut driver = driver(dir.path(), name, text);
        let error = driver.run(&produce(), TEST_TIMEOUT).unwrap_err();
        assert!(error.is_fatal() && !driver.is_alive());
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("driver {name}, produce: ")),
            "{text}"
        );
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn surplus_response_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"echo '{"id":2,"ok":true}'
id=3
echo '{"id":3,"ok":true}'
while read -r line; do echo "{\"id\":$id,\"ok\":true}"; id=$((id + 1)); done
"#;
    let mut driver = driver(dir.path(), "eager", text);
    driver.run(&Gc {}, TEST_TIMEOUT).unwrap();
    // Detected before the next command, or taken for its response, so that the real response is
    // surplus.
    let error = (0..2).find_map(|_| driver.run(&Gc {}, TEST_TIMEOUT).err());
    let reason = error.map(|error| error.reason);
    assert!(matches!(reason, Some(DriverFailure::InvalidLine(_))));
}

#[test]
fn impossible_results_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let correct = r#""marks":{"t0":5,"t1":6,"t2":7},"cpu_us":1,"acked":10,"failed":0,"errors":[]"#;
    let response = format!("echo '{{\"id\":2,\"ok\":true,{correct}}}'\n");
    let mut good = driver(dir.path(), "correct", &response);
    good.run(&produce(), TEST_TIMEOUT).unwrap();
    for (name, from, to, expected) in [
        (
            "miscounts",
            "\"acked\":10",
            "\"acked\":11",
            "acked 11 and failed 0 do not add up to 10",
        ),
        (
            "backwards",
            "\"t1\":6",
            "\"t1\":4",
            "mark t1 (4) is before t0 (5)",
        ),
        (
            "stretches",
            "\"t2\":7",
            "\"t2\":900000000000",
            "the marks are 900000000 us apart",
        ),
        (
            "works",
            "\"cpu_us\":1",
            "\"cpu_us\":1e9",
            "cpu_us is 1000000000",
        ),
    ] {
        let error = produced(dir.path(), name, &correct.replace(from, to));
        let text = error.to_string();
        assert!(
            text.starts_with(&format!(
                "driver {name}, produce: returned an impossible result and was killed: "
            )),
            "{text}"
        );
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn seconds_are_reported_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"echo '{"id":2,"event":"second","second":0,"records":3,"bytes":54,"cpu_us":10}'
echo '{"id":2,"event":"second","second":1,"records":4,"bytes":72,"cpu_us":10}'
echo '{"id":2,"ok":true,"records":7,"bytes":126,"failed":0,"cpu_us":20}'
read -r line
"#;
    let requested = Steady {
        topic: "t".to_owned(),
        len: 10,
        seed: 1,
        role: TopicEnd::Consume,
        rate: 0.0,
        seconds: 2,
    };
    let mut reported = Vec::new();
    let mut on_second = |second: &weir_drivers::SteadySecond| reported.push(second.records);
    let mut steady = driver(dir.path(), "steady", text);
    let done = steady
        .run_with(&requested, TEST_TIMEOUT, &mut on_second)
        .unwrap();
    assert_eq!((done.records, reported.as_slice()), (7, &[3, 4][..]));
    let mut odd = driver(dir.path(), "odd", &text.replace(":7,", ":8,"));
    let error = odd
        .run_with(&requested, TEST_TIMEOUT, &mut |_| ())
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("records is 8, but its seconds add up to 7"),
        "{text}"
    );
}

#[test]
fn other_protocol_version_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let text = HELLO.replace("\"protocol\":1", "\"protocol\":2");
    let error = scripted(dir.path(), "newer", &text, TEST_TIMEOUT).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("driver has protocol 2, expected 1"), "{text}");
}

/// Helper of the next test, which runs it in another environment.
#[test]
fn driver_of_the_environment_is_built() {
    let Ok(name) = std::env::var("WEIR_TEST_DRIVER") else {
        return;
    };
    let built = DriverProgram::known(&name, &mut |_| (), &NEVER);
    let error = built.expect_err("no toolchain");
    assert!(matches!(error.reason, DriverFailure::NotBuilt(_)));
    // For the output of the parent test.
    std::io::Write::write_all(
        &mut std::io::stdout(),
        format!("ERROR {error}\n").as_bytes(),
    )
    .unwrap();
}

#[test]
fn missing_toolchain_error_has_a_remedy() {
    let empty = tempfile::tempdir().unwrap();
    for known in BUNDLED_DRIVERS {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "driver_of_the_environment_is_built",
                "--nocapture",
            ])
            .env_clear()
            .env("WEIR_TEST_DRIVER", known.name)
            .env("PATH", empty.path())
            .env("XDG_CACHE_HOME", empty.path())
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let line = stdout.lines().find_map(|line| line.split_once("ERROR "));
        let (_, line) = line.unwrap_or_else(|| panic!("{stdout}"));
        let start = format!("driver {}, start: not built: ", known.name);
        assert!(line.starts_with(&start), "{line}");
        assert!(line.contains(" not found in PATH: it is needed "), "{line}");
        assert!(line.contains("; install "), "{line}");
    }
}
