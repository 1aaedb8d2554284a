//! Devices whose addresses an SMMU translates: their drivers, and the memory that they reach.
//!
//! Such a device finds its memory at the physical addresses. So a driver gives a device equal addresses with and without a
//! translation.

use fusee_abi::call::rights;
use fusee_abi::image::{self, kind, mapping};
use fusee_kernel_core::limits;
use toml::Spanned;

use super::handles::WRITE;
use super::{
    Fail::{self, At},
    Of, RegionKind, Resolver,
};
use crate::error::Reason;
use crate::layout::PAGE;

/// The name of the board's SMMU in a manifest.
pub(super) const SMMU: &str = "smmu";

impl Resolver<'_> {
    pub(super) fn streams(&mut self) {
        for index in 0..self.out.board_regions.len() {
            let found = self.stream(index);
            self.keep(Of::Nothing, found);
        }
        let file = self.file;
        for (index, (name, region)) in file.regions.0.iter().enumerate() {
            let Some(device) = &region.dma else { continue };
            let found = self.sound(Of::Region(index)).and_then(|()| self.reached(index, name, device));
            self.keep(Of::Nothing, found);
        }
    }

    /// The stream of a device of the board, if it has one, and the task that drives it.
    fn stream(&mut self, index: usize) -> Result<(), Fail> {
        let (region, device) = &self.out.board_regions[index];
        let Some(number) = self.out.board.devices.get(device).and_then(|device| device.stream) else { return Ok(()) };
        let (region, device) = (*region, device.clone());
        self.sound(Of::Region(region))?;
        let is_driver = |handle: &&image::Handle| {
            handle.kind == kind::REGION && handle.object as usize == region && handle.rights & WRITE != 0
        };
        let drivers: Vec<u32> = self.out.handles.iter().filter(is_driver).map(|handle| handle.task).collect();
        let place = self.file.regions.0[region].0.span();
        let [task] = drivers[..] else {
            let needs = "one task that may write to its registers: when that ends, it reaches nothing any more";
            return Err(At(place, Reason::Needs { what: "device", of: device, needs }));
        };
        if self.out.streams.len() == limits::STREAMS_MAX {
            return Err(At(place, Reason::TooMany { what: "devices behind an SMMU", limit: limits::STREAMS_MAX }));
        }
        self.out.streams.push(image::Stream { number, task, region: region as u32, reserved: 0 });
        Ok(())
    }

    /// `device` reaches region `index`; or, if it is the SMMU, writes DMA faults there.
    fn reached(&mut self, index: usize, name: &Spanned<String>, device: &Spanned<String>) -> Result<(), Fail> {
        let of = || name.get_ref().clone();
        let excludes = |with| Err(At(device.span(), Reason::Excludes { what: "dma", of: of(), with }));
        let flags = match self.region_kinds[index] {
            RegionKind::Memory => 0,
            RegionKind::Uncached => mapping::UNCACHED,
            RegionKind::Device(_) => return excludes("device"),
            RegionKind::Trace => return excludes("trace"),
        };
        let of_region = self.out.handles.iter().filter(|handle| handle.kind == kind::REGION);
        let all = of_region.filter(|handle| handle.object as usize == index).fold(0, |all, one| all | one.rights);
        let moving = [("the right `map`", rights::MAP), ("the right `lend`", rights::LEND), ("lent", rights::LENT)];
        if let Some((with, _)) = moving.into_iter().find(|(_, right)| all & right != 0) {
            return excludes(with);
        }
        let image::Region { physical, bytes, .. } = self.out.regions[index].1;
        if device.get_ref() == SMMU {
            if self.out.board.smmu.is_none() {
                return Err(self.lacks(device.span(), "SMMU".to_owned()));
            }
            if bytes != PAGE {
                let needs = "a length of one page: the queue of DMA faults is one";
                return Err(At(device.span(), Reason::Needs { what: "dma", of: of(), needs }));
            }
            if self.out.dma_faults.replace(physical).is_some() {
                return Err(At(device.span(), Reason::DefinedTwice { kind: "region for DMA faults", name: of() }));
            }
            return Ok(());
        }
        let known = self.board_device(device.get_ref(), device.span())?;
        if !known.masters_memory() {
            return excludes("a device that reaches no memory");
        }
        if known.stream.is_none() {
            // Nothing translates its addresses: it reaches all memory.
            return Ok(());
        }
        let is_it = |(_, name): &&(usize, String)| name == device.get_ref();
        let registers = self.out.board_regions.iter().find(is_it).map(|(region, _)| *region);
        let Some(registers) = registers else {
            let needs = "a region of the device's registers";
            return Err(At(device.span(), Reason::Needs { what: "dma", of: of(), needs }));
        };
        // A device without its stream here has a mistake that is reported elsewhere.
        let is_its = |stream: &image::Stream| stream.region as usize == registers;
        let Some(stream) = self.out.streams.iter().position(is_its) else { return Ok(()) };
        self.out.mappings.push(image::Mapping {
            task: stream as u32,
            flags: flags | mapping::READ | mapping::WRITE | mapping::STREAM,
            address: physical,
            physical,
            pages: bytes / PAGE,
            source_offset: 0,
            source_bytes: 0,
        });
        Ok(())
    }
}
