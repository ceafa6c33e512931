//! SVG to PNG.

use std::sync::{Arc, LazyLock};

use resvg::{tiny_skia, usvg};

use super::RasterError;

/// Pixels for each unit of the picture.
const SCALE: f32 = 2.0;

/// Subsets of Inter (SIL Open Font License, see `assets/OFL.txt`).
const FONTS: [&[u8]; 2] = [
    include_bytes!("../../../assets/AnabranchSans-Regular.otf"),
    include_bytes!("../../../assets/AnabranchSans-SemiBold.otf"),
];

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
