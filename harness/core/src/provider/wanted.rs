//! Items that the model requests and that the library cannot execute.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The type of an item that the model requests from the program and that the library cannot execute. The value is the
/// vendor's name of the type, such as `local_shell_call` or `mcp_approval_request`.
///
/// ```
/// use harness::provider::WantedItem;
///
/// assert_eq!(WantedItem::new("computer_call").as_str(), "computer_call");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct WantedItem {
    length: u8,
    bytes: [u8; LONGEST],
}

/// The maximum length of a name, in bytes. All known names are shorter; a longer name is cut.
const LONGEST: usize = 47;

impl WantedItem {
    /// Creates the item type with this name.
    pub fn new(name: &str) -> Self {
        let (mut bytes, mut length) = ([0; LONGEST], 0);
        for (to, byte) in bytes.iter_mut().zip(name.bytes().filter(u8::is_ascii_graphic)) {
            *to = byte;
            length += 1;
        }
        Self { length, bytes }
    }

    /// The vendor's name of the type.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.length)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl fmt::Display for WantedItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for WantedItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Serialize for WantedItem {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for WantedItem {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self::new(&String::deserialize(from)?))
    }
}
