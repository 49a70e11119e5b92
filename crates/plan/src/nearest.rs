//! The right word nearest to a wrong one.

/// The known word most like the typed one; none if nothing is remotely like it.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let mut best = None;
    for word in known {
        let score = likeness(&typed, word);
        if best.is_none_or(|(top, _)| score > top) {
            best = Some((score, word));
        }
    }
    best.filter(|(score, _)| *score > 0.5).map(|(_, word)| word)
}

/// From 0 (nothing alike) to 1 (equal). Typing errors are few edits; half-remembered names share a beginning: the
/// better of the two counts.
pub(crate) fn likeness(typed: &str, word: &str) -> f64 {
    let edits = strsim::normalized_damerau_levenshtein(typed, word);
    edits.max(0.9 * strsim::jaro_winkler(typed, word))
}
