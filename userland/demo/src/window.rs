//! Where the camera looks.

/// Pixels of a frame's row.
pub const WIDTH: usize = 128;
/// Rows of a frame.
pub const HEIGHT: usize = 96;
/// Furthest the window shakes in each direction, in pixels.
pub const SHAKE: usize = 6;

/// The part of the photograph the window can see.
pub const SCENE_WIDTH: usize = WIDTH + 2 * SHAKE;
/// Rows of that part.
pub const SCENE_HEIGHT: usize = HEIGHT + 2 * SHAKE;
/// Where that part begins in the photograph.
pub const SCENE_LEFT: usize = 180;
/// The first row of that part.
pub const SCENE_TOP: usize = 66;
