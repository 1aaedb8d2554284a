//! Devices that a project adds to its board: `[board.devices.NAME]`.
//!
//! They become devices of the board: regions and interrupts name them, and a run gives QEMU their arguments. A device with a mistake is
//! added, too, so that those who name it have no further mistake.

use fusee_kernel_core::limits::STREAM_NUMBERS;
use toml::Spanned;

use crate::board::{Board, BoardDevice, DeviceKind};
use crate::error::Reason;
use crate::layout::PAGE;
use crate::read::Mistake;
use crate::schema::{OwnBoard, OwnDevice};

/// Adds the devices to the board. Returns the mistakes in them.
pub(super) fn add(board: &mut Board, own: &OwnBoard) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for (name, device) in own.devices.0.iter().filter(|_| !own.is_elsewhere) {
        let found = check(board, name, device);
        mistakes.extend(found);
        let made = BoardDevice {
            kind: *device.kind.get_ref(),
            at: *device.at.get_ref(),
            bytes: *device.bytes.get_ref(),
            line: device.line.as_ref().map(|line| *line.get_ref()),
            stream: device.stream.as_ref().map(|stream| *stream.get_ref()),
            memory: None,
            memory_bytes: None,
            engine: false,
            screen: false,
            masters_memory: device.masters_memory.as_ref().map(|masters| *masters.get_ref()),
            qemu: device.qemu.as_ref().map(|qemu| qemu.get_ref().clone()),
        };
        board.devices.entry(name.get_ref().clone()).or_insert(made);
    }
    mistakes
}

/// The first mistake of a device.
fn check(board: &Board, name: &Spanned<String>, device: &OwnDevice) -> Option<Mistake> {
    let of = || name.get_ref().clone();
    if board.devices.contains_key(name.get_ref()) || name.get_ref() == super::streams::SMMU {
        return Some((name.span(), Reason::DefinedTwice { kind: "device of the board", name: of() }));
    }
    let (at, bytes) = (*device.at.get_ref(), device.bytes.get_ref().0);
    if !at.is_multiple_of(PAGE) {
        return Some((device.at.span(), Reason::NotPages { what: "physical address", of: of() }));
    }
    if bytes == 0 || !bytes.is_multiple_of(PAGE) {
        return Some((device.bytes.span(), Reason::NotPages { what: "length", of: of() }));
    }
    if let Err(reason) = board.lets_have("device", name.get_ref(), &(at..at.saturating_add(bytes))) {
        return Some((device.at.span(), reason));
    }
    if let Some(line) = device.line.as_ref().filter(|line| *line.get_ref() == 0) {
        return Some((line.span(), Reason::Zero { what: "line", of: of() }));
    }
    if let Some(stream) = &device.stream {
        let lacks = Reason::BoardLacks { board: board.name.clone(), what: "SMMU".to_owned() };
        let (what, to) = ("stream", STREAM_NUMBERS - 1);
        return match board.smmu {
            None => Some((stream.span(), lacks)),
            Some(_) if *stream.get_ref() > to => {
                Some((stream.span(), Reason::OutOfRange { what, of: of(), from: 0, to }))
            }
            Some(_) => None,
        };
    }
    if let Some(masters) = device.masters_memory.as_ref().filter(|_| *device.kind.get_ref() != DeviceKind::Other) {
        let with = "a kind that is known";
        return Some((masters.span(), Reason::Excludes { what: "masters_memory", of: of(), with }));
    }
    let qemu = device.qemu.as_ref()?;
    let options = qemu.get_ref().arguments.chunks(2);
    let are_options = options.into_iter().all(|option| option.len() == 2 && option[0].starts_with('-'));
    if !are_options {
        return Some((qemu.span(), Reason::NotOptions { device: of() }));
    }
    let wants_file = qemu.get_ref().arguments.iter().any(|argument| argument.contains("{file}"));
    if wants_file && qemu.get_ref().bytes.is_none() {
        let needs = "`bytes`, the length of the file behind it";
        return Some((qemu.span(), Reason::Needs { what: "`{file}`", of: of(), needs }));
    }
    None
}
