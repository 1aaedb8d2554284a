//! Kernels in a table: how a device finds one, asks for its needs, and lets it do a block.

use core::ops::Range;

use crate::{Access, BLOCKS_MAX, Kernel, MEASURED, Memory, Resources, VIEWS_MAX, Views, WORDS_MAX};

/// A kernel of any type. A device has a table of them: `table([Entry::of::<Median>(), Entry::of::<Histogram>()])`.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name of the kernel.
    pub name: &'static str,
    /// The number by which launches name the kernel, see [`identity`].
    pub identity: u32,
    /// The needs of a block.
    pub resources: Resources,
    /// Whether its blocks run in order.
    pub is_ordered: bool,
    plan: fn(&[u32], Range<u32>) -> Option<Plan>,
    block: fn(&[u32], u32, &dyn Memory),
}

/// The needs and the time of a launch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Plan {
    views: [ViewPlan; VIEWS_MAX],
    count: usize,
    /// Nanoseconds of its blocks; `None`: its author does not know.
    pub time: Option<u64>,
    /// The class by which times are measured, see [`Kernel::class`]; 0 if its author knows them.
    pub class: u32,
}

/// The needs of a launch for one view.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ViewPlan {
    /// The beginning of the view, a multiple of the size of an element.
    pub address: u64,
    /// The bytes of the view.
    pub bytes: u64,
    /// The access to the view.
    pub access: Access,
}

impl Plan {
    /// The needs for each view of the launch, in the order of the kernel's views.
    #[must_use]
    pub fn views(&self) -> &[ViewPlan] {
        &self.views[..self.count]
    }

    /// The address from which on two views have the same bytes, one of which at least is written.
    #[must_use]
    pub fn overlap(&self) -> Option<u64> {
        let end = |view: &ViewPlan| view.address.saturating_add(view.bytes);
        let pairs =
            self.views().iter().enumerate().flat_map(|(at, one)| self.views[..at].iter().map(move |two| (one, two)));
        pairs
            .filter(|(one, two)| one.access != Access::Read || two.access != Access::Read)
            .filter(|(one, two)| one.bytes > 0 && two.bytes > 0 && one.address < end(two) && two.address < end(one))
            .map(|(one, two)| one.address.max(two.address))
            .next()
    }
}

/// The identity of a kernel among others: a hash of its name, and of the types of its views and arguments (FNV-1a, 32 bits). Never
/// zero.
#[must_use]
pub const fn identity<K: Kernel>() -> u32 {
    let mut hash = START;
    let name = K::NAME.as_bytes();
    let mut at = 0;
    while at < name.len() {
        hash = next(hash, name[at]);
        at += 1;
    }
    let views = <K::Views<'static> as Views<'static>>::EACH;
    let mut at = 0;
    while at < views.len() {
        let (access, bytes) = views[at];
        hash = next(next(hash, access as u8), bytes as u8);
        at += 1;
    }
    hash = next(hash, K::WORDS as u8);
    if hash == 0 { 1 } else { hash }
}

/// The hash of these bytes.
pub(crate) fn hash(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(START, next)
}

const START: u32 = 0x811C_9DC5;

const fn next(hash: u32, byte: u8) -> u32 {
    (hash ^ byte as u32).wrapping_mul(0x0100_0193)
}

/// The words of a launch of `kernel` with its views at these addresses.
///
/// # Panics
/// If there are not as many addresses as views.
#[must_use]
pub fn words<K: Kernel>(kernel: &K, addresses: &[u32]) -> [u32; WORDS_MAX] {
    let mut words = [0; WORDS_MAX];
    let (views, arguments) = words.split_at_mut(<K::Views<'static> as Views<'static>>::EACH.len());
    views.copy_from_slice(addresses);
    kernel.encode(arguments);
    words
}

/// A table of kernels. Two of the same identity do not compile.
#[must_use]
pub const fn table<const N: usize>(entries: [Entry; N]) -> [Entry; N] {
    let mut one = 0;
    while one < N {
        let mut other = 0;
        while other < one {
            assert!(entries[one].identity != entries[other].identity, "two kernels have one name: give one another");
            other += 1;
        }
        one += 1;
    }
    entries
}

/// The kernel with this identity.
#[must_use]
pub fn find(table: &[Entry], identity: u32) -> Option<&Entry> {
    table.iter().find(|entry| entry.identity == identity)
}

impl Entry {
    /// The entry of a kernel. A kernel with too many views or arguments does not compile.
    #[must_use]
    pub const fn of<K: Kernel>() -> Self {
        const {
            let views = <K::Views<'static> as Views<'static>>::EACH.len();
            assert!(views <= VIEWS_MAX, "too many views");
            assert!(views + K::WORDS <= WORDS_MAX, "too many arguments");
        }
        Self {
            name: K::NAME,
            identity: identity::<K>(),
            resources: K::RESOURCES,
            is_ordered: K::ORDERED,
            plan: plan::<K>,
            block: block::<K>,
        }
    }

    /// The needs of these blocks of a launch with these words: addresses of the views first, then the arguments. `None` if the
    /// words are not arguments of this kernel, or it has no such blocks.
    ///
    /// The call runs code of the kernel's author and may panic where a case was forgotten.
    #[must_use]
    pub fn plan(&self, words: &[u32], blocks: Range<u32>) -> Option<Plan> {
        (self.plan)(words, blocks)
    }

    /// Does a block of a launch for which there is a plan. May panic, as [`Entry::plan`].
    pub fn block(&self, words: &[u32], block: u32, memory: &dyn Memory) {
        (self.block)(words, block, memory);
    }
}

/// The arguments behind the addresses of the views. The rest of the words is zero.
fn arguments<K: Kernel>(words: &[u32]) -> Option<K> {
    let views = <K::Views<'static> as Views<'static>>::EACH.len();
    let rest = words.get(views..)?;
    let unused = rest.get(K::WORDS..)?;
    if unused.iter().any(|word| *word != 0) {
        return None;
    }
    K::decode(rest).filter(K::is_valid)
}

fn plan<K: Kernel>(words: &[u32], blocks: Range<u32>) -> Option<Plan> {
    let kernel = arguments::<K>(words)?;
    let count = kernel.blocks();
    if blocks.is_empty() || blocks.end > count || count > BLOCKS_MAX {
        return None;
    }
    let none = ViewPlan { address: 0, bytes: 0, access: Access::Read };
    let each = <K::Views<'static> as Views<'static>>::EACH;
    let time = Some(kernel.time(blocks)).filter(|time| *time != MEASURED);
    let class = if time.is_some() { 0 } else { kernel.class() };
    let mut plan = Plan { views: [none; VIEWS_MAX], count: each.len(), time, class };
    let elements = kernel.elements();
    for (place, ((access, size), (word, elements))) in
        plan.views.iter_mut().zip(each.iter().zip(words.iter().zip(elements.as_ref())))
    {
        let (address, size) = (u64::from(*word), *size as u64);
        if !address.is_multiple_of(size) {
            return None;
        }
        let bytes = (*elements as u64).checked_mul(size)?;
        *place = ViewPlan { address, bytes, access: *access };
    }
    Some(plan)
}

fn block<K: Kernel>(words: &[u32], block: u32, memory: &dyn Memory) {
    let Some(kernel) = arguments::<K>(words) else { return };
    let mut places = [(0, 0); VIEWS_MAX];
    for (place, (word, elements)) in places.iter_mut().zip(words.iter().zip(kernel.elements().as_ref())) {
        *place = (u64::from(*word), *elements);
    }
    kernel.block(block, K::Views::of(memory, &places));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Input, Output, arguments};

    arguments! {
        struct Copy32 {
            length: u32,
        }
    }

    impl Kernel for Copy32 {
        const NAME: &'static str = "copy";
        type Views<'m> = (Input<'m, u32>, Output<'m, u32>);

        fn is_valid(&self) -> bool {
            self.length > 0
        }

        fn elements(&self) -> [usize; 2] {
            [self.length as usize; 2]
        }

        fn blocks(&self) -> u32 {
            self.length.div_ceil(4)
        }

        fn time(&self, blocks: Range<u32>) -> u64 {
            1_000 * u64::from(blocks.end - blocks.start)
        }

        fn block(&self, block: u32, (from, to): Self::Views<'_>) {
            for at in (4 * block as usize..from.len()).take(4) {
                to.set(at, from.get(at));
            }
        }
    }

    #[test]
    fn a_plan_names_views_and_time_of_its_blocks() {
        let entry = Entry::of::<Copy32>();
        let plan = entry.plan(&[16, 64, 9], 1..3).unwrap();
        assert_eq!((plan.time, plan.class), (Some(2_000), 0));
        let view = |address, access| ViewPlan { address, bytes: 36, access };
        assert_eq!(plan.views(), [view(16, Access::Read), view(64, Access::Write)]);
    }

    arguments! {
        struct Search {
            length: u32,
            seed: u64,
        }
    }

    impl Kernel for Search {
        const NAME: &'static str = "search";
        type Views<'m> = ();

        fn elements(&self) -> [usize; 0] {
            []
        }

        fn blocks(&self) -> u32 {
            1
        }

        fn block(&self, _: u32, (): Self::Views<'_>) {}
    }

    #[test]
    fn a_time_that_nobody_knows_has_a_class_by_all_arguments() {
        let plan = |words: &[u32]| Entry::of::<Search>().plan(words, 0..1).unwrap();
        let all = [[9, 0, 0], [9, 1, 0], [9, 0, 1], [8, 0, 0]].map(|words| plan(&words));
        assert!(all.iter().all(|plan| plan.time.is_none()));
        let mut classes = all.map(|plan| plan.class).to_vec();
        classes.sort_unstable();
        classes.dedup();
        assert_eq!(classes.len(), 4);
        assert_eq!(plan(&[9, 1, 0]).class, Search { length: 9, seed: 1 }.class());
    }

    #[test]
    fn what_is_no_launch_of_it_has_no_plan() {
        let entry = Entry::of::<Copy32>();
        let plan = |words: &[u32], blocks| entry.plan(words, blocks).is_some();
        assert!(plan(&[16, 64, 9, 0], 0..3));
        assert!(!plan(&[16, 64], 0..1), "no arguments");
        assert!(!plan(&[16, 64, 9, 1], 0..3), "more than it has");
        assert!(!plan(&[16, 64, 0], 0..1), "not within its limits");
        assert!(!plan(&[18, 64, 9], 0..1), "not aligned");
        for blocks in [0..0, 1..1, 0..4, 3..4, u32::MAX..u32::MAX] {
            assert!(!plan(&[16, 64, 9], blocks), "no such blocks");
        }
    }
}
