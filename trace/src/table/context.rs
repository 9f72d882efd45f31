//! Interprets records by the card's last report: addresses of tags and lengths of slices.

use hmtt_format::record::TagSource;
use hmtt_format::{Access, Cycles, PhysAddr, config};

use crate::decode::Item;

/// The settings of a card's last report that are needed to interpret records.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Context {
    tag_window: Option<u64>,
    tck_ps: Option<u32>,
}

impl Context {
    /// Stores what a report states; a restart of the card discards it.
    pub fn observe(&mut self, item: &Item) {
        match item {
            Item::Report { report, .. } => {
                self.tag_window = report.tag_window;
                self.tck_ps = Some(report.memory.tck_ps);
            }
            Item::Restart => *self = Context::default(),
            _ => {}
        }
    }

    /// The access of a tag; `None` for marks, and while the window's base is not known.
    pub fn tag_access(&self, clock: Cycles, source: TagSource, value: u32) -> Option<Access> {
        let TagSource::Window(direction) = source else { return None };
        let address = PhysAddr(self.tag_window?.checked_add(u64::from(value))?);
        Some(Access { clock, direction, address })
    }

    /// Length of a slice: `partial` where the record states it, else the length that `code` selects; `None`
    /// while the clock period is not known.
    pub fn slice_length(&self, code: u8, partial: Option<Cycles>) -> Option<Cycles> {
        partial.or_else(|| Some(Cycles(config::slice_clocks(code, self.tck_ps?).into())))
    }
}

/// The name of a mark's register: `kernel_enter`, `kernel_exit` or `free N`.
pub(super) fn mark_name(register: u32) -> String {
    match u16::try_from(register) {
        Ok(config::MARK_KERNEL_ENTER) => "kernel_enter".into(),
        Ok(config::MARK_KERNEL_EXIT) => "kernel_exit".into(),
        Ok(register @ config::MARK_FREE_FIRST..=config::MARK_FREE_LAST) => {
            format!("free {}", register - config::MARK_FREE_FIRST)
        }
        _ => "unknown".into(),
    }
}
