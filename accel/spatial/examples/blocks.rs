//! Measures the number of blocks a second that the engine gets through on this machine: 13 SMs, 16 blocks each, whose times are
//! spread.
//!
//! `cargo run --release -p fusee-spatial --example blocks`

use std::time::Instant;

use fusee_spatial::*;

const BLOCKS: u32 = 20_000_000;

#[derive(Default)]
struct Count(u64);

impl Host for Count {
    fn block(&mut self, _: u64, _: Context, _: u64, _: u32) -> Result<(), Bad> {
        self.0 += 1;
        Ok(())
    }

    fn saved(&mut self, _: u64, _: &Record) -> Result<(), Bad> {
        Ok(())
    }

    fn restored(&mut self, _: u64, _: &Record) -> Result<(), Bad> {
        Ok(())
    }

    fn ended(&mut self, _: u64, _: Context, _: u64, _: Outcome) {}
}

fn main() {
    println!("the engine takes {} bytes", size_of::<Engine<Rule>>());
    for (blocks_per_sm, spread) in [(16, 500), (16, 0), (4, 500), (1, 500)] {
        let description = Description::of(13, Mechanism::Switch);
        let mut engine = Engine::new(Rule::RealTime(RealTime), description).expect("the description is sound");
        let grid = Grid {
            blocks: BLOCKS,
            time: 10_000,
            spread,
            seed: 1,
            registers: 1_000,
            shared: 0,
            threads: 0,
            blocks_per_sm: Some(blocks_per_sm),
        };
        let context = Context::new(0).expect("there is a first context");
        let mut host = Count::default();
        let mut million = |advance: &mut dyn FnMut(&mut Engine<Rule>, &mut Count)| {
            engine.submit(context, &grid, 1).expect("a finished engine takes a launch");
            let (start, before) = (Instant::now(), host.0);
            advance(&mut engine, &mut host);
            assert_eq!(host.0 - before, u64::from(BLOCKS));
            f64::from(BLOCKS) / start.elapsed().as_secs_f64() / 1e6
        };
        let at_once = million(&mut |engine, host| engine.advance(1 << 50, host));
        let by_instants = million(&mut |engine, host| {
            while let Some(next) = engine.next() {
                engine.advance(next, host);
            }
        });
        print!(
            "{blocks_per_sm:2} blocks on an SM, spread {spread:3} in 1000: {at_once:.1} million blocks a second in one call, "
        );
        println!("{by_instants:.1} with a call for each instant");
    }
}
