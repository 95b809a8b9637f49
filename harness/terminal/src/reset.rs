//! Undoes the effects of earlier text on the terminal, and scrolls that text away.

use super::talk::TerminalSize;

/// The sequences that reset the terminal, in this order, each with its reason. A terminal ignores sequences that it
/// does not know. The cursor stays in its row, so that the program's text scrolls away and is not erased.
const RESETS: [(&str, &str); 47] = [
    ("\x18", "a sequence that was begun and not ended would take the next letters"),
    ("\x1b\\", "so would a string: a title, a link, data for the terminal"),
    ("\x1b<", "a VT52 knows none of the sequences below"),
    ("\x1b[4i", "all text goes to a printer and not to the screen"),
    ("\x1b[?4i", "so does each line"),
    ("\x1b[0$}", "text goes to the status line"),
    ("\x1b[?2026l", "the screen is not redrawn until an update ends"),
    // Leaving the other screen moves the cursor to its saved position, so the position is saved first.
    ("\x1b7\x1b[?1049l", "the other screen has no history, and disappears when it is left"),
    ("\x1b[?1047l", "the same, for terminals that know only this number"),
    ("\x1b[?47l", "the same, for older ones"),
    // Setting margins moves the cursor, so its position is saved first.
    ("\x1b7\x1b[?69l", "margins at the sides hide a part of each row"),
    ("\x1b[r\x1b8", "margins above and below hide rows"),
    ("\x1b[!p", "modes that are not named here, for terminals that know a soft reset"),
    ("\x0f", "another character set shows other letters"),
    ("\x1b(B", "the same"),
    ("\x1b)B", "the same"),
    ("\x1b*B", "the same"),
    ("\x1b+B", "the same"),
    ("\x1b[?42l", "a national character set shows other signs"),
    ("\x1b%G", "bytes are not read as UTF-8"),
    ("\x1b]8;;\x1b\\", "all rows become a link"),
    ("\x1b[4l", "letters push what is behind them off the row"),
    ("\x1b[20l", "Enter sends two characters"),
    ("\x1b[?7h", "a long row is cut"),
    ("\x1b[?45l", "a backspace goes to the row before"),
    ("\x1b[?5l", "light and dark are exchanged"),
    ("\x1b[8h", "letters are not ordered as they are read"),
    ("\x1b[0 S", "rows are written from right to left"),
    ("\x1b[?2501l", "the same, as the terminal guesses"),
    ("\x1b[?25h", "the cursor is hidden"),
    ("\x1b[0\"q", "letters are protected from being erased"),
    // Colours that make text invisible, or that hide the selection.
    ("\x1b]104\x1b\\", "the colours of the palette"),
    ("\x1b]105\x1b\\", "the colours of bold and underlined letters"),
    ("\x1b]R\x1b\\", "the palette of the Linux console"),
    ("\x1b]110\x1b\\", "the colour of letters"),
    ("\x1b]111\x1b\\", "the colour of the ground"),
    ("\x1b]112\x1b\\", "the colour of the cursor"),
    ("\x1b]117\x1b\\", "the ground of selected text"),
    ("\x1b]119\x1b\\", "the letters of selected text"),
    // Modes that change what the keys send.
    ("\x1b[<99u\x1b[=0;1u", "keys send sequences of the kitty protocol"),
    ("\x1b[>m\x1b[>4;0m", "keys with modifiers send sequences"),
    ("\x1b[?9001l", "keys send records of Windows"),
    ("\x1b[?1l\x1b[?66l\x1b>", "arrows and the number pad send other sequences"),
    ("\x1b[2l\x1b[12h\x1b[?8h", "the keyboard is locked, not echoed once, or does not repeat"),
    ("\x1b[?2004l\x1b[?1004l", "pasted text and a change of focus send sequences"),
    (
        "\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1007l\x1b[?1015l\x1b[?1016l",
        "the mouse sends sequences, and its wheel presses keys",
    ),
    // This sequence comes last, because a terminal that does not know `>` reads `CSI > 4 m` as an attribute.
    ("\x1b[0m", "letters are concealed or coloured"),
];

/// The sequence that resets all modes and colours.
pub(super) fn reset() -> String {
    RESETS.iter().map(|(sequence, _)| *sequence).collect()
}

/// The sequence that resets all modes and colours, and begins an empty screen. The old text is scrolled away and not
/// erased, for two reasons: a terminal may protect it from being erased, and a person may want to read it again.
pub(super) fn empty_screen(size: TerminalSize) -> String {
    let mut screen = reset();
    screen += "\x1b[J";
    screen += &"\r\n".repeat(size.rows);
    // Removes pictures, which would cover the text. Then ends origin mode, so that `CSI H` moves the cursor to the
    // first row of the screen.
    screen += "\x1b_Ga=d,q=2\x1b\\\x1b[?6l\x1b[H\x1b[2J\x1b#5";
    screen
}
