//! The entries in a task's environment because of a graph: their names, and the words of its parameters.
//!
//! `[graphs.NAME]` of a manifest adds these entries to its nodes, and a few to the driver of the device that the graph's objects are on. A name that ends in a point is
//! followed by a number or the name of a task. A name that begins with a point follows that of an object. The region with the frames of an object that tasks alone reach is
//! called as the object is.

//--- To a node

/// Parameter: its number.
pub const NODE: &str = "node";
/// Region (read): for each node of the graph a page with its [`words`].
pub const GRAPH: &str = "graph";
/// Region (read, write): the page among these that has its own words. No other task can write there.
pub const OWN: &str = "graph.own";
/// Parameter `edge.K`: an edge from it, or to it or one of its consumers, by [`Edge::encode`](crate::Edge::encode).
pub const EDGE: &str = "edge.";
/// Task `next.N` (credit): the consumer number *N*.
pub const NEXT: &str = "next.";
/// Parameter `back.K`: an edge from a reader to a writer, of which it is one: as many tokens at the start as the writer may be ahead.
pub const BACK: &str = "back.";
/// Notification (wait): is signalled when a frame may be free that it writes.
pub const ROOM: &str = "room";
/// Notification `room.N` (signal): that of node *N*.
pub const ROOM_OF: &str = "room.";
/// Parameter `OBJECT.frames`: the [`Frames`] of an object that it writes or reads.
pub const FRAMES: &str = ".frames";
/// Parameter `OBJECT.at`: the [`Place`] of that object, if a device reaches it.
pub const PLACE: &str = ".at";
/// Region (read, write): all objects of the graph that its device reaches.
pub const OBJECTS: &str = "objects";
/// Parameter: the address at which the device reaches that region. Its driver is told, too.
pub const OBJECTS_AT: &str = "objects.at";

//--- To the driver of a device

/// Parameter `objects.TASK`: the *K* of the memory with the objects that this client reaches.
pub const OBJECTS_OF: &str = "objects.";
/// Region `memory.K` (physical): the objects of graph *K* that the device reaches.
pub const MEMORY: &str = "memory.";

/// The number that follows `prefix` in the name of an entry, if the name is of that form.
#[must_use]
pub fn number(name: &str, prefix: &str) -> Option<usize> {
    name.strip_prefix(prefix)?.parse().ok()
}

// --- Words between nodes

/// Words of 64 bits that a node has in its page.
pub mod words {
    /// Bytes from the page of a node to that of the next.
    pub const STRIDE: usize = 4096;
    /// Where the word is with how many jobs it has ended.
    pub const ENDED: usize = 0;
    /// Where the word is that says whether it waits for a frame.
    pub const WAITS: usize = 8;
    /// Where the word is with the number of the job that writes to its objects, or did last.
    pub const BEGAN: usize = 16;
}

//--- Words

/// Frames of an object, as a node sees them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frames {
    /// How many there are.
    pub count: u32,
    /// How many jobs before its own the node looks back at most; 0 to the writer.
    pub back: u16,
    /// The node that writes to a frame whether or not it still has readers; `None`: there is none.
    pub overwritten_by: Option<u16>,
}

impl Frames {
    /// As a parameter: the count, in the upper half how far the node looks back, and in the upper half of that the number of the writer, plus one.
    #[must_use]
    pub const fn encode(self) -> u64 {
        let writer = match self.overwritten_by {
            None => 0,
            Some(writer) => writer as u64 + 1,
        };
        self.count as u64 | (self.back as u64) << 32 | writer << 48
    }

    /// The value of a parameter.
    #[must_use]
    pub const fn decode(word: u64) -> Frames {
        Frames { count: word as u32, back: (word >> 32) as u16, overwritten_by: ((word >> 48) as u16).checked_sub(1) }
    }
}

/// Where an object is among those of its graph that a device reaches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// Bytes before its first frame.
    pub offset: u64,
    /// Bytes of each of its frames.
    pub frame: u64,
}

impl Place {
    /// As a parameter: the offset, and in the upper half the bytes of a frame. `None`: one of them needs more than 32 bits.
    #[must_use]
    pub const fn encode(self) -> Option<u64> {
        if (self.offset | self.frame) >> 32 != 0 {
            return None;
        }
        Some(self.offset | self.frame << 32)
    }

    /// The value of a parameter.
    #[must_use]
    pub const fn decode(word: u64) -> Place {
        Place { offset: word & 0xFFFF_FFFF, frame: word >> 32 }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_that_are_said_by_a_parameter_are_those_that_were_meant(
            count: u32,
            back: u16,
            overwritten_by in prop::option::of(0..u16::MAX),
        ) {
            let frames = Frames { count, back, overwritten_by };
            prop_assert_eq!(Frames::decode(frames.encode()), frames);
        }

        #[test]
        fn a_place_that_is_said_by_a_parameter_is_the_one_that_was_meant(offset: u32, frame: u32) {
            let place = Place { offset: offset.into(), frame: frame.into() };
            prop_assert_eq!(place.encode().map(Place::decode), Some(place));
        }

        #[test]
        fn whatever_a_parameter_says_is_frames_and_a_place(word: u64) {
            prop_assert_eq!(Frames::decode(word).encode(), word);
            prop_assert_eq!(Place::decode(word).encode(), Some(word));
        }

        #[test]
        fn the_number_behind_a_prefix_is_the_one_that_was_written(of: usize) {
            for prefix in [EDGE, NEXT, BACK, ROOM_OF, MEMORY] {
                prop_assert_eq!(number(&std::format!("{prefix}{of}"), prefix), Some(of));
            }
        }
    }

    #[test]
    fn a_place_beyond_32_bits_is_not_said() {
        assert_eq!(Place { offset: 1 << 32, frame: 64 }.encode(), None);
        assert_eq!(Place { offset: 0, frame: 1 << 32 }.encode(), None);
    }

    #[test]
    fn a_name_of_another_form_has_no_number() {
        assert_eq!(number(ROOM, ROOM_OF), None);
        assert_eq!(number("room.first", ROOM_OF), None);
        assert_eq!(number("next.1", ROOM_OF), None);
    }
}
