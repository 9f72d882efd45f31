//! Encodes row groups on a separate thread. Encoding takes longer than decoding a capture, so the
//! two run in parallel.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::writer::SerializedFileWriter;

use super::columns::Columns;
use super::row_group::RowGroup;

/// Maximum number of row groups that wait for the encoder.
const WAITING: usize = 1;

/// A row group to be encoded, and the number of its session.
type Job = (u32, RowGroup);

/// The thread that encodes, and the channels to and from it.
pub(super) struct Encoder<W: Write + Send> {
    /// Sender of row groups; `None` after the last group was sent.
    jobs: Option<SyncSender<Job>>,
    /// Receiver of written groups. Their memory is reused.
    written: Receiver<RowGroup>,
    thread: Option<JoinHandle<Result<SerializedFileWriter<W>>>>,
}

impl<W: Write + Send + 'static> Encoder<W> {
    /// Starts the thread. Fails if the system allows no more threads.
    pub fn start(file: SerializedFileWriter<W>, columns: Columns) -> Result<Self> {
        let (jobs, waiting) = sync_channel(WAITING);
        let (done, written) = channel();
        let work = move || encode(file, columns, &waiting, &done);
        let thread = std::thread::Builder::new().name("parquet".into()).spawn(work)?;
        Ok(Encoder { jobs: Some(jobs), written, thread: Some(thread) })
    }

    /// Sends the group to the encoder, and replaces it by an empty group of the same session. Waits
    /// if [`WAITING`] groups wait already.
    pub fn write(&mut self, session: u32, group: &mut RowGroup) -> Result<()> {
        let next = self.written.try_recv().unwrap_or_default();
        let full = group.replace(next);
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send((session, full)).is_ok());
        // The thread only ends before its last job if an error has occurred.
        if sent { Ok(()) } else { Err(self.finish().err().unwrap_or_else(stopped)) }
    }

    /// Waits until all groups are written, and returns the file.
    pub fn finish(&mut self) -> Result<SerializedFileWriter<W>> {
        self.jobs = None;
        let result = self.thread.take().map(JoinHandle::join);
        result.ok_or_else(stopped)?.map_err(|_| stopped())?
    }
}

/// The error that the thread has ended without a result.
fn stopped() -> ParquetError {
    ParquetError::General("the encoder has stopped".into())
}

/// The work of the thread: writes row groups to the file until the channel is closed.
fn encode<W: Write + Send>(
    mut file: SerializedFileWriter<W>,
    mut columns: Columns,
    jobs: &Receiver<Job>,
    done: &std::sync::mpsc::Sender<RowGroup>,
) -> Result<SerializedFileWriter<W>> {
    for (session, mut group) in jobs {
        let mut output = file.next_row_group()?;
        columns.write(&mut output, session, &group)?;
        output.close()?;
        group.clear();
        // The receiver is gone if the encoder was dropped.
        let _ = done.send(group);
    }
    Ok(file)
}
