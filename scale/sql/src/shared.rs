//! Counts what a query reads, and keeps messages about its sources.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Counts and messages that all modules of an engine share.
#[derive(Debug, Default)]
pub struct Shared {
    bytes_read: AtomicU64,
    bytes_chosen: AtomicU64,
    bytes_total: AtomicU64,
    parts_chosen: AtomicU64,
    parts_total: AtomicU64,
    chosen: Mutex<BTreeSet<PathBuf>>,
    messages: Mutex<Vec<String>>,
    missing: AtomicU64,
    damage_advice: &'static str,
}

/// Amounts that were read for the queries of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes read from parts and captures.
    pub bytes_read: u64,
    /// Bytes of the parts that were not excluded by their partition, and of the captures.
    pub bytes_chosen: u64,
    /// Bytes of all parts of the tables, and of the captures.
    pub bytes_total: u64,
    /// Parts and captures that were not excluded by their partition.
    pub parts_chosen: u64,
    /// All parts of the tables, and the captures.
    pub parts_total: u64,
}

impl Shared {
    /// Creates empty counts and messages. `damage_advice`: advice in messages about damaged parts.
    pub fn new(damage_advice: &'static str) -> Self {
        Shared { damage_advice, ..Shared::default() }
    }

    /// Advice in messages about damaged parts.
    pub fn damage_advice(&self) -> &'static str {
        self.damage_advice
    }

    /// Counts bytes that were read.
    pub fn read(&self, bytes: u64) {
        self.bytes_read.fetch_add(bytes, Relaxed);
    }

    /// Notes a part or a capture of a table, and whether it is chosen. `path`: set if it is a file.
    pub fn note(&self, path: Option<PathBuf>, bytes: u64, is_chosen: bool) {
        self.parts_total.fetch_add(1, Relaxed);
        self.bytes_total.fetch_add(bytes, Relaxed);
        if is_chosen {
            self.parts_chosen.fetch_add(1, Relaxed);
            self.bytes_chosen.fetch_add(bytes, Relaxed);
            self.chosen.lock().unwrap_or_else(PoisonError::into_inner).extend(path);
        }
    }

    /// The files of parts and captures that were chosen.
    pub fn chosen(&self) -> Vec<PathBuf> {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Adds a message for the user. Equal messages are kept once.
    pub fn message(&self, message: String) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if !messages.contains(&message) {
            messages.push(message);
        }
    }

    /// Adds a message that a part or capture was left out.
    pub fn missing(&self, message: String) {
        self.missing.fetch_add(1, Relaxed);
        self.message(message);
    }

    /// Returns the messages, and removes them.
    pub fn take_messages(&self) -> Vec<String> {
        std::mem::take(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a part or capture was left out.
    pub fn is_missing(&self) -> bool {
        self.missing.load(Relaxed) > 0
    }

    /// The amounts that were read so far.
    pub fn counts(&self) -> Counts {
        Counts {
            bytes_read: self.bytes_read.load(Relaxed),
            bytes_chosen: self.bytes_chosen.load(Relaxed),
            bytes_total: self.bytes_total.load(Relaxed),
            parts_chosen: self.parts_chosen.load(Relaxed),
            parts_total: self.parts_total.load(Relaxed),
        }
    }

    /// Resets the counts, and removes the list of chosen files.
    pub fn restart(&self) {
        let counts = [
            &self.bytes_read,
            &self.bytes_chosen,
            &self.bytes_total,
            &self.parts_chosen,
            &self.parts_total,
        ];
        counts.into_iter().for_each(|count| count.store(0, Relaxed));
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
