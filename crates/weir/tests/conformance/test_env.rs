//! The environment of cases: the broker, the topics of one SDK, and its shared gateway.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weir_kafka::{Admin, Producer, ProducerConfig};

use super::driver::Driver;
use super::driver_process::IdleDrivers;
use super::events::{DriverConfig, Subscription};
use super::gateway::GatewayProcess;
use super::restarts::Restarts;
use super::sdk::Sdk;

/// Timeout of every wait, long enough for a busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval at which conditions of other processes are polled.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// The adapter set of `conformance/adapters.xml`.
pub(crate) const ADAPTER_SET: &str = "KafkaConnector";

const ADAPTERS: &str = include_str!("../../../../conformance/adapters.xml");
const EXTENDED: &str = include_str!("../../../../conformance/extended.xml");
const EXTENDED_SETTINGS: &str = include_str!("../../../../conformance/extended.toml");

fn filled_in(adapters: &str, bootstrap: &str, topic: &str) -> String {
    adapters
        .replace("BOOTSTRAP", bootstrap)
        .replace("map.TOPIC", &format!("map.{topic}"))
}

/// Returns a free port.
pub(crate) fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// State shared by all cases of one SDK.
pub(crate) struct TestEnv {
    /// Drivers of passed cases.
    idle_drivers: IdleDrivers,
    pub(crate) sdk: Arc<Sdk>,
    /// Gateway of the cases that do not stop it.
    pub(crate) gateway: GatewayProcess,
    /// Gateway with tables and diffs; `None` in the environment of a single case.
    extended: Option<GatewayProcess>,
    restarts: Arc<Restarts>,
    bootstrap: String,
    adapters: PathBuf,
    topic: String,
    producer: Producer,
    dir: PathBuf,
}

impl TestEnv {
    /// Creates two topics for one SDK and starts a gateway that serves them.
    pub(crate) fn new(
        bootstrap: &str,
        sdk: Arc<Sdk>,
        restarts: Arc<Restarts>,
        dir: PathBuf,
    ) -> Result<Self> {
        fs::create_dir_all(&dir)?;
        let topic = format!("conformance-{}-{}", std::process::id(), sdk.name());
        let admin = Admin::connect(
            &weir_kafka::KafkaSettings::plaintext(bootstrap),
            TEST_TIMEOUT,
        )?;
        for name in
            ["", "-whole", "-merge", "-commands", "-rows"].map(|end| format!("{topic}{end}"))
        {
            admin.create_topic(&name, 1, 1, &[])?;
        }
        let config = ProducerConfig {
            kafka: weir_kafka::KafkaSettings::plaintext(bootstrap),
            ..Default::default()
        };
        let producer = Producer::start(&config, Box::new(|_| {}))?;
        let adapters = dir.join("adapters.xml");
        fs::write(&adapters, filled_in(ADAPTERS, bootstrap, &topic))?;
        let gateway = GatewayProcess::start(&dir, "gateway", Some(&adapters), None, any_port())?;
        Ok(Self {
            idle_drivers: IdleDrivers::default(),
            sdk,
            gateway,
            extended: None,
            restarts,
            bootstrap: bootstrap.to_owned(),
            adapters,
            topic,
            producer,
            dir,
        })
    }

    /// Adds the gateway with tables and diffs.
    pub(crate) fn extended(mut self, bootstrap: &str) -> Result<Self> {
        let adapters = self.dir.join("extended.xml");
        fs::write(&adapters, filled_in(EXTENDED, bootstrap, &self.topic))?;
        let settings = self.dir.join("extended.toml");
        fs::write(&settings, EXTENDED_SETTINGS)?;
        let listen = any_port();
        let gateway = GatewayProcess::start(
            &self.dir,
            "extended",
            Some(&adapters),
            Some(&settings),
            listen,
        )?;
        self.extended = Some(gateway);
        Ok(self)
    }

    /// A case with a separate directory and unique keys and items.
    pub(crate) fn case(&self, name: &'static str) -> Result<Case<'_>> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir)?;
        Ok(Case {
            env: self,
            name,
            dir,
            started: AtomicU32::new(0),
            ended_drivers: Arc::default(),
        })
    }
}

/// One case with one SDK.
pub(crate) struct Case<'a> {
    env: &'a TestEnv,
    name: &'static str,
    dir: PathBuf,
    started: AtomicU32,
    /// Drivers whose clients have ended; killed with the case unless it passes.
    ended_drivers: Arc<IdleDrivers>,
}

impl Case<'_> {
    /// Returns the directory of the logs of this case.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns `true` if the SDK negotiates message compression by default.
    pub(crate) fn compresses(&self) -> (bool, bool) {
        match self.env.sdk.name() {
            "web" => (true, true),
            // Its HTTP library compresses requests from 1,024 bytes on; all requests are shorter.
            "java" => (true, false),
            _ => (false, false),
        }
    }

    /// Returns the gateway that is shared with other cases.
    pub(crate) fn shared(&self) -> &GatewayProcess {
        &self.env.gateway
    }

    /// Starts a gateway for this case only.
    pub(crate) fn gateway(&self, listen: SocketAddr) -> Result<GatewayProcess> {
        self.gateway_with(listen, "")
    }

    /// Starts a gateway for this case with configuration lines.
    pub(crate) fn gateway_with(
        &self,
        listen: SocketAddr,
        settings: &str,
    ) -> Result<GatewayProcess> {
        self.gateway_of(&self.env.adapters, listen, settings)
    }

    /// Starts a gateway for this case with another connector configuration, based on
    /// [`Self::adapters`].
    pub(crate) fn gateway_of(
        &self,
        adapters: &Path,
        listen: SocketAddr,
        settings: &str,
    ) -> Result<GatewayProcess> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let name = format!("gateway-{number}");
        let file = self.dir.join(format!("{name}.toml"));
        fs::write(&file, settings)?;
        GatewayProcess::start(&self.dir, &name, Some(adapters), Some(&file), listen)
    }

    /// Returns the connector configuration of [`Self::gateway`].
    pub(crate) fn adapters(&self) -> Result<String> {
        Ok(fs::read_to_string(&self.env.adapters)?)
    }

    /// Returns the SDK of the case.
    pub(crate) fn sdk(&self) -> &Sdk {
        &self.env.sdk
    }

    /// Returns the address of the broker.
    pub(crate) fn bootstrap(&self) -> &str {
        &self.env.bootstrap
    }

    /// Creates a topic of one partition for this case only, with settings. Returns its name.
    pub(crate) fn create_topic(&self, name: &str, configs: &[(&str, &str)]) -> Result<String> {
        let kafka = weir_kafka::KafkaSettings::plaintext(self.bootstrap());
        let topic = format!("{}-{}-{name}", self.env.topic, self.name);
        Admin::connect(&kafka, TEST_TIMEOUT)?.create_topic(&topic, 1, 1, configs)?;
        Ok(topic)
    }

    /// Creates an environment for this case only, with another broker.
    pub(crate) fn env_at(&self, bootstrap: &str) -> Result<TestEnv> {
        TestEnv::new(
            bootstrap,
            Arc::clone(&self.env.sdk),
            Arc::clone(&self.env.restarts),
            self.dir.join("env"),
        )
    }

    /// Returns the broker that cases may restart.
    pub(crate) fn restarts(&self) -> &Restarts {
        &self.env.restarts
    }

    /// Returns a record key that only this case uses.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Returns the item of records with [`Self::key`].
    pub(crate) fn item(&self, name: &str) -> String {
        format!("ltest-[key={}]", self.key(name))
    }

    /// Returns a RAW subscription to such items with the fields `key` and `value`.
    pub(crate) fn raw(&self, names: &[&str]) -> Subscription {
        Subscription {
            data_adapter: "QuickStart".to_owned(),
            mode: "RAW",
            items: names.iter().map(|name| self.item(name)).collect(),
            fields: vec!["key", "value"],
            snapshot: None,
            max_frequency: None,
            buffer: None,
            second_level: None,
        }
    }

    /// Starts an SDK client of the shared gateway.
    pub(crate) fn client(&self, subscriptions: Vec<Subscription>) -> Result<Driver> {
        self.client_of(DriverConfig::new(self.shared().address(), subscriptions))
    }

    /// Starts an SDK client.
    pub(crate) fn client_of(&self, config: DriverConfig) -> Result<Driver> {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        Driver::start(
            (&self.env.sdk, &self.env.idle_drivers),
            &config,
            (&self.dir, number),
            &self.ended_drivers,
        )
    }

    /// Lets other cases use the drivers of this case, which must have passed.
    pub(crate) fn release_drivers(&self) {
        self.env.idle_drivers.add_all(&self.ended_drivers);
    }

    /// Returns the gateway with tables and diffs, which is shared with other cases.
    pub(crate) fn extended(&self) -> &GatewayProcess {
        // Invariant: only the environment of the restarted broker has no such gateway.
        let extended = self.env.extended.as_ref();
        extended.expect("the SDK's env has one")
    }

    /// Starts an SDK client of that gateway.
    pub(crate) fn extended_client(&self, subscriptions: Vec<Subscription>) -> Result<Driver> {
        self.client_of(DriverConfig::new(self.extended().address(), subscriptions))
    }

    /// Sends one record with the key of this case and waits for its acknowledgement.
    pub(crate) fn produce(&self, name: &str, value: &str) -> Result<()> {
        self.send(name, Some(value))?;
        self.flush()
    }

    /// Sends one record, without a value if there is none. [`Self::flush`] must follow.
    pub(crate) fn send(&self, name: &str, value: Option<&str>) -> Result<()> {
        self.send_to("", Some(&self.key(name)), value)
    }

    /// Sends one record to the topic that is one item. [`Self::flush`] must follow.
    pub(crate) fn send_whole(&self, key: Option<&str>, value: Option<&str>) -> Result<()> {
        self.send_to("-whole", key, value)
    }

    /// Returns the topic with this name suffix.
    pub(crate) fn topic(&self, end: &str) -> String {
        format!("{}{end}", self.env.topic)
    }

    /// Sends one record to the topic with this name suffix. [`Self::flush`] must follow.
    pub(crate) fn send_to(&self, end: &str, key: Option<&str>, value: Option<&str>) -> Result<()> {
        let topic = &self.topic(end);
        let (key, value) = (key.map(str::as_bytes), value.map(str::as_bytes));
        let sent = self
            .env
            .producer
            .send(topic, None, key, value, &[], None, 0);
        sent.context("a record for the broker")
    }

    /// Waits until the broker has acknowledged every record.
    pub(crate) fn flush(&self) -> Result<()> {
        let left = self.env.producer.flush(TEST_TIMEOUT);
        ensure!(left == 0, "the broker did not take {left} records");
        Ok(())
    }
}
