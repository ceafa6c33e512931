//! A sheet of small grey pictures as a PNG.

use resvg::tiny_skia::{Pixmap, PremultipliedColorU8};

use crate::failure::Failure;

/// Pixels on the sheet for each pixel of a picture.
const SCALE: usize = 2;
/// Pixels between two pictures.
const GAP: usize = 4;

/// Square pictures in lines and columns on white.
pub(super) struct Sheet {
    side: usize,
    width: usize,
    height: usize,
    /// Grey, 0 is black.
    grey: Vec<u8>,
}

impl Sheet {
    /// Room for so many pictures of `side` × `side` pixels.
    pub(super) fn new(columns: usize, lines: usize, side: usize) -> Self {
        let step = side * SCALE + GAP;
        let (width, height) = (columns * step + GAP, lines * step + GAP);
        Self { side, width, height, grey: vec![255; width * height] }
    }

    /// Puts a picture of ink between 0 and 1 at its place.
    pub(super) fn put(&mut self, column: usize, line: usize, ink: &[f64]) {
        let step = self.side * SCALE + GAP;
        for y in 0..self.side * SCALE {
            for x in 0..self.side * SCALE {
                let ink = ink[y / SCALE * self.side + x / SCALE].clamp(0.0, 1.0);
                let at = (line * step + GAP + y) * self.width + column * step + GAP + x;
                self.grey[at] = (255.0 * (1.0 - ink)).round() as u8;
            }
        }
    }

    /// The sheet as a file.
    pub(super) fn png(&self) -> Result<Vec<u8>, Failure> {
        let cannot = |what: String| Failure::Internal { message: format!("cannot draw the digits: {what}") };
        let mut pixels = Pixmap::new(self.width as u32, self.height as u32)
            .ok_or_else(|| cannot(format!("{} × {} pixels", self.width, self.height)))?;
        for (pixel, grey) in pixels.pixels_mut().iter_mut().zip(&self.grey) {
            *pixel = PremultipliedColorU8::from_rgba(*grey, *grey, *grey, 255)
                .expect("grey is no brighter than opaque");
        }
        pixels.encode_png().map_err(|error| cannot(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_lies_where_it_was_put() {
        let mut sheet = Sheet::new(2, 1, 2);
        sheet.put(1, 0, &[1.0, 0.0, 0.0, 2.0]);
        let pixels = Pixmap::decode_png(&sheet.png().unwrap()).unwrap();
        let at = |x: u32, y: u32| pixels.pixel(x, y).unwrap().red();
        let left = (GAP + 2 * SCALE + GAP) as u32;
        assert_eq!([at(left, 4), at(left + 2, 4), at(left + 3, 7), at(0, 0)], [0, 255, 0, 255]);
    }
}
