//! Writes the signals of a simulated card to a VCD file (IEEE 1364 clause 18), at each edge.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use rust_hdl::core::vcd_probe::VCDProbe;
use rust_hdl::prelude::*;

/// Writer of a VCD file, and its first error.
type Outlet = (Box<dyn Write>, Option<io::Error>);

/// A writer that never fails but keeps the first error, because rust-hdl's probe panics when a
/// write fails.
#[derive(Clone)]
struct Patient {
    inner: Rc<RefCell<Outlet>>,
}

impl Patient {
    fn keep(&self, operation: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        let (writer, failed) = &mut *self.inner.borrow_mut();
        if failed.is_none() {
            *failed = operation(writer).err();
        }
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.keep(|writer| writer.write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.keep(|writer| writer.flush());
        Ok(())
    }
}

/// A VCD file being written.
pub struct Waves {
    probe: Option<VCDProbe<Patient>>,
    writer: Patient,
    last_ps: u64,
}

impl Waves {
    /// Writes the header and the levels of a settled card.
    pub fn new(writer: Box<dyn Write>, card: &dyn Block) -> Self {
        let writer = Patient { inner: Rc::new(RefCell::new((writer, None))) };
        let mut probe = write_vcd_header(writer.clone(), card);
        let _ = probe.timestamp(0);
        Waves { probe: Some(write_vcd_dump(probe, card)), writer, last_ps: 0 }
    }

    /// Writes the changes at `time_ps`. An earlier time than the last one counts as the last one.
    pub fn at(&mut self, time_ps: u64, card: &dyn Block) {
        self.probe = self.probe.take().map(|mut probe| {
            if time_ps > self.last_ps {
                self.last_ps = time_ps;
                let _ = probe.timestamp(time_ps);
            }
            write_vcd_change(probe, card)
        });
    }

    /// Flushes; returns the first error of all writes.
    pub fn finish(self) -> io::Result<()> {
        drop(self.probe);
        let (mut writer, failed) = {
            let mut inner = self.writer.inner.borrow_mut();
            (std::mem::replace(&mut inner.0, Box::new(io::sink())), inner.1.take())
        };
        failed.map_or_else(|| writer.flush(), Err)
    }
}
