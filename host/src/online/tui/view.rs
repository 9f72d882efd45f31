//! Seconds and keys to what a screen shows.

use std::collections::VecDeque;

use hmtt_format::PhysAddr;

use crate::online::activity::HotPage;
use crate::online::second::Second;

/// Seconds the chart goes back.
pub(super) const HISTORY: usize = 300;

/// A key that means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// End the capture.
    Quit,
    /// Stop or go on showing what comes.
    Pause,
    /// Another quantity in the chart.
    NextUnit,
    /// The one before.
    PreviousUnit,
    /// Another order of pages.
    NextOrder,
}

/// What the user wants of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Nothing.
    None,
    /// That it ends.
    Stop,
}

/// What the chart shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Unit {
    #[default]
    Accesses,
    Bytes,
    Frames,
}

impl Unit {
    const ALL: [Unit; 3] = [Unit::Accesses, Unit::Bytes, Unit::Frames];

    pub fn name(self) -> &'static str {
        match self {
            Unit::Accesses => "acc/s",
            Unit::Bytes => "B/s",
            Unit::Frames => "frames/s",
        }
    }

    fn after(self, steps: usize) -> Unit {
        Unit::ALL[(self as usize + steps) % Unit::ALL.len()]
    }
}

/// How pages are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Accesses,
    Address,
}

/// The rates of a second of the past.
#[derive(Clone, Copy, Debug)]
struct Past {
    elapsed: f64,
    rates: [f64; Unit::ALL.len()],
}

/// What has come, and so what is shown.
#[derive(Clone, Debug, Default)]
struct Content {
    latest: Option<Second>,
    history: VecDeque<Past>,
}

/// All that a screen shows.
#[derive(Clone, Debug, Default)]
pub struct View {
    content: Content,
    /// What is shown while the display is paused.
    frozen: Option<Box<Content>>,
    pub(super) unit: Unit,
    pub(super) order: Order,
}

impl View {
    /// Takes note of a second.
    pub fn push(&mut self, second: Second) {
        let rates = &second.rates;
        let rates = [rates.accesses, rates.moved_bytes, rates.frames];
        self.content.history.push_back(Past { elapsed: second.elapsed, rates });
        if self.content.history.len() > HISTORY {
            self.content.history.pop_front();
        }
        self.content.latest = Some(second);
    }

    /// Does what a key means here; what it means to the capture comes back.
    pub fn key(&mut self, key: Key) -> Request {
        match key {
            Key::Quit => return Request::Stop,
            Key::Pause => {
                self.frozen = match self.frozen {
                    Some(_) => None,
                    None => Some(Box::new(self.content.clone())),
                };
            }
            Key::NextUnit => self.unit = self.unit.after(1),
            Key::PreviousUnit => self.unit = self.unit.after(Unit::ALL.len() - 1),
            Key::NextOrder => {
                self.order = match self.order {
                    Order::Accesses => Order::Address,
                    Order::Address => Order::Accesses,
                };
            }
        }
        Request::None
    }

    pub(super) fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    fn shown(&self) -> &Content {
        self.frozen.as_deref().unwrap_or(&self.content)
    }

    /// The second that is shown, if any has come.
    pub(super) fn second(&self) -> Option<&Second> {
        self.shown().latest.as_ref()
    }

    /// Seconds before the one that is shown, 0 or below, and the rate then.
    pub(super) fn rates(&self) -> Vec<(f64, f64)> {
        let shown = self.shown();
        let now = shown.history.back().map_or(0.0, |past| past.elapsed);
        let rates = shown.history.iter();
        rates.map(|past| (past.elapsed - now, past.rates[self.unit as usize])).collect()
    }

    /// The hot pages in the order that is wanted.
    pub(super) fn hot_pages(&self) -> Vec<HotPage> {
        let pages = self.second().map(|second| second.memory.hot_pages.as_slice());
        let mut pages = pages.unwrap_or_default().to_vec();
        if self.order == Order::Address {
            pages.sort_by_key(|page: &HotPage| -> (usize, PhysAddr) { (page.link, page.address) });
        }
        pages
    }
}
