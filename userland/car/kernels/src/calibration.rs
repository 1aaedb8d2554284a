//! The camera, as the kernels know it from a calibration: the lens, the mounting, and the width of a lane.
//!
//! Coordinates of the road are those of the car: forward from its centre of gravity, and to the left.

/// Pixels of a row.
pub const WIDTH: usize = 160;
/// Rows.
pub const HEIGHT: usize = 100;
/// Pixels of a picture.
pub const PIXELS: usize = WIDTH * HEIGHT;
/// The focal length in pixels: the camera sees 43 degrees from left to right.
pub const FOCAL: f64 = 200.0;
/// The lens moves a point at the distance `r` from the axis, in focal lengths, to `r (1 + LENS r^2)` (Brown 1966, the first radial term).
pub const LENS: f64 = -0.2;
/// Metres from the road to the camera.
pub const RISE: f64 = 1.3;
/// Sine and cosine of the angle by which the camera looks down: 4.6 degrees.
pub const SINE: f64 = 0.08;
/// See [`SINE`].
pub const COSINE: f64 = 0.996_794_863_550_169;
/// Millimetres from the centre of one mark of the lane to that of the other.
pub const LANE: i32 = 3500;

/// Rows of the bird's-eye view.
pub const ROWS: usize = 64;
/// Columns.
pub const COLUMNS: usize = 128;
/// Cells.
pub const CELLS: usize = ROWS * COLUMNS;
/// Millimetres between two rows.
pub const ROW: i32 = 500;
/// Millimetres between two columns.
pub const COLUMN: i32 = 125;
/// Millimetres from the car to the first row.
pub const FIRST: i32 = 5000;

/// Millimetres to the left of the car's axis of a column; the first is the leftmost.
#[must_use]
pub const fn left(column: usize) -> i32 {
    (COLUMNS as i32 - 1 - 2 * column as i32) * COLUMN / 2
}

/// Millimetres forward of a row.
#[must_use]
pub const fn forward(row: usize) -> i32 {
    FIRST + row as i32 * ROW
}
