//! Seconds of a capture to a full screen that is rewritten with each.
//!
//! [`View`] is what is shown and what keys do to it, and touches no terminal; [`Screen`] is the
//! terminal, which is restored however the program ends.

mod draw;
mod screen;
mod view;

pub use screen::Screen;
pub use view::{Key, Request, View};
