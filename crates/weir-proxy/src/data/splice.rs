//! Large answers that nobody looks at: past the loop's buffer, through a tube.

use super::event_loop::{LoopState, PairCloseReason};
use super::forward::bytes_at_once;
use super::pair::Pair;
use super::pipe::is_refusal;
use super::stream::{Input, SocketStream};

/// Less than this is copied with what comes behind it.
pub(super) const TUBE_FROM_BYTES: usize = 64 * 1024;
/// Enough for the beginning of an answer whose rest goes through a tube.
const FRONT_BYTES: usize = 4 * 1024;

impl LoopState {
    /// Has the rest of an answer pass, as far as it is there; whether it moved. `None`: it is to be copied.
    pub(super) fn splice_response(
        &mut self,
        pair: &mut Pair,
    ) -> Result<Option<bool>, PairCloseReason> {
        let Some(up) = pair.up.open() else {
            return Ok(None);
        };
        let (SocketStream::Plain(from), SocketStream::Plain(_)) = (&up.stream, &pair.down.stream)
        else {
            return Ok(None);
        };
        let Some(mut tube) = self.tubes.take() else {
            return Ok(None);
        };
        let filled = match tube.fill(from, pair.answers.passing()) {
            Ok(filled) => filled,
            Err(error) if is_refusal(&error) => {
                self.tubes.refuse(tube);
                return Ok(None);
            }
            Err(error) => {
                self.tubes.put_back(tube);
                return Err(PairCloseReason::broker(error));
            }
        };
        let count = filled.unwrap_or(0);
        let input = Input {
            count,
            // Whether there is more is not known before it has been tried.
            drained: filled.is_none(),
            ended: filled == Some(0),
        };
        self.note_read(pair, input, false);
        if count == 0 {
            self.tubes.put_back(tube);
            return Ok(Some(false));
        }
        self.counters.passed_bytes += count as u64;
        pair.answers.passed(count);
        pair.tube = Some(tube);
        self.drain_pipe(pair)?;
        self.counters.blocked += u64::from(pair.down.blocked);
        // Answers that are here already may come next.
        pair.answers.ready(&mut pair.ring, &mut self.segments);
        self.send_down(pair, &[])?;
        Ok(Some(true))
    }

    /// Gives the client what is in the tube, as far as it takes it; whether it took all.
    pub(super) fn drain_pipe(&mut self, pair: &mut Pair) -> Result<bool, PairCloseReason> {
        let (Some(tube), SocketStream::Plain(to)) = (&mut pair.tube, &pair.down.stream) else {
            return Ok(false);
        };
        self.counters.writes += 1;
        tube.drain(to).map_err(PairCloseReason::client)?;
        pair.down.blocked = tube.held() > 0;
        if pair.down.blocked {
            return Ok(false);
        }
        if let Some(tube) = pair.tube.take() {
            self.tubes.put_back(tube);
        }
        Ok(true)
    }

    /// How much of answers to read into the buffer.
    pub(super) fn answer_bytes_at_once(&self, pair: &Pair) -> usize {
        let is_plain = pair.down.stream.is_plain() && pair.up.is_plain();
        if is_plain && pair.answers.expects_large() && self.tubes.has_any() {
            return FRONT_BYTES;
        }
        bytes_at_once(pair.down.caution).min(self.turn_limits.read_bytes)
    }
}
