//! The longest time that the copies of one job wait, by a linear program over chains.
//!
//! The program chooses how often each chain occurs. There are no more chains of a kind than requests of the job of that kind, and all chains
//! together have no more operations of a kind than other jobs have requests of that kind. The maximum of the sum of all chains is the bound.
//! Counts need not be whole in the program, which only makes the bound longer.
//!
//! # Prices
//!
//! By duality the maximum is the minimum of another program: a price `z` for each operation of other jobs, and a price `y` for each request of the
//! job, none below zero, such that no chain is longer than the prices of its request and its operations together. Any such prices are a bound.
//!
//! Let `w` be the length of an operation less its price. A migration may be worth more than its length, as it makes chains possible, and then
//! `w` is below zero. A request's least price is the largest `a w` of its chains, where `a` counts operations and the empty chain is one of them. So the
//! bound is a convex function of three numbers `w`, none above its length. It is linear between the planes in which two chains of one kind of request are
//! equally long, which all go through zero. So its minimum is at zero or at a corner of these faces `w = length`: where a ray, in which planes meet, leaves
//! through a face; where a plane meets the edge of two faces; or where all three meet. Rays depend on chains alone ([`Rays`]), and corners on
//! chains and lengths ([`Prices`]), so both are computed once, and a bound is the least of a few sums of six products.
//!
//! Corners are rounded to whole nanoseconds, and request prices are computed for the rounded corners: the bound is exact arithmetic, and longer than the
//! maximum by some nanoseconds at most. Tests compare it with `microlp`, a solver of linear programs, which is too slow for the
//! study by two orders of magnitude.
//!
//! # Source
//! Elliott 2015, eq. 4.20 to 4.29, with operations matched by kind (the printed 4.27 and 4.28 exchange inbound and outbound copies).
//! The text solves the program in whole numbers. A greedy choice of the longest chains is no bound: it can use up operations that longer
//! sums need.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use crate::chains::{Chain, Chains};

/// Requests of one job, by kind.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Demand {
    /// Outbound copies.
    pub outbound: u64,
    /// Inbound copies.
    pub inbound: u64,
    /// Migrations.
    pub migrations: u64,
}

impl Chain {
    fn counts(self) -> [u64; 3] {
        [self.inbound.into(), self.outbound.into(), self.migrations.into()]
    }

    /// The time that a request waits for the operations of the chain: inbound copies, outbound copies and migrations of these lengths.
    #[must_use]
    pub fn span(self, length: &[u64; 3]) -> u64 {
        self.counts()
            .iter()
            .zip(length)
            .map(|(count, length)| count.saturating_mul(*length))
            .fold(0, u64::saturating_add)
    }
}

/// Prices at one corner: of an operation of each kind of [`Prices::of`]'s lengths, and of an outbound copy, an inbound copy and a migration of the job.
type Corner = [u64; 6];

/// The prices at all corners, for one cluster and one length of each kind of operation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Prices {
    corners: Vec<Corner>,
}

impl Prices {
    /// Computes the corners. `length`: of inbound copies, outbound copies and migrations of other jobs, nanoseconds.
    #[must_use]
    pub fn of(rays: &Rays, length: [u64; 3]) -> Prices {
        let size = length.map(i128::from);
        let mut points = vec![[0; 3], size];
        points.extend(rays.rays.iter().filter_map(|ray| at_face(*ray, size)));
        points.extend((0..3).flat_map(|kind| rays.edges(kind, size)));
        let price = |w: [i128; 3]| -> Corner {
            let not_below = |value: i128| u64::try_from(value.max(0)).unwrap_or(u64::MAX);
            let request =
                |kind: usize| not_below(rays.all[kind].iter().map(|chain| product(*chain, w)).max().unwrap_or(0));
            let operation = |kind: usize| not_below(size[kind] - w[kind]);
            [operation(0), operation(1), operation(2), request(0), request(1), request(2)]
        };
        let corners: BTreeSet<Corner> = points.into_iter().map(price).collect();
        let is_above =
            |one: &Corner, other: &Corner| one != other && one.iter().zip(other).all(|(one, other)| one >= other);
        let is_needed = |one: &&Corner| !corners.iter().any(|other| is_above(one, other));
        Prices { corners: corners.iter().filter(is_needed).copied().collect() }
    }

    /// The corners of a cluster of `gpus` GPUs with `tokens` tokens each and at most `most` other holders; computed once in each thread. `None`: its
    /// chains are not known.
    #[must_use]
    pub fn kept(gpus: u8, tokens: u8, most: u64, length: [u64; 3]) -> Option<Rc<Prices>> {
        /// The memory is bounded: beyond so many entries it begins anew.
        const ENTRIES: usize = 10_000;
        type Key = (u8, u8, u64, [u64; 3]);
        thread_local! {
            static KNOWN: RefCell<HashMap<Key, Rc<Prices>>> = RefCell::default();
        }
        let rays = Rays::kept(gpus, tokens, most)?;
        let key = (gpus, tokens, most, length);
        KNOWN.with_borrow_mut(|known| {
            if known.len() >= ENTRIES {
                known.clear();
            }
            Some(Rc::clone(known.entry(key).or_insert_with(|| Rc::new(Prices::of(&rays, length)))))
        })
    }

    /// The longest time that the requests of `own` wait for these numbers of inbound copies, outbound copies and migrations of other jobs, nanoseconds.
    #[must_use]
    pub fn longest(&self, own: &Demand, others: [u64; 3]) -> u64 {
        let counts = [others[0], others[1], others[2], own.outbound, own.inbound, own.migrations];
        let at = |corner: &Corner| {
            let products = corner.iter().zip(counts).map(|(price, count)| price.saturating_mul(count));
            products.fold(0, u64::saturating_add)
        };
        self.corners.iter().map(at).min().unwrap_or(0)
    }
}

/// The lengths for which the longest chains of one kind of request or of several change, up to a factor.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Rays {
    /// All chains of outbound copies, inbound copies and migrations.
    all: [Vec<[i128; 3]>; 3],
    /// Those of them that are the longest for some lengths, the empty one included.
    extreme: [Vec<[i128; 3]>; 3],
    rays: Vec<[i128; 3]>,
}

impl Rays {
    /// Searches the rays of these chains.
    #[must_use]
    pub fn of(chains: &Chains) -> Rays {
        let counts = |chains: &Vec<Chain>| chains.iter().map(|chain| chain.counts().map(i128::from)).collect();
        let all: [Vec<[i128; 3]>; 3] = [counts(&chains.outbound), counts(&chains.inbound), counts(&chains.migration)];
        let extreme = [extreme(&all[0]), extreme(&all[1]), extreme(&all[2])];
        let mut rays = Rays { all, extreme, rays: Vec::new() };
        let normals: BTreeSet<[i128; 3]> = rays.pairs().map(|(_, one, other)| primitive(less(one, other))).collect();
        let normals: Vec<[i128; 3]> = normals.into_iter().collect();
        let mut candidates = BTreeSet::new();
        for (number, one) in normals.iter().enumerate() {
            for other in &normals[..number] {
                let ray = primitive(cross(*one, *other));
                if ray != [0; 3] {
                    candidates.extend([ray, ray.map(|part| -part)]);
                }
            }
        }
        rays.rays =
            candidates.into_iter().filter(|ray| ray.iter().any(|part| *part > 0) && rays.is_ray(*ray)).collect();
        rays
    }

    /// The rays of the kept chains of a cluster with at most `most` operations; computed once in each thread.
    fn kept(gpus: u8, tokens: u8, most: u64) -> Option<Rc<Rays>> {
        thread_local! {
            static KNOWN: RefCell<HashMap<(u8, u8, u64), Rc<Rays>>> = RefCell::default();
        }
        let found = KNOWN.with_borrow(|known| known.get(&(gpus, tokens, most)).cloned());
        if found.is_some() {
            return found;
        }
        let chains = Chains::kept(gpus, tokens)?.no_longer_than(u32::try_from(most).unwrap_or(u32::MAX));
        let rays = Rc::new(Rays::of(&chains));
        KNOWN.with_borrow_mut(|known| known.insert((gpus, tokens, most), Rc::clone(&rays)));
        Some(rays)
    }

    /// All pairs of extreme chains of one kind, with the kind.
    fn pairs(&self) -> impl Iterator<Item = (usize, [i128; 3], [i128; 3])> {
        self.extreme.iter().enumerate().flat_map(|(kind, chains)| {
            let pairs = chains.iter().enumerate();
            pairs.flat_map(move |(number, one)| chains[..number].iter().map(move |other| (kind, *one, *other)))
        })
    }

    /// Whether a chain is one of the longest of its kind for the lengths `w`.
    fn is_longest(&self, kind: usize, chain: [i128; 3], w: [i128; 3]) -> bool {
        let own = product(chain, w);
        self.extreme[kind].iter().all(|other| product(*other, w) <= own)
    }

    /// Whether planes in which longest chains change meet in this ray, and not in a plane.
    fn is_ray(&self, ray: [i128; 3]) -> bool {
        let mut first: Option<[i128; 3]> = None;
        for chains in &self.extreme {
            let longest = chains.iter().map(|chain| product(*chain, ray)).max();
            let mut equal = chains.iter().filter(|chain| Some(product(**chain, ray)) == longest);
            let Some(one) = equal.next() else { continue };
            for other in equal {
                let normal = less(*one, *other);
                match first {
                    None => first = Some(normal),
                    Some(first) if cross(first, normal) != [0; 3] => return true,
                    Some(_) => {}
                }
            }
        }
        false
    }

    /// The points in which longest chains change on the edge where the two lengths other than that of `kind` are as large as they can be.
    fn edges(&self, kind: usize, size: [i128; 3]) -> Vec<[i128; 3]> {
        let mut found = Vec::new();
        for (of, one, other) in self.pairs() {
            let normal = less(one, other);
            let by = normal[kind];
            if by == 0 {
                continue;
            }
            let rest: i128 = (0..3).filter(|other| *other != kind).map(|other| normal[other] * size[other]).sum();
            // The point times the absolute value of `by`, which makes it whole.
            let mut scaled = size.map(|size| size * by.abs());
            scaled[kind] = -rest * by.signum();
            if scaled[kind] <= size[kind] * by.abs() && self.is_longest(of, one, scaled) {
                found.push(scaled.map(|part| part.div_euclid(by.abs())));
            }
        }
        found
    }
}

/// The chains that are the longest for some lengths, positive or not: those that small whole lengths show, and the empty one.
fn extreme(chains: &[[i128; 3]]) -> Vec<[i128; 3]> {
    const LENGTHS: std::ops::RangeInclusive<i128> = -9..=9;
    let mut found = BTreeSet::from([[0; 3]]);
    for one in LENGTHS {
        for other in LENGTHS {
            for third in LENGTHS {
                let w = [one, other, third];
                let longest = chains.iter().copied().max_by_key(|chain| (product(*chain, w), *chain));
                found.extend(longest.filter(|chain| product(*chain, w) > 0));
            }
        }
    }
    found.into_iter().collect()
}

fn product(one: [i128; 3], other: [i128; 3]) -> i128 {
    one[0] * other[0] + one[1] * other[1] + one[2] * other[2]
}

fn less(one: [i128; 3], other: [i128; 3]) -> [i128; 3] {
    [one[0] - other[0], one[1] - other[1], one[2] - other[2]]
}

fn cross(one: [i128; 3], other: [i128; 3]) -> [i128; 3] {
    [
        one[1] * other[2] - one[2] * other[1],
        one[2] * other[0] - one[0] * other[2],
        one[0] * other[1] - one[1] * other[0],
    ]
}

/// The shortest vector of whole numbers in this direction or the opposite one: the first number that is not zero is above it.
fn primitive(vector: [i128; 3]) -> [i128; 3] {
    let divisor = vector.into_iter().fold(0i128, |mut one, mut other| {
        while other != 0 {
            (one, other) = (other, one % other);
        }
        one.abs()
    });
    let sign = vector.into_iter().find(|part| *part != 0).map_or(1, i128::signum);
    if divisor == 0 { vector } else { vector.map(|part| part / divisor * sign) }
}

/// The point at which a ray from zero reaches the first face; `None`: it reaches none.
fn at_face(ray: [i128; 3], size: [i128; 3]) -> Option<[i128; 3]> {
    // The face that is reached first: the least size / part.
    let reached = (0..3).filter(|kind| ray[*kind] > 0);
    let face = reached.min_by(|one, other| (size[*one] * ray[*other]).cmp(&(size[*other] * ray[*one])))?;
    Some(ray.map(|part| (part * size[face]).div_euclid(ray[face])))
}
