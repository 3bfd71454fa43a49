//! Drivers that crash, hang, babble and lie are caught, named and gone; and what cannot be built says why.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_drivers::{
    ClientSettings, CommandLimit, Configure, Driver, DriverError, DriverFailure, DriverProgram,
    KNOWN, ProduceCommand, ProducerState, Steady, TopicEnd,
};

static NEVER: AtomicBool = AtomicBool::new(false);

/// Long for an answer that comes.
const TEST_TIMEOUT: CommandLimit<'static> = CommandLimit {
    within: Duration::from_secs(60),
    stop: &NEVER,
};

const HELLO: &str = r#"read -r line
echo '{"id":1,"ok":true,"protocol":1,"library":"none","library_version":"1","binding":"","runtime":"sh","capabilities":["produce.cold"]}'
read -r line
"#;

/// A driver that says hello, reads one command, and goes on as `rest` says.
fn driver(folder: &Path, name: &str, rest: &str) -> Driver {
    let started = scripted(folder, name, &format!("{HELLO}{rest}"), TEST_TIMEOUT);
    started.unwrap_or_else(|error| panic!("{error}"))
}

fn scripted(
    folder: &Path,
    name: &str,
    text: &str,
    limit: CommandLimit<'_>,
) -> Result<Driver, DriverError> {
    let script = folder.join(format!("{name}.sh"));
    fs::write(&script, text).unwrap();
    let given = format!("{name}=sh {}", script.display());
    let program = DriverProgram::given(&given).unwrap();
    Driver::start(&program, folder, limit)
}

fn configure() -> Configure {
    Configure {
        bootstrap: "127.0.0.1:1".to_owned(),
        profile: "test".to_owned(),
        settings: ClientSettings::new(),
    }
}

fn produce() -> ProduceCommand {
    ProduceCommand {
        topic: "t".to_owned(),
        len: 10,
        count: 10,
        seed: 1,
        state: ProducerState::Cold,
        per_record: false,
    }
}

/// What a script that answers `produce` with these fields is caught with.
fn produced(folder: &Path, name: &str, fields: &str) -> DriverError {
    let answer = format!("echo '{{\"id\":2,\"ok\":true,{fields}}}'\nread -r line\n");
    let mut driver = driver(folder, name, &answer);
    let error = driver.produce(&produce(), TEST_TIMEOUT).unwrap_err();
    assert!(!driver.is_alive());
    error
}

/// Waits until a process is gone, or only waits to be reaped.
fn is_gone(pid: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
        if state.is_none_or(|state| state == "Z") {
            return;
        }
        assert!(Instant::now() < deadline, "process {pid} is still there");
        std::thread::yield_now();
    }
}

#[test]
fn one_that_behaves_goes_on_after_a_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"echo '{"id":2,"ok":false,"error":"no such broker"}'
read -r line
echo '{"id":3,"ok":true,"effective":{}}'
read -r line
echo '{"id":4,"ok":true}'
"#;
    let mut driver = driver(folder.path(), "tame", text);
    assert_eq!(driver.hello().runtime, "sh");
    assert!(driver.can("produce.cold") && !driver.can("produce.warm"));
    let error = driver.configure(&configure(), TEST_TIMEOUT).unwrap_err();
    assert!(!error.is_fatal() && driver.is_alive());
    assert_eq!(
        error.to_string(),
        "driver tame, configure: refused: no such broker"
    );
    driver.configure(&configure(), TEST_TIMEOUT).unwrap();
    driver.bye().unwrap();
    let transcript = fs::read_to_string(folder.path().join("tame.jsonl")).unwrap();
    assert_eq!(transcript.lines().count(), 8, "{transcript}");
    assert!(transcript.starts_with("> {\"id\":1,"), "{transcript}");
}

#[test]
fn a_crash_tells_how_and_the_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path(), "frail", "echo 'out of cheese' >&2\nexit 3\n");
    let error = driver.configure(&configure(), TEST_TIMEOUT).unwrap_err();
    assert_eq!(
        error.to_string(),
        "driver frail, configure: crashed (exit code 3); it said: out of cheese"
    );
    let log = fs::read_to_string(folder.path().join("frail.log")).unwrap();
    assert_eq!(log, "out of cheese\n");
    // It stays given up.
    let again = driver.gc(TEST_TIMEOUT).unwrap_err();
    assert!(
        matches!(again.reason, DriverFailure::NotStarted(_)),
        "{again}"
    );
}

#[test]
fn a_crash_by_a_signal_is_one_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path(), "shot", "kill -9 $$\n");
    let text = driver.gc(TEST_TIMEOUT).unwrap_err().to_string();
    assert_eq!(
        text,
        "driver shot, gc: crashed (signal 9); it said: nothing"
    );
}

#[test]
fn a_program_that_is_not_there_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let program = DriverProgram::given("absent=/no/such/program").unwrap();
    let error = Driver::start(&program, folder.path(), TEST_TIMEOUT).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("driver absent, hello: crashed (exit code 127)"),
        "{text}"
    );
    assert!(text.contains("/no/such/program"), "{text}");
}

#[test]
fn one_that_hangs_is_killed_with_all_it_has_started() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let text = format!(
        "sleep 600 &\necho $! >{}\necho waiting >&2\nwait\n",
        pid.display()
    );
    let mut driver = driver(folder.path(), "lazy", &text);
    let limit = CommandLimit {
        within: Duration::from_secs(2),
        stop: &NEVER,
    };
    let error = driver.produce(&produce(), limit).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("driver lazy, produce: hung: no answer within 2s"),
        "{text}"
    );
    assert!(text.ends_with("it said: waiting"), "{text}");
    is_gone(fs::read_to_string(pid).unwrap().trim());
    is_gone(&driver.pid().to_string());
}

#[test]
fn one_that_is_interrupted_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut driver = driver(folder.path(), "busy", "sleep 600\n");
    let stop = AtomicBool::new(true);
    let limit = CommandLimit {
        within: Duration::from_secs(600),
        stop: &stop,
    };
    let error = driver.produce(&produce(), limit).unwrap_err();
    assert!(
        matches!(error.reason, DriverFailure::Interrupted),
        "{error}"
    );
    is_gone(&driver.pid().to_string());
}

#[test]
fn one_that_does_not_end_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let driver = driver(
        folder.path(),
        "clingy",
        "echo '{\"id\":2,\"ok\":true}'\nsleep 600\n",
    );
    let pid = driver.pid().to_string();
    let error = driver.bye().unwrap_err();
    assert_eq!((error.kind(), error.during.as_str()), ("hung", "bye"));
    is_gone(&pid);
}

#[test]
fn one_that_is_dropped_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let driver = driver(folder.path(), "dropped", "sleep 600\n");
    let pid = driver.pid().to_string();
    drop(driver);
    is_gone(&pid);
}

#[test]
fn what_is_no_answer_is_caught() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text, expected) in [
        ("chatty", "echo 'now I will work'\n", "no JSON"),
        (
            "confused",
            "echo '{\"id\":1,\"ok\":true}'\n",
            "an answer to 1, asked was 2",
        ),
        (
            "vague",
            "echo '{\"id\":2,\"ok\":true}'\n",
            "its answer has missing field",
        ),
        (
            "early",
            "echo '{\"id\":2,\"event\":\"second\",\"second\":0,\"records\":1,\"bytes\":1,\"cpu_us\":1}'\n",
            "an event that nobody asked for",
        ),
        ("endless", "yes | tr -d '\\n'\n", "a line without an end"),
        (
            "cut",
            "printf '{\"id\":2,\"ok\":true'\n",
            "crashed (exit code 0)",
        ),
    ] {
        let mut driver = driver(folder.path(), name, text);
        let error = driver.produce(&produce(), TEST_TIMEOUT).unwrap_err();
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
fn an_answer_too_many_is_caught() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"echo '{"id":2,"ok":true}'
id=3
echo '{"id":3,"ok":true}'
while read -r line; do echo "{\"id\":$id,\"ok\":true}"; id=$((id + 1)); done
"#;
    let mut driver = driver(folder.path(), "eager", text);
    driver.gc(TEST_TIMEOUT).unwrap();
    // It is found before the next command, or taken for its answer, and then the true one is too many.
    let error = (0..2).find_map(|_| driver.gc(TEST_TIMEOUT).err());
    assert_eq!(error.map(|error| error.kind()), Some("garbled"));
}

#[test]
fn lies_are_caught() {
    let folder = tempfile::tempdir().unwrap();
    let honest = r#""marks":{"t0":5,"t1":6,"t2":7},"cpu_us":1,"acked":10,"failed":0,"errors":[]"#;
    let answer = format!("echo '{{\"id\":2,\"ok\":true,{honest}}}'\n");
    let mut good = driver(folder.path(), "honest", &answer);
    good.produce(&produce(), TEST_TIMEOUT).unwrap();
    for (name, from, to, expected) in [
        (
            "miscounts",
            "\"acked\":10",
            "\"acked\":11",
            "acked 11 and failed 0 are not the 10",
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
            "its marks are 900000000 us apart",
        ),
        (
            "works",
            "\"cpu_us\":1",
            "\"cpu_us\":1e9",
            "cpu_us is 1000000000",
        ),
    ] {
        let error = produced(folder.path(), name, &honest.replace(from, to));
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("driver {name}, produce: lied, killed: ")),
            "{text}"
        );
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn seconds_are_told_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"echo '{"id":2,"event":"second","second":0,"records":3,"bytes":54,"cpu_us":10}'
echo '{"id":2,"event":"second","second":1,"records":4,"bytes":72,"cpu_us":10}'
echo '{"id":2,"ok":true,"records":7,"bytes":126,"failed":0,"cpu_us":20}'
read -r line
"#;
    let asked = Steady {
        topic: "t".to_owned(),
        len: 10,
        seed: 1,
        role: TopicEnd::Consume,
        rate: 0.0,
        seconds: 2,
    };
    let mut told = Vec::new();
    let mut on_second = |second: &weir_drivers::SteadySecond| told.push(second.records);
    let mut steady = driver(folder.path(), "steady", text);
    let done = steady.steady(&asked, TEST_TIMEOUT, &mut on_second).unwrap();
    assert_eq!((done.records, told.as_slice()), (7, &[3, 4][..]));
    let mut odd = driver(folder.path(), "odd", &text.replace(":7,", ":8,"));
    let error = odd.steady(&asked, TEST_TIMEOUT, &mut |_| ()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("records is 8, its seconds add up to 7"),
        "{text}"
    );
}

#[test]
fn another_protocol_is_not_spoken() {
    let folder = tempfile::tempdir().unwrap();
    let text = HELLO.replace("\"protocol\":1", "\"protocol\":2");
    let error = scripted(folder.path(), "newer", &text, TEST_TIMEOUT).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("it speaks protocol 2, this program speaks 1"),
        "{text}"
    );
}

/// Run by the test below, in another environment.
#[test]
fn a_driver_that_the_environment_names_is_built() {
    let Ok(name) = std::env::var("WEIR_TEST_DRIVER") else {
        return;
    };
    let built = DriverProgram::known(&name, &mut |_| (), &NEVER);
    let error = built.expect_err("there is nothing to build it with");
    assert_eq!(error.kind(), "not built");
    // For the one who reads the output.
    std::io::Write::write_all(&mut std::io::stdout(), format!("SAID {error}\n").as_bytes())
        .unwrap();
}

#[test]
fn a_missing_toolchain_is_named_with_its_remedy() {
    let empty = tempfile::tempdir().unwrap();
    for known in KNOWN {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "a_driver_that_the_environment_names_is_built",
                "--nocapture",
            ])
            .env_clear()
            .env("WEIR_TEST_DRIVER", known.name)
            .env("PATH", empty.path())
            .env("XDG_CACHE_HOME", empty.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let line = said.lines().find_map(|line| line.split_once("SAID "));
        let (_, line) = line.unwrap_or_else(|| panic!("{said}"));
        let start = format!("driver {}, start: not built: ", known.name);
        assert!(line.starts_with(&start), "{line}");
        assert!(line.contains(" not found in PATH: it is needed "), "{line}");
        assert!(line.contains("; install "), "{line}");
    }
}
