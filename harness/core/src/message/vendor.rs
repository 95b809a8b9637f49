//! Opaque data that must be sent back to a vendor: signatures, encrypted reasoning, item ids,
//! server-side blocks.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind};

/// JSON from one vendor, kept byte for byte and sent back only on the wire on which it arrived.
///
/// The JSON cannot be changed, because vendors sign the exact bytes of reasoning and refuse changed
/// bytes. The saved form is a string, so that no JSON reader reformats the JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SavedVendorData", into = "SavedVendorData")]
pub struct VendorData {
    wire: Cow<'static, str>,
    json: Box<str>,
}

impl VendorData {
    /// Keeps `json` for the wire with this name.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`] if `json` is not one JSON value.
    pub fn new(wire: impl Into<String>, json: impl Into<String>) -> Result<Self, Error> {
        let mut json = json.into();
        let value: &RawValue = serde_json::from_str(&json).map_err(|err| {
            Error::new(ErrorKind::Protocol, "vendor data is not one JSON value").with_source(err)
        })?;
        if value.get().len() < json.len() {
            json = value.get().to_owned();
        }
        Ok(Self { wire: Cow::Owned(wire.into()), json: json.into() })
    }

    /// Keeps `json`, which must be one JSON value. This function is for decoders, which build `json` from values that
    /// they have already parsed.
    pub fn of_value(wire: &'static str, json: String) -> Self {
        debug_assert!(
            serde_json::from_str::<&RawValue>(&json).is_ok_and(|it| it.get().len() == json.len()),
            "a decoder keeps what is not one JSON value: {json}"
        );
        Self { wire: Cow::Borrowed(wire), json: json.into() }
    }

    /// The name of the wire on which the data arrived. The data may be sent back only on this wire.
    pub fn wire(&self) -> &str {
        &self.wire
    }

    /// The JSON, exactly as it arrived.
    pub fn json(&self) -> &str {
        &self.json
    }
}

#[derive(Serialize, Deserialize)]
struct SavedVendorData {
    wire: String,
    json: String,
}

impl TryFrom<SavedVendorData> for VendorData {
    type Error = Error;

    fn try_from(SavedVendorData { wire, json }: SavedVendorData) -> Result<Self, Error> {
        Self::new(wire, json)
    }
}

impl From<VendorData> for SavedVendorData {
    fn from(data: VendorData) -> Self {
        Self { json: data.json.into(), wire: data.wire.into_owned() }
    }
}
