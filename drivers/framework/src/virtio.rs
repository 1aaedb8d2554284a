//! A virtio device with one queue or several, of which one request is under way at a time (OASIS, Virtual I/O Device, version 1.2).
//!
//! [`Packets`] is a device with many requests under way, each of which is one packet.
//!
//! Registers and queue are those of the crate `virtio-drivers`. Its requests borrow memory that the device reads and writes meanwhile, which
//! the compiler cannot see; here they are made safe: all memory that a device is told of lies in one region that the task has [alone], and no
//! reference to it exists while a request is under way.
//!
//! The device takes physical addresses. Nothing translates them, so a driver that is wrong, or a device that is, may reach all memory;
//! `cargo xtask run` says so of the task.
//!
//! # Invariants
//!
//! 1. The device is told of memory in the claimed region only.
//! 2. A reference to the data exists only between requests.
//! 3. A device that gives an answer to no request gets no further request, unless it is started anew.
//! 4. Memory of queues is used again only after the device has said that it is reset.
//!
//! [alone]: fusee::Region::is_alone

mod packets;

pub use packets::Packets;
pub use virtio_drivers::transport::DeviceType;

use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use fusee::Region;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::mmio::{MmioTransport, VirtIOHeader};
use virtio_drivers::transport::{DeviceStatus, Transport};
use virtio_drivers::{BufferDirection, Hal, PAGE_SIZE, PhysAddr};

use crate::ClaimError;
use crate::registers::take;

/// Bytes of registers of one device; its own are in the second half.
const REGISTERS: usize = 0x200;
/// Descriptors of a queue: a request has four at most.
const DESCRIPTORS: usize = 4;
/// How often a device is asked whether it is reset.
const LOOKS: usize = 100_000;
/// The feature that the interface is that of version 1, which a driver must accept.
const VERSION_1: u64 = 1 << 32;
/// Bytes that can be said before the data of a request.
pub const HEADER: usize = 128;
/// Bytes that a device can answer after the data of a request.
pub const ANSWER: usize = 24;

/// Why a device cannot be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OpenError {
    /// The region of its registers could not be claimed.
    Registers(ClaimError),
    /// The region of its memory could not be claimed.
    Memory(ClaimError),
    /// Another task has a handle of the region of its memory, too.
    Shared,
    /// This task does not know where the region of its memory lies: its handle needs the right `physical`.
    NoAddress,
    /// There is no such device in these registers.
    Absent,
    /// The device does not accept the chosen features, or one of its queues.
    Refused,
    /// The device does not stop when it is reset.
    Restless,
}

/// Why a request was not made, or is over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QueueError {
    /// Another is under way; or none is, of those that end a request.
    Busy,
    /// There is not so much room for header, data or answer, or the request has none of them.
    Length,
    /// The device answered a request that was not made, or was switched off.
    Lost,
}

/// Where the data of a request go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Data {
    /// There are none.
    None,
    /// The device reads so many bytes.
    ToDevice(usize),
    /// The device writes so many bytes.
    FromDevice(usize),
    /// The device reads so many bytes in the first half of the data, and writes as many in the second.
    Through(usize),
}

/// How a request ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Completion {
    /// Bytes that the device says it has written: data, and the answer.
    pub written: u32,
    /// The answer of the device, and behind that ones.
    pub answer: [u8; ANSWER],
}

/// A device that is ready for requests, with so many queues.
pub struct Device<const QUEUES: usize = 1> {
    transport: MmioTransport<'static>,
    /// The number that the device gives each queue.
    numbers: [u16; QUEUES],
    queues: [Option<VirtQueue<Memory, DESCRIPTORS>>; QUEUES],
    wanted: u64,
    features: u64,
    /// Header and answer of a request, in this order.
    frame: NonNull<Frame>,
    data: NonNull<u8>,
    capacity: usize,
    /// The request that is under way.
    pending: Option<Pending>,
    is_lost: bool,
}

/// A request that is under way.
#[derive(Clone, Copy)]
struct Pending {
    /// The queue that gave the token.
    queue: usize,
    token: u16,
    parts: Parts,
}

/// The parts of a request: bytes of its header, its data, bytes of its answer.
#[derive(Clone, Copy)]
struct Parts {
    header: usize,
    data: Data,
    answer: usize,
}

/// The memory before and after the data of a request.
#[repr(C)]
struct Frame {
    header: [u8; HEADER],
    answer: [u8; ANSWER],
}

/// Claims registers and memory of a device of this type, which is neither reset nor started.
fn attach(registers: &Region, memory: &Region, device_type: DeviceType) -> Result<MmioTransport<'static>, OpenError> {
    let header = take::<[u32; REGISTERS / 4]>(registers).map_err(OpenError::Registers)?;
    let header = header.cast::<VirtIOHeader>();
    Memory::claim(memory)?;
    // SAFETY: `header` must point to registers of a virtio device, its own ones included, for ever.
    // - Registers: the environment page declares the region, the manifest its contents, and the kernel maps it as device memory.
    //   A device that is no virtio device is found out by its first register.
    // - So many: `take` has looked that they fit. For ever: regions of devices are never unmapped but by the task itself.
    let transport = unsafe { MmioTransport::new(header, REGISTERS) };
    let transport = transport.map_err(|_| OpenError::Absent)?;
    if transport.device_type() != device_type {
        return Err(OpenError::Absent);
    }
    Ok(transport)
}

/// Resets the device, after which it reaches no queue.
fn reset(transport: &mut MmioTransport<'static>) -> Result<(), OpenError> {
    // A write of zero resets.
    transport.set_status(DeviceStatus::empty());
    if (0..LOOKS).all(|_| transport.get_status() != DeviceStatus::empty()) {
        return Err(OpenError::Restless);
    }
    Ok(())
}

/// Agrees with a device that is reset on those of the `wanted` features that it has.
fn negotiate(transport: &mut MmioTransport<'static>, wanted: u64) -> Result<u64, OpenError> {
    let mut status = DeviceStatus::ACKNOWLEDGE | DeviceStatus::DRIVER;
    transport.set_status(status);
    let features = transport.read_device_features() & (wanted | VERSION_1);
    transport.write_driver_features(features);
    if features & VERSION_1 != 0 {
        status |= DeviceStatus::FEATURES_OK;
        transport.set_status(status);
        if !transport.get_status().contains(DeviceStatus::FEATURES_OK) {
            return Err(OpenError::Refused);
        }
    }
    transport.set_guest_page_size(PAGE_SIZE as u32);
    Ok(features)
}

/// Lets the device begin to work.
fn go(transport: &mut MmioTransport<'static>) {
    transport.set_status(transport.get_status() | DeviceStatus::DRIVER_OK);
}

/// The number of 64 bits at `offset` of a device's own registers, as it is at one instant.
fn configuration(transport: &MmioTransport<'static>, offset: usize) -> Result<u64, QueueError> {
    let half = |offset| transport.read_config_space::<u32>(offset);
    let both = transport.read_consistent(|| Ok((half(offset)?, half(offset + 4)?)));
    let (low, high) = both.map_err(|_| QueueError::Length)?;
    Ok(u64::from(high) << 32 | u64::from(low))
}

/// A device's own registers, before its queues are chosen.
pub struct Configuration<'a>(&'a MmioTransport<'static>);

impl Configuration<'_> {
    /// The number of 32 bits at `offset`.
    ///
    /// # Errors
    /// [`QueueError::Length`] if it is not there.
    pub fn word(&self, offset: usize) -> Result<u32, QueueError> {
        self.0.read_consistent(|| self.0.read_config_space(offset)).map_err(|_| QueueError::Length)
    }
}

impl Device {
    /// Starts the device with registers at the beginning of `registers`, if it is one of this type, with its first queue. Of its features
    /// those of `wanted` are accepted. Queue and data of requests are in `memory`, of which two pages and one are gone then.
    ///
    /// # Errors
    /// [`OpenError`] says why it cannot be used.
    pub fn open(
        registers: &Region,
        memory: &Region,
        device_type: DeviceType,
        wanted: u64,
    ) -> Result<Device, OpenError> {
        Device::with_queues(registers, memory, device_type, wanted, |_| [0])
    }
}

impl<const QUEUES: usize> Device<QUEUES> {
    /// Starts the device as [`Device::open`] does, with several queues. The function `number` reads their number from the device's own registers.
    /// Each takes two pages of `memory`.
    ///
    /// # Errors
    /// [`OpenError`] says why it cannot be used.
    pub fn with_queues(
        registers: &Region,
        memory: &Region,
        device_type: DeviceType,
        wanted: u64,
        number: impl FnOnce(&Configuration<'_>) -> [u16; QUEUES],
    ) -> Result<Device<QUEUES>, OpenError> {
        let transport = attach(registers, memory, device_type)?;
        let mut device = Device {
            numbers: number(&Configuration(&transport)),
            transport,
            queues: [const { None }; QUEUES],
            wanted,
            features: 0,
            frame: NonNull::dangling(),
            data: NonNull::dangling(),
            capacity: 0,
            pending: None,
            is_lost: true,
        };
        device.begin()?;
        (device.frame, device.data, device.capacity) = Memory::rest().ok_or(OpenError::Memory(ClaimError::TooSmall))?;
        device.is_lost = false;
        go(&mut device.transport);
        Ok(device)
    }

    /// Resets the device, and starts it anew: requests under way end without a result, and the device has forgotten all requests.
    ///
    /// # Errors
    /// [`OpenError`] says why it cannot be used any more.
    pub fn restart(&mut self) -> Result<(), OpenError> {
        self.switch_off();
        self.begin()?;
        self.is_lost = false;
        go(&mut self.transport);
        Ok(())
    }

    /// Takes the steps that come before the first request to the device (section 3.1.1).
    fn begin(&mut self) -> Result<(), OpenError> {
        let transport = &mut self.transport;
        reset(transport)?;
        // The device reaches them no more.
        self.queues = [const { None }; QUEUES];
        self.features = negotiate(transport, self.wanted)?;
        for (queue, number) in self.queues.iter_mut().zip(self.numbers) {
            *queue = Some(VirtQueue::new(transport, number, false, false).map_err(|_| OpenError::Refused)?);
        }
        Ok(())
    }

    /// The features that device and driver agree on.
    #[must_use]
    pub fn features(&self) -> u64 {
        self.features
    }

    /// The number of 64 bits at `offset` of the device's own registers, as it is at one instant.
    ///
    /// # Errors
    /// [`QueueError::Length`] if it is not there.
    pub fn configuration(&self, offset: usize) -> Result<u64, QueueError> {
        configuration(&self.transport, offset)
    }

    /// How many bytes of data a request may have.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The address by which the device reaches the data. A device that is told of it in a request may read them until that request has ended, and not
    /// write them.
    #[must_use]
    pub fn data_address(&self) -> u64 {
        let offset = self.data.addr().get() - BASE.load(Ordering::Relaxed);
        PHYSICAL.load(Ordering::Relaxed) + offset as u64
    }

    /// The data of the next request, or of the last one; nothing while one is under way.
    pub fn data(&mut self) -> &mut [u8] {
        if self.pending.is_some() {
            return &mut [];
        }
        // SAFETY: an exclusive slice demands memory that is there, has values, and that nothing else reaches while it lives.
        // - There: `Memory::rest` has cut it from the claimed region. Values: regions are zeroed at boot.
        // - Nothing else: it is cut out once; the task has the region alone; the device has no request, and none can be made while the slice
        //   borrows `self`.
        unsafe { core::slice::from_raw_parts_mut(self.data.as_ptr(), self.capacity) }
    }

    /// The two halves of the data, of which the device reads the first and writes the second; nothing while a request is under way.
    pub fn halves(&mut self) -> (&mut [u8], &mut [u8]) {
        let data = self.data();
        data.split_at_mut(data.len() / 2)
    }

    /// Makes a request in one of the queues, counted as they were chosen: `header`, data, and then so many bytes that the device answers. Each of the three
    /// may be missing, and is then no buffer of the request.
    ///
    /// # Errors
    /// [`QueueError`] says why it was not made.
    pub fn start(&mut self, queue: usize, header: &[u8], data: Data, answer: usize) -> Result<(), QueueError> {
        self.prepare(queue, header, data, answer)?;
        if self.queues[queue].as_ref().is_some_and(VirtQueue::should_notify) {
            self.transport.notify(self.numbers[queue]);
        }
        Ok(())
    }

    /// Puts a request into the queue without a notice to the device, which then need not look.
    ///
    /// # Errors
    /// As [`Device::start`].
    pub fn prepare(&mut self, queue: usize, header: &[u8], data: Data, answer: usize) -> Result<(), QueueError> {
        match (self.is_lost, self.pending) {
            (true, _) => return Err(QueueError::Lost),
            (_, Some(_)) => return Err(QueueError::Busy),
            _ => {}
        }
        let fits = match data {
            Data::None => true,
            Data::ToDevice(bytes) | Data::FromDevice(bytes) => (1..=self.capacity).contains(&bytes),
            Data::Through(bytes) => (1..=self.capacity / 2).contains(&bytes),
        };
        let is_empty = header.is_empty() && data == Data::None && answer == 0;
        if !fits || is_empty || header.len() > HEADER || answer > ANSWER {
            return Err(QueueError::Length);
        }
        // A value that no device answers: a device that writes no status has not succeeded.
        let mut frame = Frame { header: [0; HEADER], answer: [u8::MAX; ANSWER] };
        frame.header[..header.len()].copy_from_slice(header);
        // SAFETY: the pointer must be aligned, and to memory that nothing else reaches: as for `data`.
        unsafe { self.frame.write(frame) };
        let parts = Parts { header: header.len(), data, answer };
        let token = self.with_buffers(queue, parts, |queue, inputs, outputs| {
            // SAFETY: the buffers must stay, and not be touched, until `pop_used` gives them back. They are in the claimed region, and all
            // that makes references to them looks that no request is under way: `pending` is set below.
            unsafe { queue.add(inputs, outputs) }
        });
        let token = token.and_then(Result::ok).ok_or(QueueError::Lost)?;
        self.pending = Some(Pending { queue, token, parts });
        Ok(())
    }

    /// Silences the device's interrupt: to be done before its line is acknowledged, and before [`Device::finish`] looks.
    pub fn silence(&mut self) {
        let _ = self.transport.ack_interrupt();
    }

    /// Whether the device says that it does nothing more until it is reset. It may then not be silent either.
    #[must_use]
    pub fn needs_reset(&self) -> bool {
        self.transport.get_status().contains(DeviceStatus::DEVICE_NEEDS_RESET)
    }

    /// Takes the request that is under way back, if the device is done with it.
    ///
    /// # Errors
    /// [`QueueError::Busy`] if none is under way, [`QueueError::Lost`] if the device answered something else; it is switched off then.
    pub fn finish(&mut self) -> Result<Option<Completion>, QueueError> {
        let Pending { queue, token, parts } = self.pending.ok_or(QueueError::Busy)?;
        match self.queues[queue].as_ref().and_then(VirtQueue::peek_used) {
            None => return Ok(None),
            Some(other) if other != token => {
                self.switch_off();
                return Err(QueueError::Lost);
            }
            Some(_) => {}
        }
        let popped = self.with_buffers(queue, parts, |queue, inputs, outputs| {
            // SAFETY: the buffers must be those of `add` with this token: they are made of the same `parts`, at the same places.
            unsafe { queue.pop_used(token, inputs, outputs) }
        });
        let Some(Ok(written)) = popped else {
            self.switch_off();
            return Err(QueueError::Lost);
        };
        self.pending = None;
        // SAFETY: the pointer must be aligned, and to a value that nothing writes meanwhile: as for `data`.
        let frame = unsafe { self.frame.read() };
        Ok(Some(Completion { written, answer: frame.answer }))
    }

    /// Resets the device, after which it reaches no memory. It takes no requests any more, unless it is started anew.
    pub fn switch_off(&mut self) {
        self.transport.set_status(DeviceStatus::empty());
        // Requests under way end without a result.
        self.pending = None;
        self.is_lost = true;
    }

    /// Calls `use_them` with the queue and with the buffers of a request that has these parts.
    fn with_buffers<T>(
        &mut self,
        queue: usize,
        parts: Parts,
        use_them: impl for<'a> FnOnce(&mut VirtQueue<Memory, DESCRIPTORS>, &'a [&'a [u8]], &'a mut [&'a mut [u8]]) -> T,
    ) -> Option<T> {
        let queue = self.queues.get_mut(queue)?.as_mut()?;
        // SAFETY: an exclusive reference demands an aligned pointer to a value that nothing else reaches while it lives. It lives until
        // this function returns, in which the queue keeps addresses only; for the rest as for `data`.
        let frame = unsafe { self.frame.as_mut() };
        // SAFETY: the same; and there are so many bytes.
        let data = unsafe { core::slice::from_raw_parts_mut(self.data.as_ptr(), self.capacity) };
        let (first, second) = data.split_at_mut(match parts.data {
            Data::None | Data::FromDevice(_) => 0,
            Data::ToDevice(bytes) => bytes,
            Data::Through(_) => self.capacity / 2,
        });
        let (read, written) = match parts.data {
            Data::None => (0, 0),
            Data::ToDevice(bytes) => (bytes, 0),
            Data::FromDevice(bytes) => (0, bytes),
            Data::Through(bytes) => (bytes, bytes),
        };
        let inputs = [&frame.header[..parts.header], &first[..read]];
        let outputs = &mut [&mut second[..written], &mut frame.answer[..parts.answer]];
        // No buffer may be empty.
        let inputs = &inputs[usize::from(parts.header == 0)..1 + usize::from(read > 0)];
        let outputs = &mut outputs[usize::from(written == 0)..1 + usize::from(parts.answer > 0)];
        Some(use_them(queue, inputs, outputs))
    }
}

//--- Memory that the device reaches

/// The region that was claimed: its address here, and for the device; and its length. A task has one, because the crate's trait asks a type for
/// memory, and not a value.
struct Memory;

static BASE: AtomicUsize = AtomicUsize::new(0);
static PHYSICAL: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// The number of its first pages that are for queues; the pages behind them are for frame and data.
static PAGES: AtomicUsize = AtomicUsize::new(0);
/// Bit `i`: page `i` is a queue's.
static TAKEN: AtomicU64 = AtomicU64::new(0);

impl Memory {
    fn claim(region: &Region) -> Result<(), OpenError> {
        if !region.is_alone() {
            return Err(OpenError::Shared);
        }
        if region.physical() == 0 {
            return Err(OpenError::NoAddress);
        }
        // Relaxed, here and below: a task has one thread.
        if BYTES.load(Ordering::Relaxed) != 0 {
            return Err(OpenError::Memory(ClaimError::Taken));
        }
        let start = take::<[u64; PAGE_SIZE / 8]>(region).map_err(OpenError::Memory)?;
        BASE.store(start.as_ptr().expose_provenance(), Ordering::Relaxed);
        PHYSICAL.store(region.physical(), Ordering::Relaxed);
        let bytes = region.shared().len();
        BYTES.store(bytes, Ordering::Relaxed);
        PAGES.store((bytes / PAGE_SIZE).min(u64::BITS as usize), Ordering::Relaxed);
        Ok(())
    }

    /// The address here of page `number`.
    fn page(number: usize) -> Option<NonNull<u8>> {
        NonNull::new(with_exposed_provenance_mut(BASE.load(Ordering::Relaxed) + number * PAGE_SIZE))
    }

    /// Takes so many pages that follow each other for a queue: the number of the first.
    fn take_pages(count: usize) -> Option<usize> {
        let taken = TAKEN.load(Ordering::Relaxed);
        let last = PAGES.load(Ordering::Relaxed).checked_sub(count)?;
        let first = (0..=last).find(|first| taken & bits(*first, count) == 0)?;
        TAKEN.store(taken | bits(first, count), Ordering::Relaxed);
        Some(first)
    }

    /// A page for the frame, and all that is behind it for data, with its length. From now on queues have the pages that they had so far.
    fn rest() -> Option<(NonNull<Frame>, NonNull<u8>, usize)> {
        let first = (u64::BITS - TAKEN.load(Ordering::Relaxed).leading_zeros()) as usize;
        let pages = (BYTES.load(Ordering::Relaxed) / PAGE_SIZE).checked_sub(first + 1).filter(|pages| *pages > 0)?;
        PAGES.store(first, Ordering::Relaxed);
        Some((Memory::page(first)?.cast(), Memory::page(first + 1)?, pages * PAGE_SIZE))
    }
}

/// Bits `first` and those above it, as many as there are pages.
fn bits(first: usize, count: usize) -> u64 {
    (first..first + count).fold(0, |bits, bit| bits | 1_u64.checked_shl(bit as u32).unwrap_or(0))
}

// SAFETY: `Hal` demands of `dma_alloc` zeroed pages that nothing else reaches, and of `share` an address by which the device reaches the buffer.
// - Nothing else: a page is taken until it is given back, which queues do when the device is reset; the task has the region alone (`claim`), and
//   nothing else makes references to it but `rest`, with its part behind all pages of queues. Zeroed: `dma_alloc` does it.
// - The address: a region is one piece of physical memory, as its environment page says; `share` panics for memory outside it.
unsafe impl Hal for Memory {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (PhysAddr, NonNull<u8>) {
        let taken = Memory::take_pages(pages).and_then(|first| Some((first, Memory::page(first)?)));
        // Zero is the crate's word for none.
        taken.map_or((0, NonNull::dangling()), |(first, start)| {
            // SAFETY: the pointer must be to so many bytes that may be written, and that nothing else reaches: `take_pages` has looked.
            unsafe { start.write_bytes(0, pages * PAGE_SIZE) };
            (PHYSICAL.load(Ordering::Relaxed) + (first * PAGE_SIZE) as u64, start)
        })
    }

    unsafe fn dma_dealloc(address: PhysAddr, _: NonNull<u8>, pages: usize) -> i32 {
        let first = (address - PHYSICAL.load(Ordering::Relaxed)) as usize / PAGE_SIZE;
        TAKEN.fetch_and(!bits(first, pages), Ordering::Relaxed);
        0
    }

    unsafe fn mmio_phys_to_virt(_: PhysAddr, _: usize) -> NonNull<u8> {
        unreachable!("a device on PCI has other registers than those of a region")
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> PhysAddr {
        let offset = buffer.addr().get().checked_sub(BASE.load(Ordering::Relaxed));
        let end = offset.and_then(|offset| offset.checked_add(buffer.len()));
        assert!(end.is_some_and(|end| end <= BYTES.load(Ordering::Relaxed)), "the device would reach other memory");
        PHYSICAL.load(Ordering::Relaxed) + offset.unwrap_or_default() as u64
    }

    unsafe fn unshare(_: PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {}
}
