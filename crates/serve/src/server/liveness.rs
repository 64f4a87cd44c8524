//! A question to all loops whether they go round, for a watchdog and for a hand-over that waits
//! until every loop has obeyed.

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use thalweg_sys::Waker;

use super::commands::{CommandQueue, LoopCommand};

/// A liveness check of all loops, and their replies so far. A loop replies in its next iteration.
#[derive(Debug)]
pub struct LivenessCheck {
    answers: Receiver<()>,
    missing: usize,
}

impl LivenessCheck {
    /// Sends the check to all loops.
    pub(super) fn begin(commands: &[CommandQueue], wakers: &[Waker]) -> Self {
        let (done, answers) = mpsc::sync_channel(commands.len());
        for (command_queue, waker) in commands.iter().zip(wakers) {
            command_queue.leave([LoopCommand::Answer(done.clone())], waker);
        }
        Self { answers, missing: commands.len() }
    }

    /// Whether every loop has replied. Does not wait.
    pub fn is_complete(&mut self) -> bool {
        self.missing -= self.answers.try_iter().count();
        self.missing == 0
    }

    /// The number of loops without a reply, after a wait of at most `time` for another reply.
    pub(super) fn missing_after(&mut self, time: Duration) -> usize {
        self.missing -= usize::from(self.answers.recv_timeout(time).is_ok());
        self.missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_complete_when_the_last_loop_has_answered() {
        // Three loops, which may well share one CPU.
        let commands = [(); 3].map(|()| CommandQueue::default());
        let wakers = [(); 3].map(|()| Waker::new().unwrap());
        let mut check = LivenessCheck::begin(&commands, &wakers);
        for (index, queue) in commands.iter().enumerate() {
            assert!(!check.is_complete(), "loop {index} has not answered");
            match &queue.take()[..] {
                [LoopCommand::Answer(done)] => done.send(()).unwrap(),
                other => panic!("{other:?}"),
            }
        }
        assert!(check.is_complete());
        assert!(check.is_complete(), "and stays it");
    }
}
