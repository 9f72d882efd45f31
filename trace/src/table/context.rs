//! Completes records with the values that the card's last report determines: the addresses of tags
//! and the lengths of slices.

use hmtt_format::Event;

use crate::decode::Item;

/// The settings of a card's last report that are needed to interpret records.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Context {
    tag_window: Option<u64>,
    tck_ps: Option<u32>,
}

impl Context {
    /// Stores the settings of a report. A restart of the card discards them.
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

    /// The event, with the address of a tag or the length of a slice if the report determines it.
    pub fn complete(&self, event: Event) -> Event {
        event.with_settings(self.tag_window, self.tck_ps)
    }
}
