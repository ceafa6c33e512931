//! SVG to PNG with the embedded font, so that text shows on a machine without fonts.

use resvg::{tiny_skia, usvg};
use std::sync::{Arc, LazyLock};
use thiserror::Error;

/// Pixels for each unit of the picture.
const SCALE: f32 = 2.0;

/// Subsets of Inter (SIL Open Font License, see `assets/OFL.txt`).
const FONTS: [&[u8]; 2] = [
    include_bytes!("../../assets/AnabranchSans-Regular.otf"),
    include_bytes!("../../assets/AnabranchSans-SemiBold.otf"),
];

/// Why a picture could not be drawn as PNG.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RasterError {
    /// The SVG cannot be read.
    #[error("the picture is not valid svg")]
    Svg(#[from] usvg::Error),
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

/// The picture as PNG, two pixels for each unit.
pub fn png(svg: &str) -> Result<Vec<u8>, RasterError> {
    let tree = usvg::Tree::from_str(svg, &options())?;
    let size = tree.size().to_int_size();
    let (width, height) = (size.width() * SCALE as u32, size.height() * SCALE as u32);
    let mut pixels = tiny_skia::Pixmap::new(width, height).ok_or(RasterError::Size { width, height })?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| RasterError::Encoding(error.to_string()))
}

fn options() -> usvg::Options<'static> {
    static DATABASE: LazyLock<Arc<usvg::fontdb::Database>> = LazyLock::new(|| {
        let mut database = usvg::fontdb::Database::new();
        FONTS.iter().for_each(|font| database.load_font_data(font.to_vec()));
        database.set_sans_serif_family("Anabranch Sans");
        Arc::new(database)
    });
    usvg::Options { font_family: "Anabranch Sans".to_owned(), fontdb: DATABASE.clone(), ..Default::default() }
}
