//! The usage of an engine by clients without its lock: a page that their sharer writes and any task with the region may read.
//!
//! The manifest gives the sharer a region called `usage` to read and write, and readers the same region to read.
//!
//! | Offset | Bits | Word |
//! |---|---|---|
//! | 0 | 32 | the number of the newest picture; 0: there is none yet |
//! | 4 | 32 | how many members there are |
//! | 8 | 32 | how many groups there are, the root included |
//! | 512, 2048 | | a picture: those of even numbers first, those of odd ones second |
//!
//! | Offset in a picture | Bits | Word |
//! |---|---|---|
//! | 0 | 32 | its number, modulo 2^32 |
//! | 8 | 64 | nanoseconds during which the engine was the clients', so far |
//! | 32 + 32 *g* | | the record of group *g*; 0 is the root |
//! | 544 + 32 *m* | | the record of member *m* |
//!
//! | Offset in a record | Bits | Word |
//! |---|---|---|
//! | 0 | 64 | nanoseconds of engine time used, as the policy estimates it; of a group: by all members below |
//! | 8 | 64 | commands completed |
//! | 16 | 64 | of a member: nanoseconds by which it is ahead of the slowest of its siblings, or that it owes |
//! | 24 | 32 | 1: its stores wait for the benefit of others; 2: it is suspended; 4: of a member: a store of it waits; bits add up |
//! | 28 | 32 | commands that the device has and is not done with; of a group: of all members below |
//!
//! # Invariant
//!
//! A reader sees all of one picture or takes another look: the sharer writes the older one of two, and then says its number. So a sharer that is
//! preempted in the middle delays no reader, and one that dies leaves the last picture.

use crate::{Region, SharedBytes};

/// Members that have records.
pub const MEMBERS: usize = 16;
/// Groups that have records, the root included.
pub const GROUPS: usize = 16;
/// Bytes of the page.
pub const BYTES: usize = 4096;

const NUMBER: usize = 0;
const MEMBER_COUNT: usize = 4;
const GROUP_COUNT: usize = 8;
const PICTURES: [usize; 2] = [512, 2048];
const PICTURE_BYTES: usize = 32 + RECORD_BYTES * (GROUPS + MEMBERS);
const TIME: usize = 8;
const RECORDS: usize = 32;
const RECORD_BYTES: usize = 32;
const DENIED: u32 = 1;
const SUSPENDED: u32 = 2;
const WAITS: u32 = 4;
/// Looks after which a reader gives up. Each failed because a whole picture was written meanwhile.
const LOOKS: usize = 16;

const _: () = assert!(PICTURES[0] + PICTURE_BYTES <= PICTURES[1] && PICTURES[1] + PICTURE_BYTES <= BYTES);

/// The usage of one member or group.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Record {
    /// Nanoseconds of engine time.
    pub used: u64,
    /// Commands completed.
    pub commands: u64,
    /// Nanoseconds by which it is ahead, or that it owes; of groups zero.
    pub ahead: u64,
    /// Stores of the member wait for the benefit of others.
    pub is_denied: bool,
    /// The member is suspended: a manager does not let it in, or lets in no member of the group.
    pub is_suspended: bool,
    /// A store of the member waits, for any reason; of groups never.
    pub waits: bool,
    /// Commands that the device has and is not done with.
    pub at_device: u32,
}

/// All of one moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Picture {
    /// The number of the picture: those of later pictures are higher, up to 2^32.
    pub number: u32,
    /// Nanoseconds during which the engine was the clients'.
    pub time: u64,
    /// By the number of the group.
    pub groups: [Record; GROUPS],
    /// By the number of the member.
    pub members: [Record; MEMBERS],
}

/// The sharer's half.
#[derive(Debug)]
pub struct UsageWriter {
    page: SharedBytes,
    number: u32,
}

impl UsageWriter {
    /// Makes a page of `region`, for so many members and groups.
    ///
    /// # Panics
    /// The region is smaller than a page.
    #[must_use]
    pub fn new(region: &Region, members: usize, groups: usize) -> UsageWriter {
        UsageWriter::of(region.shared(), members, groups)
    }

    fn of(page: SharedBytes, members: usize, groups: usize) -> UsageWriter {
        let page = page.part(0, BYTES);
        page.write_u32(MEMBER_COUNT, members as u32);
        page.write_u32(GROUP_COUNT, groups as u32);
        UsageWriter { page, number: 0 }
    }

    /// Shows the present usage. Records of numbers that there are not stay as they were.
    pub fn show(&mut self, time: u64, groups: &[Record], members: &[Record]) {
        self.number = self.number.wrapping_add(1);
        let at = PICTURES[self.number as usize % 2];
        // A reader that sees anything written below sees that the number of the picture before, which is in the other place, was published.
        self.page.publish_u32(at, self.number);
        self.page.write_u64(at + TIME, time);
        let groups = groups.iter().take(GROUPS).enumerate();
        let members = members.iter().take(MEMBERS).enumerate().map(|(member, record)| (GROUPS + member, record));
        for (place, record) in groups.chain(members) {
            let at = at + RECORDS + place * RECORD_BYTES;
            let [denied, suspended, waits] = [record.is_denied, record.is_suspended, record.waits].map(u32::from);
            self.page.write_u64(at, record.used);
            self.page.write_u64(at + 8, record.commands);
            self.page.write_u64(at + 16, record.ahead);
            self.page.write_u32(at + 24, (denied * DENIED) | (suspended * SUSPENDED) | (waits * WAITS));
            self.page.write_u32(at + 28, record.at_device);
        }
        self.page.publish_u32(NUMBER, self.number);
    }
}

/// The readers' half.
#[derive(Clone, Copy, Debug)]
pub struct UsagePage {
    page: SharedBytes,
}

impl UsagePage {
    /// The page in `region`, into which a sharer writes.
    ///
    /// # Panics
    /// The region is smaller than a page.
    #[must_use]
    pub fn new(region: &Region) -> UsagePage {
        UsagePage { page: region.shared().part(0, BYTES) }
    }

    /// How many members there are, as the sharer says.
    #[must_use]
    pub fn members(&self) -> usize {
        (self.page.read_u32(MEMBER_COUNT) as usize).min(MEMBERS)
    }

    /// How many groups there are, as the sharer says, the root included.
    #[must_use]
    pub fn groups(&self) -> usize {
        (self.page.read_u32(GROUP_COUNT) as usize).min(GROUPS)
    }

    /// The newest picture. `None`: there is none yet; or the sharer writes faster than this task reads.
    #[must_use]
    pub fn picture(&self) -> Option<Picture> {
        (0..LOOKS).find_map(|_| self.look())
    }

    fn look(&self) -> Option<Picture> {
        let number = self.page.observe_u32(NUMBER);
        if number == 0 {
            return None;
        }
        let at = PICTURES[number as usize % 2];
        let time = self.page.read_u64(at + TIME);
        let record = |place: usize| {
            let at = at + RECORDS + place * RECORD_BYTES;
            let word = |offset| self.page.read_u64(at + offset);
            let flags = self.page.read_u32(at + 24);
            Record {
                used: word(0),
                commands: word(8),
                ahead: word(16),
                is_denied: flags & DENIED != 0,
                is_suspended: flags & SUSPENDED != 0,
                waits: flags & WAITS != 0,
                at_device: self.page.read_u32(at + 28),
            }
        };
        let groups = core::array::from_fn(record);
        let members = core::array::from_fn(|member| record(GROUPS + member));
        // The reads above come before this one: in the place of this picture another one is written once the next one's number was published.
        let written = self.page.observe_u32(at);
        let is_whole = written == number && self.page.observe_u32(NUMBER) == number;
        is_whole.then_some(Picture { number, time, groups, members })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    /// Every word of a picture says which one it is.
    fn records(number: u64) -> [Record; MEMBERS] {
        core::array::from_fn(|place| Record {
            used: number,
            commands: number << 8 | place as u64,
            ahead: number,
            is_denied: number.is_multiple_of(2),
            is_suspended: number.is_multiple_of(3),
            waits: number.is_multiple_of(5),
            at_device: number as u32,
        })
    }

    #[test]
    fn readers_see_whole_pictures_only_and_never_go_back() {
        let page = SharedBytes::leaked(BYTES);
        let mut writer = UsageWriter::of(page, MEMBERS, GROUPS);
        let reader = UsagePage { page };
        assert_eq!(reader.picture(), None);
        writer.show(1, &records(1), &records(1));
        const PICTURES: u64 = 100_000;
        let seen = std::thread::scope(|scope| {
            let reads = || {
                let (mut seen, mut last) = (0_u64, 0);
                while last < PICTURES {
                    // Single looks: each that fails is one that saw no whole picture.
                    let Some(picture) = reader.look() else { continue };
                    assert_eq!(picture.time, picture.number.into());
                    assert_eq!(picture.groups, records(picture.time));
                    assert_eq!(picture.members, records(picture.time));
                    assert!(picture.time >= last, "time goes on");
                    last = picture.time;
                    seen += 1;
                }
                seen
            };
            let readers = [scope.spawn(reads), scope.spawn(reads)];
            for number in 2..=PICTURES {
                writer.show(number, &records(number), &records(number));
            }
            readers.map(|reader| reader.join().unwrap())
        });
        std::println!("{seen:?} whole pictures of {PICTURES}");
    }

    #[test]
    fn a_picture_that_is_being_written_hides_the_one_before_from_no_reader() {
        let page = SharedBytes::leaked(BYTES);
        let mut writer = UsageWriter::of(page, 2, 3);
        writer.show(7, &records(1), &records(1)[..2]);
        let reader = UsagePage { page };
        let before = reader.picture().unwrap();
        assert_eq!((reader.members(), reader.groups()), (2, 3));
        // The writer was preempted in the middle of the second one.
        page.write_u32(super::PICTURES[0], 2);
        page.write_u64(super::PICTURES[0] + TIME, 99);
        assert_eq!(reader.picture(), Some(before));
        assert_eq!(before.members[2], Record::default());
    }
}
