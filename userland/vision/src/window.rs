//! The part of the photograph that the camera sees.

/// Pixels of a row of that part.
pub const SCENE_WIDTH: usize = 264;
/// Rows of the scene.
pub const SCENE_HEIGHT: usize = 216;
