//! The layout of the device addresses of a context by the GPU driver: the part that a client may count on.
//!
//! ```text
//! page 0          nothing, so that a forgotten address faults
//! RING_BASE       the ring page
//! BUFFER_BASE     the client's buffer in system memory, at most BUFFER_PAGES
//! LOCAL_BASE      the client's share of device memory, at most LOCAL_PAGES
//! peer(0)         its share of the memory of device 0, if that is another one, at most LOCAL_PAGES; and so on
//! objects(n)      memory that it has together with the other nodes of its graph, at most OBJECTS_PAGES, behind that of n devices
//! ```

use crate::{Contexts, ENTRY_BYTES, PAGE_BYTES};

/// Device address of the client's buffer.
pub const BUFFER_BASE: u64 = 16 * PAGE_BYTES;
/// Pages a buffer may have.
pub const BUFFER_PAGES: u64 = 112;
/// Device address of the client's device memory.
pub const LOCAL_BASE: u64 = BUFFER_BASE + BUFFER_PAGES * PAGE_BYTES;
/// Pages of device memory a client may have.
pub const LOCAL_PAGES: u64 = 128;

/// Device address of the client's memory on the device with this number, for a context of another device.
#[must_use]
pub const fn peer(device: usize) -> u64 {
    LOCAL_BASE + (1 + device as u64) * LOCAL_PAGES * PAGE_BYTES
}

/// Pages of the objects of a graph.
pub const OBJECTS_PAGES: u64 = 1024;

/// Device address of the objects of a client's graph, if clients have memory on the first `devices` devices.
#[must_use]
pub const fn objects(devices: usize) -> u64 {
    // Where one more would begin.
    peer(devices)
}

/// Bytes that the translation tables of all contexts need, if clients have memory on the first `devices` devices, and graphs have
/// so many pages of objects. Clients of one device count on none of them.
#[must_use]
pub const fn tables_bytes(contexts: Contexts, devices: usize, pages: u64) -> u64 {
    contexts.number() as u64 * (objects(devices) / PAGE_BYTES + pages) * ENTRY_BYTES
}

/// The part of device memory that belongs to `context`, the first client being 1: its offset, and its pages.
#[must_use]
pub const fn share(memory_bytes: u64, clients: usize, context: usize) -> (u64, u64) {
    let clients = if clients == 0 { 1 } else { clients as u64 };
    let equal = memory_bytes / PAGE_BYTES / clients;
    let pages = if equal < LOCAL_PAGES { equal } else { LOCAL_PAGES };
    ((context as u64).saturating_sub(1) * pages * PAGE_BYTES, pages)
}

const _: () = assert!(tables_bytes(Contexts::DEFAULT, 0, 0) == 4 * PAGE_BYTES);

/// In the driver's parameter `context.CLIENT`, beside the number of the context: the client uses engines without their locks.
pub const SHARED_CLIENT: u64 = 1 << 8;
/// There, too: the client opens its contexts by itself, by requests.
pub const SESSION_CLIENT: u64 = 1 << 9;
/// Contexts of a device that one client may have.
pub const CLIENT_CONTEXTS: usize = 7;
/// The bit of that parameter where the second context of a client begins; others stand above it, a byte each.
const MORE_CONTEXTS: u32 = 16;

/// The parameter `context.CLIENT` of a client with these contexts, at most [`CLIENT_CONTEXTS`], and these flags.
#[must_use]
pub fn client(contexts: &[usize], flags: u64) -> u64 {
    let more = contexts.iter().skip(1).take(CLIENT_CONTEXTS - 1).enumerate();
    let more = more.map(|(at, context)| (*context as u64 & 0xff) << (MORE_CONTEXTS + 8 * at as u32));
    contexts.first().map_or(0, |first| *first as u64 & 0xff) | flags | more.sum::<u64>()
}

/// The contexts of a client, by its parameter `context.CLIENT`.
pub fn client_contexts(told: u64) -> impl Iterator<Item = usize> {
    let more = (0..CLIENT_CONTEXTS as u32 - 1).map(move |at| told >> (MORE_CONTEXTS + 8 * at) & 0xff);
    core::iter::once(told & 0xff).chain(more.take_while(|context| *context != 0)).map(|context| context as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CONTEXTS, DEVICES};

    #[test]
    fn shares_of_memory_are_disjoint_and_within_it() {
        for (pages, clients) in [(256, 1), (256, 2), (257, 7), (5, 7), (0, 0), (1024, 3)] {
            let mut end = 0;
            for context in 1..=clients {
                let (offset, pages) = share(pages * PAGE_BYTES, clients, context);
                assert!(offset == end && pages <= LOCAL_PAGES);
                end = offset + pages * PAGE_BYTES;
            }
            assert!(end <= pages * PAGE_BYTES);
        }
    }

    #[test]
    fn what_is_told_of_a_client_says_all_its_contexts() {
        for count in 1..=CLIENT_CONTEXTS {
            let contexts: [usize; CLIENT_CONTEXTS] = core::array::from_fn(|at| 15 - at);
            for flags in [0, SHARED_CLIENT, SHARED_CLIENT | SESSION_CLIENT] {
                let told = client(&contexts[..count], flags);
                assert!(client_contexts(told).eq(contexts[..count].iter().copied()), "{told:x}");
                assert_eq!(told & (SHARED_CLIENT | SESSION_CLIENT), flags);
            }
        }
        assert_eq!(client(&[3], 0), 3, "of most clients it is the number");
    }

    #[test]
    fn tables_reach_the_last_page_of_the_last_peer() {
        for devices in 1..=DEVICES {
            for contexts in [2, 8, CONTEXTS].map(|number| Contexts::new(number).unwrap()) {
                let entries = tables_bytes(contexts, devices, 0) / contexts.number() as u64 / ENTRY_BYTES;
                assert_eq!(entries * PAGE_BYTES, peer(devices - 1) + LOCAL_PAGES * PAGE_BYTES);
                let more = tables_bytes(contexts, devices, 9) / contexts.number() as u64 / ENTRY_BYTES;
                assert_eq!(more * PAGE_BYTES, objects(devices) + 9 * PAGE_BYTES);
            }
        }
    }
}
