//! Reads parts of a stored result: by lines, by bytes, or by a text search.

use memchr::{memchr_iter, memmem, memrchr};

use super::{CHUNK, LargeResults};
use crate::error::Error;

/// A part of a result: its text, and a line that describes the position of this text.
pub(super) struct SpillExcerpt {
    pub(super) head: String,
    pub(super) text: String,
}

/// The number of bytes that are shown before and after a hit.
const AROUND: usize = 100;

/// Reads whole characters from the byte `from` on, at most `room` bytes. `None` if no result has this name.
pub(super) async fn bytes(
    spills: &LargeResults,
    name: &str,
    from: u64,
    room: usize,
) -> Result<Option<SpillExcerpt>, Error> {
    if spills.store.read(name, 0).await?.is_none() {
        return Ok(None);
    }
    // At least one whole character is read, even if `room` is smaller or `from` is inside of a character.
    let (wanted, room) = (room, room.max(2 * CHARACTER));
    let size = CHUNK as u64;
    let mut chunk = from / size;
    // A UTF-8 character has at most three continuation bytes, so the first bytes show where a character begins.
    let mut skip = usize::try_from(from % size).unwrap_or(usize::MAX);
    let mut read: Vec<u8> = Vec::new();
    let mut is_all = false;
    while read.len() < room {
        let Some(bytes) = spills.store.read(name, chunk).await? else {
            is_all = true;
            break;
        };
        let left = room.saturating_sub(read.len());
        let rest = bytes.get(skip.min(bytes.len())..).unwrap_or_default();
        is_all = bytes.len() < CHUNK && rest.len() <= left;
        read.extend_from_slice(rest.get(..left).unwrap_or(rest));
        if is_all {
            break;
        }
        (chunk, skip) = (chunk.saturating_add(1), 0);
    }
    if read.is_empty() {
        let head = format!("Nothing of {name}: it ends before byte {from}");
        return Ok(Some(SpillExcerpt { head, text: String::new() }));
    }
    let is_inside = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    let before = read.iter().take(3).take_while(|byte| is_inside(byte)).count();
    let last = match is_all {
        true => read.len(),
        false => whole_characters(&read),
    };
    let text = read.get(before..last).unwrap_or_default();
    let text = if wanted < 2 * CHARACTER { few(text, wanted) } else { text };
    let is_all = is_all && before.saturating_add(text.len()) == read.len();
    let begins = from.saturating_add(before as u64);
    let ends = begins.saturating_add(text.len() as u64);
    let end = if is_all { ", which is its end" } else { "; there is more" };
    let head = format!("{name}, bytes {begins} to {ends}{end}");
    Ok(Some(SpillExcerpt { head, text: String::from_utf8_lossy(text).into_owned() }))
}

/// The maximum length of a character, in bytes.
const CHARACTER: usize = 4;

/// The first characters that fit into this number of bytes, but at least one character.
fn few(text: &[u8], bytes: usize) -> &[u8] {
    let ends = |at: &usize| std::str::from_utf8(text.get(..*at).unwrap_or_default()).is_ok();
    let end = (1..=bytes).rev().find(ends).or_else(|| (1..=CHARACTER).find(ends));
    text.get(..end.unwrap_or(text.len()).min(text.len())).unwrap_or(text)
}

/// The length of the bytes without an incomplete character at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    let invalid = bytes.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len());
    bytes.len().saturating_sub(invalid)
}

/// Reads at most `most` lines from the line `from` on, and at most `room` bytes. `None` if no result has this name.
pub(super) async fn lines(
    spills: &LargeResults,
    name: &str,
    from: u64,
    most: u64,
    room: usize,
) -> Result<Option<SpillExcerpt>, Error> {
    let (mut line, mut chunk, mut offset) = (1_u64, 0_u64, 0_u64);
    let mut begins = None;
    let mut read: Vec<u8> = Vec::new();
    let mut ended = false;
    let wanted_end = from.saturating_add(most);
    while let Some(bytes) = spills.store.read(name, chunk).await? {
        let mut rest = bytes.as_slice();
        if begins.is_none() {
            let mut start = (line >= from).then_some(0);
            if start.is_none() {
                for at in memchr_iter(b'\n', rest) {
                    line = line.saturating_add(1);
                    if line >= from {
                        start = Some(at.saturating_add(1));
                        break;
                    }
                }
            }
            match start {
                Some(start) => {
                    begins = Some(offset.saturating_add(start as u64));
                    rest = rest.get(start..).unwrap_or_default();
                }
                None => rest = &[],
            }
        }
        let mut taken = rest.len();
        if begins.is_some() {
            for at in memchr_iter(b'\n', rest) {
                line = line.saturating_add(1);
                if line >= wanted_end {
                    taken = at.saturating_add(1);
                    ended = true;
                    break;
                }
            }
            read.extend_from_slice(rest.get(..taken).unwrap_or(rest));
        }
        offset = offset.saturating_add(bytes.len() as u64);
        chunk = chunk.saturating_add(1);
        if ended || read.len() > room {
            break;
        }
    }
    if chunk == 0 {
        return Ok(None);
    }
    let Some(begins) = begins else {
        let head = format!("Nothing of {name}: it has {line} lines");
        return Ok(Some(SpillExcerpt { head, text: String::new() }));
    };
    let is_cut = read.len() > room;
    if is_cut {
        read.truncate(room);
        // Cut after the last whole line, or after the last whole character if not even one line fits.
        let end = memrchr(b'\n', &read).map(|at| at.saturating_add(1));
        read.truncate(end.unwrap_or_else(|| whole_characters(&read)));
    }
    let breaks = memchr_iter(b'\n', &read).count() as u64;
    let last = from.saturating_add(breaks.saturating_sub(u64::from(read.ends_with(b"\n"))));
    let next = begins.saturating_add(read.len() as u64);
    let end = match (is_cut, ended) {
        (false, false) => ", which is its end".to_owned(),
        (true, _) if !read.ends_with(b"\n") => {
            format!("; line {last} is too long: go on by `byte`: {next}")
        }
        _ => format!("; line {} begins at byte {next}", last.saturating_add(1)),
    };
    let head = format!("{name}, lines {from} to {last}{end}");
    Ok(Some(SpillExcerpt { head, text: String::from_utf8_lossy(&read).into_owned() }))
}

/// Finds all occurrences of a text, and shows each occurrence with the line around it. `None` if no result has this
/// name.
pub(super) async fn search(
    spills: &LargeResults,
    name: &str,
    wanted: &str,
    room: usize,
) -> Result<Option<SpillExcerpt>, Error> {
    let finder = memmem::Finder::new(wanted);
    // The end of the chunks that were read so far. The next hit may begin here, and the text before a hit is shown
    // together with the hit.
    let mut held: Vec<u8> = Vec::new();
    let (mut offset, mut line, mut chunk) = (0_u64, 1_u64, 0_u64);
    let (mut text, mut shown, mut hits, mut is_full) = (String::new(), 0_u64, 0_u64, false);
    // Hits that begin before this byte are already handled.
    let mut from = 0_u64;
    loop {
        let next = spills.store.read(name, chunk).await?;
        let is_last = next.is_none();
        if is_last && chunk == 0 {
            return Ok(None);
        }
        held.extend(next.unwrap_or_default());
        chunk = chunk.saturating_add(1);
        let behind = wanted.len().saturating_add(AROUND);
        let ready = if is_last { held.len() } else { held.len().saturating_sub(behind) };
        let start = usize::try_from(from.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut counted = 0;
        let searched = held.get(start.min(held.len())..).unwrap_or_default();
        for hit in finder.find_iter(searched) {
            let hit = hit.saturating_add(start);
            if hit >= ready {
                break;
            }
            hits = hits.saturating_add(1);
            from = offset.saturating_add(hit as u64).saturating_add(wanted.len() as u64);
            // Hits that do not fit into `room` are counted but not shown.
            if is_full {
                continue;
            }
            let breaks = held.get(counted..hit).unwrap_or_default();
            line = line.saturating_add(memchr_iter(b'\n', breaks).count() as u64);
            counted = hit;
            let found = around(&held, hit, wanted.len());
            let told =
                format!("line {line}, byte {}: {found}\n", offset.saturating_add(hit as u64));
            if text.len().saturating_add(told.len()) > room {
                is_full = true;
                continue;
            }
            shown = shown.saturating_add(1);
            text.push_str(&told);
        }
        if is_last {
            break;
        }
        // Keeps the text before the next hit.
        let gone = ready.saturating_sub(AROUND);
        let breaks = held.get(counted..gone.max(counted)).unwrap_or_default();
        line = line.saturating_add(memchr_iter(b'\n', breaks).count() as u64);
        let recount = held.get(gone..counted.max(gone)).unwrap_or_default();
        line = line.saturating_sub(memchr_iter(b'\n', recount).count() as u64);
        from = from.max(offset.saturating_add(ready as u64));
        held.drain(..gone);
        offset = offset.saturating_add(gone as u64);
    }
    let text = text.trim_end().to_owned();
    let head = match (hits, shown) {
        (0, _) => format!("{name}: the exact text does not occur in it"),
        (hits, shown) if shown < hits => {
            format!("{name}: {hits} hits, the first {shown} of them; go on by `line` or `byte`")
        }
        (hits, _) => format!("{name}: {hits} hits, all of them"),
    };
    Ok(Some(SpillExcerpt { head, text }))
}

/// The hit with the rest of its line: at most `AROUND` bytes on either side.
fn around(text: &[u8], hit: usize, length: usize) -> String {
    let end = hit.saturating_add(length);
    let before = text.get(hit.saturating_sub(AROUND)..hit).unwrap_or_default();
    let after = text.get(end..end.saturating_add(AROUND).min(text.len())).unwrap_or_default();
    let before =
        memrchr(b'\n', before).map_or(before, |at| before.get(at + 1..).unwrap_or_default());
    let after = after.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let is_inside = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    let skipped = before.iter().take_while(|byte| is_inside(byte)).count();
    let before = before.get(skipped..).unwrap_or_default();
    let after = after.get(..whole_characters(after)).unwrap_or(after);
    let found = [before, text.get(hit..end).unwrap_or_default(), after].concat();
    String::from_utf8_lossy(&found).into_owned()
}
