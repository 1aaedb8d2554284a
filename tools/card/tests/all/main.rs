//! The form of a card, checked against other readers of FAT and U-Boot's own tools; and the devices that are refused.

mod boards;
mod devices;
mod images;
mod tools;
