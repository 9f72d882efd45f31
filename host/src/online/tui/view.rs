//! Keeps the state of the display: the seconds of a capture, and the settings that keys change.

use std::collections::VecDeque;

use hmtt_format::PhysAddr;

use crate::online::activity::HotPage;
use crate::online::second::Second;

/// Number of seconds that the chart can show.
pub(super) const HISTORY: usize = 300;

/// A key with a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Ends the capture.
    Quit,
    /// Pauses the display, or resumes it.
    Pause,
    /// Selects the next quantity of the chart.
    NextUnit,
    /// Selects the previous quantity of the chart.
    PreviousUnit,
    /// Selects the other order of pages.
    NextOrder,
}

/// Request of the user to the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// No request.
    None,
    /// End the capture.
    Stop,
}

/// Quantity of the chart.
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

/// Order of the hot pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Accesses,
    Address,
}

/// Rates of one second, for the chart.
#[derive(Clone, Copy, Debug)]
struct RatePoint {
    elapsed: f64,
    rates: [f64; Unit::ALL.len()],
}

/// Data that is displayed.
#[derive(Clone, Debug, Default)]
struct Content {
    latest: Option<Second>,
    history: VecDeque<RatePoint>,
}

/// State of the display.
#[derive(Clone, Debug, Default)]
pub struct View {
    content: Content,
    /// Data that is displayed while the display is paused.
    frozen: Option<Box<Content>>,
    pub(super) unit: Unit,
    pub(super) order: Order,
}

impl View {
    /// Adds a second.
    pub fn push(&mut self, second: Second) {
        let rates = &second.rates;
        let rates = [rates.accesses, rates.access_bytes, rates.frames];
        self.content.history.push_back(RatePoint { elapsed: second.elapsed_seconds, rates });
        if self.content.history.len() > HISTORY {
            self.content.history.pop_front();
        }
        self.content.latest = Some(second);
    }

    /// Handles a key. Returns the request to the capture.
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

    /// The second that is displayed; `None` before the first.
    pub(super) fn second(&self) -> Option<&Second> {
        self.shown().latest.as_ref()
    }

    /// Points of the chart: time relative to the displayed second, 0 or negative, and the rate.
    pub(super) fn rates(&self) -> Vec<(f64, f64)> {
        let shown = self.shown();
        let now = shown.history.back().map_or(0.0, |point| point.elapsed);
        let rates = shown.history.iter();
        rates.map(|point| (point.elapsed - now, point.rates[self.unit as usize])).collect()
    }

    /// Hot pages in the selected order.
    pub(super) fn hot_pages(&self) -> Vec<HotPage> {
        let pages = self.second().map(|second| second.activity.hot_pages.as_slice());
        let mut pages = pages.unwrap_or_default().to_vec();
        if self.order == Order::Address {
            pages.sort_by_key(|page: &HotPage| -> (usize, PhysAddr) { (page.link, page.address) });
        }
        pages
    }
}
