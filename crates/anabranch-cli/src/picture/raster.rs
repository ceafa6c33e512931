//! The files of a picture: SVG, and PNG with the embedded font, so that text shows on a machine without fonts.

#[cfg(feature = "png")]
mod pixels;

use thiserror::Error;

#[cfg(feature = "png")]
pub use pixels::png;

/// Why a picture could not be drawn as PNG.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RasterError {
    /// The SVG cannot be read.
    #[cfg(feature = "png")]
    #[error("the picture is not valid svg")]
    Svg(#[from] resvg::usvg::Error),
    /// The picture has no area, or more than memory can hold.
    #[error("a picture of {width}×{height} pixels cannot be drawn")]
    Size {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// The pixels cannot be written as PNG.
    #[error("the picture cannot be written as png: {0}")]
    Encoding(String),
}

/// The files of a picture, name and bytes: SVG, and PNG where the build has it.
pub fn files(name: &str, svg: &str) -> Result<Vec<(String, Vec<u8>)>, RasterError> {
    Ok(vec![
        (format!("{name}.svg"), svg.as_bytes().to_vec()),
        #[cfg(feature = "png")]
        (format!("{name}.png"), png(svg)?),
    ])
}
