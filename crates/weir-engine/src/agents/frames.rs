//! Frames between coordinator and agent: sessions that share one connection.
//!
//! A session is a process `weir agent --stdio` on the agent's machine. Its input, output and log
//! are streams of bytes in frames, as in a connection with ssh.

use std::io;
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::channel::Channel;
use crate::session::sha256;

/// Kind of a frame; its number is the first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// First frame of an agent: an [`AgentHello`].
    Hello,
    /// The coordinator has accepted the agent.
    Accepted,
    /// The coordinator has rejected the agent; the reason as text.
    Rejected,
    /// Start of a session, from the coordinator.
    Open,
    /// Input of a session; empty: its end.
    Input,
    /// Output of a session.
    Output,
    /// Log of a session.
    Log,
    /// End of a session: four bytes with the exit code of its process, -1 after a signal.
    SessionEnded,
    /// Heartbeat, from both ends.
    Heartbeat,
    /// End of the run, from the coordinator.
    RunEnd,
}

impl FrameKind {
    const ALL: [Self; 10] = [
        Self::Hello,
        Self::Accepted,
        Self::Rejected,
        Self::Open,
        Self::Input,
        Self::Output,
        Self::Log,
        Self::SessionEnded,
        Self::Heartbeat,
        Self::RunEnd,
    ];
}

/// Message of a session, or of the connection with session 0.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    pub(super) session: u32,
    pub(super) data: Vec<u8>,
}

/// Description of an agent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AgentHello {
    pub(super) token: String,
    /// Name in the inventory.
    pub(super) machine: String,
    /// Version of the program.
    pub(super) version: String,
    /// SHA-256 of the program in hexadecimal digits; both ends must run the same.
    pub(super) sha256: String,
}

impl AgentHello {
    pub(super) fn new(token: &str, machine: &str, program: &Path) -> io::Result<Self> {
        Ok(Self {
            token: token.to_owned(),
            machine: machine.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sha256: sha256(program)?,
        })
    }
}

impl Channel {
    /// Sends a frame with at most [`DATA_BYTES_MAX`] bytes.
    pub(super) fn send(&self, kind: FrameKind, session: u32, data: &[u8]) -> io::Result<()> {
        let mut frame = Vec::with_capacity(HEADER_BYTES + data.len());
        frame.push(kind as u8);
        frame.extend_from_slice(&session.to_be_bytes());
        let length = u32::try_from(data.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(data);
        self.write(&frame)
    }

    /// Sends data of a session in frames.
    pub(super) fn send_all(&self, kind: FrameKind, session: u32, data: &[u8]) -> io::Result<()> {
        data.chunks(DATA_BYTES_MAX)
            .try_for_each(|piece| self.send(kind, session, piece))
    }

    /// Reads a frame. Returns `None` after `close_notify` of the peer.
    pub(super) fn receive(&self) -> io::Result<Option<Frame>> {
        self.receive_with(|| Ok(()))
    }

    /// Reads a frame that must be complete at `deadline`.
    pub(super) fn receive_until(&self, deadline: Instant) -> io::Result<Option<Frame>> {
        self.receive_with(|| self.set_deadline(deadline))
    }

    fn receive_with(&self, before: impl Fn() -> io::Result<()>) -> io::Result<Option<Frame>> {
        let mut header = [0; HEADER_BYTES];
        if !self.fill(&mut header, &before)? {
            return Ok(None);
        }
        let [kind, s0, s1, s2, s3, l0, l1, l2, l3] = header;
        let known = FrameKind::ALL.into_iter().find(|it| *it as u8 == kind);
        let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        let (Some(kind), true) = (known, length <= DATA_BYTES_MAX) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut data = vec![0; length];
        if !self.fill(&mut data, &before)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(Frame {
            kind,
            session: u32::from_be_bytes([s0, s1, s2, s3]),
            data,
        }))
    }

    /// Fills a buffer. Returns `false` if the peer closed the connection before the first byte.
    fn fill(&self, buffer: &mut [u8], before: &impl Fn() -> io::Result<()>) -> io::Result<bool> {
        let mut filled = 0;
        while filled < buffer.len() {
            before()?;
            match self.read(&mut buffer[filled..])? {
                0 if filled == 0 => return Ok(false),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => filled += count,
            }
        }
        Ok(true)
    }
}

const HEADER_BYTES: usize = 9;
/// Maximum data of a frame. A longer one ends the connection.
pub(super) const DATA_BYTES_MAX: usize = 16 << 10;
