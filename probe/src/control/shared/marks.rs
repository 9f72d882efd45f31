//! Makes marks on the memory bus at regular intervals. A mark is a moment that is both in the
//! card's trace and in the log.
//!
//! [`CardRegisters`] makes the accesses of a mark. Successive marks use successive registers for
//! free use, so a mark that is missing in the trace or in the log is noticed.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use hmtt_files::tag_log::Mark;
use hmtt_format::config::MARK_FREE_FIRST;
use hmtt_format::control::{Control, Registers};

use super::clock;
use super::registers::CardRegisters;
use super::window::CardWindow;
use crate::control::TagError;

/// Where and how often marks are made.
#[derive(Clone, Debug)]
pub struct MarkOutput {
    /// The card's configuration registers: a device or another file.
    pub window: CardWindow,
    /// Time from one mark to the next.
    pub every: Duration,
}

/// A thread that makes marks.
#[derive(Debug)]
pub struct MarkThread {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl MarkThread {
    /// Starts the thread. The first mark has been made on return.
    ///
    /// # Errors
    /// [`TagError::Window`] if the window cannot be used or mapped, [`TagError::Log`] if the thread
    /// cannot be started.
    pub fn start(
        output: &MarkOutput,
        mut on_mark: impl FnMut(Mark) + Send + 'static,
    ) -> Result<Self, TagError> {
        let MarkOutput { window, every } = output;
        let (operation, path) = ("make marks in", &output.window.path);
        let failed = |source| TagError::Log { operation, path: path.clone(), source };
        let registers = CardRegisters::map(window, Registers::DEFAULT)?;
        let (stop, stopped) = channel();
        let every = *every;
        on_mark(mark(&registers, 0));
        let run = move || run(&registers, every, &stopped, on_mark);
        let thread = Builder::new().spawn(run).map_err(failed)?;
        Ok(MarkThread { stop, thread })
    }

    /// Makes a last mark, and ends the thread.
    pub fn finish(self) {
        drop(self.stop);
        // The thread has reported its last mark, or has panicked.
        let _ = self.thread.join();
    }
}

fn run(
    registers: &CardRegisters,
    every: Duration,
    stopped: &Receiver<()>,
    mut on_mark: impl FnMut(Mark),
) {
    for number in (0..=u8::MAX).cycle().skip(1) {
        let is_last = stopped.recv_timeout(every) != Err(RecvTimeoutError::Timeout);
        on_mark(mark(registers, number));
        if is_last {
            return;
        }
    }
}

/// Makes a mark with a register for free use. Returns the register, and the times before and after
/// the mark.
fn mark(registers: &CardRegisters, number: u8) -> Mark {
    let tsc_before = clock::tsc();
    registers.send(Control::Mark(number));
    let register = u32::from(MARK_FREE_FIRST) + u32::from(number);
    Mark { register, tsc_before, tsc_after: clock::tsc_behind() }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    const BYTES: u64 = Registers::DEFAULT.bytes();

    fn window(bytes: u64, offset: u64) -> (tempfile::NamedTempFile, MarkOutput) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(bytes).unwrap();
        let window = CardWindow { path: file.path().into(), offset, bytes: None };
        (file, MarkOutput { window, every: Duration::from_micros(100) })
    }

    #[test]
    fn marks_cycle_through_registers_and_do_not_overlap() {
        let (_file, output) = window(3 * BYTES, 2 * BYTES);
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&recorded);
        let marking =
            MarkThread::start(&output, move |mark| to.lock().unwrap().push(mark)).unwrap();
        while recorded.lock().unwrap().len() < 300 {
            std::thread::yield_now();
        }
        marking.finish();
        let recorded = recorded.lock().unwrap();
        for (at, mark) in recorded.iter().enumerate() {
            assert_eq!(mark.register, 0x100 + at as u32 % 256);
            assert!(mark.tsc_before < mark.tsc_after, "{mark:?}");
        }
        assert!(recorded.is_sorted_by(|one, other| one.tsc_after <= other.tsc_before));
    }

    #[test]
    fn registers_behind_the_end_of_the_file_are_refused() {
        let (_file, output) = window(2 * BYTES, 2 * BYTES);
        assert!(matches!(MarkThread::start(&output, |_| {}), Err(TagError::Window(_))));
    }
}
