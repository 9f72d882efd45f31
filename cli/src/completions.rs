//! `hmtt completions` and `hmtt man`: generate shell completions and man pages from the definition
//! of the command line.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap_complete::Shell;

use super::standard_io::print;

/// Print the completions for a shell
#[derive(clap::Args)]
#[command(after_help = "\
bash: hmtt completions bash > ~/.local/share/bash-completion/completions/hmtt
zsh:  hmtt completions zsh > _hmtt, in a folder of $fpath
fish: hmtt completions fish > ~/.config/fish/completions/hmtt.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: ShellName,
    /// The program that is completed
    #[arg(long, value_name = "PROGRAM", default_value = "hmtt")]
    of: String,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
}

/// Write the man pages of all programs and subcommands
#[derive(clap::Args)]
pub struct Man {
    /// Existing directory for the pages; man finds them in a directory man1 of $MANPATH
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
}

/// Prints the completions of one of `programs`.
pub fn complete(arguments: &Completions, programs: Vec<clap::Command>) -> Result<()> {
    let names: Vec<String> = programs.iter().map(|program| program.get_name().to_owned()).collect();
    let program = programs.into_iter().find(|program| program.get_name() == arguments.of);
    let mut program = program.with_context(|| {
        format!("no program is called {}; there are: {}", arguments.of, names.join(", "))
    })?;
    let shell = match arguments.shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, &arguments.of, &mut script);
    print(|output| output.write_all(&script))
}

/// Writes the man pages of `programs` and of their subcommands, and prints their names.
pub fn write_man(arguments: &Man, programs: Vec<clap::Command>) -> Result<()> {
    let folder = &arguments.folder;
    // A mistyped name must not create a directory in the wrong place.
    if !folder.is_dir() {
        let folder = folder.display();
        bail!("{folder} is not an existing directory; create it first: mkdir -p {folder}");
    }
    for program in programs {
        let mut program = program.disable_help_subcommand(true);
        program.build();
        write_pages(&program, folder)?;
    }
    Ok(())
}

fn write_pages(command: &clap::Command, folder: &Path) -> Result<()> {
    let page = clap_mangen::Man::new(command.clone()).generate_to(folder);
    let page = page.with_context(|| format!("cannot write to {}", folder.display()))?;
    print(|output| writeln!(output, "{}", page.display()))?;
    command.get_subcommands().try_for_each(|subcommand| write_pages(subcommand, folder))
}
