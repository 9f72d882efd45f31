//! Displays a capture on the full screen of a terminal, updated every second.
//!
//! [`View`] is the state of the display; it handles keys and does not use a terminal. [`Screen`] is
//! the terminal, which is restored when the program ends.

mod drawing;
mod screen;
mod view;

pub use screen::Screen;
pub use view::{Key, Request, View};
