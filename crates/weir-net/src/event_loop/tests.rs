//! Tests of the loop itself, with a handler without connections.

use std::time::Instant;

use super::*;

/// Handler that counts iterations until its timer, and takes at most `POSTED` events in each.
struct Counter<const POSTED: usize> {
    core: LoopCore<(), ()>,
    iterations: usize,
    posted: usize,
    /// Receives both counts at the end.
    counts: std::sync::mpsc::Sender<(usize, usize)>,
}

impl<const POSTED: usize> LoopHandler for Counter<POSTED> {
    type Posted = ();
    type Timer = ();
    type Listener = ();
    const ACCEPTS: usize = 0;
    const POSTED: usize = POSTED;

    fn core(&mut self) -> &mut LoopCore<(), ()> {
        &mut self.core
    }
    fn wait_max(&mut self) -> Option<Duration> {
        None
    }
    fn begin(&mut self, _events: &Events) {
        self.iterations += 1;
    }
    fn on_event(&mut self, _token: usize, _event: &Event) {}
    fn on_accept(&mut self, _socket: TcpStream, _peer: SocketAddr, (): ()) {}
    fn on_accept_paused(&mut self) {}
    fn on_posted(&mut self, (): ()) {
        self.posted += 1;
    }
    fn on_timer(&mut self, (): ()) {
        self.core.stop();
    }
    fn end(&mut self) {
        if !self.core.running {
            let _ = self.counts.send((self.iterations, self.posted));
        }
    }
}

/// Runs a loop for 200 ms after `posts` posts; returns the numbers of iterations and of posts that
/// it has handled.
fn counts<const POSTED: usize>(posts: usize) -> (usize, usize) {
    let (counts, received) = std::sync::mpsc::channel();
    let heartbeat = Arc::new(Heartbeat::new("loop", Instant::now(), &[]));
    let (event_loop, sender) = EventLoop::open(heartbeat, 8, RawFd::MAX, |mut core, _| {
        let at_ms = core.now_ms() + 200;
        core.set_timer(at_ms, ());
        Ok(Counter::<POSTED> {
            core,
            iterations: 0,
            posted: 0,
            counts,
        })
    })
    .unwrap();
    for _ in 0..posts {
        sender.post((), Duration::ZERO).unwrap();
    }
    event_loop.run().unwrap();
    received.recv().unwrap()
}

#[test]
fn loop_without_work_sleeps() {
    let (iterations, _) = counts::<64>(0);
    assert!(iterations <= 8, "{iterations} iterations");
    // A loop of clients takes no posted events.
    let (iterations, _) = counts::<0>(0);
    assert!(iterations <= 8, "{iterations} iterations");
}

#[test]
fn posts_above_those_of_one_iteration_are_handled_in_the_next() {
    let (iterations, posted) = counts::<3>(7);
    assert_eq!(posted, 7);
    assert!(iterations <= 12, "{iterations} iterations");
}
