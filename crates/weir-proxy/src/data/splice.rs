//! Splices large responses that the proxy does not decode, past the loop's buffer.

use weir_net::stream::{Input, SocketStream};

use super::iteration::read_bytes_for;
use super::loop_state::{LoopState, PairCloseReason};
use super::pair::ConnectionPair;
use super::pipe::is_unsupported;

/// Minimum rest of a response for splicing. Less is copied together with the following bytes.
pub(super) const SPLICE_BYTES_MIN: usize = 64 * 1024;
/// Read size for the start of a response whose rest is spliced.
const START_BYTES: usize = 4 * 1024;

impl LoopState {
    /// Splices the available part of a response. Returns `true` if bytes moved, and `None` if the
    /// response must be copied.
    pub(super) fn splice_response(
        &mut self,
        pair: &mut ConnectionPair,
    ) -> Result<Option<bool>, PairCloseReason> {
        let Some(upstream) = pair.upstream.open() else {
            return Ok(None);
        };
        let (SocketStream::Plain(from), SocketStream::Plain(_)) =
            (&upstream.stream, &pair.downstream.stream)
        else {
            return Ok(None);
        };
        let Some(mut pipe) = self.pipes.take() else {
            return Ok(None);
        };
        let filled = match pipe.fill(from, pair.responses.pass_through_bytes()) {
            Ok(filled) => filled,
            Err(error) if is_unsupported(&error) => {
                self.pipes.disable(pipe);
                return Ok(None);
            }
            Err(error) => {
                self.pipes.put_back(pipe);
                return Err(PairCloseReason::Broker(error));
            }
        };
        let count = filled.unwrap_or(0);
        let input = Input {
            wire: count,
            plain: count,
            // A further read must show if the socket has more.
            drained: filled.is_none(),
            ended: filled == Some(0),
        };
        self.note_read(pair, input, false);
        if count == 0 {
            self.pipes.put_back(pipe);
            return Ok(Some(false));
        }
        self.counters.spliced_bytes += count as u64;
        pair.responses.note_spliced(count);
        pair.pipe = Some(pipe);
        self.drain_pipe(pair)?;
        self.counters.blocked += u64::from(pair.downstream.blocked);
        // The proxy's own responses may come next.
        pair.responses
            .push_ready(&mut pair.in_flight, &mut self.segments);
        self.send_down(pair, &[])?;
        Ok(Some(true))
    }

    /// Sends the bytes in the pipe to the client as far as it accepts them. Returns `true` if it
    /// accepted all.
    pub(super) fn drain_pipe(
        &mut self,
        pair: &mut ConnectionPair,
    ) -> Result<bool, PairCloseReason> {
        let (Some(pipe), SocketStream::Plain(to)) = (&mut pair.pipe, &pair.downstream.stream)
        else {
            return Ok(false);
        };
        self.counters.writes += 1;
        pipe.drain(to).map_err(PairCloseReason::Client)?;
        pair.downstream.blocked = pipe.bytes() > 0;
        if pair.downstream.blocked {
            return Ok(false);
        }
        if let Some(pipe) = pair.pipe.take() {
            self.pipes.put_back(pipe);
        }
        Ok(true)
    }

    /// Returns the maximum number of bytes to read from the broker.
    pub(super) fn response_bytes_at_once(&self, pair: &ConnectionPair) -> usize {
        let is_plain = pair.downstream.stream.is_plain() && pair.upstream.is_plain();
        if is_plain && pair.responses.expects_large() && self.pipes.has_any() {
            return START_BYTES;
        }
        read_bytes_for(pair.downstream.read_backoff).min(self.iteration_limits.read_bytes)
    }
}
