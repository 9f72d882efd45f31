//! Interfaces as they are named on a command line, by themselves or behind `-i`, to one list in that
//! order.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// The two ways to name an interface, as the parser knows them.
#[derive(Debug, Args)]
struct Named {
    /// Interfaces the cards are connected to
    #[arg(value_name = "IFACE", required_unless_present_any = ["interface", "list_interfaces"])]
    interfaces: Vec<String>,
    /// Another interface, as other capture tools take it
    #[arg(short, long, value_name = "IFACE")]
    interface: Vec<String>,
}

/// All interfaces that were named, in the order in which they were.
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
    /// The parser keeps the values of each way apart; only their places on the line tell their order.
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let Named { interfaces, interface } = Named::from_arg_matches(matches)?;
        let places = |way| matches.indices_of(way).into_iter().flatten();
        let by_themselves = places("interfaces").zip(interfaces);
        let mut all: Vec<(usize, String)> =
            by_themselves.chain(places("interface").zip(interface)).collect();
        all.sort();
        Ok(Interfaces(all.into_iter().map(|(_, name)| name).collect()))
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
