//! Removes results from the folder of an executor: `JOB/STAGE/...`.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use ballista_executor::executor_process::satisfy_dir_ttl;
use tonic::Status;

use crate::plan_check::check_job;

/// Age in seconds at which results are removed that no query has removed.
const RESULT_AGE_S: u64 = 24 * 3600;
/// Time between two searches for such results.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(600);

/// Removes the results of some stages of a job; without stages, the results of all stages.
///
/// # Errors
/// The name of the job is not valid, or a result cannot be removed.
pub async fn remove(folder: &str, job: &str, stages: &[u32]) -> Result<(), Status> {
    check_job(job).map_err(|error| Status::invalid_argument(error.strip_backtrace()))?;
    let job = Path::new(folder).join(job);
    let folders = match stages {
        [] => vec![job],
        stages => stages.iter().map(|stage| job.join(stage.to_string())).collect(),
    };
    for folder in folders {
        let removed = remove_folder(&folder).await;
        removed.map_err(|error| Status::internal(format!("{}: {error}", folder.display())))?;
    }
    Ok(())
}

async fn remove_folder(path: &Path) -> io::Result<()> {
    match tokio::fs::remove_dir_all(path).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes old results from time to time. Does not end.
pub async fn remove_old(folder: String) {
    loop {
        tokio::time::sleep(CLEANUP_INTERVAL).await;
        if let Err(error) = remove_older(Path::new(&folder), RESULT_AGE_S).await {
            log::error!("{folder}: old results are not removed: {error}");
        }
    }
}

async fn remove_older(folder: &Path, age_s: u64) -> io::Result<()> {
    let mut entries = tokio::fs::read_dir(folder).await?;
    while let Some(entry) = entries.next_entry().await? {
        let path = entry.path();
        // A result may be removed by others at the same time, which is not an error.
        if matches!(satisfy_dir_ttl(entry, age_s).await, Ok(false)) {
            log::info!("{}: old results are removed", path.display());
            remove_folder(&path).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};

    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn stages_or_all_of_a_job_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        for path in ["work/a/1", "work/a/2", "work/b/1", "other/1"] {
            create_dir_all(folder.path().join(path)).unwrap();
            write(folder.path().join(path).join("data.arrow"), "text").unwrap();
        }
        let remove = |job: &str, stages: &[u32]| run(remove(work.to_str().unwrap(), job, stages));
        remove("a", &[1, 7]).unwrap();
        assert!(!work.join("a/1").exists() && work.join("a/2").exists());
        remove("a", &[]).unwrap();
        remove("a", &[]).unwrap();
        assert!(!work.join("a").exists() && work.join("b").exists());
        for job in ["", ".", "..", "../other", "/", "b/1"] {
            assert_eq!(remove(job, &[]).unwrap_err().code(), tonic::Code::InvalidArgument, "{job}");
            assert!(remove(job, &[1]).is_err());
        }
        assert!(folder.path().join("other/1/data.arrow").exists());
        assert!(work.join("b/1/data.arrow").exists());
    }

    #[test]
    fn only_old_results_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        for (job, age) in [("old", 3600), ("new", 0)] {
            create_dir_all(folder.path().join(job)).unwrap();
            let time = std::time::SystemTime::now() - Duration::from_secs(age);
            let opened = std::fs::File::open(folder.path().join(job)).unwrap();
            opened.set_modified(time).unwrap();
        }
        run(remove_older(folder.path(), 1800)).unwrap();
        assert!(!folder.path().join("old").exists());
        assert!(folder.path().join("new").exists());
    }
}
