//! Diagram of the processes of a run, the flow of records and the host of each process.

use weir_stats::run::Run;

use super::style::slot;
use super::svg::{Anchor, Svg};

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
    let height = lanes * LANE + 44.0;
    let mut svg = Svg::new(WIDTH, height, "Processes of the run and their hosts").class("diagram");
    let middle = lanes * LANE / 2.0;
    let broker_height = (lanes - 1.0) * LANE + BOX.1;
    let broker_top = middle - broker_height / 2.0;
    node(
        &mut svg,
        run,
        (PRODUCER_X, middle - BOX.1 / 2.0),
        BOX.1,
        ("generator", "produce"),
        "box",
    );
    arrow(
        &mut svg,
        (PRODUCER_X + BOX.0, middle),
        BROKER_X,
        "produce",
        "flow",
    );
    node(
        &mut svg,
        run,
        (BROKER_X, broker_top),
        broker_height,
        ("Kafka broker", "broker"),
        "box",
    );
    for (index, name) in names.iter().enumerate() {
        lane(&mut svg, run, name, index as f64 * LANE + LANE / 2.0);
    }
    measured(&mut svg, height);
    svg.finish()
}

fn lane(svg: &mut Svg, run: &Run, name: &str, y: f64) {
    let class = slot(run, name);
    let boxed = format!("box lane {class}");
    let flow = format!("flow {class}");
    let from_broker = BROKER_X + BOX.0;
    let top = y - BOX.1 / 2.0;
    if matches!(name, "gateway" | "floor") {
        let wire = if name == "gateway" { "TLCP" } else { "frames" };
        arrow(svg, (from_broker, y), MIDDLE_X, "fetch", &flow);
        node(svg, run, (MIDDLE_X, top), BOX.1, (name, name), &boxed);
        arrow(svg, (MIDDLE_X + BOX.0, y), CLIENT_X, wire, &flow);
        node(
            svg,
            run,
            (CLIENT_X, top),
            BOX.1,
            ("clients", "clients"),
            &boxed,
        );
    } else {
        let label = format!("{name}: each client fetches from the broker");
        arrow(svg, (from_broker, y), CLIENT_X, &label, &flow);
        node(
            svg,
            run,
            (CLIENT_X, top),
            BOX.1,
            ("consumers", "consume"),
            &boxed,
        );
    }
}

/// Draws a box with its name and, below it, the host of the role.
fn node(
    svg: &mut Svg,
    run: &Run,
    at: (f64, f64),
    height: f64,
    (name, role): (&str, &str),
    class: &str,
) {
    svg.rect(at, (BOX.0, height), class, "");
    let center = (at.0 + BOX.0 / 2.0, at.1 + height / 2.0);
    let place = run.placement.iter().find(|place| place.role == role);
    let Some(place) = place else {
        svg.text((center.0, center.1 + 5.0), Anchor::Middle, "name", name);
        return;
    };
    let processes = match place.processes {
        1 => String::new(),
        more => format!("{more} × "),
    };
    let host: String = format!("{processes}{}", place.host)
        .chars()
        .take(24)
        .collect();
    svg.text((center.0, center.1 - 2.0), Anchor::Middle, "name", name);
    svg.text((center.0, center.1 + 15.0), Anchor::Middle, "host", &host);
}

fn arrow(svg: &mut Svg, from: (f64, f64), to_x: f64, label: &str, class: &str) {
    let (x, y) = from;
    let tip = to_x - 3.0;
    svg.line((x + 3.0, y), (tip, y), class);
    svg.path(
        &[(tip - 7.0, y - 4.5), (tip, y), (tip - 7.0, y + 4.5)],
        class,
    );
    svg.text(
        (f64::midpoint(x, to_x), y - 8.0),
        Anchor::Middle,
        "wire",
        label,
    );
}

/// Draws the span that the response time covers.
fn measured(svg: &mut Svg, height: f64) {
    let y = height - 24.0;
    let (from, to) = (PRODUCER_X + BOX.0 / 2.0, CLIENT_X + BOX.0 / 2.0);
    svg.line((from, y), (to, y), "span");
    svg.line((from, y - 5.0), (from, y + 5.0), "span");
    svg.line((to, y - 5.0), (to, y + 5.0), "span");
    let text = "response time: from the due time of a record until a client receives it";
    svg.text(
        (f64::midpoint(from, to), y + 17.0),
        Anchor::Middle,
        "wire",
        text,
    );
}
