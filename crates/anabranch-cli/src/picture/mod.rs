//! Charts drawn as SVG by our own hand, and, with the feature `png`, as PNG through `resvg` with an
//! embedded font.
//!
//! ```text
//! Figure ── title, subtitle, legend, notes
//!   └─ Panel ── two axes
//!        └─ Layer ── line, scatter, ellipse, bars, rule, label
//! ```
//!
//! A figure is plain data; [`Figure::svg`] turns it into bytes that depend on nothing else. Values that are
//! NaN or infinite are left out, and a panel without any value says "no data".

mod axis;
mod canvas;
mod draw;
mod figure;
mod histogram;
mod label;
mod layer;
mod number;
mod palette;
mod raster;
mod text;
mod tick;

pub use axis::{Axis, Scaling, Ticks};
pub use figure::{Figure, LegendEntry, LegendMark, Panel};
pub use histogram::histogram;
pub use layer::{Bar, Direction, Dots, Layer, Path, Stroke};
pub(crate) use number::short_number;
pub use number::{compact, counted, grouped, significant};
pub use palette::{Colour, component_colour};
#[cfg(feature = "png")]
pub use raster::png;
pub use raster::{RasterError, files};
pub use text::escape;

/// A value that can be placed on an axis: finite, and small enough that differences stay finite.
pub(crate) fn is_drawable(value: f64) -> bool {
    value.abs() < 1e300
}
