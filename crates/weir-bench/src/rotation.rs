//! In which order the subjects of a level take their turns.

/// Round `round` (from 0) of `subjects`: each begins in turn, and every other round runs backwards, so that over
/// the rounds none is always first, or always after the same one. Two take turns as A B, B A, A B, ...
pub(super) fn round<T: Clone>(subjects: &[T], round: usize) -> Vec<T> {
    let mut order = subjects.to_vec();
    if order.is_empty() {
        return order;
    }
    if round % 2 == 1 {
        order.reverse();
    }
    // Of two, turning back and reversing would undo each other.
    let turn = (round / 2) % order.len();
    order.rotate_left(turn);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_take_turns() {
        let rounds: Vec<String> = (0..6)
            .map(|index| round(&["A", "B"], index).concat())
            .collect();
        assert_eq!(rounds, ["AB", "BA", "BA", "AB", "AB", "BA"]);
        assert!(round::<u8>(&[], 3).is_empty());
    }

    #[test]
    fn over_the_rounds_each_has_every_place_equally_often() {
        for count in 1..=5_usize {
            let subjects: Vec<usize> = (0..count).collect();
            let mut places = vec![vec![0; count]; count];
            for index in 0..2 * count {
                for (place, subject) in round(&subjects, index).into_iter().enumerate() {
                    places[subject][place] += 1;
                }
            }
            assert!(
                places.iter().flatten().all(|times| *times == 2),
                "{places:?}"
            );
        }
    }
}
