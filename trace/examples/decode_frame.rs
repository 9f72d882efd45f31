//! Decodes one Ethernet frame of a card, given in hexadecimal on standard input, as tools that dump
//! packets print it.

use std::io::Read;

use hmtt::decode::decode_frames;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or(""), 16);
    let frame = digits.chunks(2).map(byte).collect::<Result<Vec<u8>, _>>()?;
    let (items, counts) = decode_frames([&frame]);
    if counts.foreign_frames != 0 {
        return Err("this frame is not of a card".into());
    }
    for item in items {
        println!("{item:?}");
    }
    Ok(())
}
