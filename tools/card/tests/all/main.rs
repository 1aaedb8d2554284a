//! What a card is, checked against other readers of FAT and U-Boot's own tools; and which devices are refused.

mod boards;
mod devices;
mod images;
mod tools;
