//! Changes a data set: `change-dataset add DIR CAPTURE...`, `change-dataset compact DIR`. The tests
//! kill this program.

use std::process::ExitCode;

use hmtt_dataset::{AddOptions, Dataset, DatasetError};

fn change(words: &[&str]) -> Result<bool, DatasetError> {
    let options = AddOptions { run: "example", receiver: None };
    match words {
        ["add", folder, captures @ ..] => {
            let dataset = Dataset::new(*folder);
            captures.iter().try_for_each(|path| dataset.add(path.as_ref(), &options).map(drop))?;
        }
        ["compact", folder] => drop(Dataset::open(*folder)?.compact()?),
        _ => return Ok(false),
    }
    Ok(true)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match change(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("usage: change-dataset add DIR CAPTURE... | compact DIR");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
