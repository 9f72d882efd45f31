//! Converts distances on the stack to small numbers, which a log has as varints.

/// Converts a distance on the stack to a number that is small if the distance is small and a
/// multiple of 8, as nearly all distances are: 0, -8, 8, 16 become 0, 1, 2, 4. The high three bits
/// of the number are the remainder of the division by 8.
#[inline]
pub fn fold(distance: i32) -> u32 {
    let words = distance >> 3;
    let folded = (words << 1 ^ words >> 31) as u32;
    folded & (1 << 29) - 1 | (distance as u32 & 7) << 29
}

/// Converts a number of [`fold`] back to the distance.
#[inline]
pub fn unfold(number: u32) -> i32 {
    let folded = number & (1 << 29) - 1;
    let words = (folded >> 1) as i32 ^ -((folded & 1) as i32);
    words << 3 | (number >> 29) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn distances_survive(distance: i32, high in 0u32..32) {
            let distance = distance >> high;
            prop_assert_eq!(unfold(fold(distance)), distance);
        }
    }

    #[test]
    fn near_words_are_small_and_all_else_survives() {
        assert_eq!([0, -8, 8, -512, 504].map(fold), [0, 1, 2, 127, 126]);
        for distance in [i32::MIN, i32::MIN + 1, i32::MAX, -1, 1, 7, -7] {
            assert_eq!(unfold(fold(distance)), distance);
        }
    }
}
