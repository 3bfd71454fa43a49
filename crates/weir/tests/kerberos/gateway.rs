//! Commands of the gateway with Kerberos logins, and a client of a running one.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::TOPIC;
use crate::realm::{REALM, wait_for};
use crate::support::{Process, weir};

/// Kerberos settings of a client.
#[derive(Clone)]
pub(crate) struct KerberosClient {
    pub(crate) name: &'static str,
    pub(crate) servers: String,
    pub(crate) service: &'static str,
    /// Principal and key tab; `None` uses the ticket cache.
    pub(crate) keytab: Option<(String, PathBuf)>,
    pub(crate) krb5_config: PathBuf,
    /// Ticket cache of the process.
    pub(crate) cache: PathBuf,
}

impl KerberosClient {
    /// Returns a data provider with these settings.
    fn provider(&self, name: &str) -> String {
        let param = |name: &str, value: &str| {
            format!("<param name=\"authentication.{name}\">{value}</param>")
        };
        let login = match &self.keytab {
            Some((principal, keytab)) => {
                param("gssapi.key.tab.enable", "true")
                    + &param("gssapi.key.tab.path", &keytab.display().to_string())
                    + &param("gssapi.store.key.enable", "true")
                    + &param("gssapi.principal", &format!("{principal}@{REALM}"))
            }
            None => param("gssapi.ticket.cache.enable", "true"),
        };
        format!(
            "<data_provider name=\"{name}\"><adapter_class>\
             com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter</adapter_class>\
             <param name=\"bootstrap.servers\">{}</param>{}{}{}{login}\
             <param name=\"map.{TOPIC}.to\">item</param>\
             <param name=\"field.value\">#{{VALUE}}</param></data_provider>",
            self.servers,
            param("enable", "true"),
            param("mechanism", "GSSAPI"),
            param("gssapi.kerberos.service.name", self.service),
        )
    }

    /// Returns a command of the gateway with these settings in its adapters file.
    pub(crate) fn gateway(&self, dir: &Path, words: &[&str], others: &[&Self]) -> Command {
        let providers = others.iter().enumerate();
        let providers = providers.map(|(index, it)| it.provider(&format!("Other{index}")));
        let text = format!(
            "<adapters_conf id=\"Set\"><metadata_provider><adapter_class>\
             com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter</adapter_class>\
             </metadata_provider>{}{}</adapters_conf>",
            self.provider("Kerberos"),
            providers.collect::<String>()
        );
        let file = dir.join(format!("{}.xml", self.name.replace(' ', "-")));
        fs::write(&file, text).expect("a file");
        let mut command = weir(&[&["gateway"], words].concat());
        command.arg("--adapters").arg(file);
        self.set_env(&mut command);
        command
    }

    pub(crate) fn set_env(&self, command: &mut Command) {
        command.env("KRB5_CONFIG", &self.krb5_config);
        command.env("KRB5CCNAME", &self.cache);
    }

    /// Explains the record of the topic.
    pub(crate) fn explain(&self, dir: &Path) -> Output {
        let words = ["explain", "--topic", TOPIC, "--last", "--timeout", "20s"];
        let output = self.gateway(dir, &words, &[]).output();
        output.expect("the command starts")
    }

    /// Starts a gateway, which writes its addresses and its log into `dir`.
    pub(crate) fn start(&self, dir: &Path) -> RunningGateway {
        let (ready, log) = (dir.join("ready.json"), dir.join("gateway.log"));
        // The file of an earlier gateway would be taken for the one of this.
        let _ = fs::remove_file(&ready);
        let ready_file = format!("--ready-file={}", ready.display());
        let words = ["run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let mut run = self.gateway(dir, &[&words[..], &[&ready_file]].concat(), &[]);
        run.stdout(Stdio::null());
        run.stderr(File::create(&log).expect("a file"));
        RunningGateway {
            process: Process::spawn(&mut run),
            ready,
            log,
        }
    }
}

/// A gateway process.
pub(crate) struct RunningGateway {
    process: Process,
    ready: PathBuf,
    log: PathBuf,
}

impl RunningGateway {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the gateway listens and its connection is ready; returns the client address.
    pub(crate) fn listen(&mut self) -> String {
        let mut listen = None;
        wait_for("the gateway is ready", || {
            let ended = self.process.try_wait().expect("a child");
            assert!(ended.is_none(), "the gateway ended: {}", self.log());
            let text = fs::read(&self.ready).unwrap_or_default();
            // An incomplete file is not valid JSON.
            let content: Option<Value> = serde_json::from_slice(&text).ok();
            listen = content.and_then(|it| Some(it["listen"].as_str()?.to_owned()));
            listen.is_some()
        });
        listen.expect("waited for")
    }

    /// Waits until the log contains a text, and returns that line.
    pub(crate) fn logged(&self, text: &str) -> String {
        let mut found = None;
        wait_for(text, || {
            let log = self.log();
            found = log
                .lines()
                .find(|line| line.contains(text))
                .map(str::to_owned);
            found.is_some()
        });
        found.expect("waited for")
    }
}

/// A streaming client over HTTP that is subscribed to the item.
pub(crate) struct StreamClient(BufReader<TcpStream>);

impl StreamClient {
    pub(crate) fn subscribe(listen: &str) -> Self {
        let body = "LS_adapter_set=Set&LS_cid=mgQkwtwdysogQz2BJ4Ji%20kOj2Bg&LS_protocol=TLCP-2.5.0";
        let mut client = Self(BufReader::new(post(listen, "create_session", body)));
        let line = client.line("CONOK,");
        let session = line.split(',').nth(1).expect("an id").to_owned();
        let body = format!(
            "LS_session={session}&LS_reqId=1&LS_op=add&LS_subId=1&LS_data_adapter=Kerberos&\
             LS_mode=MERGE&LS_group=item&LS_schema=value"
        );
        let mut response = String::new();
        let mut control = post(listen, "control", &body);
        control.read_to_string(&mut response).expect("a response");
        assert!(response.contains("REQOK"), "{response}");
        client.line("SUBOK,");
        client
    }

    /// Returns the next line that starts with a text.
    pub(crate) fn line(&mut self, start: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.0.read_line(&mut line).expect("a line in time");
            assert!(read > 0, "the stream ended before {start}");
            if line.starts_with(start) {
                return line.trim_end().to_owned();
            }
        }
    }
}

fn post(listen: &str, request: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(listen).expect("the gateway listens");
    let limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(limit).expect("a socket");
    let text = format!(
        "POST /lightstreamer/{request}.txt?LS_protocol=TLCP-2.5.0 HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).expect("sent");
    stream
}
