//! Collects the interfaces of a command line, positional arguments and values of `-i`, into one
//! list in the order of the command line.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// The two ways to name an interface on the command line.
#[derive(Debug, Args)]
struct Named {
    /// Interfaces the cards are connected to
    #[arg(value_name = "IFACE", required_unless_present_any = ["interface", "list_interfaces"])]
    interfaces: Vec<String>,
    /// Another interface, with the option name that other capture tools use
    #[arg(short, long, value_name = "IFACE")]
    interface: Vec<String>,
}

/// Interfaces, in the order in which the command line names them.
#[derive(Clone, Debug, Default)]
pub struct Interfaces(pub Vec<String>);

impl Args for Interfaces {
    fn augment_args(command: Command) -> Command {
        Named::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Named::augment_args_for_update(command)
    }
}

impl FromArgMatches for Interfaces {
    /// Restores the order of the command line from the parser's indices: the parser keeps
    /// positional values and values of `-i` apart.
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let Named { interfaces, interface } = Named::from_arg_matches(matches)?;
        let places = |way| matches.indices_of(way).into_iter().flatten();
        let positional = places("interfaces").zip(interfaces);
        let mut occurrences: Vec<(usize, String)> =
            positional.chain(places("interface").zip(interface)).collect();
        occurrences.sort();
        Ok(Interfaces(occurrences.into_iter().map(|(_, name)| name).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Interfaces::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::arguments::Arguments;

    #[test]
    fn interfaces_keep_the_order_in_which_they_are_named() {
        for (line, expected) in [
            ("veth0 veth2", ["veth0", "veth2"].as_slice()),
            ("-i veth0 veth2", &["veth0", "veth2"]),
            ("veth2 -i veth0", &["veth2", "veth0"]),
            ("-i veth4 veth2 --interface=veth0", &["veth4", "veth2", "veth0"]),
            ("c -i b --json a -q -ie d", &["c", "b", "a", "e", "d"]),
            ("-D", &[]),
        ] {
            let words = std::iter::once("hmtt-recv").chain(line.split(' '));
            let arguments = Arguments::try_parse_from(words).unwrap();
            assert_eq!(arguments.interfaces(), expected, "{line}");
        }
    }
}
