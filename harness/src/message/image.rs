//! A picture, as bytes or as an address.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind};

/// A picture in a message: its bytes with a media type, or an address that the vendor fetches.
///
/// Bytes are of a PNG, JPEG, GIF or WebP file, which all vendors take. In place of others, such as those of a
/// PDF document, the model reads that a picture stood there that cannot be shown.
///
/// As JSON it is `{"mime": "image/png", "data": "<base64>"}` or `{"url": "https://.."}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Image {
    /// The picture itself.
    Data {
        /// Media type, such as `image/png`.
        mime: String,
        /// The bytes of the file, in base64.
        data: String,
    },
    /// Where the vendor finds it.
    Url {
        /// An `https` address.
        url: String,
    },
}

impl Image {
    /// A picture from the bytes of its file.
    pub fn from_bytes(mime: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::Data { mime: mime.into(), data: STANDARD.encode(bytes) }
    }

    /// A picture that the vendor fetches itself.
    pub fn from_url(url: impl Into<String>) -> Self {
        Self::Url { url: url.into() }
    }

    /// The bytes of the file, if they are here.
    ///
    /// # Errors
    /// Fails if `data` is not base64.
    pub fn bytes(&self) -> Result<Option<Vec<u8>>, Error> {
        match self {
            Self::Data { data, .. } => STANDARD.decode(data).map(Some).map_err(|err| {
                Error::new(ErrorKind::Transcript, "the data of an image is not base64").because(err)
            }),
            Self::Url { .. } => Ok(None),
        }
    }
}
