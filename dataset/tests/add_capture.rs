//! Adds captures to a data set: `add-capture DIR CAPTURE...`. The tests kill this program.

use std::process::ExitCode;

use hmtt_dataset::{AddOptions, Added, Dataset, DatasetError};

fn add(dataset: &Dataset, capture: &str) -> Result<(), DatasetError> {
    let options = AddOptions { run: "example", receiver: None };
    match dataset.add(capture.as_ref(), &options)? {
        Added::New(summary) => println!("{capture}: {} parts", summary.parts.len()),
        Added::Present => println!("{capture}: in the data set already"),
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("usage: add-capture DIR CAPTURE...");
        return ExitCode::from(2);
    };
    let dataset = Dataset::new(folder);
    match arguments.try_for_each(|capture| add(&dataset, &capture)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
