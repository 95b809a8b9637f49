//! What a vendor wants back unread: signatures, encrypted reasoning, item ids, server-side blocks.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind};

/// JSON of one vendor, kept byte for byte and sent back only on the wire that it came from.
///
/// Nobody can alter it: vendors bind reasoning to its exact bytes and refuse what was changed.
/// Written down it is a string, so that no reader of JSON re-spells it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Saved", into = "Saved")]
pub struct VendorData {
    wire: String,
    data: Box<RawValue>,
}

impl VendorData {
    /// Keeps `json` for the wire of this name.
    ///
    /// # Errors
    /// Fails if `json` is not one JSON value.
    pub fn new(wire: impl Into<String>, json: impl Into<String>) -> Result<Self, Error> {
        let data = RawValue::from_string(json.into()).map_err(|err| {
            Error::new(ErrorKind::Protocol, "vendor data is not one JSON value").because(err)
        })?;
        Ok(Self { wire: wire.into(), data })
    }

    /// The wire that it came from and that alone gets it back.
    pub fn wire(&self) -> &str {
        &self.wire
    }

    /// The JSON, exactly as it came.
    pub fn json(&self) -> &str {
        self.data.get()
    }

    /// The JSON, ready to be embedded in a request.
    pub fn raw(&self) -> &RawValue {
        &self.data
    }
}

#[derive(Serialize, Deserialize)]
struct Saved {
    wire: String,
    json: String,
}

impl TryFrom<Saved> for VendorData {
    type Error = Error;

    fn try_from(Saved { wire, json }: Saved) -> Result<Self, Error> {
        Self::new(wire, json)
    }
}

impl From<VendorData> for Saved {
    fn from(data: VendorData) -> Self {
        Self { json: data.json().to_owned(), wire: data.wire }
    }
}

impl PartialEq for VendorData {
    fn eq(&self, other: &Self) -> bool {
        self.wire == other.wire && self.json() == other.json()
    }
}

impl Eq for VendorData {}
