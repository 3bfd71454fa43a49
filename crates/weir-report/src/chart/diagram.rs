//! Diagram of the processes of a run, the flow of records and the host of each process.

use weir_stats::run::Run;

use super::style::slot;
use super::svg::{Anchor, Place, Svg};

const WIDTH: f64 = 760.0;
const LANE: f64 = 92.0;
const BOX: (f64, f64) = (136.0, 56.0);
const PRODUCER_X: f64 = 1.0;
const BROKER_X: f64 = 196.0;
const MIDDLE_X: f64 = 404.0;
const CLIENT_X: f64 = WIDTH - BOX.0 - 1.0;

/// Draws one lane per architecture, from the load generator to the clients.
pub(crate) fn diagram(run: &Run) -> String {
    // A subject that only produces is the load generator itself.
    let mut names = run.architectures();
    names.retain(|name| !name.contains("producer"));
    let lanes = names.len().max(1) as f64;
    let size = (WIDTH, lanes * LANE + 44.0);
    let svg = Svg::new(size, "Processes of the run and their hosts", "diagram");
    let mut diagram = Diagram { svg, run };
    let middle = lanes * LANE / 2.0;
    let broker_height = (lanes - 1.0) * LANE + BOX.1;
    diagram.node((PRODUCER_X, middle), BOX.1, ("generator", "produce"), "box");
    diagram.arrow((PRODUCER_X + BOX.0, middle), BROKER_X, "produce", "flow");
    let broker = ("Kafka broker", "broker");
    diagram.node((BROKER_X, middle), broker_height, broker, "box");
    for (index, name) in names.iter().enumerate() {
        diagram.lane(name, index as f64 * LANE + LANE / 2.0);
    }
    diagram.measured(size.1 - 24.0);
    diagram.svg.finish()
}

struct Diagram<'a> {
    svg: Svg,
    run: &'a Run,
}

impl Diagram<'_> {
    fn lane(&mut self, name: &str, y: f64) {
        let class = slot(self.run, name);
        let (boxed, flow) = (format!("box lane {class}"), format!("flow {class}"));
        let from_broker = (BROKER_X + BOX.0, y);
        let is_server = matches!(name, "gateway" | "floor");
        let clients = match is_server {
            true => ("clients", "clients"),
            false => ("consumers", "consume"),
        };
        self.node((CLIENT_X, y), BOX.1, clients, &boxed);
        if !is_server {
            let label = format!("{name}: each client fetches from the broker");
            return self.arrow(from_broker, CLIENT_X, &label, &flow);
        }
        let wire = if name == "gateway" { "TLCP" } else { "frames" };
        self.arrow(from_broker, MIDDLE_X, "fetch", &flow);
        self.node((MIDDLE_X, y), BOX.1, (name, name), &boxed);
        self.arrow((MIDDLE_X + BOX.0, y), CLIENT_X, wire, &flow);
    }

    /// Draws a box at the middle of its left side, with its name and, below it, the host of the
    /// role.
    fn node(&mut self, (x, y): Place, height: f64, (name, role): (&str, &str), class: &str) {
        self.svg
            .rect((x, y - height / 2.0), (BOX.0, height), class, "");
        let middle = x + BOX.0 / 2.0;
        let Some(place) = self.run.placement.iter().find(|place| place.role == role) else {
            return self
                .svg
                .text((middle, y + 5.0), Anchor::Middle, "name", name);
        };
        let host = match place.processes {
            1 => place.host.clone(),
            more => format!("{more} × {}", place.host),
        };
        let host: String = host.chars().take(24).collect();
        self.svg
            .text((middle, y - 2.0), Anchor::Middle, "name", name);
        self.svg
            .text((middle, y + 15.0), Anchor::Middle, "host", &host);
    }

    fn arrow(&mut self, (x, y): Place, to_x: f64, label: &str, class: &str) {
        let tip = to_x - 3.0;
        let head = [(tip - 7.0, y - 4.5), (tip, y), (tip - 7.0, y + 4.5)];
        self.svg.line((x + 3.0, y), (tip, y), class);
        self.svg.path(&head, class);
        let at = (f64::midpoint(x, to_x), y - 8.0);
        self.svg.text(at, Anchor::Middle, "wire", label);
    }

    /// Draws the span that the response time covers.
    fn measured(&mut self, y: f64) {
        let (from, to) = (PRODUCER_X + BOX.0 / 2.0, CLIENT_X + BOX.0 / 2.0);
        self.svg.line((from, y), (to, y), "span");
        for x in [from, to] {
            self.svg.line((x, y - 5.0), (x, y + 5.0), "span");
        }
        let text = "response time: from the due time of a record until a client receives it";
        let at = (f64::midpoint(from, to), y + 17.0);
        self.svg.text(at, Anchor::Middle, "wire", text);
    }
}
