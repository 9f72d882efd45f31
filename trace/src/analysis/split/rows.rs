//! Divides the rows of a batch by group.

use super::super::Batch;

/// Memory that is reused: the columns of a group's accesses, and the order of rows.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    order: Vec<(usize, usize)>,
    addresses: Vec<u64>,
    writes: Vec<bool>,
    clocks: Vec<u64>,
    sizes: Vec<u32>,
    instructions: Vec<u64>,
}

fn gather<T: Copy>(to: &mut Vec<T>, from: Option<&[T]>, rows: &[(usize, usize)]) {
    to.clear();
    if let Some(from) = from {
        to.extend(rows.iter().map(|(_, row)| from[*row]));
    }
}

impl Rows {
    /// Calls `to` with each group that has accesses in the batch, and with the group's accesses in
    /// their order. `group_of`: returns the group of a row.
    pub fn each_group(
        &mut self,
        batch: &Batch<'_>,
        group_of: impl FnMut(usize) -> usize,
        mut to: impl FnMut(usize, &Batch<'_>),
    ) {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend((0..batch.len()).map(group_of).zip(0..));
        // The rows of one group keep their order, because each pair has the group first and the row
        // second.
        order.sort_unstable();
        for rows in order.chunk_by(|row, next| row.0 == next.0) {
            let group = rows[0].0;
            if rows.len() == batch.len() {
                to(group, batch);
                continue;
            }
            gather(&mut self.addresses, Some(batch.addresses()), rows);
            gather(&mut self.writes, Some(batch.writes()), rows);
            gather(&mut self.clocks, batch.clocks(), rows);
            gather(&mut self.sizes, batch.sizes(), rows);
            gather(&mut self.instructions, batch.instructions(), rows);
            to(group, &self.batch(batch));
        }
        self.order = order;
    }

    /// The gathered columns, with the unit and the thread of the batch.
    fn batch<'r>(&'r self, batch: &Batch<'r>) -> Batch<'r> {
        let columns = Batch::new(&self.addresses, &self.writes)
            .with_clocks(&self.clocks)
            .with_sizes(&self.sizes)
            .with_instructions(&self.instructions)
            .with_unit(batch.unit_bytes());
        batch.thread().map_or(columns, |thread| columns.with_thread(thread))
    }
}
