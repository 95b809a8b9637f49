//! How much memory a JSON value needs: a few bytes of text may need a hundred.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::Formatter;

/// How many bytes of memory a member or an item of a JSON value needs beside its text.
const NODE: [u8; 96] = [0; 96];

/// How many bytes of memory an object needs beside its members: it has room for more of them.
const OBJECT: [u8; 384] = [0; 384];

/// The approximate number of bytes of memory that a value needs.
pub(super) fn of(value: &impl Serialize) -> usize {
    let mut size = ByteCounter(0);
    let mut weighing = serde_json::Serializer::with_formatter(&mut size, MemoryFormatter);
    match value.serialize(&mut weighing) {
        Ok(()) => size.0,
        // What is no JSON is not kept.
        Err(_) => usize::MAX,
    }
}

/// Writes each member and each item with the memory that it needs.
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

/// Counts bytes.
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
