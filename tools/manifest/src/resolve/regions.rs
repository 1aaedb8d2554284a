//! Regions: where they lie in memory, and at which addresses tasks see them.

use std::ops::Range;

use fusee_abi::image;
use fusee_abi::trace::{Level, RING_BYTES};
use fusee_kernel_core::limits;
use toml::Spanned;

use super::mistakes::Fail::{self, At};
use super::mistakes::Of;
use super::{RegionKind, Resolver};
use crate::board::{Board, BoardDevice};
use crate::error::Reason;
use crate::layout::{self, PAGE};
use crate::schema;

impl Resolver<'_> {
    pub(super) fn regions(&mut self) {
        let mut fixed = Vec::new();
        for (index, (name, region)) in self.file.regions.0.iter().enumerate() {
            let memory = match &region.cached {
                Some(cached) if !*cached.get_ref() => RegionKind::Uncached,
                _ => RegionKind::Memory,
            };
            let (kind, place) = match (region.trace, &region.device) {
                (true, _) => (RegionKind::Trace, self.rings(name, region)),
                (_, None) => (memory, self.physical(name, region, false, &mut fixed)),
                (_, Some(device)) => match device.get_ref() {
                    schema::RegionDevice::Plain(false) => (memory, self.physical(name, region, false, &mut fixed)),
                    schema::RegionDevice::Plain(true) => {
                        (RegionKind::Device(0), self.physical(name, region, true, &mut fixed))
                    }
                    schema::RegionDevice::Named(wanted) => {
                        let kind = self.out.board.devices.get(wanted).map_or(0, |device| device.kind.number());
                        self.out.board_regions.push((index, wanted.clone()));
                        (RegionKind::Device(kind), self.named_device(name, region, wanted, device.span(), &mut fixed))
                    }
                },
            };
            let place = match (&region.cached, memory == kind) {
                (Some(cached), false) => {
                    let with = if region.trace { "trace" } else { "device" };
                    Err(At(cached.span(), Reason::Excludes { what: "cached", of: name.get_ref().clone(), with }))
                }
                _ => place,
            };
            let added = place
                .and_then(|(physical, bytes)| self.region(name.get_ref().clone(), physical, bytes, kind, name.span()));
            if self.keep(Of::Region(index), added).is_none() {
                let nowhere = image::Region { physical: 0, bytes: 0, address: 0 };
                self.out.regions.push((name.get_ref().clone(), nowhere));
                self.region_kinds.push(kind);
            }
        }
    }

    /// The place of the CPUs' rings in the kernel's trace, and their length.
    fn rings(&self, name: &Spanned<String>, region: &schema::Region) -> Result<(u64, u64), Fail> {
        let of = || name.get_ref().clone();
        let others = [
            ("bytes", region.bytes.as_ref().map(Spanned::span)),
            ("physical", region.physical.as_ref().map(Spanned::span)),
            ("device", region.device.as_ref().map(Spanned::span)),
        ];
        for (with, place) in others {
            if let Some(place) = place {
                return Err(At(place, Reason::Excludes { what: "trace", of: of(), with }));
            }
        }
        if self.out.trace == Level::Off {
            let with = "`trace = \"off\"` of the system";
            return Err(At(name.span(), Reason::Excludes { what: "trace", of: of(), with }));
        }
        Ok((0, u64::from(self.out.cpus) * RING_BYTES as u64))
    }

    /// The place of the board's device that is called `wanted`, and the length of its registers.
    fn named_device<'a>(
        &mut self,
        name: &'a Spanned<String>,
        region: &schema::Region,
        wanted: &str,
        place: Range<usize>,
        fixed: &mut Vec<(Range<u64>, &'a str)>,
    ) -> Result<(u64, u64), Fail> {
        let BoardDevice { at, bytes, .. } = *self.board_device(wanted, place.clone())?;
        let others = [
            ("bytes", region.bytes.as_ref().map(Spanned::span)),
            ("physical", region.physical.as_ref().map(Spanned::span)),
        ];
        for (with, place) in others {
            if let Some(place) = place {
                return Err(At(place, Reason::Excludes { what: "device", of: name.get_ref().clone(), with }));
            }
        }
        take_place(at..at + bytes.0, name, place, fixed)?;
        Ok((at, bytes.0))
    }

    /// The place of a region, and its length. `fixed`: those with a place of their own so far.
    fn physical<'a>(
        &mut self,
        name: &'a Spanned<String>,
        region: &schema::Region,
        is_device: bool,
        fixed: &mut Vec<(Range<u64>, &'a str)>,
    ) -> Result<(u64, u64), Fail> {
        let of = name.get_ref().clone();
        let length = region.bytes.as_ref().ok_or_else(|| At(name.span(), Reason::MissingKey("bytes".into())))?;
        let bytes = length.get_ref().0;
        if bytes == 0 || !bytes.is_multiple_of(PAGE) {
            return Err(At(length.span(), Reason::NotPages { what: "length", of }));
        }
        if let Some((whole, offset)) = &region.part_of {
            let known = self.out.regions.iter().find(|(name, _)| name == whole);
            let (_, whole) = known.ok_or(Fail::Follows)?;
            return Ok((whole.physical + offset, bytes));
        }
        match &region.physical {
            None if is_device => {
                Err(At(name.span(), Reason::Needs { what: "device", of, needs: "a physical address" }))
            }
            None => Ok((self.allocate(&of, bytes, length.span())?, bytes)),
            Some(at) => {
                let start = *at.get_ref();
                if !start.is_multiple_of(PAGE) {
                    return Err(At(at.span(), Reason::NotPages { what: "physical address", of }));
                }
                let range = start..start.saturating_add(bytes);
                self.out.board.lets_have("region", &of, &range).map_err(|reason| At(at.span(), reason))?;
                take_place(range, name, at.span(), fixed)?;
                Ok((start, bytes))
            }
        }
    }

    /// Adds a region and finds an address for it.
    pub(super) fn region(
        &mut self,
        name: String,
        physical: u64,
        bytes: u64,
        kind: RegionKind,
        place: Range<usize>,
    ) -> Result<usize, Fail> {
        if self.out.regions.len() >= limits::REGIONS {
            return Err(At(place, Reason::TooMany { what: "regions", limit: limits::REGIONS }));
        }
        let address = self.next_address;
        let end = bytes.checked_next_multiple_of(layout::REGION_STEP).and_then(|bytes| address.checked_add(bytes));
        match end {
            Some(end) if end <= layout::DOORBELLS => self.next_address = end,
            _ => return Err(At(place, Reason::NoAddresses { of: name })),
        }
        self.out.regions.push((name, image::Region { physical, bytes, address }));
        self.region_kinds.push(kind);
        Ok(self.out.regions.len() - 1)
    }
}

/// Adds the place of a region to those that are taken, unless it overlaps one. `at`: its entry in the manifest.
fn take_place<'a>(
    range: Range<u64>,
    name: &'a Spanned<String>,
    at: Range<usize>,
    taken: &mut Vec<(Range<u64>, &'a str)>,
) -> Result<(), Fail> {
    if let Some((_, with)) = taken.iter().find(|(other, _)| range.start < other.end && other.start < range.end) {
        let with = format!("region `{with}`");
        return Err(At(at, Reason::Overlap { kind: "region", name: name.get_ref().clone(), with }));
    }
    taken.push((range, name.get_ref()));
    Ok(())
}

impl Board {
    /// Whether tasks may have these physical addresses, which a thing of this kind and name has.
    ///
    /// # Errors
    /// The reason, if they are RAM, or registers that are the kernel's alone.
    pub(super) fn lets_have(&self, kind: &'static str, name: &str, range: &Range<u64>) -> Result<(), Reason> {
        let overlap = |other: Range<u64>| range.start < other.end && other.start < range.end;
        let name = name.to_owned();
        if overlap(self.memory.base..self.memory.base + self.memory.bytes.0) {
            let with = "the board's RAM, which is given out by the packer".into();
            return Err(Reason::Overlap { kind, name, with });
        }
        if let Some(device) = self.owned.iter().find(|device| overlap(device.from..device.to)) {
            return Err(Reason::KernelDevice { kind, name, device: device.name.clone() });
        }
        if self.kick.as_ref().is_some_and(|kick| overlap(kick.page..kick.page + PAGE)) {
            let with = "the page through which the accelerator is kicked".into();
            return Err(Reason::Overlap { kind, name, with });
        }
        Ok(())
    }
}
