//! Estimates the memory that a JSON value needs: a few bytes of text may need a hundred bytes of memory.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

/// As many bytes as a member or an item of a JSON value needs in memory, besides its text.
const NODE: [u8; 96] = [0; 96];

/// As many bytes as an object needs in memory, besides its members. Objects reserve room for more members than they
/// have.
const OBJECT: [u8; 384] = [0; 384];

/// The approximate memory of a value, in bytes.
pub(super) fn of(value: &impl Serialize) -> usize {
    let mut size = ByteCounter(0);
    let mut weighing = serde_json::Serializer::with_formatter(&mut size, MemoryFormatter);
    match value.serialize(&mut weighing) {
        Ok(()) => size.0,
        // A value that cannot be written as JSON is not kept.
        Err(_) => usize::MAX,
    }
}

/// A formatter that writes additional bytes for each member, item and object, so that the length of the output is the
/// memory size of the value.
struct MemoryFormatter;

impl Formatter for MemoryFormatter {
    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        _first: bool,
    ) -> io::Result<()> {
        writer.write_all(&NODE)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(&OBJECT)
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        _first: bool,
    ) -> io::Result<()> {
        writer.write_all(&NODE)
    }
}

struct ByteCounter(usize);

impl Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
