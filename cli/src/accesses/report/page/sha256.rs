//! Computes SHA-256 (FIPS 180-4), to check the hashes in the page's policy.

/// The first 32 bits of the fractional part of a prime's square or cube root, which FIPS 180-4 uses
/// as constants.
fn fraction(prime: u128, is_cube: bool) -> u32 {
    // The root times 2^32, rounded down: the largest number whose power is not too large. It is
    // found bit by bit, from the highest bit down.
    let power = |root: u128| if is_cube { root * root * root } else { root * root };
    let scaled = prime << if is_cube { 96 } else { 64 };
    let root = (0..40).rev().fold(0u128, |root, bit| {
        let next = root | 1 << bit;
        if power(next) <= scaled { next } else { root }
    });
    root as u32
}

fn digest(message: &[u8]) -> [u8; 32] {
    let primes = || (2u128..).filter(|number| (2..*number).all(|divisor| number % divisor != 0));
    let rounds: Vec<u32> = primes().take(64).map(|prime| fraction(prime, true)).collect();
    let mut state: Vec<u32> = primes().take(8).map(|prime| fraction(prime, false)).collect();
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64), 0);
    let end = padded.len() - 8;
    padded[end..].copy_from_slice(&(message.len() as u64 * 8).to_be_bytes());
    for block in padded.as_chunks::<64>().0 {
        let mut words: Vec<u32> =
            block.as_chunks::<4>().0.iter().map(|bytes| u32::from_be_bytes(*bytes)).collect();
        for at in 16..64 {
            let (older, newer) = (words[at - 15], words[at - 2]);
            let first = older.rotate_right(7) ^ older.rotate_right(18) ^ older >> 3;
            let second = newer.rotate_right(17) ^ newer.rotate_right(19) ^ newer >> 10;
            let sum = words[at - 16].wrapping_add(first).wrapping_add(words[at - 7]);
            words.push(sum.wrapping_add(second));
        }
        let mut v = state.clone();
        for (word, constant) in words.iter().zip(&rounds) {
            let first = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
            let choice = v[4] & v[5] ^ !v[4] & v[6];
            let sum =
                [v[7], first, choice, *constant, *word].into_iter().fold(0, u32::wrapping_add);
            let second = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
            let majority = v[0] & v[1] ^ v[0] & v[2] ^ v[1] & v[2];
            v.rotate_right(1);
            v[4] = v[4].wrapping_add(sum);
            v[0] = sum.wrapping_add(second).wrapping_add(majority);
        }
        state.iter_mut().zip(v).for_each(|(sum, word)| *sum = sum.wrapping_add(word));
    }
    let mut bytes = [0; 32];
    bytes
        .iter_mut()
        .zip(state.iter().flat_map(|word| word.to_be_bytes()))
        .for_each(|(to, from)| *to = from);
    bytes
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letters = bytes.chunks(3).flat_map(|three| {
        let number = three.iter().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte))
            << (8 * (3 - three.len()));
        (0..4).map(move |at| {
            if at <= three.len() {
                LETTERS[(number >> (18 - 6 * at)) as usize % 64] as char
            } else {
                '='
            }
        })
    });
    letters.collect()
}

/// The hash of a text in the form of a content security policy: `sha256-` and base64.
pub fn policy_hash(text: &str) -> String {
    format!("sha256-{}", base64(&digest(text.as_bytes())))
}

#[test]
fn hashes_are_those_of_the_standard() {
    assert_eq!(policy_hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    assert_eq!(policy_hash("abc"), "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
    let long = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    assert_eq!(policy_hash(long), "sha256-JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE=");
}
