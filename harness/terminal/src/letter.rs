//! How a terminal shows a character: whether a person can see it, and the maximum number of cells that it takes.

use icu_properties::{
    CodePointSetData, PropertyNamesLong,
    props::{
        BidiClass, DefaultIgnorableCodePoint, EastAsianWidth, EnumeratedProperty as _,
        GeneralCategory, GraphemeClusterBreak, Script,
    },
};

/// How a character is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CharacterLook {
    /// The character is plainly visible, and takes at most this number of cells.
    Plain(usize),
    /// The character is drawn onto the previous character.
    Mark,
    /// A person cannot see the character, could mistake it for a space, or would see the text around it in another
    /// order.
    Hidden,
}

/// Characters that Unicode classifies as letters or symbols, but that a terminal does not draw.
const BLANK: [char; 5] = ['\u{2800}', '\u{fffc}', '\u{13441}', '\u{13442}', '\u{1d159}'];

/// More misleading characters. Two look like another character, one is drawn as three characters, and one is invisible.
const ODD: [char; 4] = ['\u{387}', '\u{17a4}', '\u{17d8}', '\u{a8fa}'];

pub(super) fn look_of(c: char) -> CharacterLook {
    if matches!(c, ' '..='~') {
        return CharacterLook::Plain(1);
    }
    if is_unsafe(c) || ODD.contains(&c) || joins(c) || from_the_right(c) {
        return CharacterLook::Hidden;
    }
    match GeneralCategory::for_char(c) {
        GeneralCategory::NonspacingMark | GeneralCategory::SpacingMark => CharacterLook::Mark,
        // All spaces except the ordinary space, and marks that enclose the previous letter.
        GeneralCategory::SpaceSeparator | GeneralCategory::EnclosingMark => CharacterLook::Hidden,
        category => CharacterLook::Plain(cells(c, category)),
    }
}

/// Whether this character controls a terminal, is invisible, or reorders the text around it. Such a character must not
/// appear in any text on a screen.
pub(super) fn is_unsafe(c: char) -> bool {
    let unknown = matches!(
        GeneralCategory::for_char(c),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::Surrogate
            | GeneralCategory::PrivateUse
            | GeneralCategory::Unassigned
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
    );
    unknown || ignorable(c) || BLANK.contains(&c)
}

fn ignorable(c: char) -> bool {
    const IGNORABLE: icu_properties::CodePointSetDataBorrowed<'static> =
        CodePointSetData::new::<DefaultIgnorableCodePoint>();
    IGNORABLE.contains(c)
}

/// Whether a terminal joins this letter with the previous or the next letter. Such letters are signs that precede a
/// letter, and Korean vowels and finals. Ordinary Korean text consists of whole syllables instead.
fn joins(c: char) -> bool {
    let korean = matches!(c, '\u{1160}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7ff}');
    korean || GraphemeClusterBreak::for_char(c) == GraphemeClusterBreak::Prepend
}

/// Whether a character is written from right to left. A terminal may then show the text around it in an order that
/// differs from the order in memory.
fn from_the_right(c: char) -> bool {
    let class = BidiClass::for_char(c);
    [BidiClass::RightToLeft, BidiClass::ArabicLetter, BidiClass::ArabicNumber].contains(&class)
}

/// The maximum number of cells that a character takes. Terminals disagree about symbols, and about characters that are
/// wide only in East Asia.
fn cells(c: char, category: GeneralCategory) -> usize {
    let width = EastAsianWidth::for_char(c);
    let narrow = [EastAsianWidth::Neutral, EastAsianWidth::Narrow, EastAsianWidth::Halfwidth];
    let symbol = matches!(
        category,
        GeneralCategory::MathSymbol
            | GeneralCategory::CurrencySymbol
            | GeneralCategory::ModifierSymbol
            | GeneralCategory::OtherSymbol
            | GeneralCategory::OtherNumber
    );
    if narrow.contains(&width) && !symbol { 1 } else { 2 }
}

/// Whether a terminal certainly draws a mark onto this character. Only letters outside ASCII qualify. An ASCII letter
/// with a mark exists as a single character.
pub(super) fn carries_marks(c: char) -> bool {
    !c.is_ascii() && is_letter(c)
}

pub(super) fn is_letter(c: char) -> bool {
    matches!(
        GeneralCategory::for_char(c),
        GeneralCategory::UppercaseLetter
            | GeneralCategory::LowercaseLetter
            | GeneralCategory::TitlecaseLetter
            | GeneralCategory::ModifierLetter
            | GeneralCategory::OtherLetter
    )
}

/// The script of a letter, if letters of this script can be mistaken for letters of another script. East Asian scripts
/// are excluded, because texts mix them with each other and with Latin letters.
pub(super) fn look_alike(c: char) -> Option<Script> {
    let script = Script::for_char(c);
    let apart = [
        Script::Common,
        Script::Inherited,
        Script::Han,
        Script::Hiragana,
        Script::Katakana,
        Script::Hangul,
        Script::Bopomofo,
    ];
    (is_letter(c) && !apart.contains(&script)).then_some(script)
}

/// The name of the letter's script; `None` for a character without a script of its own.
pub(super) fn script(c: char) -> Option<&'static str> {
    let script = Script::for_char(c);
    let of_one = is_letter(c) && script != Script::Common && script != Script::Inherited;
    of_one.then(|| PropertyNamesLong::<Script>::new().get(script)).flatten()
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthChar as _;

    use super::{CharacterLook, look_of};

    #[test]
    fn whatever_a_person_would_not_see_is_hidden() {
        let hidden = [
            // Control characters (C0 and C1) and line breaks.
            "\0\u{7}\u{8}\t\n\u{b}\u{c}\r\u{e}\u{1b}\u{7f}\u{80}\u{85}\u{9b}\u{9d}\u{2028}\u{2029}",
            // Format characters: bidirectional, joiners, soft hyphens, tags, annotations.
            "\u{ad}\u{600}\u{61c}\u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{202a}\u{202e}",
            "\u{2060}\u{2061}\u{2066}\u{2069}\u{206f}\u{feff}\u{fff9}\u{e0001}\u{e0041}\u{e007f}",
            // Fillers, blanks, and variation selectors.
            "\u{115f}\u{1160}\u{17b4}\u{17b5}\u{2800}\u{3164}\u{ffa0}\u{fffc}\u{1d159}\u{34f}",
            "\u{fe00}\u{fe0e}\u{fe0f}\u{e0100}\u{180b}",
            // Other spaces.
            "\u{a0}\u{1680}\u{2000}\u{2002}\u{2003}\u{2009}\u{200a}\u{202f}\u{205f}\u{3000}",
            // Private use, unassigned code points, noncharacters.
            "\u{e000}\u{f8ff}\u{f0000}\u{10ffff}\u{378}\u{ffff}\u{fffe}",
            // Right-to-left letters, enclosing marks, parts of Korean syllables.
            "אبݐ\u{660}\u{20dd}\u{488}\u{1161}\u{11a8}\u{d7cb}",
        ];
        for c in hidden.concat().chars() {
            assert_eq!(look_of(c), CharacterLook::Hidden, "{c:?}");
        }
        for c in "Ab9~ äßЖяΩ漢字かなカ한글ไท€–“”…→⚙😀½".chars() {
            assert!(matches!(look_of(c), CharacterLook::Plain(_)), "{c:?}: {:?}", look_of(c));
        }
        for c in "\u{300}\u{301}\u{483}\u{93e}\u{e31}".chars() {
            assert_eq!(look_of(c), CharacterLook::Mark, "{c:?}");
        }
    }

    #[test]
    fn no_terminal_takes_more_cells() {
        let mut wrong = Vec::new();
        for c in '\0'..=char::MAX {
            let widest = c.width().unwrap_or(0).max(c.width_cjk().unwrap_or(0));
            let fits = match look_of(c) {
                CharacterLook::Plain(cells) => (1..=cells).contains(&widest),
                CharacterLook::Mark => widest <= 1,
                CharacterLook::Hidden => true,
            };
            if !fits {
                wrong.push(format!("{c:?} U+{:04x} {:?}, but {widest}", u32::from(c), look_of(c)));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
