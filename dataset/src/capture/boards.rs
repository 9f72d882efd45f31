//! Names the boards of a capture. The name of a card's board is the name of the interface that
//! received its frames.

use hmtt::pcapng::Interface;
use hmtt::{CardId, LinkId};

/// The names of the boards, by card.
pub struct Boards {
    receiver: Option<String>,
    names: Vec<String>,
}

impl Boards {
    /// Creates a set without boards. `receiver`: name that each board's name begins with.
    pub fn new(receiver: Option<&str>) -> Self {
        Boards { receiver: receiver.map(str::to_owned), names: Vec::new() }
    }

    /// Names the cards that are not named yet. `links`: the link of each card.
    pub fn learn(&mut self, links: &[LinkId], interfaces: &[Interface]) {
        for card in self.names.len()..links.len() {
            let link = links[card];
            let interface = interfaces.get(link.index()).and_then(|found| found.name.as_deref());
            let mut name = match interface {
                Some(name) if !name.is_empty() => name.to_owned(),
                _ => format!("interface{}", link.index()),
            };
            if let Some(receiver) = &self.receiver {
                name = format!("{receiver}-{name}");
            }
            // The link had another card before, which was replaced on the same wire.
            match links[..card].iter().filter(|other| **other == link).count() {
                0 => {}
                before => name = format!("{name}-{}", before + 1),
            }
            self.names.push(name);
        }
    }

    /// The name of a card's board.
    pub fn name(&self, card: CardId) -> &str {
        self.names.get(card.0).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_have_the_names_of_receivers_and_interfaces() {
        let interface = |name: Option<&str>| {
            let mut interface = Interface::default();
            interface.name = name.map(str::to_owned);
            interface
        };
        let interfaces = [interface(Some("eth1")), interface(None)];
        let links = [LinkId(0), LinkId(1), LinkId(0)];
        let mut boards = Boards::new(None);
        boards.learn(&links[..1], &interfaces);
        boards.learn(&links, &interfaces);
        let names = [0, 1, 2].map(|card| boards.name(CardId(card)).to_owned());
        assert_eq!(names, ["eth1", "interface1", "eth1-2"]);
        let mut boards = Boards::new(Some("rack7"));
        boards.learn(&links[..1], &interfaces);
        assert_eq!(boards.name(CardId(0)), "rack7-eth1");
    }
}
