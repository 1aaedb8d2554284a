//! A car that keeps its lane by a camera: the road, the vehicle, the camera, lane detection and the controller, as plain functions.
//!
//! | Module | Is |
//! |---|---|
//! | [`course`] | a closed road with two bends |
//! | [`vehicle`] | a bicycle model with tyres that slip, and actuators that need time |
//! | [`camera`] | pictures of the road from the place of the car |
//! | [`see`] | the lane in a picture, by the kernels of the package `car-kernels` |
//! | [`drive`] | estimator and controller: these have lanes, speeds of wheels and the yaw rate, and nothing else |
//! | [`messages`] | frames of the CAN bus between both |
//! | [`world`] | the car in its world, and the record of how it went |
//!
//! Kernels and pictures are computed with integers. All else is `f64` with the four basic operations alone: so a board and the host compute the same
//! bits. Time comes in as an argument.
//!
//! Not here: tasks, their periods and their buffers.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod camera;
pub mod course;
pub mod drive;
pub mod messages;
pub mod numbers;
pub mod see;
pub mod vehicle;
pub mod world;
