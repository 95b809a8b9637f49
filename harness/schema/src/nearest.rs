//! Finds the known word that is nearest to a misspelt word.

use strsim::osa_distance;

/// The maximum length of a word in bytes. Longer words are not names. The time to compare two words
/// is proportional to the product of their lengths.
const LONGEST: usize = 200;

/// The candidate of which `word` is probably a misspelling. At most a quarter of the letters may differ; in a word of
/// three letters, two neighbouring letters may be swapped.
pub fn misspelt<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let word = word.to_lowercase();
    let length = word.chars().count();
    let ranked = candidates.into_iter().filter_map(|candidate| {
        let lower = candidate.to_lowercase();
        let other = lower.chars().count();
        let most = length.max(other) / 4;
        // The difference in length is a cheap lower bound for the distance, so it is compared
        // first.
        let distance = (length.abs_diff(other) <= most).then(|| osa_distance(&word, &lower))?;
        let is_near = distance <= most || is_swapped(&word, &lower);
        is_near.then_some((distance, candidate))
    });
    ranked.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// Whether two words of three letters differ only by a swap of neighbouring letters. A changed
/// letter in so short a word usually makes another name.
fn is_swapped(word: &str, other: &str) -> bool {
    let (word, other): (Vec<char>, Vec<char>) = (word.chars().collect(), other.chars().collect());
    match (word.as_slice(), other.as_slice()) {
        ([a, b, c], [d, e, f]) => [a, b, c] == [e, d, f] || [a, b, c] == [d, f, e],
        _ => false,
    }
}

/// The candidate that was probably meant. At most a third of the letters may differ, or one word
/// must begin with the other.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let word = word.to_lowercase();
    let ranked = candidates.into_iter().filter_map(|candidate| {
        let lower = candidate.to_lowercase();
        let distance = osa_distance(&word, &lower);
        let near = distance <= word.chars().count().max(lower.chars().count()) / 3;
        let begins = word.len().min(lower.len()) >= 2
            && (lower.starts_with(&word) || word.starts_with(&lower));
        (near || begins).then_some((distance, candidate))
    });
    ranked.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::misspelt;

    #[test]
    fn a_longer_name_is_not_hidden_by_a_shorter_one_that_is_as_near() {
        // Three letters differ: too many for eleven letters, but not for fourteen.
        let (word, shorter, longer) = ("abcdefghijk", "abcdefghxyz", "abcdefghijkxyz");
        assert_eq!(misspelt(word, [shorter]), None);
        assert_eq!(misspelt(word, [longer]), Some(longer));
        assert_eq!(misspelt(word, [shorter, longer]), Some(longer));
    }

    #[test]
    fn of_three_letters_two_neighbours_may_have_changed_places_and_no_letter_is_another_one() {
        for (word, near) in
            [("pya", true), ("apy", true), ("pad", false), ("yap", false), ("pa", false)]
        {
            assert_eq!(misspelt(word, ["pay"]).is_some(), near, "{word}");
        }
    }
}
