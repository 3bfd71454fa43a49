//! Order in which the subjects of a level run.

/// Returns the order of `subjects` in repetition `index` (from 0). Each comes first in turn and
/// every other repetition is reversed, so that none is always first or always after the same one.
/// Two subjects alternate as A B, B A, B A, A B.
pub(super) fn order<T: Clone>(subjects: &[T], index: usize) -> Vec<T> {
    let mut order = subjects.to_vec();
    if order.is_empty() {
        return order;
    }
    if index % 2 == 1 {
        order.reverse();
    }
    // Half the index: with two subjects, rotating in every repetition would cancel the reversal.
    let turn = (index / 2) % order.len();
    order.rotate_left(turn);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_subjects_alternate() {
        let orders: Vec<String> = (0..6)
            .map(|index| order(&["A", "B"], index).concat())
            .collect();
        assert_eq!(orders, ["AB", "BA", "BA", "AB", "AB", "BA"]);
        assert!(order::<u8>(&[], 3).is_empty());
    }

    #[test]
    fn every_subject_gets_every_position_equally_often() {
        for count in 1..=5_usize {
            let subjects: Vec<usize> = (0..count).collect();
            let mut positions = vec![vec![0; count]; count];
            for index in 0..2 * count {
                for (position, subject) in order(&subjects, index).into_iter().enumerate() {
                    positions[subject][position] += 1;
                }
            }
            assert!(
                positions.iter().flatten().all(|times| *times == 2),
                "{positions:?}"
            );
        }
    }
}
