//! The receiver.
