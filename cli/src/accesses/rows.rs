//! `hmtt rows`: counts the accesses of each bank, and whether an access is to the same row as the
//! bank's previous access.

use std::io::{self, Write};

use anyhow::Result;
use hmtt::analysis::Analysis;
use hmtt::analysis::rows::{BankRows, MemoryRows, Outcomes, Rows};
use serde_json::json;

use super::figures::{counted, share};
use super::input::analyse;
use super::options::Options;
use super::output::{Forms, line, write};

/// Print how banks are used, and which part of accesses is to the row of its bank's last access
#[derive(clap::Args)]
#[command(
    after_help = "Banks and rows are those of the memory that a capture describes. Accesses to the same row are row hits, unless the row was closed in between, which only the card sees (hmtt analysis)."
)]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
}

/// Runs the command. Returns whether a file or the map of pages is incomplete.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let (analysis, files) = analyse(&arguments.options, "hmtt rows", Rows::default())?;
    let memories = analysis.result();
    let rows = |output: &mut dyn Write| {
        memories.iter().try_for_each(|memory| {
            memory.banks.iter().try_for_each(|bank_rows| {
                let BankRows { rank, bank, accesses, outcomes, .. } = bank_rows;
                let Outcomes { same_row_accesses, other_row_accesses, first_accesses } = outcomes;
                writeln!(
                    output,
                    "{},{rank},{bank},{accesses},{same_row_accesses},{other_row_accesses},{first_accesses}",
                    memory.source
                )
            })
        })
    };
    let text = |output: &mut dyn Write| {
        memories.iter().try_for_each(|memory| {
            if memories.len() > 1 {
                line(output, "memory", &format!("source {}", memory.source))?;
            }
            write_text(memory, output)
        })
    };
    let heading = "source,rank,bank,accesses,same_row_accesses,other_row_accesses,first_accesses";
    let json = json!(memories);
    write(
        &arguments.options,
        files,
        Forms { name: "rows", json, heading, rows: &rows, text: &text },
    )
}

/// Writes the sums over all banks of a memory.
pub fn write_sums(memory: &MemoryRows, output: &mut dyn Write) -> io::Result<()> {
    let total = memory.outcomes.accesses();
    let of_all = |part: u64| format!("{part} ({})", share(part as f64, total));
    if memory.unmapped_accesses > 0 {
        let value = format!("not known of {}", counted(memory.unmapped_accesses, "access"));
        line(output, "banks and rows", &format!("{value}: no memory is described"))?;
    }
    if total == 0 {
        return Ok(());
    }
    line(output, "banks", &memory.banks.len().to_string())?;
    line(output, "to the same row", &of_all(memory.outcomes.same_row_accesses))?;
    line(output, "to another row", &of_all(memory.outcomes.other_row_accesses))?;
    line(output, "row before not known", &of_all(memory.outcomes.first_accesses))
}

fn write_text(memory: &MemoryRows, output: &mut dyn Write) -> io::Result<()> {
    write_sums(memory, output)?;
    if memory.banks.is_empty() {
        return Ok(());
    }
    let total = memory.outcomes.accesses();
    writeln!(
        output,
        "\n{:>4}  {:>4}  {:>14}  {:>9}  {:>9}  {:>11}  {:>9}",
        "rank", "bank", "accesses", "of all", "same row", "another row", "not known"
    )?;
    for BankRows { rank, bank, accesses, outcomes, .. } in &memory.banks {
        let Outcomes { same_row_accesses, other_row_accesses, first_accesses } = *outcomes;
        let [same, other, first] = [same_row_accesses, other_row_accesses, first_accesses]
            .map(|part| share(part as f64, *accesses));
        let part = share(*accesses as f64, total);
        writeln!(
            output,
            "{rank:>4}  {bank:>4}  {accesses:>14}  {part:>9}  {same:>9}  {other:>11}  {first:>9}"
        )?;
    }
    Ok(())
}
