//! Buffers for what is built anew for each message and sent once: response and request heads.
//!
//! A head leaves as [`SendBuf::Shared`](thalweg_sys::SendBuf): the connection keeps one reference,
//! the driver the other until the kernel has taken the bytes. After `Sent` the connection's
//! reference is the only one and the buffer can be filled again, so that nothing is allocated per
//! message and an idle connection holds no buffer at all.

use std::rc::Rc;

/// Buffers that wait to be filled again, bounded in number and in bytes.
#[derive(Debug)]
pub struct BufferPool {
    idle: Vec<Rc<Vec<u8>>>,
    idle_max: usize,
    buffer_bytes_max: usize,
}

impl BufferPool {
    /// Keeps at most `idle_max` buffers, none of them larger than `buffer_bytes_max`: one outsize
    /// message does not stay in memory for ever.
    pub fn new(idle_max: usize, buffer_bytes_max: usize) -> Self {
        Self { idle: Vec::with_capacity(idle_max), idle_max, buffer_bytes_max }
    }

    /// An empty buffer without other references: [`Rc::get_mut`] gives access to it.
    pub fn take(&mut self) -> Rc<Vec<u8>> {
        self.idle.pop().unwrap_or_default()
    }

    /// Takes a buffer back. A buffer that is still being sent, because its socket was closed
    /// meanwhile, is dropped instead.
    pub fn put(&mut self, mut buffer: Rc<Vec<u8>>) {
        if self.idle.len() == self.idle_max {
            return;
        }
        if let Some(bytes) = Rc::get_mut(&mut buffer)
            && bytes.capacity() <= self.buffer_bytes_max
        {
            bytes.clear();
            self.idle.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pool: &mut BufferPool, bytes: usize) -> Rc<Vec<u8>> {
        let mut buffer = pool.take();
        Rc::get_mut(&mut buffer).expect("a taken buffer is unique").extend(std::iter::repeat_n(b'x', bytes));
        buffer
    }

    #[test]
    fn a_buffer_comes_back_empty_with_its_memory() {
        let mut pool = BufferPool::new(2, 1024);
        let buffer = filled(&mut pool, 100);
        let address = buffer.as_ptr();
        pool.put(buffer);
        let again = pool.take();
        assert!(again.is_empty());
        assert_eq!(again.as_ptr(), address);
    }

    #[test]
    fn a_buffer_in_use_is_not_given_out() {
        let mut pool = BufferPool::new(2, 1024);
        let sending = filled(&mut pool, 100);
        pool.put(Rc::clone(&sending));
        assert_eq!(Rc::strong_count(&sending), 1);
        assert_eq!(pool.take().capacity(), 0);
    }

    #[test]
    fn retained_memory_is_bounded() {
        let mut pool = BufferPool::new(2, 1024);
        let outsize = filled(&mut pool, 5000);
        pool.put(outsize);
        assert!(pool.idle.is_empty());
        let three = [(); 3].map(|()| filled(&mut pool, 10));
        three.into_iter().for_each(|buffer| pool.put(buffer));
        assert_eq!(pool.idle.len(), 2);
    }
}
