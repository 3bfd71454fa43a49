//! Memory of responses and decompressed batches, which is used again: new memory of a mebibyte
//! costs more page faults than the copy of its bytes.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buffers that are not in use, of at most `IDLE_BYTES_MAX` bytes together.
#[derive(Default)]
pub(crate) struct BufferPool {
    idle: Mutex<IdleBuffers>,
}

#[derive(Default)]
struct IdleBuffers {
    list: Vec<Vec<u8>>,
    bytes: usize,
}

impl BufferPool {
    /// Returns the idle buffer that was used last, which may contain old bytes, or a new one.
    pub(crate) fn take(self: &Arc<Self>) -> Buffer {
        let mut idle = self.lock();
        let bytes = idle.list.pop().unwrap_or_default();
        idle.bytes -= bytes.capacity();
        drop(idle);
        Buffer {
            bytes,
            pool: Arc::clone(self),
        }
    }

    fn put(&self, bytes: Vec<u8>) {
        let mut idle = self.lock();
        let total = idle.bytes + bytes.capacity();
        if total <= IDLE_BYTES_MAX && idle.list.len() < COUNT_MAX && bytes.capacity() > 0 {
            idle.bytes = total;
            idle.list.push(bytes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, IdleBuffers> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferPool({} idle)", self.lock().list.len())
    }
}

/// Bytes that return to their pool when they are dropped.
pub(crate) struct Buffer {
    pub(crate) bytes: Vec<u8>,
    pool: Arc<BufferPool>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.put(std::mem::take(&mut self.bytes));
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.bytes.len())
    }
}

/// With the default limit of responses that wait, nearly all buffers return here.
const IDLE_BYTES_MAX: usize = 16 << 20;
const COUNT_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_buffers_are_taken_again() {
        let pool = Arc::new(BufferPool::default());
        let mut one = pool.take();
        one.bytes = Vec::with_capacity(5000);
        drop(one);
        assert_eq!(pool.take().bytes.capacity(), 5000);
        let many: Vec<_> = (0..COUNT_MAX + 5)
            .map(|_| {
                let mut buffer = pool.take();
                buffer.bytes = Vec::with_capacity(10);
                buffer
            })
            .collect();
        drop(many);
        assert_eq!(pool.lock().list.len(), COUNT_MAX);
    }

    #[test]
    fn idle_bytes_are_bounded() {
        let pool = Arc::new(BufferPool::default());
        let many: Vec<_> = (0..10)
            .map(|_| {
                let mut buffer = pool.take();
                buffer.bytes = Vec::with_capacity(4 << 20);
                buffer
            })
            .collect();
        drop(many);
        let idle = pool.lock();
        let held: usize = idle.list.iter().map(Vec::capacity).sum();
        assert_eq!((held, idle.bytes), (16 << 20, 16 << 20));
        drop(idle);
        drop(pool.take());
        let taken: Vec<_> = (0..5).map(|_| pool.take()).collect();
        assert_eq!(pool.lock().bytes, 0);
        assert_eq!(taken.iter().filter(|it| it.bytes.capacity() > 0).count(), 4);
    }
}
