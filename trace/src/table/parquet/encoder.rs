//! Row groups to the file, on a thread of their own: encoding takes longer than decoding a capture, so
//! the two run side by side.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::writer::SerializedFileWriter;

use super::columns::Columns;
use super::row_group::RowGroup;

/// Row groups that may wait for the encoder.
const WAITING: usize = 1;

/// A row group and the number of its capture.
type Job = (u32, RowGroup);

/// The thread that encodes.
pub(super) struct Encoder<W: Write + Send> {
    /// None once the last row group is on its way.
    jobs: Option<SyncSender<Job>>,
    /// Groups that have been written, whose memory is used again.
    written: Receiver<RowGroup>,
    thread: Option<JoinHandle<Result<SerializedFileWriter<W>>>>,
}

impl<W: Write + Send + 'static> Encoder<W> {
    /// Starts the thread.
    pub fn start(file: SerializedFileWriter<W>, columns: Columns) -> Result<Self> {
        let (jobs, waiting) = sync_channel(WAITING);
        let (done, written) = channel();
        let work = move || encode(file, columns, &waiting, &done);
        let thread = std::thread::Builder::new().name("parquet".into()).spawn(work)?;
        Ok(Encoder { jobs: Some(jobs), written, thread: Some(thread) })
    }

    /// Writes the group and leaves an empty one that goes on from it.
    pub fn write(&mut self, capture: u32, group: &mut RowGroup) -> Result<()> {
        let next = self.written.try_recv().unwrap_or_default();
        let full = group.replace(next);
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send((capture, full)).is_ok());
        // The thread ends before its jobs do only with an error.
        if sent { Ok(()) } else { Err(self.finish().err().unwrap_or_else(stopped)) }
    }

    /// Waits until all is written.
    pub fn finish(&mut self) -> Result<SerializedFileWriter<W>> {
        self.jobs = None;
        let result = self.thread.take().map(JoinHandle::join);
        result.ok_or_else(stopped)?.map_err(|_| stopped())?
    }
}

fn stopped() -> ParquetError {
    ParquetError::General("the encoder has stopped".into())
}

fn encode<W: Write + Send>(
    mut file: SerializedFileWriter<W>,
    mut columns: Columns,
    jobs: &Receiver<Job>,
    done: &std::sync::mpsc::Sender<RowGroup>,
) -> Result<SerializedFileWriter<W>> {
    for (capture, mut group) in jobs {
        let mut output = file.next_row_group()?;
        columns.write(&mut output, capture, &group)?;
        output.close()?;
        group.clear();
        // Nobody wants it back at the end.
        let _ = done.send(group);
    }
    Ok(file)
}
